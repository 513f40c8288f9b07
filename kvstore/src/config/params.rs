//! The parameters that there are: what Redis 7.2 has and what means something here. Those of features that are not there
//! (persistence, replication, cluster, TLS, a surrounding operating system) are not listed.

use super::Kind;
use crate::keyspace::policy::Policy;

/// When a parameter can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// At any time.
    Free,
    /// When the server is started.
    AtStart,
    /// Never to anything but what it is: there is nothing here that another value would change. Naming that value is no
    /// error, since tools do it.
    Constant,
    /// Never, as [`Constant`](Self::Constant), and Redis does not let CONFIG SET name it either.
    Immutable,
    /// As [`Immutable`](Self::Immutable); Redis guards it by `enable-protected-configs`.
    Protected,
}

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
    /// When it can be set.
    pub rule: Rule,
    /// Of one with a single value, why it has that.
    pub why: &'static str,
}

const fn param(name: &'static str, kind: Kind, default: &'static str) -> Param {
    ruled(Rule::Free, name, "", kind, default, "")
}

const fn aliased(name: &'static str, alias: &'static str, kind: Kind, default: &'static str) -> Param {
    ruled(Rule::Free, name, alias, kind, default, "")
}

const fn fixed(name: &'static str, kind: Kind, default: &'static str) -> Param {
    ruled(Rule::AtStart, name, "", kind, default, "")
}

const fn ruled(
    rule: Rule,
    name: &'static str,
    alias: &'static str,
    kind: Kind,
    default: &'static str,
    why: &'static str,
) -> Param {
    Param { name, alias, kind, default, rule, why }
}

/// A parameter that has one value here.
const fn constant(name: &'static str, kind: Kind, value: &'static str, why: &'static str) -> Param {
    ruled(Rule::Constant, name, "", kind, value, why)
}

/// One that Redis does not let anybody set either once it runs.
const fn immutable(
    name: &'static str,
    alias: &'static str,
    kind: Kind,
    value: &'static str,
    why: &'static str,
) -> Param {
    ruled(Rule::Immutable, name, alias, kind, value, why)
}

/// One that says what the replicas are to do.
const fn of_replicas(name: &'static str, alias: &'static str, kind: Kind, value: &'static str) -> Param {
    ruled(Rule::Constant, name, alias, kind, value, "there is no replication yet")
}

const MANY: i64 = i64::MAX;
const INT: i64 = i32::MAX as i64;

