//! How long commands take: for INFO's commandstats and latencystats, SLOWLOG and LATENCY.
//!
//! Reading the clock costs as much as a small command. Small ones ([`Command::is_quick`]) that come one after the other in a
//! pipeline and are the same are therefore timed together, as a run, and each is taken to last as long as the other. So are
//! the later ones of a turn of the event loop, whatever session they are from: one of a hundred connections says how long it
//! took. If the slow log or the latency monitor is set to notice what lasts less than a millisecond, each is timed by itself.

use crate::blocking::Unblock;
use crate::command::{Command, flag};
use crate::commands::table::Entry;
use crate::core::Core;
use crate::session::Client;
use crate::session::args::Args;

/// Commands of a kind that are timed together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// The command's number; None: there is no run.
    number: Option<usize>,
    /// How many there were.
    times: u32,
    /// When it began, monotonic time in ns. None: the clock is not read, each lasts as long as the command did when it was
    /// last timed, in this turn of the event loop.
    since_ns: Option<u64>,
}

impl Core {
    /// A small command is about to be carried out.
    #[inline]
    pub(super) fn join_run(&mut self, number: usize) {
        self.enter_run(number);
        self.run.times += 1;
    }

    /// Small commands are about to be carried out; [`count_run`](Self::count_run) says how many there were.
    #[inline]
    pub(super) fn enter_run(&mut self, number: usize) {
        if self.run.number != Some(number) {
            self.begin_run(number);
        }
    }

    /// So many more belong to the run.
    #[inline]
    pub(super) fn count_run(&mut self, times: u32) {
        self.run.times += times;
    }

    fn begin_run(&mut self, number: usize) {
        let timed = self.stats.commands.get(number).is_some_and(|s| s.timed_at_us == Some(self.now_us));
        let now_ns = if timed && self.run.since_ns.is_none() { 0 } else { self.machine.monotonic_ns() };
        self.close_run(now_ns);
        self.run = Run { number: Some(number), times: 0, since_ns: if timed { None } else { Some(now_ns) } };
    }

    /// The session's input is done: what comes is not part of a run by the clock. Where each lasts as long as another before,
    /// it may be of the same run, whoever sends it.
    #[inline]
    pub(super) fn leave_run(&mut self) {
        if self.run.since_ns.is_some() {
            self.end_run();
        }
    }

    /// What comes is not part of a run.
    pub(super) fn end_run(&mut self) {
        if self.run.number.is_some() {
            let now_ns = if self.run.since_ns.is_some() { self.machine.monotonic_ns() } else { 0 };
            self.close_run(now_ns);
        }
    }

    /// `now_ns` is looked at if the run is timed.
    fn close_run(&mut self, now_ns: u64) {
        let run = core::mem::take(&mut self.run);
        let Some(s) = run.number.and_then(|number| self.stats.commands.get_mut(number)) else { return };
        let (Some(number), 1..) = (run.number, run.times) else { return };
        let took_ns = match run.since_ns {
            Some(since_ns) => {
                let took_ns = now_ns.saturating_sub(since_ns);
                s.timed_at_us = Some(self.now_us);
                s.each_ns = took_ns / u64::from(run.times);
                took_ns
            }
            None => s.each_ns * u64::from(run.times),
        };
        self.stats.took(number, run.times, took_ns, self.config.latency_tracking);
    }

    /// When an event of the server's own begins, monotonic time in ns; not read if the latency monitor is off.
    pub(super) fn event_begin_ns(&self) -> u64 {
        if self.config.latency_threshold_ms == 0 { 0 } else { self.machine.monotonic_ns() }
    }

    /// Records an event of the server's own if it took longer than `latency-monitor-threshold`.
    pub(super) fn latency_event_since(&mut self, name: &'static str, begin_ns: u64) {
        let threshold_ms = self.config.latency_threshold_ms;
        if threshold_ms == 0 {
            return;
        }
        let took_ms = self.machine.monotonic_ns().saturating_sub(begin_ns) / 1_000_000;
        if took_ms >= threshold_ms {
            self.latency_event(name, took_ms);
        }
    }
}

impl Core {
    /// Notes how long a command of a client took.
    pub(super) fn took(&mut self, client: &Client, args: Args<'_>, entry: Entry, ns: u64) {
        self.stats.took(entry.number, 1, ns, self.config.latency_tracking);
        let us = ns / 1_000;
        let limit = self.config.slowlog_us;
        if limit >= 0 && us >= limit as u64 && !entry.command.has(flag::SKIP_SLOWLOG) {
            self.slow_command(client, args, us);
        }
        let threshold_ms = self.config.latency_threshold_ms;
        if threshold_ms != 0 && us >= threshold_ms * 1_000 {
            let name = if entry.command.has(flag::FAST) { "fast-command" } else { "command" };
            self.latency_event(name, us / 1_000);
        }
    }

    /// Counts a command that waited and was not served.
    pub(super) fn gave_up(&mut self, command: &'static Command, why: Unblock) {
        self.stats.processed += 1;
        let failed = why == Unblock::Error;
        if failed {
            self.stats.error("UNBLOCKED");
        }
        let entry = self.index.find(command.name.as_bytes());
        if let Some(s) = entry.and_then(|entry| self.stats.commands.get_mut(entry.number)) {
            s.calls += 1;
            s.failed += u64::from(failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, READING_NS};
    use alloc::format;

    /// How often the clock was read so far, this time with it.
    fn readings(bench: &mut Bench) -> u64 {
        bench.server().core.machine.monotonic_ns() / READING_NS
    }

    #[test]
    fn once_a_turn_for_all_sessions() {
        let mut bench = Bench::new(&[]);
        let (a, b) = (bench.client(), bench.client());
        bench.run(a, "SET k abc");
        for turn in 1..4 {
            bench.pass_ms(1);
            let before = readings(&mut bench);
            for _ in 0..5 {
                bench.run(a, "GET k");
                bench.run(b, "GET k");
                bench.run(b, "GET none");
            }
            assert_eq!(readings(&mut bench) - before - 1, 2, "one beginning, one end");
            let stats = bench.run(a, "INFO commandstats");
            let (calls, us) = (turn * 15, turn * 15 * READING_NS / 1_000);
            assert!(stats.contains(&format!("cmdstat_get:calls={calls},usec={us},")), "{stats}");
        }
    }

    #[test]
    fn one_by_one_where_that_is_wanted() {
        let mut bench = Bench::new(&[("slowlog-log-slower-than", "0")]);
        let a = bench.client();
        let before = readings(&mut bench);
        (0..5).for_each(|_| drop(bench.run(a, "GET k")));
        assert_eq!(readings(&mut bench) - before - 1, 10);
    }
}
