//! The statements of a site about use, for people: each preference with its place, licences, and what follows for each
//! purpose.

use super::page::{Escaped, Page};
use crawlgate_gate::explain::usage::Usage;
use crawlgate_usage::{Category, Place, Purpose, Shadowed, Value};

/// Writes the lines `usage:`, `license:` and `purpose:`; none where nothing is said and no purpose is declared.
pub(super) fn lines(page: &mut Page, usage: &Usage) {
    let mut label = Labels::new("usage");
    for one in &usage.said.preferences {
        let (category, value) = (one.category.as_str(), one.value.as_str());
        let (place, text) = (place(&one.place), Escaped(one.text.as_bytes()));
        page.line(label.next(), format_args!("{category}: {value} ({place}: {text})"));
    }
    for Shadowed { line, by } in &usage.shadowed {
        page.line(
            label.next(),
            format_args!("line {line} does not count: line {by} has a longer path"),
        );
    }
    for one in &usage.said.invalid {
        let (signal, why) = (one.signal.as_str(), one.why.as_str());
        let place = place(&one.place);
        page.line(label.next(), format_args!("{signal} not used: {why} ({place})"));
    }
    for key in &usage.said.ignored {
        let key = Escaped(key.as_bytes());
        page.line(label.next(), format_args!("{key}: unknown key, ignored"));
    }
    let mut label = Labels::new("license");
    for one in &usage.said.licenses {
        let (url, place) = (Escaped(one.url.as_bytes()), place(&one.place));
        page.line(label.next(), format_args!("{url} ({place})"));
    }
    let mut label = Labels::new("purpose");
    for purpose in usage.purposes.iter() {
        let name = purpose.as_str();
        if usage.judged.refused.has(purpose) {
            let by = refusing(purpose, usage).join(", ");
            page.line(label.next(), format_args!("{name}: refused by {by}"));
        } else {
            page.line(label.next(), format_args!("{name}: not refused"));
        }
    }
    if usage.judged.unlicensed {
        let what = "a licence applies that [signals] licenses does not list";
        page.line(label.next(), what);
    }
}

/// A label for the first line of several.
struct Labels(&'static str);

impl Labels {
    fn new(label: &'static str) -> Labels {
        Labels(label)
    }

    fn next(&mut self) -> &'static str {
        std::mem::take(&mut self.0)
    }
}

/// Returns the disallowed categories that a purpose asks for.
fn refusing(purpose: Purpose, usage: &Usage) -> Vec<&'static str> {
    let is_disallowed =
        |category: &Category| usage.judged.combined.get(*category) == Value::Disallow;
    let refusing = purpose.asks().iter().filter(is_disallowed);
    refusing.map(Category::as_str).collect()
}

fn place(place: &Place) -> String {
    match place {
        Place::Robots { group: Some(group), line } => {
            format!("line {line}, group {}", Escaped(group.as_bytes()))
        }
        Place::Robots { group: None, line } => format!("line {line}, above all groups"),
        Place::Field(name) => format!("response field {}", name.as_str()),
        Place::Entry(0) => "tdmrep.json".to_owned(),
        Place::Entry(entry) => format!("entry {entry} of tdmrep.json"),
    }
}
