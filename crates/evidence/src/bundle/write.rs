//! The writer of evidence files.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Exhibit, FORMAT, Header, sha256};
use crawlgate_record::Digest;
use crawlgate_store::rotation::Rotation;
use crawlgate_text::hex;

/// Appends the file of one record, indented for people.
pub fn write(header: &Header, exhibit: &Exhibit, out: &mut Vec<u8>) {
    let all = Fields { out, space: "\n  ", count: 0 };
    let all = all.header(header);
    let texts = [exhibit.robots.as_deref(), exhibit.tdmrep.as_deref()];
    let bodies = exhibit.objects.iter().map(|object| (object.kind.name(), &object.body[..]));
    all.exhibit(exhibit, bodies, texts).end("\n}\n");
}

/// The writer of a file of many records: a header, then a line for each record. A body stands in the first line that
/// names it.
#[derive(Debug)]
pub struct LinesWriter {
    given: HashSet<Digest>,
}

impl LinesWriter {
    /// Begins a file: appends its header.
    pub fn new(header: &Header, out: &mut Vec<u8>) -> Self {
        Fields::on_a_line(out).header(header).end("}\n");
        Self { given: HashSet::new() }
    }

    /// Appends the line of a record.
    pub fn line(&mut self, exhibit: &Exhibit, out: &mut Vec<u8>) {
        let mut is_new = |body: &[u8]| self.given.insert(sha256(body));
        let texts = [exhibit.robots.as_deref(), exhibit.tdmrep.as_deref()];
        let texts = texts.map(|text| text.filter(|body| is_new(body)));
        let bodies = exhibit
            .objects
            .iter()
            .filter(|object| is_new(&object.body))
            .map(|object| (object.kind.name(), &object.body[..]));
        Fields::on_a_line(out).exhibit(exhibit, bodies, texts).end("}\n");
    }
}

/// A JSON object under construction.
struct Fields<'b> {
    out: &'b mut Vec<u8>,
    /// White space before each field.
    space: &'static str,
    count: usize,
}

impl<'b> Fields<'b> {
    fn on_a_line(out: &'b mut Vec<u8>) -> Self {
        Self { out, space: "", count: 0 }
    }

    /// Writes a field; `value` is JSON.
    fn field(mut self, name: &str, value: &str) -> Self {
        let begin = if self.count == 0 { "{" } else { "," };
        self.count += 1;
        let field = [begin, self.space, "\"", name, "\":", value];
        field.iter().for_each(|part| self.out.extend_from_slice(part.as_bytes()));
        self
    }

    fn text(self, name: &str, text: &str) -> Self {
        self.field(name, &quoted(text))
    }

    fn end(self, end: &str) {
        self.out.extend_from_slice(end.as_bytes());
    }

    fn header(self, header: &Header) -> Self {
        let all = self
            .text("format", FORMAT)
            .text("log", header.vkey.name().as_str())
            .text("vkey", &header.vkey.to_string())
            .text("made_by", &header.made_by);
        if header.rotations.is_empty() {
            return all;
        }
        let rotation = |one: &Rotation| {
            let (entry, proof) = (STANDARD.encode(&one.entry), quoted(&one.proof));
            format!("{{\"entry\":\"{entry}\",\"proof\":{proof}}}")
        };
        let rotations: Vec<String> = header.rotations.iter().map(rotation).collect();
        all.field("rotations", &format!("[{}]", rotations.join(",")))
    }

    fn exhibit<'o>(
        self,
        exhibit: &Exhibit,
        objects: impl Iterator<Item = (&'static str, &'o [u8])>,
        [robots, tdmrep]: [Option<&[u8]>; 2],
    ) -> Self {
        let between = if self.space.is_empty() { "," } else { ",\n    " };
        let object = |(kind, body)| {
            let (kind, content) = (quoted(kind), content(body));
            format!("{{\"kind\":{kind},{content}}}")
        };
        let objects: Vec<String> = objects.map(object).collect();
        let [robots, tdmrep] =
            [robots, tdmrep].map(|text| text.map(|body| format!("{{{}}}", content(body))));
        let all = self
            .field("record", &exhibit.record)
            .text("entry", &STANDARD.encode(&exhibit.entry))
            .text("proof", &exhibit.proof.to_string())
            .field("objects", &format!("[{}]", objects.join(between)))
            .field("robots", robots.as_deref().unwrap_or("null"));
        // Most records have none, and earlier readers know none.
        match tdmrep {
            Some(tdmrep) => all.field("tdmrep", &tdmrep),
            None => all,
        }
    }
}

/// Returns digest and octets of a body as fields. Octets that are not UTF-8 are written in base64.
fn content(body: &[u8]) -> String {
    let sha256 = hex(sha256(body));
    let content = match str::from_utf8(body) {
        Ok(text) => format!("\"body\":{}", quoted(text)),
        Err(_) => format!("\"body_base64\":\"{}\"", STANDARD.encode(body)),
    };
    format!("\"sha256\":\"{sha256}\",{content}")
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