/// All parameters, sorted by name.
pub const PARAMS: &[Param] = &[
    param("acl-pubsub-default", Kind::Word(&["allchannels", "resetchannels"]), "resetchannels"),
    fixed("aclfile", Kind::Text, ""),
    param("acllog-max-len", Kind::Int(0, MANY), "128"),
    param("active-expire-effort", Kind::Int(1, 10), "1"),
    constant("appendonly", Kind::Bool, "no", "there is no persistence yet"),
    constant("bind", Kind::Text, "*", "it listens on every address that the machine has"),
    param(
        "client-output-buffer-limit",
        Kind::OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    param("client-query-buffer-limit", Kind::Memory(1024 * 1024, MANY), "1073741824"),
    immutable("cluster-enabled", "", Kind::Bool, "no", "there is no cluster"),
    fixed("databases", Kind::Int(1, INT), "16"),
    ruled(Rule::Protected, "dbfilename", "", Kind::Text, "dump.rdb", "there is no file system"),
    ruled(Rule::Protected, "dir", "", Kind::Text, "/", "there is no file system; what asks for it is shown the root"),
    constant("dynamic-hz", Kind::Bool, "yes", "work is done when it is due, not so many times a second"),
    fixed("enable-debug-command", Kind::Word(&["no", "yes", "local"]), "no"),
    immutable("enable-module-command", "", Kind::Word(&["no", "yes", "local"]), "no", "there are no modules"),
    immutable(
        "enable-protected-configs",
        "",
        Kind::Word(&["no", "yes", "local"]),
        "no",
        "no protected parameter can be changed",
    ),
    aliased("hash-max-listpack-entries", "hash-max-ziplist-entries", Kind::Int(0, MANY), "512"),
    aliased("hash-max-listpack-value", "hash-max-ziplist-value", Kind::Memory(0, MANY), "64"),
    param("hll-sparse-max-bytes", Kind::Memory(0, MANY), "3000"),
    constant("hz", Kind::Int(0, INT), "10", "work is done when it is due, not so many times a second"),
    immutable("io-threads", "", Kind::Int(1, 128), "1", "the commands run on one CPU"),
    param("latency-monitor-threshold", Kind::Int(0, MANY), "0"),
    param("latency-tracking", Kind::Bool, "yes"),
    param("latency-tracking-info-percentiles", Kind::Percentiles, "50 99 99.9"),
    param("lazyfree-lazy-eviction", Kind::Bool, "no"),
    param("lazyfree-lazy-expire", Kind::Bool, "no"),
    constant("lazyfree-lazy-server-del", Kind::Bool, "yes", "large values are freed in steps however they go"),
    constant("lazyfree-lazy-user-del", Kind::Bool, "yes", "large values are freed in steps however they go"),
    param("lazyfree-lazy-user-flush", Kind::Bool, "no"),
    param("lfu-decay-time", Kind::Int(0, INT), "1"),
    param("lfu-log-factor", Kind::Int(0, INT), "10"),
    constant("list-compress-depth", Kind::Int(0, INT), "0", "the nodes of a list are never compressed"),
    aliased("list-max-listpack-size", "list-max-ziplist-size", Kind::Int(-(1 << 31), INT), "-2"),
    immutable("logfile", "", Kind::Text, "", "the log goes to the console"),
    param("loglevel", Kind::Word(&["debug", "verbose", "notice", "warning", "nothing"]), "notice"),
    param("maxclients", Kind::Int(1, u32::MAX as i64), "10000"),
    param("maxmemory", Kind::LargeMemory, "0"),
    param("maxmemory-clients", Kind::MemoryOrPercent, "0"),
    param("maxmemory-eviction-tenacity", Kind::Int(0, 100), "10"),
    param("maxmemory-policy", Kind::Word(Policy::NAMES), "noeviction"),
    param("maxmemory-samples", Kind::Int(1, 64), "5"),
    of_replicas("min-replicas-max-lag", "min-slaves-max-lag", Kind::Int(0, INT), "10"),
    of_replicas("min-replicas-to-write", "min-slaves-to-write", Kind::Int(0, INT), "0"),
    param("notify-keyspace-events", Kind::Events, ""),
    fixed("port", Kind::Int(0, 65535), "5555"),
    constant("protected-mode", Kind::Bool, "no", "every client is remote; the log warns when there is no password"),
    param("proto-max-bulk-len", Kind::Memory(1024 * 1024, MANY), "536870912"),
    immutable("rdbchecksum", "", Kind::Bool, "yes", "what DUMP gives has a checksum"),
    constant("rdbcompression", Kind::Bool, "no", "DUMP does not compress"),
    of_replicas("replica-priority", "slave-priority", Kind::Int(0, INT), "100"),
    of_replicas("replica-read-only", "slave-read-only", Kind::Bool, "yes"),
    immutable("replicaof", "slaveof", Kind::Text, "", "this server is always a master"),
    param("requirepass", Kind::Text, ""),
    constant(
        "sanitize-dump-payload",
        Kind::Word(&["no", "yes", "clients"]),
        "yes",
        "every payload is checked as it is read",
    ),
    constant("save", Kind::Text, "", "there is no persistence yet"),
    param("set-max-intset-entries", Kind::Int(0, MANY), "512"),
    param("set-max-listpack-entries", Kind::Int(0, MANY), "128"),
    param("set-max-listpack-value", Kind::Int(0, MANY), "64"),
    param("slowlog-log-slower-than", Kind::Int(-1, MANY), "10000"),
    param("slowlog-max-len", Kind::Int(0, MANY), "128"),
    param("stream-node-max-bytes", Kind::Memory(0, MANY), "4096"),
    param("stream-node-max-entries", Kind::Int(0, MANY), "100"),
    param("tcp-keepalive", Kind::Int(0, INT), "300"),
    param("timeout", Kind::Int(0, INT), "0"),
    param("tracking-table-max-keys", Kind::Int(0, MANY), "1000000"),
    aliased("zset-max-listpack-entries", "zset-max-ziplist-entries", Kind::Int(0, MANY), "128"),
    aliased("zset-max-listpack-value", "zset-max-ziplist-value", Kind::Memory(0, MANY), "64"),
];
