//! The fetches of robots.txt in a span.

use super::ReportQuery;
use super::content::FetchCounts;
use super::logs::Readable;
use crawlgate_store::StoreError;
use crawlgate_text::time_text;

/// Returns the fetches of robots.txt in the span, of all logs together; `None` unless the report is about all of them, and
/// some were counted. True if one of several logs has no counts.
pub(super) async fn fetches(
    question: &ReportQuery,
    logs: &Readable<'_>,
) -> Result<(Option<FetchCounts>, bool), StoreError> {
    if question.is_of_a_part() {
        return Ok((None, false));
    }
    let all = logs.fetch_sums(question.since, question.until).await?;
    let of_logs = all.len();
    let counted: Vec<_> = all
        .into_iter()
        .filter_map(|sums| {
            let first = sums.first.filter(|first| *first < question.until)?;
            Some((first, sums.by_result))
        })
        .collect();
    let lacks_some = of_logs > 1 && counted.len() < of_logs;
    let Some(first) = counted.iter().map(|(first, _)| *first).max() else {
        return Ok((None, lacks_some));
    };
    let mut fetches = FetchCounts {
        counted_since: time_text(first),
        is_cut_off: first > question.since,
        ..FetchCounts::default()
    };
    for sum in counted.into_iter().flat_map(|(_, by_result)| by_result) {
        fetches.count += sum.fetches;
        match &*sum.result {
            "successful" => fetches.successful += sum.fetches,
            "unavailable" => fetches.unavailable += sum.fetches,
            _ => fetches.unreachable += sum.fetches,
        }
        fetches.unchanged += sum.unchanged;
        fetches.changed += sum.changed;
        fetches.truncated += sum.truncated;
    }
    Ok((Some(fetches), lacks_some))
}
