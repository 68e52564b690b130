//! Command lines, in the part of the shell's language that the docs use.

/// Splits one simple command into words: quotes are honoured, a comment, a redirection or the next command ends it.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&' | '<' | '>') => break,
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Returns the crawlgate commands of a line, `crawlgate` first, those inside `$(…)` included. Placeholders become values.
pub(crate) fn own_commands(line: &str) -> Vec<Vec<String>> {
    let inner = line.split("$(").skip(1);
    let inner = inner.filter_map(|rest| rest.split_once(')').map(|(command, _)| command));
    let lines = std::iter::once(line).chain(inner);
    lines.filter_map(own_command).collect()
}

fn own_command(line: &str) -> Option<Vec<String>> {
    let all = words(line);
    let is_prefix = |word: &&String| *word == "sudo" || *word == "env" || word.contains('=');
    let skipped = all.iter().take_while(is_prefix).count();
    let rest = &all[skipped..];
    let start = match rest {
        [name, ..] if name == "crawlgate" => 1,
        [cargo, run, ..] if cargo == "cargo" && run == "run" => {
            rest.iter().position(|word| word == "--")? + 1
        }
        _ => return None,
    };
    let arguments = rest[start..].iter().map(|word| value(word));
    Some(std::iter::once("crawlgate".to_owned()).chain(arguments).collect())
}

/// Returns a value for a placeholder, or the word itself.
fn value(word: &str) -> String {
    match word {
        "URL" => "http://127.0.0.1:8000/".to_owned(),
        "ORIGIN" => "http://127.0.0.1:8000".to_owned(),
        // The only output that a command line of the docs uses is that of `crawlgate audit head`, or of `audit key`.
        other if other.starts_with("$(") => format!("1:{}", "0".repeat(64)),
        other => other.to_owned(),
    }
}

/// Returns whether a command only reads, so that it may run as it stands in a sentence.
pub(crate) fn only_reads(line: &str) -> bool {
    let reading = [
        "check URL",
        "log",
        "audit",
        "origins",
        "override list",
        "client list",
        "store check",
        "store size",
        "config",
        "ca show",
        "ca setup",
    ];
    let begins = |start: &&str| {
        line.strip_prefix("crawlgate ")
            .and_then(|rest| rest.strip_prefix(*start))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    // These go on without end, want the store for themselves, or a witness.
    let wants_more = ["--follow", "audit fork", "--cosigned"];
    reading.iter().any(begins) && !wants_more.iter().any(|words| line.contains(words))
}
