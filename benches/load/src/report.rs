//! What a run found, for people and for programs.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::options::{Arrivals, Options};
use crate::replies::Outcome;

/// Longest time that the histograms tell apart, in microseconds.
const LONGEST_US: u64 = 3_600_000_000;

/// Counts of one phase.
pub struct Tally {
    /// Answers that were what was expected.
    pub right: u64,
    /// GETs that found nothing.
    pub misses: u64,
    /// Answers that carried something else.
    pub wrong: u64,
    /// Error replies.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Connections that the server ended, or that could not be made.
    pub resets: u64,
    /// Requests that were not answered.
    pub unanswered: u64,
    /// Bytes received and sent.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Requests of an open loop that waited for a connection at once, at most.
    pub longest_backlog: usize,
    /// Microseconds from when a request was meant to be sent to the end of its answer.
    pub latency: Histogram<u64>,
    /// Microseconds from when it was sent.
    pub service: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        // Cannot fail: the bounds are valid.
        #[allow(clippy::expect_used)]
        let histogram = || Histogram::new_with_bounds(1, LONGEST_US, 3).expect("valid bounds");
        Self {
            right: 0,
            misses: 0,
            wrong: 0,
            errors: 0,
            first_error: None,
            resets: 0,
            unanswered: 0,
            bytes_in: 0,
            bytes_out: 0,
            seconds: 0.0,
            longest_backlog: 0,
            latency: histogram(),
            service: histogram(),
        }
    }
}

impl Tally {
    /// Counts an answer; `times`: since it was meant to be asked for, and since it was.
    pub fn count(&mut self, outcome: Outcome, times: Option<(Duration, Duration)>) {
        match outcome {
            Outcome::Right => self.right += 1,
            Outcome::Miss => self.misses += 1,
            Outcome::Wrong => self.wrong += 1,
            Outcome::Error(text) => {
                self.errors += 1;
                self.first_error.get_or_insert(text);
            }
        }
        if let Some((latency, service)) = times {
            self.latency.saturating_record(latency.as_micros() as u64);
            self.service.saturating_record(service.as_micros() as u64);
        }
    }

    /// Answers of every kind.
    pub fn answers(&self) -> u64 {
        self.right + self.misses + self.wrong + self.errors
    }

    /// Whether anything was not as it should be. A miss is as it should be where nothing was filled.
    pub fn failed(&self, misses_allowed: bool) -> bool {
        self.wrong + self.errors + self.resets + self.unanswered > 0 || (self.misses > 0 && !misses_allowed)
    }
}

/// How connecting went.
#[derive(Default)]
pub struct Connects {
    /// Connections that were to be made.
    pub wanted: usize,
    /// Those that answered PING.
    pub made: usize,
    /// For all of them.
    pub seconds: f64,
    /// For the slowest, PING included, in microseconds.
    pub longest_us: u64,
    /// Those that were refused or lost.
    pub lost: u64,
    /// Error replies to PING.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
}

impl Connects {
    fn json(&self) -> String {
        format!(
            r#"{{"wanted":{},"made":{},"seconds":{:.3},"longest_us":{},"lost":{}}}"#,
            self.wanted, self.made, self.seconds, self.longest_us, self.lost
        )
    }

    /// Whether all are there.
    pub fn complete(&self) -> bool {
        self.made == self.wanted
    }
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn times(histogram: &Histogram<u64>) -> String {
    format!(
        r#"{{"mean":{:.1},"p50":{},"p90":{},"p99":{},"p999":{},"max":{}}}"#,
        histogram.mean(),
        histogram.value_at_quantile(0.5),
        histogram.value_at_quantile(0.9),
        histogram.value_at_quantile(0.99),
        histogram.value_at_quantile(0.999),
        histogram.max()
    )
}

/// Everything that was found.
pub struct Report {
    /// Of the connections that send.
    pub clients: Connects,
    /// Of those that only stay.
    pub idle: Connects,
    /// Of the idle connections, those lost while the others sent.
    pub idle_lost: u64,
    /// The measured phase.
    pub run: Tally,
}

impl Report {
    /// Requests answered in a second.
    pub fn rate(&self) -> f64 {
        if self.run.seconds > 0.0 { self.run.answers() as f64 / self.run.seconds } else { 0.0 }
    }

