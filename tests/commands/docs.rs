//! The README and the pages of `docs/` against the program: their commands run and print what the pages quote, and every
//! command line, configuration key, reason, file and link that they name exists.
//!
//! The pages hold HTML comments for this test, each right before the block that it is about:
//!
//! - `<!-- not run: REASON -->`: the block is an example. Its command lines are still parsed.
//! - `<!-- exits N -->`: the block's last command ends with this code, not with 0.
//! - `<!-- first: COMMAND -->`: runs before the block, for a state that the block shows.
//! - `<!-- file: NAME -->`: the block is the content of this file, for the commands after it.

mod entry;
mod output;
mod page;
mod sandbox;
mod shell;
mod tables;
mod threat_model;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use crawlgate_cli::Cli;
use page::{Kind, Page, pages, root};
use sandbox::Sandbox;

/// Parses a command line as the program does.
fn parse(words: &[String]) -> Result<(), clap::Error> {
    Cli::try_parse_from(words).map(drop)
}

/// Returns whether an error means that words are missing, but none is wrong. Prose may name a command by its first words.
fn is_incomplete(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
    )
}

#[test]
fn every_command_line_of_the_docs_is_one_that_the_program_takes() {
    let (mut parsed, mut faults) = (0, Vec::new());
    for page in pages() {
        let mut check = |line: &str, is_whole: bool| {
            for words in shell::own_commands(line) {
                parsed += 1;
                match parse(&words) {
                    Ok(()) => {}
                    Err(error) if !is_whole && is_incomplete(&error) => {}
                    Err(error) => faults.push(format!("{}: {line}\n{error}", page.name)),
                }
            }
        };
        for block in &page.blocks {
            for command in block.commands() {
                check(&command, true);
            }
            for command in &block.first {
                check(command, true);
            }
        }
        for span in &page.spans {
            check(span, false);
        }
    }
    assert!(parsed >= 100, "only {parsed} command lines");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_commands_of_the_docs_run_and_print_what_the_docs_quote() {
    if !sandbox::can_run() {
        return;
    }
    let (mut ran, mut faults) = (0, Vec::new());
    for page in pages() {
        let sandbox = Sandbox::new();
        for block in &page.blocks {
            for command in &block.first {
                sandbox.run(command);
            }
            if let Some(name) = &block.file {
                sandbox.write(name, &block.text);
            }
            if block.not_run.is_some() || !matches!(block.kind, Kind::Script | Kind::Transcript) {
                continue;
            }
            let steps = block.steps();
            let last = steps.len();
            for (at, step) in steps.into_iter().enumerate() {
                ran += 1;
                let (code, printed) = sandbox.run(&step.command);
                let expected = block.exits.filter(|_| at + 1 == last).unwrap_or(0);
                let place = format!("{}:{}: {}", page.name, block.line, step.command);
                if code != Some(expected) {
                    faults.push(format!("{place}\nends with {code:?}\n{printed}"));
                } else if block.kind == Kind::Transcript && !output::fits(&step.output, &printed) {
                    let said = &step.output;
                    faults.push(format!("{place}\n--- the page\n{said}\n--- printed\n{printed}"));
                }
            }
        }
        // Commands of tables and sentences that only read can run unchanged, too.
        for span in page.spans.iter().filter(|span| shell::only_reads(span)) {
            if shell::own_commands(span).iter().all(|words| parse(words).is_ok()) {
                ran += 1;
                let (code, printed) = sandbox.run(span);
                if !matches!(code, Some(0 | 1)) {
                    faults.push(format!("{}: {span}\nends with {code:?}\n{printed}", page.name));
                }
            }
        }
    }
    assert!(ran >= 40, "only {ran} commands");
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn the_configurations_and_queries_of_the_docs_are_taken() {
    let sandbox = Sandbox::new();
    // `config check` reads the files that they name.
    sandbox.write_certificate("console.pem", "console.key");
    sandbox.write_certificate("engine.pem", "engine.key");
    sandbox.write("engine.password", "sesame\n");
    for line in ["crawlgate fleet key fleet.key", "crawlgate signing new news --key news.key"] {
        let (code, said) = sandbox.run(line);
        assert_eq!(code, Some(0), "{line}: {said}");
    }
    let mut counts = (0, 0);
    for page in pages() {
        for block in &page.blocks {
            match block.kind {
                Kind::Toml => {
                    sandbox.write("snippet.toml", &block.text);
                    let (code, said) = sandbox.run("crawlgate --config snippet.toml config check");
                    assert_eq!(code, Some(0), "{}:{}\n{said}", page.name, block.line);
                    counts.0 += 1;
                }
                Kind::Sql => {
                    sandbox.store().execute_batch(&queries(&block.text)).unwrap();
                    counts.1 += 1;
                }
                _ => {}
            }
        }
    }
    assert!(counts.0 >= 5 && counts.1 >= 1, "{counts:?}");
}

#[test]
fn the_example_in_the_configuration_of_the_debian_package_is_taken() {
    let sandbox = Sandbox::new();
    let text = fs::read_to_string(root().join(".packages/debian/config.toml")).unwrap();
    let lines = text.lines().map(|line| match line.strip_prefix("# ") {
        Some(key) if key.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()) => key,
        _ => line,
    });
    let lines: Vec<&str> = lines.collect();
    assert!(lines.contains(&"[agent]"), "{text}");
    sandbox.write("example.toml", &lines.join("\n"));
    let (code, said) = sandbox.run("crawlgate --config example.toml config check");
    assert_eq!(code, Some(0), "{said}");
}

/// Turns queries into statements without rows, which `execute_batch` runs to their end.
fn queries(sql: &str) -> String {
    let statements = sql.split(';').filter(|one| one.contains("SELECT"));
    let created = statements
        .enumerate()
        .map(|(at, one)| format!("CREATE TEMP TABLE docs_{at} AS {};\n", without_comments(one)));
    created.collect()
}

fn without_comments(sql: &str) -> String {
    let lines = sql.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_record_of_the_docs_has_the_fields_of_a_record() {
    if !sandbox::can_run() {
        return;
    }
    let sandbox = Sandbox::new();
    let evidence = pages().into_iter().find(|page| page.name == "docs/decisions.md");
    let evidence = evidence.unwrap();
    let blocks = evidence.blocks.iter().filter(|block| block.kind == Kind::Json);
    let documented: Vec<serde_json::Value> =
        blocks.map(|block| serde_json::from_str(&block.text).unwrap()).collect();
    let url = "http://127.0.0.1:8000/private/diary.html";
    sandbox.run(&format!("crawlgate run -q --allow 127.0.0.0/8 -- curl -sS {url}"));
    let (code, real) = sandbox.run("crawlgate log --json");
    assert_eq!(code, Some(0), "{real}");
    let real: serde_json::Value = serde_json::from_str(real.lines().next().unwrap()).unwrap();
    assert_eq!(documented.len(), 1);
    assert_eq!(output::fields(&documented[0]), output::fields(&real));
    // The table of fields names fields, too.
    let known = output::fields(&real);
    for field in evidence.rows_under("The record") {
        for name in field.split(", ").map(|name| name.trim_matches('`')) {
            // Present in long URLs only.
            let is_known = name == "url_sha256" || known.contains(name);
            assert!(is_known, "no field {name}");
        }
    }
}

/// The keys of each section of `config.toml`, those behind a `#` included.
fn configuration() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("config.toml")).unwrap();
    let mut sections = BTreeMap::<String, BTreeSet<String>>::new();
    let mut current = String::new();
    for line in text.lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        if let Some(name) = line.strip_prefix('[') {
            current = name.split(']').next().unwrap().trim_matches('[').to_owned();
            sections.entry(current.clone()).or_default();
        } else if let Some((key, _)) = line.split_once(" = ") {
            let keys = sections.entry(current.clone()).or_default();
            keys.insert(key.trim().to_owned());
        }
    }
    sections
}

