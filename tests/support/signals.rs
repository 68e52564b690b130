//! The published vectors for what sites say of use: `tests/vectors/signals.json`. Its member `shape` says what each
//! field means; absent ones have the defaults given there.

#![allow(dead_code, reason = "each reader of the vectors asks for a part of them")]

use serde_json::Value as Json;

/// One case.
pub struct Vector {
    /// Its name.
    pub id: String,
    /// The whole case, for the parts that only one reader needs.
    pub json: Json,
}

impl Vector {
    /// Returns a text member.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.json[name].as_str()
    }

    /// Returns the words of a list member.
    pub fn words(&self, name: &str) -> Vec<&str> {
        let words = self.json[name].as_array().into_iter().flatten();
        words.map(|word| word.as_str().expect("a word")).collect()
    }

    /// Returns the path and query of the request.
    pub fn path(&self) -> &str {
        let url = self.text("url").expect("a URL");
        let host = url.find("://").expect("an absolute URL") + 3;
        let path = url[host..].find('/').expect("a path");
        &url[host + path..]
    }

    /// Returns the field lines of the response.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        let lines = self.json["headers"].as_array().into_iter().flatten();
        lines
            .map(|line| {
                let part = |at: usize| line[at].as_str().expect("a text");
                (part(0), part(1))
            })
            .collect()
    }

    /// Returns a setting of the case, if it differs from the default.
    pub fn setting(&self, name: &str) -> Option<&Json> {
        self.json["signals"].get(name)
    }

    /// Returns what is expected.
    pub fn expect(&self, name: &str) -> &Json {
        &self.json["expect"][name]
    }
}

/// Returns all cases.
pub fn vectors() -> Vec<Vector> {
    let file: Json = serde_json::from_str(include_str!("../vectors/signals.json")).expect("JSON");
    let cases = file["vectors"].as_array().expect("an array");
    let case = |json: &Json| Vector {
        id: json["id"].as_str().expect("a name").to_owned(),
        json: json.clone(),
    };
    cases.iter().map(case).collect()
}
