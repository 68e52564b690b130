//! A page of Markdown, in the parts that the tests read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub(crate) fn root() -> PathBuf {
    fs::canonicalize(env!("CARGO_MANIFEST_DIR")).unwrap()
}

/// The pages that the tests hold to the program.
pub(crate) fn pages() -> Vec<Page> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    files.sort();
    for name in "README.md CONTRIBUTING.md SECURITY.md certs/README.md".split(' ') {
        files.push(root().join(name));
    }
    let pages: Vec<Page> = files.iter().map(|file| Page::read(file)).collect();
    assert!(pages.len() >= 15, "{} pages", pages.len());
    pages
}

/// The content of a fenced block, by its language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `sh`: command lines.
    Script,
    /// `console`: command lines after `$ `, each with its output.
    Transcript,
    Toml,
    Sql,
    Json,
    Other,
}

/// A command of a block, and the output that the page quotes.
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) output: String,
}

/// A fenced block and the comments right before it.
pub(crate) struct Block {
    pub(crate) kind: Kind,
    pub(crate) language: String,
    pub(crate) text: String,
    /// The line of its opening fence.
    pub(crate) line: usize,
    pub(crate) not_run: Option<String>,
    pub(crate) exits: Option<i32>,
    pub(crate) first: Vec<String>,
    pub(crate) file: Option<String>,
}

impl Block {
    /// Returns its commands, each with the output below it.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for line in self.text.lines() {
            let command = match self.kind {
                Kind::Script if line.trim().is_empty() || line.starts_with('#') => continue,
                Kind::Script => Some(line),
                Kind::Transcript => line.strip_prefix("$ "),
                _ => return Vec::new(),
            };
            match (command, steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.to_owned(), output: String::new() });
                }
                (None, Some(step)) => {
                    step.output.push_str(line);
                    step.output.push('\n');
                }
                (None, None) => panic!("line {}: output before any command", self.line),
            }
        }
        steps
    }

    pub(crate) fn commands(&self) -> Vec<String> {
        self.steps().into_iter().map(|step| step.command).collect()
    }
}

/// A page.
pub(crate) struct Page {
    /// Its path in the repository.
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
    /// Inline code outside of blocks.
    pub(crate) spans: Vec<String>,
    /// Targets of links.
    pub(crate) links: Vec<String>,
    /// Lines outside of blocks.
    prose: Vec<String>,
}

impl Page {
    /// Reads a file of the repository.
    pub(crate) fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_else(|why| panic!("{why}: {file:?}"));
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap();
        let mut page = Self {
            name: name.to_owned(),
            blocks: Vec::new(),
            spans: Vec::new(),
            links: Vec::new(),
            prose: Vec::new(),
        };
        let mut comments: Vec<&str> = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                let body = lines.by_ref().map(|(_, line)| line);
                let body: Vec<&str> =
                    body.take_while(|line| !line.trim_start().starts_with("```")).collect();
                page.blocks.push(block(language, &body, at + 1, &comments));
                comments.clear();
            } else if let Some(comment) = line.strip_prefix("<!-- ") {
                comments.push(comment.strip_suffix(" -->").unwrap());
            } else {
                assert!(comments.is_empty(), "{name}:{at}: no block after a comment");
                page.prose.push(line.to_owned());
            }
        }
        let prose = page.prose.join("\n");
        page.spans = spans(&prose);
        page.links = links(&prose);
        page
    }

    /// Returns the anchors of its headings, as GitHub makes them.
    pub(crate) fn anchors(&self) -> BTreeSet<String> {
        let headings = self.prose.iter().filter(|line| line.starts_with('#'));
        headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
    }

    /// Returns the first cells of the rows of tables under this heading, without their heads.
    pub(crate) fn rows_under(&self, heading: &str) -> Vec<String> {
        let rows = self.cells_under(heading).into_iter();
        rows.map(|mut cells| cells.swap_remove(0)).collect()
    }

    /// Returns the cells of the rows of tables under this heading, if the first is code and not the head `reason`.
    pub(crate) fn cells_under(&self, heading: &str) -> Vec<Vec<String>> {
        let wanted = format!("## {heading}");
        let section = self.prose.iter().skip_while(|line| **line != wanted).skip(1);
        let section = section.take_while(|line| !line.starts_with("## "));
        let rows = section.filter(|line| line.starts_with("| `"));
        let rows = rows.map(|row| row.trim_matches('|').split(" | "));
        let rows = rows.map(|cells| cells.map(|cell| cell.trim().to_owned()).collect());
        rows.filter(|cells: &Vec<String>| cells[0] != "`reason`").collect()
    }
}

fn block(language: &str, body: &[&str], line: usize, comments: &[&str]) -> Block {
    let after = |start: &str| {
        let mut found = comments.iter().filter_map(|one| one.strip_prefix(start));
        found.next().map(str::to_owned)
    };
    for comment in comments {
        let is_known = ["not run: ", "exits ", "first: ", "file: "]
            .iter()
            .any(|start| comment.starts_with(start));
        assert!(is_known, "line {line}: {comment}");
    }
    Block {
        kind: match language {
            "sh" => Kind::Script,
            "console" => Kind::Transcript,
            "toml" => Kind::Toml,
            "sql" => Kind::Sql,
            "json" => Kind::Json,
            _ => Kind::Other,
        },
        language: language.to_owned(),
        text: body.iter().map(|line| format!("{line}\n")).collect(),
        line,
        not_run: after("not run: "),
        exits: after("exits ").map(|code| code.parse().unwrap()),
        first: comments
            .iter()
            .filter_map(|one| one.strip_prefix("first: "))
            .map(str::to_owned)
            .collect(),
        file: after("file: "),
    }
}

/// Returns the inline code of a text. A span may go on on the next line.
fn spans(text: &str) -> Vec<String> {
    let paragraphs = text.split("\n\n");
    let inside = paragraphs.flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    inside.map(|span| span.replace('\n', " ")).collect()
}

fn links(text: &str) -> Vec<String> {
    let starts = text.split("](").skip(1);
    let targets = starts.filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}