#[test]
fn every_configuration_key_and_flag_of_the_docs_exists() {
    let sections = configuration();
    let mut flags = BTreeSet::new();
    let mut program = Cli::command();
    program.build(); // adds --help and --version
    flags_of(&program, &mut flags);
    let (mut checked, mut faults) = (0, Vec::new());
    for page in pages() {
        for span in &page.spans {
            let word = span.split([' ', '=']).next().unwrap();
            if word.starts_with("--") && word.len() > 2 {
                checked += 1;
                if !flags.contains(&word[2..]) {
                    faults.push(format!("{}: no option {word}", page.name));
                }
            }
            let Some((section, rest)) =
                span.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            else {
                continue;
            };
            checked += 1;
            let key = rest.trim_start_matches(']').trim();
            let key = key.split([' ', '=']).next().unwrap();
            let keys = sections.get(section.trim_matches('['));
            if !keys.is_some_and(|keys| key.is_empty() || keys.contains(key)) {
                faults.push(format!("{}: no key {span}", page.name));
            }
        }
    }
    assert!(checked >= 60, "only {checked} keys and options");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn flags_of(command: &clap::Command, into: &mut BTreeSet<String>) {
    let flags = command.get_arguments().flat_map(|flag| {
        let aliases = flag.get_visible_aliases().unwrap_or_default();
        aliases.into_iter().chain(flag.get_long())
    });
    into.extend(flags.map(str::to_owned));
    for inner in command.get_subcommands() {
        flags_of(inner, into);
    }
}

#[test]
fn every_link_of_the_docs_leads_somewhere() {
    let all = pages();
    let (mut followed, mut faults) = (0, Vec::new());
    for page in &all {
        for link in page.links.iter().filter(|link| !link.contains("://")) {
            followed += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root().join(&page.name),
                file => root().join(&page.name).with_file_name(file),
            };
            let target = fs::canonicalize(&target).unwrap_or(target);
            if !target.exists() {
                faults.push(format!("{}: no file {link}", page.name));
            } else if !anchor.is_empty() && !Page::read(&target).anchors().contains(anchor) {
                faults.push(format!("{}: no heading {link}", page.name));
            }
        }
    }
    assert!(followed >= 60, "only {followed} links");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // The table of contents has every page.
    let contents = all.iter().find(|page| page.name == "docs/README.md").unwrap();
    for page in &all {
        if let Some(name) = page.name.strip_prefix("docs/").filter(|name| *name != "README.md") {
            assert!(contents.links.iter().any(|link| link == name), "{name}");
        }
    }
}

