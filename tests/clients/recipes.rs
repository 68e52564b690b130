//! The lines that `crawlgate ca setup` prints, used with the programs that they are for.

use std::fs;
use std::process::Command;

use crate::support::{CrawlgateProcess, Origin, RULES};
use crate::visit::{client, driven_chromium, finish, python};

/// A running proxy, an origin behind TLS, and the recipe for one client.
struct FollowedRecipe {
    gate: CrawlgateProcess,
    origin: Origin,
    recipe: String,
}

impl FollowedRecipe {
    fn new(client: &str) -> Self {
        let mut gate = CrawlgateProcess::start();
        // The recipes name the configured address.
        let address = format!("\"{}\"", gate.address);
        gate.setup.set("listen", "address", &address);
        let (code, recipe, said) = gate.beside("ca", &["setup", client]);
        assert_eq!(code, Some(0), "{said}");
        Self { gate, origin: Origin::https().robots(RULES), recipe }
    }

    /// Returns the command in the recipe's comments that begins with `start`.
    fn command(&self, start: &str) -> String {
        let mut comments = self.recipe.lines().filter_map(|line| line.strip_prefix("# "));
        let found = comments.find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start}: {}", self.recipe)).to_owned()
    }

    /// Runs a shell script in an environment that has evaluated the recipe. Returns its code, its output and its errors.
    fn shell(&self, script: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("eval \"$RECIPE\"; {script}")])
            .env("RECIPE", &self.recipe)
            .current_dir(self.gate.setup.dir())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        let output = finish(&mut command);
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// Asserts that the disallowed page was denied, and that the origin saw only requests for the allowed page or for
    /// paths below it.
    #[track_caller]
    fn held(&self, open: &str, denied: &str) {
        has!(self.gate.record_of(&self.origin.url(denied)), {"reason": "robots_disallow"});
        let seen = self.origin.seen_but_robots();
        assert!(
            !seen.is_empty() && seen.iter().all(|line| line.starts_with(&format!("GET {open}"))),
            "{seen:?}"
        );
    }
}

#[test]
fn aria2() {
    if client("aria2", "CRAWLGATE_ARIA2", &["aria2c"], &["--version"]).is_none() {
        return;
    }
    let followed = FollowedRecipe::new("aria2");
    let fetch = |path: &str| {
        let command = followed.command("aria2c").replace("URL", &followed.origin.url(path));
        followed.shell(&format!("{command} --out=fetched --allow-overwrite=true --quiet"))
    };
    let (code, _, said) = fetch("/open");
    assert_eq!(code, Some(0), "{said}");
    let fetched = fs::read_to_string(followed.gate.setup.dir().join("fetched")).unwrap();
    assert_eq!(fetched, "page /open");
    assert_ne!(fetch("/private").0, Some(0));
    followed.held("/open", "/private");
}

#[test]
fn php() {
    if client("PHP with curl", "CRAWLGATE_PHP", &["php"], &["-r", "curl_init();"]).is_none() {
        return;
    }
    let followed = FollowedRecipe::new("php");
    let program = format!(
        "<?php\n\
         foreach (['/open', '/private'] as $path) {{\n\
         \x20   $handle = curl_init('{origin}' . $path);\n\
         \x20   curl_setopt($handle, CURLOPT_RETURNTRANSFER, true);\n\
         \x20   curl_exec($handle);\n\
         \x20   echo curl_getinfo($handle, CURLINFO_RESPONSE_CODE), ' ', curl_error($handle), \"\\n\";\n\
         }}\n\
         {streams}\n\
         foreach (['/open', '/private'] as $path) {{\n\
         \x20   echo @file_get_contents('{origin}' . $path) === false ? 'none' : 'page', \"\\n\";\n\
         }}\n",
        origin = followed.origin.url(""),
        streams = followed.command("stream_context_set_default"),
    );
    fs::write(followed.gate.setup.dir().join("program.php"), program).unwrap();
    let (_, told, said) = followed.shell(&followed.command("php ").replace("FILE", "program.php"));
    let told: Vec<_> = told.split_whitespace().collect();
    assert_eq!(told, ["200", "403", "page", "none"], "{said}");
    followed.held("/open", "/private");
}

