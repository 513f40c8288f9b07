//! The parameters that there are. Those of features that are not there are not listed.

use super::Kind;
use crate::keyspace::policy::Policy;

/// A configuration parameter.
#[derive(Debug)]
pub struct Param {
    /// Name.
    pub name: &'static str,
    /// Second name, or empty.
    pub alias: &'static str,
    /// Type and bounds.
    pub kind: Kind,
    /// Default, as text.
    pub default: &'static str,
    /// Whether CONFIG SET may change it.
    pub mutable: bool,
}

const fn param(name: &'static str, kind: Kind, default: &'static str) -> Param {
    Param { name, alias: "", kind, default, mutable: true }
}

const fn aliased(name: &'static str, alias: &'static str, kind: Kind, default: &'static str) -> Param {
    Param { name, alias, kind, default, mutable: true }
}

const fn fixed(name: &'static str, kind: Kind, default: &'static str) -> Param {
    Param { name, alias: "", kind, default, mutable: false }
}

const MANY: i64 = i64::MAX;
const INT: i64 = i32::MAX as i64;

/// All parameters, sorted by name.
pub const PARAMS: &[Param] = &[
    param("active-expire-effort", Kind::Int(1, 10), "1"),
    fixed("appendonly", Kind::Bool, "no"),
    param(
        "client-output-buffer-limit",
        Kind::OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    param("client-query-buffer-limit", Kind::Memory(1024 * 1024, MANY), "1073741824"),
    fixed("databases", Kind::Int(1, INT), "16"),
    fixed("enable-debug-command", Kind::Word(&["no", "yes", "local"]), "no"),
    aliased("hash-max-listpack-entries", "hash-max-ziplist-entries", Kind::Int(0, MANY), "512"),
    aliased("hash-max-listpack-value", "hash-max-ziplist-value", Kind::Int(0, MANY), "64"),
    param("hll-sparse-max-bytes", Kind::Memory(0, MANY), "3000"),
    param("latency-monitor-threshold", Kind::Int(0, MANY), "0"),
    param("lazyfree-lazy-eviction", Kind::Bool, "no"),
    param("lazyfree-lazy-expire", Kind::Bool, "no"),
    // Large values are freed in steps however they go; what these two choose is so anyway.
    param("lazyfree-lazy-server-del", Kind::Bool, "no"),
    param("lazyfree-lazy-user-del", Kind::Bool, "no"),
    param("lazyfree-lazy-user-flush", Kind::Bool, "no"),
    param("lfu-decay-time", Kind::Int(0, INT), "1"),
    param("lfu-log-factor", Kind::Int(0, INT), "10"),
    aliased("list-max-listpack-size", "list-max-ziplist-size", Kind::Int(-(1 << 31), INT), "-2"),
    param("maxclients", Kind::Int(1, u32::MAX as i64), "10000"),
    param("maxmemory", Kind::Memory(0, MANY), "0"),
    param("maxmemory-eviction-tenacity", Kind::Int(0, 100), "10"),
    param("maxmemory-policy", Kind::Word(Policy::NAMES), "noeviction"),
    param("maxmemory-samples", Kind::Int(1, 64), "5"),
    param("notify-keyspace-events", Kind::Events, ""),
    fixed("port", Kind::Int(0, 65535), "5555"),
    fixed("protected-mode", Kind::Bool, "no"),
    param("proto-max-bulk-len", Kind::Memory(1024 * 1024, MANY), "536870912"),
    param("requirepass", Kind::Text, ""),
    fixed("save", Kind::Text, ""),
    param("set-max-intset-entries", Kind::Int(0, MANY), "512"),
    param("set-max-listpack-entries", Kind::Int(0, MANY), "128"),
    param("set-max-listpack-value", Kind::Int(0, MANY), "64"),
    param("slowlog-log-slower-than", Kind::Int(-1, MANY), "10000"),
    param("slowlog-max-len", Kind::Int(0, MANY), "128"),
    param("stream-node-max-bytes", Kind::Memory(0, MANY), "4096"),
    param("stream-node-max-entries", Kind::Int(0, MANY), "100"),
    param("tcp-keepalive", Kind::Int(0, INT), "300"),
    param("timeout", Kind::Int(0, INT), "0"),
    aliased("zset-max-listpack-entries", "zset-max-ziplist-entries", Kind::Int(0, MANY), "128"),
    aliased("zset-max-listpack-value", "zset-max-ziplist-value", Kind::Int(0, MANY), "64"),
];
