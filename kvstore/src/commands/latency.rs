//! LATENCY HISTOGRAM, GRAPH and DOCTOR: what was measured, for people.

use crate::command::{Arg, Command, Group, flag};
use crate::commands::table::{self, Entry};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::histogram::Histogram;
use crate::slowlog::LatencySeries;
use crate::text::printable;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

/// LATENCY DOCTOR.
pub const DOCTOR: Command = Command {
    name: "doctor",
    group: Group::Server,
    since: "2.8.13",
    summary: "Returns a human-readable latency analysis report.",
    complexity: "O(1)",
    arity: 2,
    flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
    tips: TIPS,
    run: Some(doctor),
    ..Command::DEFAULT
};

/// LATENCY GRAPH.
pub const GRAPH: Command = Command {
    name: "graph",
    group: Group::Server,
    since: "2.8.13",
    summary: "Returns a latency graph for an event.",
    complexity: "O(1)",
    arity: 3,
    flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
    args: &[Arg::string("event")],
    tips: TIPS,
    run: Some(graph),
    ..Command::DEFAULT
};

/// LATENCY HISTOGRAM.
pub const HISTOGRAM: Command = Command {
    name: "histogram",
    group: Group::Server,
    since: "7.0.0",
    summary: "Returns the cumulative distribution of latencies of a subset or all commands.",
    complexity: "O(N) where N is the number of commands with latency information being retrieved.",
    arity: -2,
    flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
    args: &[Arg::string("command").optional().multiple()],
    tips: TIPS,
    run: Some(histogram),
    ..Command::DEFAULT
};

/// Whether an argument names a command, or its container.
fn names(arg: &[u8], entry: Entry) -> bool {
    arg.eq_ignore_ascii_case(entry.full_name().as_bytes())
        || entry.container.is_some_and(|c| arg.eq_ignore_ascii_case(c.name.as_bytes()))
}

