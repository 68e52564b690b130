//! The published vectors, as far as this room decides: preferences, their combination, refused purposes, statements
//! that were not used, and licences.

#[path = "../../../tests/support/signals.rs"]
mod signals;

use serde_json::{Value as Json, json};

use self::signals::{Vector, vectors};
use super::*;
use crawlgate_robots::{
    ComparisonPath, GuardVerdict, ParseOptions, ProductToken, Robots, RuleKind,
};

fn modes(vector: &Vector) -> Modes {
    let mut modes = Modes::default();
    let fields = [
        ("content_usage", &mut modes.content_usage),
        ("content_signal", &mut modes.content_signal),
        ("tdm_reservation", &mut modes.tdm_reservation),
        ("tdmrep", &mut modes.tdmrep),
        ("robots_tag", &mut modes.robots_tag),
        ("license", &mut modes.license),
    ];
    for (name, mode) in fields {
        if let Some(word) = vector.setting(name) {
            let is = |one: &SignalMode| one.as_str() == word;
            *mode = SignalMode::ALL.into_iter().find(is).expect("a mode");
        }
    }
    if let Some(licenses) = vector.setting("licenses") {
        let all = licenses.as_array().expect("a list").iter();
        modes.licenses = all.map(|url| url.as_str().expect("a URL").into()).collect();
    }
    if let Some(withhold) = vector.setting("withhold") {
        modes.withhold = withhold.as_bool().expect("a truth");
    }
    modes
}

fn chain(vector: &Vector) -> Vec<ProductToken> {
    let token = |name: &str| ProductToken::new(name).expect("a token");
    vector.words("agent").into_iter().map(token).collect()
}

fn place(place: &Place) -> Json {
    match place {
        Place::Robots { group, line } => {
            json!({"source": "robots", "group": group.as_deref(), "line": line})
        }
        Place::Field(name) => json!({"source": "header", "field": name.as_str()}),
        Place::Entry(0) => json!({"source": "tdmrep"}),
        Place::Entry(entry) => json!({"source": "tdmrep", "entry": entry}),
    }
}

fn with(mut place: Json, more: Json) -> Json {
    let more = more.as_object().expect("an object").clone();
    place.as_object_mut().expect("an object").extend(more);
    place
}

/// Tells whether robots.txt allows the path, by its rules and the guard.
fn allows(robots: &Robots, vector: &Vector, is_guarded: bool) -> bool {
    let rules = robots.rules(robots.selection(&chain(vector)));
    let path = ComparisonPath::new(vector.path().as_bytes());
    let verdict = rules.verdict(&path);
    let is_guarded_against = is_guarded && !matches!(rules.guard(&path), GuardVerdict::Allowed);
    verdict.is_none_or(|rule| rule.kind == RuleKind::Allow) && !is_guarded_against
}

/// Returns the statements before the request, or `None` if no request follows: robots.txt disallows, or an override
/// allows.
fn before(vector: &Vector, modes: &Modes, is_guarded: bool) -> Option<Said> {
    let robots = vector.text("robots").unwrap_or_default();
    let robots = Robots::parse(robots.as_bytes(), ParseOptions::default());
    if vector.text("robots_state") == Some("unreachable") || !allows(&robots, vector, is_guarded) {
        return None;
    }
    let is_lifted = vector.json["override"]["action"] == "allow"
        && vector.json["override"]["covers"].as_str() != Some("usage");
    let path = vector.path().as_bytes();
    let is_asked = !is_lifted && path != b"/robots.txt";
    let mut said = Said::default();
    if is_asked {
        let statements = Statements::of(&robots, &chain(vector));
        said = said.and(&statements.at(path, is_guarded, modes));
        if let Some(text) = vector.text("tdmrep").filter(|_| modes.tdmrep.is_read()) {
            let file = TdmRep::parse(text.as_bytes());
            let of_file = match file {
                Ok(file) => file.at(path, is_guarded),
                Err(why) => tdmrep::unusable(why),
            };
            said = said.and(&of_file);
        }
    }
    Some(said)
}

