//! `crawlgate log ack`: acknowledges decisions by their ids, or all that meet conditions.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use super::filter::FilterArgs;
use super::{AckArgs, person};
use crate::{Failure, terminal, words};
use crawlgate_config::Config;
use crawlgate_store::logs::unknown;
use crawlgate_store::review::{BulkReview, Earlier, NotAcknowledged};
use crawlgate_store::{self as store, Access, Acknowledgement, Review, Reviewed, Store};
use crawlgate_system::clock::Clock;
use crawlgate_text::{DecisionId, time_text};

/// Decisions that were refused and are named; others are counted.
const MAX_NAMED: usize = 20;

/// Acknowledges the decisions that the arguments name.
pub(super) async fn ack(args: &AckArgs, config: &Config) -> Result<(), Failure> {
    let has_conditions = args.filter != FilterArgs::default();
    match (args.id.is_empty(), has_conditions) {
        (true, false) => {
            bail!(
                "ack: neither an id nor a condition is given, and nothing is acknowledged; name the decisions by their \
                 ids, or all of a kind by conditions such as --rule, --origin or --since"
            );
        }
        (false, true) => {
            bail!(
                "ack: ids and conditions exclude each other, and nothing is acknowledged; name the decisions by one of the two"
            );
        }
        (true, true) | (false, false) => {}
    }
    if args.filter.is_of_acknowledged() && !args.replace {
        bail!(
            "--acknowledged: acknowledged decisions keep their acknowledgement; --replace puts the new one in its place"
        );
    }
    let by = person(
        args.by.as_deref(),
        "ack: neither $USER nor $LOGNAME tells who acknowledges, and nothing is acknowledged; name the person: --by NAME",
    )?;
    // A note may have several lines.
    words("--note", &args.note.replace(char::is_whitespace, " "))?;
    let open = |access| store::open(config, access);
    // A note must not create a missing store.
    drop(open(Access::Read)?);
    let store = open(Access::Write)?;
    let note =
        Acknowledgement { time: Clock::system().now(), by, note: args.note.trim().to_owned() };
    if has_conditions {
        by_conditions(&store, args, &note).await
    } else {
        by_ids(&store, &args.id, &note, args.replace).await
    }
}

/// Stores `note` for each decision, and reports each result: a failure does not stop the others.
async fn by_ids(
    store: &Store,
    ids: &[String],
    note: &Acknowledgement,
    replace: bool,
) -> Result<(), Failure> {
    let mut refused = Vec::new();
    for id in ids {
        match by_id(store, id, note, replace).await {
            Ok(()) => {
                let said = format!("{id}: acknowledged by {}: {}", note.by, note.note);
                terminal::print(format!("{}\n", terminal::printable(&said)).as_bytes())?;
            }
            Err(error) => refused.push(error.to_string()),
        }
    }
    if refused.is_empty() { Ok(()) } else { Err(refused.join("\ncrawlgate: ").into()) }
}

async fn by_id(
    store: &Store,
    id: &str,
    note: &Acknowledgement,
    replace: bool,
) -> Result<(), Failure> {
    let found = store.decision(&id.to_ascii_uppercase()).await?;
    let decision = found.ok_or_else(|| unknown(id))?;
    let review = if replace { Review::of(&decision) } else { Review::first(decision.seq) };
    let done = store.acknowledge(vec![review], note.clone()).await;
    match done?.pop() {
        Some(Reviewed::Done) => Ok(()),
        Some(Reviewed::Differs(present)) => {
            let present = present.as_ref();
            Err(differs(id, present, replace).into())
        }
        // Retention has dropped the decision meanwhile.
        Some(Reviewed::Unknown) | None => Err(unknown(id).into()),
    }
}

/// Returns the message about a decision with another acknowledgement than the one to be replaced.
fn differs(id: &str, present: Option<&Acknowledgement>, replace: bool) -> String {
    let said = match present {
        Some(seen) => {
            let already = if replace { "acknowledged meanwhile" } else { "acknowledged already" };
            let (at, by, note) = (time_text(seen.time), &seen.by, &seen.note);
            format!(
                "{id}: {already}, by {by} at {at}: {note}; --replace puts the new note in the place of that one"
            )
        }
        None => format!("{id}: it is no longer acknowledged; try again"),
    };
    terminal::printable(&said).into_owned()
}