    /// One JSON object on one line.
    pub fn json(&self, o: &Options) -> String {
        let run = &self.run;
        let offered = o.rate.map_or("null".into(), |rate| format!("{rate}"));
        let mode = match (o.rate, o.arrivals) {
            (None, _) => "closed",
            (_, Arrivals::Poisson) => "poisson",
            (_, Arrivals::Fixed) => "fixed",
        };
        let error = run.first_error.as_ref().or(self.clients.first_error.as_ref()).or(self.idle.first_error.as_ref());
        format!(
            concat!(
                r#"{{"name":{},"mode":"{}","clients":{},"idle":{},"pipeline":{},"ratio":"{}:{}","size":[{},{}],"keys":{},"#,
                r#""offered":{},"requests":{},"seconds":{:.3},"rate":{:.1},"latency_us":{},"service_us":{},"#,
                r#""errors":{},"misses":{},"wrong":{},"resets":{},"unanswered":{},"idle_lost":{},"longest_backlog":{},"#,
                r#""bytes_in":{},"bytes_out":{},"connect":{},"connect_idle":{},"first_error":{}}}"#
            ),
            quoted(&o.name),
            mode,
            o.clients,
            o.idle,
            o.pipeline,
            o.ratio.0,
            o.ratio.1,
            o.size.0,
            o.size.1,
            o.keys,
            offered,
            run.answers(),
            run.seconds,
            self.rate(),
            times(&run.latency),
            times(&run.service),
            run.errors + self.clients.errors + self.idle.errors,
            run.misses,
            run.wrong,
            run.resets,
            run.unanswered,
            self.idle_lost,
            run.longest_backlog,
            run.bytes_in,
            run.bytes_out,
            self.clients.json(),
            self.idle.json(),
            error.map_or("null".into(), |text| quoted(text)),
        )
    }

    /// One line for people.
    pub fn line(&self, o: &Options) -> String {
        let run = &self.run;
        let mut text = format!(
            "{}{:.0} requests/s ({} in {:.2} s), latency p50 {} us, p99 {} us, p99.9 {} us, max {} us, {:.1} MiB/s in, {:.1} out",
            if o.name.is_empty() { String::new() } else { format!("{}: ", o.name) },
            self.rate(),
            run.answers(),
            run.seconds,
            run.latency.value_at_quantile(0.5),
            run.latency.value_at_quantile(0.99),
            run.latency.value_at_quantile(0.999),
            run.latency.max(),
            run.bytes_in as f64 / run.seconds / 1048576.0,
            run.bytes_out as f64 / run.seconds / 1048576.0,
        );
        if o.idle > 0 {
            let _ = write!(text, "; {} idle connections made in {:.2} s", self.idle.made, self.idle.seconds);
        }
        for (count, what) in [
            (run.errors, "errors"),
            (run.misses, "misses"),
            (run.wrong, "wrong answers"),
            (run.resets, "connections lost"),
            (run.unanswered, "requests unanswered"),
            (
                (self.clients.wanted + self.idle.wanted - self.clients.made - self.idle.made) as u64,
                "connections not made",
            ),
        ] {
            if count > 0 {
                let _ = write!(text, "; {count} {what}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_out_where_they_belong() {
        let mut run = Tally { seconds: 2.0, ..Tally::default() };
        for us in 1..=1000 {
            run.count(Outcome::Right, Some((Duration::from_micros(us * 10), Duration::from_micros(us))));
        }
        run.count(Outcome::Error("ERR \"quoted\"\n".into()), None);
        let report = Report { clients: Connects::default(), idle: Connects::default(), idle_lost: 0, run };
        let json = report.json(&Options { name: "a".into(), rate: Some(500.0), ..Options::default() });
        for part in [
            r#""name":"a","mode":"poisson""#,
            r#""offered":500,"requests":1001,"seconds":2.000,"rate":500.5"#,
            r#""latency_us":{"mean":5005.8,"p50":5003,"#,
            r#""service_us":{"mean":500.5,"p50":500,"p90":900,"p99":990,"p999":999,"max":1000}"#,
            r#""errors":1,"#,
            r#""first_error":"ERR \"quoted\"\u000a"}"#,
        ] {
            assert!(json.contains(part), "{part} in {json}");
        }
        assert!(report.run.failed(true));
    }
}