/// The directives of a configuration, without comments and white space at the margin.
fn directives(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap().trim());
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_set_ups_for_other_proxies_are_those_of_the_tests_and_of_the_help() {
    let page = Page::read(&root().join("docs/other-proxies.md"));
    let block = |language: &str| {
        let mut found = page.blocks.iter().filter(|block| block.language == language);
        let found = found.next().unwrap_or_else(|| panic!("no block of {language}"));
        found.text.replace("127.0.0.1:8119", "crawlgate")
    };
    let tested = fs::read_to_string(root().join("tests/clients/decide/nginx.rs")).unwrap();
    let tested = tested.replace("{{", "{").replace("}}", "}");
    let tested = directives(&tested);
    for directive in directives(&block("nginx")) {
        assert!(tested.contains(&directive), "tests/clients/decide/nginx.rs has no {directive}");
    }
    let mut program = Cli::command();
    let helper = program.find_subcommand_mut("squid-helper").unwrap();
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let help = bare(&helper.render_long_help().to_string());
    says!(help, &bare(&block("squid")));
}

#[test]
fn the_readme_stays_short_and_keeps_its_two_commands() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 140);
    let page = Page::read(&root().join("README.md"));
    let commands: Vec<String> = page.blocks.iter().flat_map(|block| block.commands()).collect();
    assert!(commands[0].starts_with("cargo run --release --locked -- run --confine -- curl "));
    assert_eq!(commands[1], "cargo test --locked");
    let everything = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(everything.lines().any(|line| line == commands[1]));
}