fn after(vector: &Vector, modes: &Modes) -> Said {
    let headers = vector.headers();
    let fields = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    fields::read(&lines::of(fields), &chain(vector), modes)
}

#[test]
fn the_published_vectors_hold() {
    let mut wrong = Vec::new();
    let vectors = vectors();
    for vector in &vectors {
        let modes = modes(vector);
        let is_guarded = vector.setting("path_guard").is_none_or(|it| it == true);
        let purposes = vector.words("purposes").into_iter();
        let purposes: Purposes =
            purposes.map(|word| Purpose::from_name(word).expect("a purpose")).collect();
        let via = vector.text("via").unwrap_or("plain");
        let is_lifted = vector.json["override"]["action"] == "allow";

        if via == "tunnel" {
            let robots = vector.text("robots").expect("a robots.txt");
            let robots = Robots::parse(robots.as_bytes(), ParseOptions::default());
            let statements = Statements::of(&robots, &chain(vector));
            let refuses = statements.refuses_somewhere(purposes, &modes);
            if refuses != (vector.expect("reason") == "opaque_tunnel") {
                wrong.push(format!("{}: the tunnel", vector.id));
            }
            continue;
        }

        let before = before(vector, &modes, is_guarded);
        let is_denied = before.is_none();
        let mut before = before.unwrap_or_default();
        let judged = judge(purposes, &modes, &before, None);
        let is_refused = !is_lifted && (!judged.refused.is_empty() || judged.unlicensed);
        let is_sent = !is_denied
            && (!is_refused || vector.text("mode") == Some("report"))
            && vector.text("tdmrep_state") != Some("pending");
        let after = (is_sent && via == "plain").then(|| after(vector, &modes));
        if let Some(after) = &after {
            before.drop_superseded(after);
        }
        let judged = judge(purposes, &modes, &before, after.as_ref());
        let said = before.and(after.as_ref().unwrap_or(&Said::default()));

        let preferences: Vec<Json> = said
            .preferences
            .iter()
            .map(|one| {
                with(
                    place(&one.place),
                    json!({"category": one.category.as_str(), "value": one.value.as_str(), "signal": one.signal.as_str(), "text": &*one.text}),
                )
            })
            .collect();
        let invalid: Vec<Json> = said
            .invalid
            .iter()
            .map(|one| {
                let mut place = place(&one.place);
                place.as_object_mut().expect("an object").remove("group");
                with(place, json!({"signal": one.signal.as_str(), "why": one.why.as_str()}))
            })
            .collect();
        let combined = judged.combined.iter();
        let combined: serde_json::Map<String, Json> = combined
            .map(|(category, value)| (category.as_str().into(), value.as_str().into()))
            .collect();
        let refused: Vec<&str> = judged.refused.iter().map(Purpose::as_str).collect();
        let licenses: Vec<&str> = said.licenses.iter().map(|one| &*one.url).collect();
        let found = [
            ("preferences", json!(preferences)),
            ("combined", Json::Object(combined)),
            ("invalid", json!(invalid)),
            ("refused", json!(refused)),
            ("licenses", json!(licenses)),
        ];
        // The gate refuses nothing that an override lifts, and withholds 2xx only.
        let status = vector.json["status"].as_u64().unwrap_or(200);
        let is_let_out = is_lifted || after.is_some() && !(200..300).contains(&status);
        for (name, found) in found {
            if name == "refused" && is_let_out {
                continue;
            }
            let expected = vector.expect(name);
            let expected = if expected.is_null() { json!([]) } else { expected.clone() };
            if found != expected {
                wrong.push(format!("{}: {name}: {found}, not {expected}", vector.id));
            }
        }
    }
    assert_eq!(vectors.len(), 180);
    assert!(wrong.is_empty(), "{} of them do not:\n{}", wrong.len(), wrong.join("\n"));
}