fn histogram(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let all: Vec<(Entry, &Histogram)> =
        table::entries().zip(&ctx.core.stats.latency).filter_map(|(e, h)| Some((e, h.as_deref()?))).collect();
    let mut shown: Vec<(Entry, &Histogram)> = Vec::new();
    if ctx.args.len() == 2 {
        shown = all;
    } else {
        for arg in ctx.args.iter_from(2) {
            shown.extend(all.iter().filter(|(entry, _)| names(arg, *entry)));
        }
    }
    let reply = &mut ctx.reply;
    reply.map(shown.len());
    for (entry, histogram) in shown {
        reply.bulk(entry.full_name().as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.int(histogram.total() as i64);
        reply.bulk(b"histogram_usec");
        let steps = histogram.by_powers_of_two();
        reply.map(steps.len());
        for (ns, count) in steps {
            reply.int((ns / 1_000) as i64);
            reply.int(count as i64);
        }
    }
    Ok(())
}

/// Columns and rows of a graph.
const COLUMNS: usize = 80;
const ROWS: usize = 4;
/// Parts of a row, lowest first; a filled one below them is a bar.
const PARTS: [u8; 3] = *b"_o#";

/// How long ago something was, in the largest unit that fits.
fn ago(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Bars of the samples, and below each, from top to bottom, how long ago it was.
fn bars(series: &LatencySeries, now_s: i64) -> String {
    let samples: Vec<(i64, u64)> = series.samples.iter().copied().collect();
    let low = samples.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
    let high = samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
    let levels = ROWS * PARTS.len();
    let level = |ms: u64| ((ms - low) as usize * levels / ((high - low).max(1) as usize)).min(levels - 1);
    let mut text = String::new();
    for part in samples.chunks(COLUMNS) {
        for row in (0..ROWS).rev() {
            for (_, ms) in part {
                text.push(match level(*ms).checked_sub(row * PARTS.len()) {
                    None => ' ',
                    Some(n) => PARTS.get(n).map_or('|', |c| *c as char),
                });
            }
            text.push('\n');
        }
        let labels: Vec<String> = part.iter().map(|(at_s, _)| ago((now_s - at_s).max(0))).collect();
        let longest = labels.iter().map(String::len).max().unwrap_or(0);
        text.push_str(&" ".repeat(part.len()));
        text.push('\n');
        for i in 0..longest {
            text.extend(labels.iter().map(|label| label.as_bytes().get(i).map_or(' ', |c| *c as char)));
            text.push('\n');
        }
    }
    text
}

fn graph(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let name = printable(ctx.arg(2), 128);
    let series = ctx.core.slowlog.latency.get(name.as_str()).filter(|series| !series.samples.is_empty());
    let Some(series) = series else { return Err(error_text!("ERR No samples available for event '{name}'")) };
    let times = || series.samples.iter().map(|(_, ms)| *ms);
    let text = format!(
        "{name} - high {} ms, low {} ms (all time high {} ms)\n{}\n{}",
        times().max().unwrap_or(0),
        times().min().unwrap_or(0),
        series.max_ms,
        "-".repeat(COLUMNS),
        bars(series, ctx.core.unix_us / 1_000_000)
    );
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// What can be done about an event.
fn advice(event: &str) -> &'static str {
    match event {
        "command" => {
            "SLOWLOG GET shows which commands took long; those that visit a whole collection are the usual ones."
        }
        "fast-command" => "Commands that are never slow by themselves were: the machine was busy with something else.",
        "expire-cycle" => "Many keys expire at the same moment: spread their times, or set active-expire-effort lower.",
        "eviction-cycle" | "eviction-del" => "Memory is short: set maxmemory higher, or keep less in it.",
        _ => "",
    }
}

fn doctor(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let mut text = String::new();
    let all = &ctx.core.slowlog.latency;
    if ctx.core.config.latency_threshold_ms == 0 && all.is_empty() {
        text.push_str(
            "Nothing is measured: latency monitoring is off. CONFIG SET latency-monitor-threshold <milliseconds> turns it on.\n",
        );
    } else if all.is_empty() {
        text.push_str("Nothing took longer than latency-monitor-threshold so far.\n");
    } else {
        text.push_str("Events that took longer than latency-monitor-threshold:\n\n");
        for (n, (name, series)) in all.iter().enumerate() {
            let count = series.samples.len() as u64;
            let mean = series.samples.iter().map(|(_, ms)| *ms).sum::<u64>() / count.max(1);
            let deviation = series.samples.iter().map(|(_, ms)| ms.abs_diff(mean)).sum::<u64>() / count.max(1);
            text.push_str(&format!(
                "{}. {name}: {count} samples, {mean} ms on average (mean deviation {deviation} ms), {} ms at most. {}\n",
                n + 1,
                series.max_ms,
                advice(name)
            ));
        }
    }
    let text = text.to_string();
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, READING_NS};
    use alloc::format;

    #[test]
    fn commands_are_timed_together_and_one_by_one() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(5);
        b.feed(c, &get);
        b.read(c);
        b.run(c, "LRANGE l 0 -1");
        let info = b.run(c, "INFO commandstats");
        let us = READING_NS / 1_000;
        assert!(info.contains(&format!("cmdstat_get:calls=5,usec={us},usec_per_call=0.30,")), "{info}");
        assert!(info.contains(&format!("cmdstat_lrange:calls=1,usec={us},usec_per_call=1.50,")), "{info}");
        assert_eq!(
            b.run(c, "LATENCY HISTOGRAM GET nosuch lrange"),
            "[get [calls 5 histogram_usec [1 5]] lrange [calls 1 histogram_usec [2 1]]]"
        );
        let info = b.run(c, "INFO latencystats");
        assert!(info.contains("latency_percentiles_usec_lrange:p50=1.503,p99=1.503,p99.9=1.503"), "{info}");
        b.run(c, "CONFIG SET latency-tracking-info-percentiles 0.0");
        assert!(b.run(c, "INFO latencystats").contains("latency_percentiles_usec_lrange:p0=1.496"));
        assert!(b.run(c, "LATENCY HISTOGRAM config").contains("config|set [calls 1"));
        b.run(c, "CONFIG RESETSTAT");
        assert_eq!(b.run(c, "LATENCY HISTOGRAM get"), "[]");
        assert_eq!(b.run(c, "SLOWLOG LEN"), "0");
        b.run(c, "CONFIG SET slowlog-log-slower-than 0");
        b.feed(c, &get);
        b.read(c);
        assert_eq!(b.run(c, "SLOWLOG LEN"), "6", "CONFIG SET and each GET");
    }

    #[test]
    fn a_waiting_command_is_counted_once() {
        let mut b = Bench::new(&[]);
        let (a, c) = (b.client(), b.client());
        b.run(a, "BLPOP l 0");
        b.run(c, "RPUSH l x");
        assert!(b.run(c, "INFO commandstats").contains("cmdstat_blpop:calls=1,"));
        b.run(a, "BLPOP l 1");
        b.pass_ms(1_001);
        assert!(b.run(c, "INFO commandstats").contains("cmdstat_blpop:calls=2,"));
    }

    #[test]
    fn events_are_drawn_and_explained() {
        let mut b = Bench::new(&[("enable-debug-command", "yes"), ("latency-monitor-threshold", "100")]);
        let c = b.client();
        assert_eq!(b.run(c, "LATENCY GRAPH command"), "-ERR No samples available for event 'command'");
        b.run(c, "DEBUG SLEEP 0.2");
        b.pass_ms(1_000);
        b.read(c);
        b.run(c, "DEBUG SLEEP 0.3");
        b.pass_ms(2_000);
        b.read(c);
        let dashes = "-".repeat(80);
        assert_eq!(
            b.run(c, "LATENCY GRAPH command"),
            format!("command - high 300 ms, low 200 ms (all time high 300 ms)\n{dashes}\n #\n |\n |\n_|\n  \n32\nss\n")
        );
        assert!(b.run(c, "LATENCY DOCTOR").contains("command: 2 samples, 250 ms on average"));
        assert_eq!(b.run(c, "LATENCY RESET COMMAND"), "0");
        assert_eq!(b.run(c, "LATENCY RESET command"), "1");
    }
}