/// Stores `note` for all decisions that meet the conditions.
async fn by_conditions(
    store: &Store,
    args: &AckArgs,
    note: &Acknowledgement,
) -> Result<(), Failure> {
    let earlier = if args.replace { Earlier::Replaced } else { Earlier::Kept };
    let query = args.filter.query(note.time)?;
    let mut bulk = BulkReview::begin(store, query, earlier).await?;
    let count = bulk.count().await?;
    let meant = meant(count, args.replace);
    if count == 0 {
        return terminal::print(format!("{meant}\n").as_bytes()).map(drop);
    }
    if !args.yes && !is_agreed(&meant)? {
        bail!("nothing is acknowledged");
    }
    let (mut acknowledged, mut refused) = (0, 0);
    while let Some(step) = bulk.step(note).await.map_err(|error| {
        format!(
            "{error}; {acknowledged} are acknowledged, the same command continues with the rest"
        )
    })? {
        acknowledged += step.acknowledged;
        for one in step.refused {
            if refused < MAX_NAMED {
                terminal::eprint(&describe(&one));
            }
            refused += 1;
        }
    }
    let decisions = match acknowledged {
        1 => "1 decision".to_owned(),
        count => format!("{count} decisions"),
    };
    let said = format!("{decisions} acknowledged by {}: {}", note.by, note.note);
    terminal::print(format!("{}\n", terminal::printable(&said)).as_bytes())?;
    match refused {
        0 => Ok(()),
        1 => Err("1 was acknowledged meanwhile by another review, and stays so".into()),
        _ => Err(Failure::from(format!(
            "{refused} were acknowledged meanwhile by other reviews, and stay so"
        ))),
    }
}

fn describe(refused: &NotAcknowledged) -> String {
    let id = DecisionId::from_octets(refused.id).to_string();
    differs(&id, refused.present.as_ref(), true)
}

/// Returns how many decisions are meant, in words.
fn meant(count: u64, replace: bool) -> String {
    let decisions = match count {
        1 => "1 decision meets".to_owned(),
        count => format!("{count} decisions meet"),
    };
    if replace {
        format!("{decisions} the conditions, acknowledged ones included")
    } else {
        format!("{decisions} the conditions without an acknowledgement")
    }
}

/// Asks on the terminal.
fn is_agreed(meant: &str) -> Result<bool, Failure> {
    let (input, mut out) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() {
        bail!("{meant}; nothing is acknowledged yet: --yes acknowledges them without a question");
    }
    let failed = |error: std::io::Error| format!("the terminal: {error}");
    write!(out, "{meant}. Acknowledge? [y/N] ").map_err(failed)?;
    out.flush().map_err(failed)?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer).map_err(failed)?;
    let answer = answer.trim();
    Ok(["y", "yes"].iter().any(|yes| answer.eq_ignore_ascii_case(yes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_store::Batch;
    use crawlgate_store::Store;
    use crawlgate_store::samples::ROW;
    use crawlgate_system::clock::Moment;

    #[tokio::test]
    async fn a_note_stands_until_it_is_replaced_on_purpose() {
        let store = Store::temporary();
        let mut batch = Batch::default();
        let id = ROW.file(&mut batch);
        store.write(batch).await.unwrap();
        let note = |by: &str| Acknowledgement {
            time: Moment::from_millis(1_795_176_000_123),
            by: by.to_owned(),
            note: "known".to_owned(),
        };
        let by = async || {
            let kept = store.decision(&id).await.unwrap().unwrap();
            kept.acknowledged.map(|seen| seen.by)
        };
        let ids = ["01KB7W3Y5E000000000VY7H1Q3", &*id].map(str::to_owned);
        let refused = by_ids(&store, &ids, &note("Ada"), false).await;
        let refused = refused.expect_err("one is not there").to_string();
        assert!(refused.starts_with(&format!("{}: no such", ids[0])), "{refused}");
        assert!(!refused.contains(&id), "{refused}");
        assert_eq!(by().await.as_deref(), Some("Ada"), "the other one is");

        let refused = by_ids(&store, &ids[1..], &note("Grace"), false).await;
        let refused = refused.expect_err("it is acknowledged").to_string();
        assert!(
            refused.contains("by Ada at 2026-11-20T12:00:00.123Z: known; --replace"),
            "{refused}"
        );
        assert_eq!(by().await.as_deref(), Some("Ada"));
        let replaced = by_ids(&store, &ids[1..], &note("Grace"), true).await;
        replaced.expect("it is replaced");
        assert_eq!(by().await.as_deref(), Some("Grace"));
    }
}
