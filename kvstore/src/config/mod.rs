//! Configuration: Redis's parameters by name, with the ones that the engine reads often as fields.

mod params;
mod value;

pub use params::{PARAMS, Param, Rule};
pub use value::{Kind, Value, format_memory, parse_memory};

use crate::encoding::quicklist::NodeLimit;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::policy::Policy;
use crate::session::Endpoint;
use crate::table::Hashing;
use crate::types::hash::HashLimits;
use crate::types::set::SetLimits;
use crate::types::stream::StreamLimits;
use crate::types::zset::ZSetLimits;
use alloc::string::String;
use alloc::vec::Vec;
use log::LevelFilter;

/// What CONFIG SET says of what it cannot change.
const IMMUTABLE: &str = "can't set immutable config";

/// Output limits of one class of clients (`client-output-buffer-limit`); 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Beyond this the client is closed at once, in bytes.
    pub hard: u64,
    /// Beyond this it is closed after a time, in bytes.
    pub soft: u64,
    /// That time, in seconds.
    pub soft_seconds: u64,
}

/// Who may use DEBUG (`enable-debug-command`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugAccess {
    /// Nobody.
    No,
    /// Clients on the machine itself.
    Local,
    /// Everybody.
    Yes,
}

impl DebugAccess {
    /// Whether a client from there may.
    pub fn allows(self, peer: Endpoint) -> bool {
        match self {
            DebugAccess::No => false,
            DebugAccess::Local => peer.addr == [127, 0, 0, 1],
            DebugAccess::Yes => true,
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Config {
    values: Vec<Value>,
    /// `maxmemory`, in bytes; 0: no limit but the machine's.
    pub maxmemory: u64,
    /// `maxmemory-policy`; None: noeviction.
    pub maxmemory_policy: Option<Policy>,
    /// `maxmemory-samples`.
    pub maxmemory_samples: usize,
    /// `maxmemory-eviction-tenacity`.
    pub eviction_tenacity: u32,
    /// `lfu-log-factor`.
    pub lfu_log_factor: u32,
    /// `lfu-decay-time`, in minutes.
    pub lfu_decay_minutes: u32,
    /// `active-expire-effort`.
    pub expire_effort: u32,
    /// `lazyfree-lazy-eviction`.
    pub lazy_eviction: bool,
    /// `lazyfree-lazy-expire`.
    pub lazy_expire: bool,
    /// `lazyfree-lazy-user-flush`.
    pub lazy_flush: bool,
    /// `acl-pubsub-default`: whether new users may use all channels.
    pub pubsub_default_open: bool,
    /// `acllog-max-len`.
    pub acllog_len: usize,
    /// `requirepass`.
    pub requirepass: Vec<u8>,
    /// `proto-max-bulk-len`, in bytes.
    pub proto_max_bulk_len: i64,
    /// `client-query-buffer-limit`, in bytes.
    pub query_buffer_limit: usize,
    /// `client-output-buffer-limit` of normal clients, replicas and subscribers.
    pub output_limits: [OutputLimit; 3],
    /// `timeout`, in seconds; 0: none.
    pub timeout_s: u64,
    /// Silence after which the stack probes a peer, in s; 0: never. The platform passes it on.
    pub tcp_keepalive_s: u64,
    /// `maxclients`.
    pub maxclients: usize,
    /// `notify-keyspace-events`, as a mask.
    pub notify_mask: u32,
    /// `slowlog-log-slower-than`, in us; negative: nothing is logged.
    pub slowlog_us: i64,
    /// `slowlog-max-len`.
    pub slowlog_len: usize,
    /// `tracking-table-max-keys`; 0: any number.
    pub tracking_max_keys: usize,
    /// `maxmemory-clients`, in bytes; negative: a share of `maxmemory`, in percent; 0: no limit.
    pub max_client_memory: i64,
    /// `latency-tracking`.
    pub latency_tracking: bool,
    /// `latency-tracking-info-percentiles`.
    pub latency_percentiles: Vec<f64>,
    /// Whether small commands are timed one by one: the slow log or the latency monitor is to notice what lasts less than
    /// a millisecond.
    pub exact_times: bool,
    /// `latency-monitor-threshold`, in ms; 0: off.
    pub latency_threshold_ms: u64,
    /// `list-max-listpack-size`.
    pub list_limit: NodeLimit,
    /// Limits of compact hashes.
    pub hash: HashLimits,
    /// `hll-sparse-max-bytes`.
    pub hll_sparse_max_bytes: usize,
    /// Limits of compact sets.
    pub set: SetLimits,
    /// Limits of compact sorted sets.
    pub zset: ZSetLimits,
    /// Limits of a stream's nodes.
    pub stream: StreamLimits,
    /// `enable-debug-command`.
    pub debug_command: DebugAccess,
}

impl Config {
    /// The default configuration with some parameters set otherwise (the boot line, the command line). Errs with the text
    /// that CONFIG SET would give.
    pub fn new<'a>(hashing: Hashing, overrides: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let mut config = Self {
            values: Vec::new(),
            maxmemory: 0,
            maxmemory_policy: None,
            maxmemory_samples: 0,
            eviction_tenacity: 0,
            lfu_log_factor: 0,
            lfu_decay_minutes: 0,
            expire_effort: 0,
            lazy_eviction: false,
            lazy_expire: false,
            lazy_flush: false,
            pubsub_default_open: false,
            acllog_len: 0,
            requirepass: Vec::new(),
            proto_max_bulk_len: 0,
            query_buffer_limit: 0,
            output_limits: [OutputLimit::default(); 3],
            timeout_s: 0,
            tcp_keepalive_s: 0,
            maxclients: 0,
            notify_mask: 0,
            slowlog_us: 0,
            slowlog_len: 0,
            tracking_max_keys: 0,
            max_client_memory: 0,
            latency_tracking: false,
            latency_percentiles: Vec::new(),
            exact_times: false,
            latency_threshold_ms: 0,
            list_limit: NodeLimit::new(-2),
            hash: HashLimits { listpack_entries: 0, listpack_value: 0, hashing },
            hll_sparse_max_bytes: 0,
            set: SetLimits { intset_entries: 0, listpack_entries: 0, listpack_value: 0, hashing },
            zset: ZSetLimits { listpack_entries: 0, listpack_value: 0, hashing },
            stream: StreamLimits { node_bytes: 0, node_entries: 0 },
            debug_command: DebugAccess::No,
        };
        for p in PARAMS {
            config.values.push(p.kind.parse(p.default.as_bytes()).map_err(|e| error_text!("{}: {e}", p.name))?);
        }
        if let Some(index) = find(b"loglevel") {
            config.values[index] = Value::Text(level_name(log::max_level()).into());
        }
        for (name, value) in overrides {
            let Some(index) = find(name.as_bytes()) else { return Err(error_text!("ERR unknown option '{name}'")) };
            let p = &PARAMS[index];
            let wrong = |why: &str| error_text!("ERR bad value '{value}' for '{name}': {why}");
            let value = p.kind.parse_over(value.as_bytes(), &config.values[index]).map_err(|why| wrong(&why))?;
            if value != config.values[index] && !matches!(p.rule, Rule::Free | Rule::AtStart) {
                return Err(wrong(&alloc::format!("it is always '{}'", p.kind.format(&config.values[index]))));
            }
            config.values[index] = value;
        }
        config.refresh();
        Ok(config)
    }

    /// `loglevel`.
    pub fn log_level(&self) -> LevelFilter {
        match self.text("loglevel") {
            b"nothing" => LevelFilter::Off,
            b"warning" => LevelFilter::Warn,
            b"notice" => LevelFilter::Info,
            b"verbose" => LevelFilter::Debug,
            _ => LevelFilter::Trace,
        }
    }

    /// A parameter's value as text.
    pub fn get(&self, name: &str) -> Option<String> {
        let index = find(name.as_bytes())?;
        Some(PARAMS[index].kind.format(&self.values[index]))
    }

    /// Parameters whose name (or alias) matches, with their values.
    pub fn matching(&self, matches: impl Fn(&[u8]) -> bool) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        for (p, value) in PARAMS.iter().zip(&self.values) {
            for name in [p.name, p.alias] {
                if !name.is_empty() && matches(name.as_bytes()) {
                    found.push((name, p.kind.format(value)));
                }
            }
        }
        found
    }

