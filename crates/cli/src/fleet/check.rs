//! `crawlgate fleet check`: are engine and sentinels as the fleet needs them?

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::require;
use crate::Failure;
use crate::service::join;
use crate::small_runtime;
use crate::terminal::{self, printable};
use crawlgate_config::{Config, FleetConfig};
use crawlgate_turns::fleet::check::{Finding, Level, judge};
use crawlgate_turns::fleet::coordinator::Observed;
use crawlgate_turns::fleet::{FleetKey, with_another_key};

/// Exit code for an engine that is not as it should be.
const FAULTY: u8 = 1;

#[derive(Args, Clone, Debug)]
pub(super) struct CheckArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Checks the engine of the configuration.
pub(super) fn run(args: &CheckArgs, config: &Config) -> Result<ExitCode, Failure> {
    require(config)?;
    let fleet = &config.fleet;
    let engine = join::engine(config)?;
    let (survey, observed) = small_runtime()?.block_on(async {
        let survey = engine.survey().await;
        // An engine that tells nothing of its members is judged by the survey.
        let observed = match survey.engine {
            Ok(_) => engine.observe_once().await.unwrap_or_default(),
            Err(_) => Observed::default(),
        };
        (survey, observed)
    });
    let mut findings = vec![key(fleet, &observed)];
    findings.extend(judge(&survey, fleet));
    let count = |level| findings.iter().filter(|one| one.level == level).count();
    let (failures, warnings) = (count(Level::Failure), count(Level::Warning));
    let text = if args.json {
        let all = json!({"ok": failures == 0, "failures": failures, "warnings": warnings, "findings": findings});
        format!("{all}\n")
    } else {
        as_text(&findings, failures, warnings)
    };
    terminal::print(text.as_bytes())?;
    Ok(match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(FAULTY),
    })
}

/// Checks the key that the instances share.
fn key(config: &FleetConfig, observed: &Observed) -> Finding {
    // The configuration demands one for a fleet.
    let path = config.key_file.clone().unwrap_or_default();
    let says = match FleetKey::load(&path) {
        Ok(key) => match with_another_key(observed, &key).as_slice() {
            [] => Ok(path.display().to_string()),
            others => {
                Err(format!("{}: another key than that of {}", path.display(), others.join(", ")))
            }
        },
        Err(error) => Err(error.to_string()),
    };
    let is_right = says.is_ok();
    Finding {
        check: "key",
        level: if is_right { Level::Ok } else { Level::Failure },
        at: String::new(),
        says: says.unwrap_or_else(|why| why),
        breaks: (!is_right).then(|| "this instance does not join".to_owned()),
        mend: (!is_right)
            .then(|| format!("copy the key of another instance to {}", path.display())),
    }
}

fn as_text(findings: &[Finding], failures: usize, warnings: usize) -> String {
    let mut text = String::new();
    let mut at = "";
    for one in findings {
        if one.at != at {
            at = &one.at;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", printable(at));
        }
        let says = printable(&one.says);
        let _ = writeln!(text, "{:7}  {:21}  {says}", one.level.as_str(), one.check);
        for (name, words) in [("breaks", &one.breaks), ("mend", &one.mend)] {
            if let Some(words) = words {
                let _ = writeln!(text, "{:7}  {name:21}  {}", "", printable(words));
            }
        }
    }
    if findings.iter().any(|one| one.mend.as_ref().is_some_and(|mend| mend.contains("CONFIG SET")))
    {
        let _ =
            writeln!(text, "CONFIG REWRITE at the engine keeps a changed setting over a restart");
    }
    let plural = |count, word| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let _ = match (failures, warnings) {
        (0, 0) => writeln!(text, "in order"),
        (0, _) => writeln!(text, "in order, with {}", plural(warnings, "warning")),
        _ => writeln!(text, "{}, {}", plural(failures, "failure"), plural(warnings, "warning")),
    };
    text
}
