//! Commands that took long (SLOWLOG) and events that did (LATENCY).

use crate::core::Core;
use crate::session::Client;
use crate::session::args::{Args, is_secret};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Most arguments that are kept of a command.
const MAX_ARGS: usize = 32;
/// Longest argument that is kept, in bytes.
const MAX_ARG: usize = 128;
/// Samples that are kept of a latency event.
const SAMPLES: usize = 160;

/// A command that took long.
#[derive(Debug)]
pub struct Slow {
    /// Its number.
    pub id: u64,
    /// Unix time, in s.
    pub at_s: i64,
    /// How long it took, in us.
    pub took_us: u64,
    /// Its arguments, cut short.
    pub args: Vec<Vec<u8>>,
    /// Who sent it.
    pub peer: String,
    /// The sender's name.
    pub name: Vec<u8>,
}

/// Samples of one kind of event: Unix time in s, and ms.
#[derive(Debug, Default)]
pub struct LatencySeries {
    /// Oldest first.
    pub samples: VecDeque<(i64, u64)>,
    /// Highest ever, in ms.
    pub max_ms: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Slowlog {
    /// Newest first.
    pub entries: VecDeque<Slow>,
    next_id: u64,
    /// By name of the event.
    pub latency: BTreeMap<&'static str, LatencySeries>,
}

impl Core {
    /// Logs a command that took long.
    pub(crate) fn slow_command(&mut self, client: &Client, args: Args<'_>, took_us: u64) {
        let n = args.len();
        let shown = if n > MAX_ARGS { MAX_ARGS - 1 } else { n };
        let mut kept: Vec<Vec<u8>> = args
            .iter_from(0)
            .take(shown)
            .enumerate()
            .map(|(at, arg)| if is_secret(args, at) { b"(redacted)".to_vec() } else { shorten(arg) })
            .collect();
        if n > MAX_ARGS {
            kept.push(format!("... ({} more arguments)", n - shown).into_bytes());
        }
        let log = &mut self.slowlog;
        log.entries.push_front(Slow {
            id: log.next_id,
            at_s: self.unix_us / 1_000_000,
            took_us,
            args: kept,
            peer: client.peer.to_string(),
            name: client.name.clone(),
        });
        log.next_id += 1;
        log.entries.truncate(self.config.slowlog_len);
    }

    /// Records an event that took long.
    pub(crate) fn latency_event(&mut self, name: &'static str, ms: u64) {
        let now_s = self.unix_us / 1_000_000;
        let series = self.slowlog.latency.entry(name).or_default();
        series.max_ms = series.max_ms.max(ms);
        if let Some(last) = series.samples.back_mut()
            && last.0 == now_s
        {
            last.1 = last.1.max(ms);
            return;
        }
        series.samples.push_back((now_s, ms));
        if series.samples.len() > SAMPLES {
            series.samples.pop_front();
        }
    }
}

fn shorten(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= MAX_ARG {
        return arg.to_vec();
    }
    let mut kept = arg[..MAX_ARG].to_vec();
    kept.extend_from_slice(format!("... ({} more bytes)", arg.len() - MAX_ARG).as_bytes());
    kept
}