#[test]
fn pycurl() {
    let python = or_skip!(python("pycurl"));
    let followed = FollowedRecipe::new("pycurl");
    let program = format!(
        "import pycurl\n\
         for path in ('/open', '/private'):\n\
         \x20   handle = pycurl.Curl()\n\
         \x20   handle.setopt(pycurl.URL, '{}' + path)\n\
         \x20   handle.setopt(pycurl.WRITEFUNCTION, lambda octets: None)\n\
         \x20   {}\n\
         \x20   handle.perform()\n\
         \x20   print(handle.getinfo(pycurl.RESPONSE_CODE))\n",
        followed.origin.url(""),
        followed.command("handle.setopt"),
    );
    fs::write(followed.gate.setup.dir().join("program.py"), program).unwrap();
    let (_, told, said) = followed.shell(&format!("'{python}' program.py"));
    assert_eq!(told.split_whitespace().collect::<Vec<_>>(), ["200", "403"], "{said}");
    followed.held("/open", "/private");
}

#[test]
fn pip() {
    let Some(python) = python("pip") else { return };
    let followed = FollowedRecipe::new("pip");
    let ask = |index: &str| {
        let index = followed.origin.url(index);
        followed.shell(&format!(
            "PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 '{python}' -m pip download --retries 0 --timeout 60 --no-deps \
             --index-url {index} thing"
        ))
    };
    let (_, _, said) = ask("/open");
    says!(said, "No matching distribution");
    let (_, _, said) = ask("/private");
    assert!(!said.contains("certificate"), "{said}");
    followed.held("/open/thing/", "/private/thing/");
}

#[test]
fn npm() {
    if client("npm", "CRAWLGATE_NPM", &["npm"], &["--version"]).is_none() {
        return;
    }
    let followed = FollowedRecipe::new("npm");
    let ask = |registry: &str| {
        let registry = followed.origin.url(registry);
        followed.shell(&format!(
            "npm view thing --registry={registry}/ --fetch-retries=0 --userconfig=/dev/null --cache=cache \
             --update-notifier=false"
        ))
    };
    ask("/open");
    let (code, _, said) = ask("/private");
    assert_ne!(code, Some(0), "{said}");
    says!(said, "403");
    followed.held("/open/thing", "/private/thing");
}

#[test]
fn git_and_wget() {
    let has = |name, program| client(name, "", &[program], &["--version"]).is_some();
    if has("git", "git") {
        let followed = FollowedRecipe::new("git");
        let ask = |path: &str| {
            followed.shell(&format!(
                "GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0 git ls-remote {}",
                followed.origin.url(path)
            ))
        };
        ask("/open");
        let (_, _, said) = ask("/private");
        says!(said, "403");
        followed.held("/open/", "/private/info/refs?service=git-upload-pack");
    }
    if has("wget", "wget") {
        let followed = FollowedRecipe::new("wget");
        let fetch = |path: &str| {
            let command = followed.command("wget").replace("URL", &followed.origin.url(path));
            followed.shell(&format!("{command} --output-document=- --quiet"))
        };
        assert_eq!(fetch("/open").1, "page /open");
        assert_eq!(fetch("/private").0, Some(8));
        followed.held("/open", "/private");
    }
}

#[test]
fn playwright() {
    let (chromium, node, modules) = or_skip!(driven_chromium());
    let followed = FollowedRecipe::new("playwright");
    let launch = followed.command("chromium.launch(");
    let options = launch.trim_start_matches("chromium.launch(").trim_end_matches(')');
    let program = format!(
        "const {{ chromium }} = require('{modules}/node_modules/playwright-core');\n\
         (async () => {{\n\
         \x20   const options = {options};\n\
         \x20   options.args.push('--no-sandbox');\n\
         \x20   const executablePath = require('child_process').execFileSync('which', ['{chromium}']).toString().trim();\n\
         \x20   const browser = await chromium.launch({{ ...options, executablePath, timeout: 120_000 }});\n\
         \x20   const page = await browser.newPage();\n\
         \x20   page.setDefaultTimeout(120_000);\n\
         \x20   for (const path of ['/open', '/private']) {{\n\
         \x20       console.log((await page.goto('{}' + path)).status());\n\
         \x20   }}\n\
         \x20   await browser.close();\n\
         }})();\n",
        followed.origin.url(""),
    );
    fs::write(followed.gate.setup.dir().join("program.cjs"), program).unwrap();
    let (_, told, said) = followed.shell(&format!("'{node}' program.cjs"));
    assert_eq!(told.split_whitespace().collect::<Vec<_>>(), ["200", "403"], "{said}");
    has!(followed.gate.record_of(&followed.origin.url("/private")), {"reason": "robots_disallow"});
    let seen = followed.origin.seen_but_robots();
    // Browsers request an icon as well.
    assert!(seen.iter().all(|line| line == "GET /open" || line == "GET /favicon.ico"), "{seen:?}");
}
