//! A record with white space between its parts, and nothing else changed: its text is evidence.

use super::format::line;

/// The indentation of one level.
const STEP: &str = "  ";

/// Spreads `record`, a JSON text on one line, over several.
pub(super) fn spread(record: &str) -> String {
    let mut spread = String::with_capacity(record.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut characters = record.chars().peekable();
    while let Some(c) = characters.next() {
        spread.push(c);
        if in_string {
            match (escaped, c) {
                (true, _) => escaped = false,
                (false, '\\') => escaped = true,
                (false, '"') => in_string = false,
                (false, _) => {}
            }
            if in_string {
                continue;
            }
        } else {
            match c {
                '"' => in_string = true,
                '{' | '[' if characters.peek().is_some_and(|next| matches!(next, '}' | ']')) => {}
                '{' | '[' => {
                    depth += 1;
                    end(&mut spread, depth);
                }
                ',' => end(&mut spread, depth),
                ':' => spread.push(' '),
                _ => {}
            }
        }
        if let Some('}' | ']') = characters.peek()
            && !in_string
            && !matches!(c, '{' | '[')
        {
            depth = depth.saturating_sub(1);
            end(&mut spread, depth);
        }
    }
    // A record has its control characters escaped already; an altered one may not, and is shown all the same.
    let lines = spread.lines().map(line);
    lines.collect::<Vec<_>>().join("\n")
}

fn end(spread: &mut String, depth: usize) {
    spread.push('\n');
    spread.extend(std::iter::repeat_n(STEP, depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_record_keeps_its_content() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("flat", "{\"a\":1,\"b\":\"x, {y}\"}", "{\n  \"a\": 1,\n  \"b\": \"x, {y}\"\n}"),
            ("nested", "{\"a\":{\"b\":[1,2]}}", "{\n  \"a\": {\n    \"b\": [\n      1,\n      2\n    ]\n  }\n}"),
            ("empty", "{\"a\":[],\"b\":{}}", "{\n  \"a\": [],\n  \"b\": {}\n}"),
            ("quotes", "{\"a\":\"\\\"}\\\\\"}", "{\n  \"a\": \"\\\"}\\\\\"\n}"),
            ("cut off", "{\"a\":\"", "{\n  \"a\": \""),
        ];
        for (name, record, want) in cases {
            let spread = spread(record);
            assert_eq!(spread, want, "{name}");
            if let Ok(value) = serde_json::from_str::<serde_json::Value>(record) {
                let again: serde_json::Value = serde_json::from_str(&spread).expect(name);
                assert_eq!(again, value, "{name}");
            }
        }
    }
}
