//! Bars over time as an SVG; a table beside it has the same numbers.
//!
//! Widths are in per cent and heights in pixels, so that bars get narrower with the window while texts keep their size.

use crawlgate_store::Hourly;
use crawlgate_system::clock::Moment;

/// Reasons with a colour of their own; all others share one more.
const COLOURS: usize = 5;

/// The height of the drawing, in pixels.
const HEIGHT: u32 = 180;
const BOTTOM: u32 = 22;
const TOP: u32 = 8;

/// The share of a bar in the room for it.
const FILLED: f64 = 0.85;

/// A chart of counts over time.
pub(super) struct Chart {
    pub(super) series: Vec<Series>,
    pub(super) bars: Vec<Bar>,
    pub(super) grid: Vec<Grid>,
    pub(super) labels: Vec<Label>,
    pub(super) total: u64,
    /// The beginning of the first bar.
    pub(super) start: Moment,
}

/// The meaning of a colour.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) count: u64,
    /// True for the one that stands for several reasons.
    pub(super) is_rest: bool,
}

/// One span of time.
pub(super) struct Bar {
    /// The beginning, as text.
    pub(super) time: String,
    pub(super) counts: Vec<u64>,
    pub(super) total: u64,
    pub(super) parts: Vec<Part>,
}

/// A rectangle.
pub(super) struct Part {
    pub(super) class: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) width: String,
    pub(super) height: String,
    pub(super) title: String,
}

/// A line at a value.
pub(super) struct Grid {
    pub(super) y: String,
    pub(super) value: String,
}

/// A time under the bars.
pub(super) struct Label {
    pub(super) x: String,
    pub(super) text: String,
    /// True for each second one, for which a narrow window has no room.
    pub(super) is_spare: bool,
}

impl Chart {
    pub(super) fn height(&self) -> u32 {
        HEIGHT
    }

    /// Charts `hours` by reason, in `bars` spans of `step` hours that end with the current hour.
    pub(super) fn of(hours: &[Hourly], now: Moment, step: u64, bars: usize) -> Chart {
        let hour = 3_600_000;
        let span = step.max(1) * hour;
        let end = (now.as_millis() / hour + 1) * hour;
        // Spans begin at round hours: at midnight, at six.
        let end = end.div_ceil(span) * span;
        let start = end.saturating_sub(span * bars as u64);
        let mut names: Vec<(String, u64)> = Vec::new();
        for one in hours.iter().filter(|one| one.hour.as_millis() >= start) {
            match names.iter_mut().find(|(name, _)| *name == one.reason) {
                Some((_, count)) => *count += one.count,
                None => names.push((one.reason.clone(), one.count)),
            }
        }
        names.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
        let place = |reason: &str| {
            let at = names.iter().position(|(name, _)| name == reason);
            at.unwrap_or(COLOURS).min(COLOURS)
        };
        let width = names.len().min(COLOURS + 1);
        let mut counts = vec![vec![0_u64; width]; bars];
        for one in hours {
            let since = one.hour.as_millis().checked_sub(start);
            let bar = since.and_then(|since| usize::try_from(since / span).ok());
            let cell = bar.and_then(|bar| counts.get_mut(bar));
            if let Some(cell) = cell.and_then(|row| row.get_mut(place(&one.reason))) {
                *cell += one.count;
            }
        }
        let mut series: Vec<Series> = names
            .iter()
            .take(COLOURS)
            .enumerate()
            .map(|(at, (name, count))| Series {
                name: name.clone(),
                class: format!("c{at}"),
                count: *count,
                is_rest: false,
            })
            .collect();
        if names.len() > COLOURS {
            series.push(Series {
                name: "others".to_owned(),
                class: format!("c{COLOURS}"),
                count: names.iter().skip(COLOURS).map(|(_, count)| count).sum(),
                is_rest: true,
            });
        }
        let highest = counts.iter().map(|row| row.iter().sum::<u64>()).max();
        let top = round_up(highest.unwrap_or(0));
        let total = names.iter().map(|(_, count)| count).sum();
        let bars = counts
            .into_iter()
            .enumerate()
            .map(|(at, counts)| {
                let begin = Moment::from_millis(start + at as u64 * span);
                Bar::of(begin, at, bars, counts, top, &series)
            })
            .collect::<Vec<_>>();
        let labels = labels(&bars);
        Chart { grid: grid(top), labels, bars, series, total, start: Moment::from_millis(start) }
    }
}