    /// Sets several parameters, all or none of them. The error is CONFIG SET's.
    pub fn set(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Error> {
        let failed = |name: &[u8], why: &str| {
            let name = crate::text::printable(name, 128);
            error_text!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
        };
        let mut indices = Vec::with_capacity(pairs.len());
        for (at, (name, _)) in pairs.iter().enumerate() {
            let Some(index) = find(name) else {
                let name = crate::text::printable(name, 128);
                return Err(error_text!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"));
            };
            match PARAMS[index].rule {
                Rule::Free | Rule::Constant => {}
                Rule::AtStart | Rule::Immutable => return Err(failed(name, IMMUTABLE)),
                Rule::Protected => return Err(failed(name, "can't set protected config")),
            }
            // Both names of a parameter may be given; then the later one counts.
            if pairs[..at].iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                return Err(failed(name, "duplicate parameter"));
            }
            indices.push(index);
        }
        let mut new: Vec<(usize, Value)> = Vec::with_capacity(pairs.len());
        for (index, (name, text)) in indices.into_iter().zip(pairs) {
            let (p, old) = (&PARAMS[index], &self.values[index]);
            let value = p.kind.parse_over(text, old).map_err(|why| failed(name, &why))?;
            if p.rule == Rule::Constant && value != *old {
                return Err(failed(name, IMMUTABLE));
            }
            new.push((index, value));
        }
        for (index, value) in new {
            self.values[index] = value;
        }
        self.refresh();
        Ok(())
    }

    fn number(&self, name: &str) -> i64 {
        match find(name.as_bytes()).map(|i| &self.values[i]) {
            Some(Value::Number(n)) => *n,
            _ => 0,
        }
    }

    fn text(&self, name: &str) -> &[u8] {
        match find(name.as_bytes()).map(|i| &self.values[i]) {
            Some(Value::Text(t)) => t,
            _ => &[],
        }
    }

    /// Brings the fields up to date.
    fn refresh(&mut self) {
        self.maxmemory = self.number("maxmemory") as u64;
        self.maxmemory_policy = Policy::of_name(self.text("maxmemory-policy"));
        self.maxmemory_samples = self.number("maxmemory-samples") as usize;
        self.eviction_tenacity = self.number("maxmemory-eviction-tenacity") as u32;
        self.lfu_log_factor = self.number("lfu-log-factor") as u32;
        self.lfu_decay_minutes = self.number("lfu-decay-time") as u32;
        self.expire_effort = self.number("active-expire-effort") as u32;
        self.lazy_eviction = self.number("lazyfree-lazy-eviction") != 0;
        self.lazy_expire = self.number("lazyfree-lazy-expire") != 0;
        self.lazy_flush = self.number("lazyfree-lazy-user-flush") != 0;
        self.pubsub_default_open = self.text("acl-pubsub-default") == b"allchannels";
        self.acllog_len = self.number("acllog-max-len") as usize;
        self.requirepass = self.text("requirepass").to_vec();
        self.proto_max_bulk_len = self.number("proto-max-bulk-len");
        self.query_buffer_limit = self.number("client-query-buffer-limit") as usize;
        if let Some(Value::OutputLimits(limits)) = find(b"client-output-buffer-limit").map(|i| &self.values[i]) {
            self.output_limits = *limits;
        }
        self.timeout_s = self.number("timeout") as u64;
        self.tcp_keepalive_s = self.number("tcp-keepalive") as u64;
        self.maxclients = self.number("maxclients") as usize;
        self.notify_mask = self.number("notify-keyspace-events") as u32;
        self.slowlog_us = self.number("slowlog-log-slower-than");
        self.slowlog_len = self.number("slowlog-max-len") as usize;
        self.tracking_max_keys = self.number("tracking-table-max-keys") as usize;
        self.latency_tracking = self.number("latency-tracking") != 0;
        let percentiles = value::parse_percentiles(self.text("latency-tracking-info-percentiles"));
        self.latency_percentiles = percentiles.unwrap_or_default();
        self.max_client_memory = self.number("maxmemory-clients");
        self.latency_threshold_ms = self.number("latency-monitor-threshold") as u64;
        self.exact_times = self.latency_threshold_ms != 0 || (0..1_000).contains(&self.slowlog_us);
        self.list_limit = self.list_limit.with_number(self.number("list-max-listpack-size"));
        self.hash.listpack_entries = self.number("hash-max-listpack-entries") as usize;
        self.hash.listpack_value = self.number("hash-max-listpack-value") as usize;
        self.hll_sparse_max_bytes = self.number("hll-sparse-max-bytes") as usize;
        self.set.intset_entries = self.number("set-max-intset-entries") as usize;
        self.set.listpack_entries = self.number("set-max-listpack-entries") as usize;
        self.set.listpack_value = self.number("set-max-listpack-value") as usize;
        self.zset.listpack_entries = self.number("zset-max-listpack-entries") as usize;
        self.zset.listpack_value = self.number("zset-max-listpack-value") as usize;
        self.stream.node_bytes = self.number("stream-node-max-bytes") as usize;
        self.stream.node_entries = self.number("stream-node-max-entries") as u64;
        self.debug_command = match self.text("enable-debug-command") {
            b"yes" => DebugAccess::Yes,
            b"local" => DebugAccess::Local,
            _ => DebugAccess::No,
        };
    }
}

/// `loglevel` for a level of the log.
const fn level_name(level: LevelFilter) -> &'static [u8] {
    match level {
        LevelFilter::Off => b"nothing",
        LevelFilter::Error | LevelFilter::Warn => b"warning",
        LevelFilter::Info => b"notice",
        LevelFilter::Debug => b"verbose",
        LevelFilter::Trace => b"debug",
    }
}

/// Number of the parameter of this name or alias, in any case.
fn find(name: &[u8]) -> Option<usize> {
    PARAMS.iter().position(|p| {
        p.name.as_bytes().eq_ignore_ascii_case(name)
            || (!p.alias.is_empty() && p.alias.as_bytes().eq_ignore_ascii_case(name))
    })
}