impl Bar {
    fn of(
        begin: Moment,
        at: usize,
        bars: usize,
        counts: Vec<u64>,
        top: u64,
        series: &[Series],
    ) -> Bar {
        let text = crawlgate_text::time_text(begin);
        let time = text.get(..16).unwrap_or(&text).replace('T', " ");
        let slot = 100.0 / bars.max(1) as f64;
        let (x, width) = (slot * at as f64, slot * FILLED);
        let mut parts = Vec::new();
        let mut below = 0;
        for (count, one) in counts.iter().zip(series) {
            if *count == 0 {
                continue;
            }
            let (low, high) = (level(below, top), level(below + count, top));
            below += count;
            parts.push(Part {
                class: one.class.clone(),
                x: format!("{x:.2}%"),
                y: format!("{high:.1}"),
                width: format!("{width:.2}%"),
                height: format!("{:.1}", (low - high).max(0.5)),
                title: format!("{time}: {count} {}", one.name),
            });
        }
        Bar { time, total: below, counts, parts }
    }
}

/// Returns the height of a value in the drawing.
fn level(value: u64, top: u64) -> f64 {
    let room = f64::from(HEIGHT - BOTTOM - TOP);
    f64::from(HEIGHT - BOTTOM) - room * value as f64 / top.max(1) as f64
}

/// Rounds `value` up to 1, 2 or 5 times a power of ten.
fn round_up(value: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for step in [1, 2, 5] {
            let top = power.saturating_mul(step);
            if top >= value {
                return top;
            }
        }
        power = power.saturating_mul(10);
    }
}

fn grid(top: u64) -> Vec<Grid> {
    let half = (top >= 2).then_some(top / 2);
    let line = |value: u64| Grid {
        y: format!("{:.1}", level(value, top)),
        value: super::format::number(value),
    };
    [Some(0), half, Some(top)].into_iter().flatten().map(line).collect()
}

/// Returns as many times as there is room for.
fn labels(bars: &[Bar]) -> Vec<Label> {
    let every = bars.len().div_ceil(8).max(1);
    let slot = 100.0 / bars.len().max(1) as f64;
    let shows_days = bars.len() != 24;
    bars.iter()
        .enumerate()
        .step_by(every)
        .enumerate()
        .map(|(place, (at, bar))| Label {
            x: format!("{:.2}%", slot * at as f64),
            is_spare: place % 2 == 1,
            text: if shows_days {
                bar.time.get(5..10).unwrap_or_default().to_owned()
            } else {
                bar.time.get(11..16).unwrap_or_default().to_owned()
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T12:30:00Z
    const NOW: Moment = Moment::from_millis(1_795_177_800_000);

    fn hour(ago: u64, reason: &str, count: u64) -> Hourly {
        let hour = NOW.as_millis() / 3_600_000 - ago;
        Hourly {
            hour: Moment::from_millis(hour * 3_600_000),
            mode: "enforce".to_owned(),
            verdict: "deny".to_owned(),
            reason: reason.to_owned(),
            count,
        }
    }

    #[test]
    fn counts_stand_in_their_spans_and_colours() {
        let hours = [hour(1, "b", 3), hour(0, "a", 4), hour(0, "b", 2), hour(30, "a", 9)];
        let chart = Chart::of(&hours, NOW, 1, 24);
        assert_eq!(chart.bars.len(), 24);
        let last: Vec<(&str, u64)> =
            chart.bars.iter().rev().take(2).map(|bar| (&*bar.time, bar.total)).collect();
        assert_eq!(last, [("2026-11-20 12:00", 6), ("2026-11-20 11:00", 3)]);
        let series: Vec<(&str, u64)> =
            chart.series.iter().map(|one| (&*one.name, one.count)).collect();
        assert_eq!(series, [("b", 5), ("a", 4)], "what is older does not count");
        assert_eq!(chart.total, 9);
        let values: Vec<&str> = chart.grid.iter().map(|line| &*line.value).collect();
        assert_eq!(values, ["0", "5", "10"]);
    }

    #[test]
    fn days_begin_at_midnight_and_rare_reasons_share_a_colour() {
        let hours: Vec<Hourly> = (0..8).map(|n| hour(n * 24, &format!("r{n}"), 10 - n)).collect();
        let chart = Chart::of(&hours, NOW, 24, 30);
        assert_eq!(chart.bars.last().map(|bar| &*bar.time), Some("2026-11-20 00:00"));
        assert_eq!(chart.series.len(), COLOURS + 1);
        let others = chart.series.last().map(|one| (&*one.name, one.count));
        assert_eq!(others, Some(("others", 5 + 4 + 3)));
    }

    #[test]
    fn a_chart_without_counts_is_drawn() {
        let chart = Chart::of(&[], NOW, 6, 28);
        assert_eq!((chart.bars.len(), chart.series.len(), chart.total), (28, 0, 0));
        for (value, top) in [(0, 1), (1, 1), (3, 5), (11, 20), (1_000_001, 2_000_000)] {
            assert_eq!(round_up(value), top);
        }
    }
}
