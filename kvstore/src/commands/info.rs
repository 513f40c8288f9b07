//! INFO.

use super::table;
use crate::acl::Reason;
use crate::command::{Arg, Command, Group, acl, flag};
use crate::config::format_memory;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::pubsub::Kind;
use crate::text::printable;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "info",
    group: Group::Server,
    since: "1.0.0",
    summary: "Returns information and statistics about the server.",
    complexity: "O(1)",
    arity: -1,
    flags: flag::LOADING | flag::STALE,
    acl: acl::DANGEROUS,
    args: &[Arg::string("section").optional().multiple()],
    history: &[("7.0.0", "Added support for taking multiple section arguments.")],
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    run: Some(info),
    ..Command::DEFAULT
}];

/// The version of Redis whose behaviour this is.
pub const REDIS_VERSION: &str = "7.2.4";

/// Sections in the order in which they are shown; the last ones only on demand.
const SECTIONS: &[(&str, bool, Section)] = &[
    ("server", true, server),
    ("clients", true, clients),
    ("memory", true, memory),
    ("persistence", true, persistence),
    ("stats", true, stats),
    ("network", true, network),
    ("replication", true, replication),
    ("cpu", true, cpu),
    ("modules", true, modules),
    ("commandstats", false, commandstats),
    ("errorstats", true, errorstats),
    ("latencystats", false, latencystats),
    ("cluster", true, cluster),
    ("keyspace", true, keyspace),
];

type Section = fn(&Ctx<'_>, &mut String);

/// Appends a line; a `String` takes everything.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {{
        let _ = write!($out, $($arg)*);
        $out.push_str("\r\n");
    }};
}

fn info(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let wanted = |name: &str, by_default: bool| {
        if ctx.argc() == 1 {
            return by_default;
        }
        ctx.args.iter_from(1).any(|arg| match arg.to_ascii_lowercase().as_slice() {
            b"default" => by_default,
            b"all" | b"everything" => true,
            asked => asked == name.as_bytes(),
        })
    };
    let mut text = String::new();
    for (name, by_default, section) in SECTIONS {
        if wanted(name, *by_default) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let mut title = String::from(*name);
            title[..1].make_ascii_uppercase();
            if *name == "cpu" {
                title.make_ascii_uppercase();
            }
            line!(text, "# {title}");
            section(ctx, &mut text);
        }
    }
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn server(ctx: &Ctx<'_>, out: &mut String) {
    let core = &*ctx.core;
    let up_s = core.now_us.saturating_sub(core.started_us) / 1_000_000;
    line!(out, "redis_version:{REDIS_VERSION}");
    line!(out, "barium_version:{}", env!("CARGO_PKG_VERSION"));
    line!(out, "redis_git_sha1:00000000");
    line!(out, "redis_git_dirty:0");
    line!(out, "redis_build_id:0");
    line!(out, "redis_mode:standalone");
    line!(out, "os:{}", core.identity.os);
    line!(out, "arch_bits:{}", core.identity.arch_bits);
    line!(out, "process_id:1");
    line!(out, "process_supervised:no");
    line!(out, "run_id:{}", printable(&core.run_id, 40));
    line!(out, "tcp_port:{}", core.identity.port);
    line!(out, "server_time_usec:{}", core.unix_us);
    line!(out, "uptime_in_seconds:{up_s}");
    line!(out, "uptime_in_days:{}", up_s / 86_400);
    line!(out, "hz:10");
    line!(out, "configured_hz:10");
    line!(out, "lru_clock:{}", ctx.keys.space.access.seconds());
    line!(out, "executable:");
    line!(out, "config_file:");
    line!(out, "io_threads_active:0");
    line!(out, "listener0:name=tcp,bind=*,port={}", core.identity.port);
    line!(out, "cpus:{}", core.identity.cpus);
}

fn clients(ctx: &Ctx<'_>, out: &mut String) {
    let core = &*ctx.core;
    let (mut connected, mut input, mut output) = (1, 0, 0);
    for s in core.clients.iter() {
        connected += 1;
        (input, output) = (s.query_len().max(input), s.out.len().max(output));
    }
    line!(out, "connected_clients:{connected}");
    line!(out, "cluster_connections:0");
    line!(out, "maxclients:{}", core.config.maxclients);
    line!(out, "client_recent_max_input_buffer:{input}");
    line!(out, "client_recent_max_output_buffer:{output}");
    line!(out, "blocked_clients:{}", core.blocked);
    line!(out, "tracking_clients:{}", ctx.keys.space.tracking.clients);
    line!(out, "clients_in_timeout_table:{}", core.timers.len());
    let dbs = &ctx.keys.space.dbs;
    line!(out, "total_blocking_keys:{}", dbs.iter().map(|db| db.waiting.len()).sum::<usize>());
    let mut without_key: Vec<(usize, &[u8])> = Vec::new();
    for blocked in core.clients.iter().filter_map(|s| s.client.blocked.as_ref()).filter(|b| b.even_without_key) {
        without_key.extend(blocked.keys.iter().map(|key| (blocked.db, &**key)));
    }
    without_key.sort_unstable();
    without_key.dedup();
    line!(out, "total_blocking_keys_on_nokey:{}", without_key.len());
}

/// A share in percent with two digits.
fn percent(part: usize, of: usize) -> String {
    let hundredths = (part as u128 * 10_000).checked_div(of as u128).unwrap_or(0);
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

/// A ratio with two digits.
fn ratio(part: usize, of: usize) -> String {
    let hundredths = (part as u128 * 100).checked_div(of as u128).unwrap_or(0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Bytes that are not in keys and values: tables and sessions.
pub(super) fn overhead(ctx: &Ctx<'_>) -> usize {
    let tables: usize = ctx.keys.space.dbs.iter().map(|d| d.table.memory_usage()).sum();
    ctx.core.startup_memory + tables + ctx.core.clients.iter().map(|s| s.memory_usage()).sum::<usize>()
}

fn memory(ctx: &Ctx<'_>, out: &mut String) {
    let m = &ctx.core.machine;
    let (used, rss, peak) = (m.used_memory(), m.resident_memory(), m.peak_memory().max(m.used_memory()));
    let overhead = overhead(ctx);
    let dataset = used.saturating_sub(overhead);
    let sized = |out: &mut String, name: &str, n: u64| {
        line!(out, "{name}:{n}");
        line!(out, "{name}_human:{}", format_memory(n));
    };
    sized(out, "used_memory", used as u64);
    sized(out, "used_memory_rss", rss as u64);
    sized(out, "used_memory_peak", peak as u64);
    line!(out, "used_memory_peak_perc:{}", percent(used, peak));
    line!(out, "used_memory_overhead:{overhead}");
    line!(out, "used_memory_startup:{}", ctx.core.startup_memory);
    line!(out, "used_memory_dataset:{dataset}");
    line!(out, "used_memory_dataset_perc:{}", percent(dataset, used.saturating_sub(ctx.core.startup_memory)));
    line!(out, "allocator_allocated:{used}");
    line!(out, "allocator_active:{rss}");
    line!(out, "allocator_resident:{rss}");
    sized(out, "total_system_memory", m.total_memory() as u64);
    // There are no scripts, functions or libraries yet.
    line!(out, "used_memory_lua:0");
    line!(out, "used_memory_vm_eval:0");
    line!(out, "used_memory_lua_human:0B");
    line!(out, "used_memory_scripts_eval:0");
    line!(out, "number_of_cached_scripts:0");
    line!(out, "number_of_functions:0");
    line!(out, "number_of_libraries:0");
    line!(out, "used_memory_vm_functions:0");
    sized(out, "used_memory_vm_total", 0);
    line!(out, "used_memory_functions:0");
    sized(out, "used_memory_scripts", 0);
    sized(out, "maxmemory", ctx.core.config.maxmemory);
    line!(out, "maxmemory_policy:{}", ctx.core.config.get("maxmemory-policy").unwrap_or_default());
    line!(out, "allocator_frag_ratio:{}", ratio(rss, used));
    line!(out, "allocator_frag_bytes:{}", rss.saturating_sub(used));
    // What the allocator holds is all that there is.
    line!(out, "allocator_rss_ratio:1.00");
    line!(out, "allocator_rss_bytes:0");
    line!(out, "rss_overhead_ratio:1.00");
    line!(out, "rss_overhead_bytes:0");
    line!(out, "mem_fragmentation_ratio:{}", ratio(rss, used));
    line!(out, "mem_fragmentation_bytes:{}", rss.saturating_sub(used));
    line!(out, "mem_not_counted_for_evict:0");
    line!(out, "mem_replication_backlog:0");
    line!(out, "mem_total_replication_buffers:0");
    line!(out, "mem_cluster_links:0");
    line!(out, "mem_clients_slaves:0");
    line!(out, "mem_clients_normal:{}", ctx.core.clients.iter().map(|s| s.memory_usage()).sum::<usize>());
    line!(out, "mem_aof_buffer:0");
    line!(out, "mem_allocator:barium-heap");
    line!(out, "active_defrag_running:0");
    line!(out, "lazyfree_pending_objects:{}", ctx.keys.space.lazy.len());
    line!(out, "lazyfreed_objects:{}", ctx.keys.space.lazy.freed);
}

fn persistence(ctx: &Ctx<'_>, out: &mut String) {
    line!(out, "loading:0");
    line!(out, "async_loading:0");
    line!(out, "current_cow_peak:0");
    line!(out, "current_cow_size:0");
    line!(out, "current_cow_size_age:0");
    line!(out, "current_fork_perc:0.00");
    line!(out, "current_save_keys_processed:0");
    line!(out, "current_save_keys_total:0");
    line!(out, "rdb_changes_since_last_save:{}", ctx.keys.space.dirty);
    line!(out, "rdb_bgsave_in_progress:0");
    line!(out, "rdb_last_save_time:{}", ctx.core.started_unix_s);
    line!(out, "rdb_last_bgsave_status:ok");
    line!(out, "rdb_last_bgsave_time_sec:-1");
    line!(out, "rdb_current_bgsave_time_sec:-1");
    line!(out, "rdb_saves:0");
    line!(out, "rdb_last_cow_size:0");
    line!(out, "rdb_last_load_keys_expired:0");
    line!(out, "rdb_last_load_keys_loaded:0");
    line!(out, "aof_enabled:0");
    line!(out, "aof_rewrite_in_progress:0");
    line!(out, "aof_rewrite_scheduled:0");
    line!(out, "aof_last_rewrite_time_sec:-1");
    line!(out, "aof_current_rewrite_time_sec:-1");
    line!(out, "aof_last_bgrewrite_status:ok");
    line!(out, "aof_rewrites:0");
    line!(out, "aof_rewrites_consecutive_failures:0");
    line!(out, "aof_last_write_status:ok");
    line!(out, "aof_last_cow_size:0");
    line!(out, "module_fork_in_progress:0");
    line!(out, "module_fork_last_cow_size:0");
}

/// The platform's counters: a section of Barium's own.
fn network(ctx: &Ctx<'_>, out: &mut String) {
    for (name, value) in &ctx.core.network {
        line!(out, "{name}:{value}");
    }
}

fn stats(ctx: &Ctx<'_>, out: &mut String) {
    let (core, s, k) = (&*ctx.core, &ctx.core.stats, &ctx.keys.space.stats);
    let [ops, bytes_in, bytes_out] = s.rates.per_second(core.now_us);
    let kbps = |bytes: u64| format!("{}.{:02}", bytes / 1024, bytes % 1024 * 100 / 1024);
    line!(out, "total_connections_received:{}", s.connections);
    line!(out, "total_commands_processed:{}", s.processed);
    line!(out, "instantaneous_ops_per_sec:{ops}");
    line!(out, "total_net_input_bytes:{}", s.bytes_in);
    line!(out, "total_net_output_bytes:{}", s.bytes_out);
    line!(out, "total_net_repl_input_bytes:0");
    line!(out, "total_net_repl_output_bytes:0");
    line!(out, "instantaneous_input_kbps:{}", kbps(bytes_in));
    line!(out, "instantaneous_output_kbps:{}", kbps(bytes_out));
    line!(out, "instantaneous_input_repl_kbps:0.00");
    line!(out, "instantaneous_output_repl_kbps:0.00");
    line!(out, "rejected_connections:{}", s.refused);
    line!(out, "sync_full:0");
    line!(out, "sync_partial_ok:0");
    line!(out, "sync_partial_err:0");
    line!(out, "expired_keys:{}", k.expired);
    line!(out, "expired_stale_perc:{:.2}", k.stale_percent);
    line!(out, "expired_time_cap_reached_count:{}", k.expire_steps_cut);
    line!(out, "expire_cycle_cpu_milliseconds:{}", s.expire_us / 1000);
    line!(out, "evicted_keys:{}", k.evicted);
    line!(out, "evicted_clients:{}", s.evicted_clients);
    let exceeded_us = s.over_maxmemory_since_us.map_or(0, |since| core.now_us.saturating_sub(since));
    line!(out, "total_eviction_exceeded_time:{}", (s.over_maxmemory_us + exceeded_us) / 1000);
    line!(out, "current_eviction_exceeded_time:{}", exceeded_us / 1000);
    line!(out, "keyspace_hits:{}", k.hits);
    line!(out, "keyspace_misses:{}", k.misses);
    line!(out, "pubsub_channels:{}", core.pubsub.names(Kind::Channel).len());
    line!(out, "pubsub_patterns:{}", core.pubsub.names(Kind::Pattern).len());
    line!(out, "pubsubshard_channels:{}", core.pubsub.names(Kind::Shard).len());
    line!(out, "latest_fork_usec:0");
    line!(out, "total_forks:0");
    line!(out, "migrate_cached_sockets:{}", core.spare_links.len());
    line!(out, "slave_expires_tracked_keys:0");
    line!(out, "active_defrag_hits:0");
    line!(out, "active_defrag_misses:0");
    line!(out, "active_defrag_key_hits:0");
    line!(out, "active_defrag_key_misses:0");
    line!(out, "total_active_defrag_time:0");
    line!(out, "current_active_defrag_time:0");
    let tracking = &ctx.keys.space.tracking;
    line!(out, "tracking_total_keys:{}", tracking.keys());
    line!(out, "tracking_total_items:{}", tracking.items());
    line!(out, "tracking_total_prefixes:{}", tracking.prefixes());
    line!(out, "unexpected_error_replies:0");
    line!(out, "total_error_replies:{}", s.errors);
    line!(out, "dump_payload_sanitizations:0");
    line!(out, "total_reads_processed:{}", s.reads);
    line!(out, "total_writes_processed:{}", s.writes);
    line!(out, "io_threaded_reads_processed:0");
    line!(out, "io_threaded_writes_processed:0");
    line!(out, "client_query_buffer_limit_disconnections:{}", s.query_limit_closes);
    line!(out, "client_output_buffer_limit_disconnections:{}", s.output_limit_closes);
    for (name, reason) in
        [("auth", Reason::Auth), ("cmd", Reason::Command), ("key", Reason::Key), ("channel", Reason::Channel)]
    {
        line!(out, "acl_access_denied_{name}:{}", ctx.core.acl.log.count(reason));
    }
}

fn replication(ctx: &Ctx<'_>, out: &mut String) {
    line!(out, "role:master");
    line!(out, "connected_slaves:0");
    line!(out, "master_failover_state:no-failover");
    line!(out, "master_replid:{}", printable(&ctx.core.replication_id, 40));
    line!(out, "master_replid2:0000000000000000000000000000000000000000");
    line!(out, "master_repl_offset:0");
    line!(out, "second_repl_offset:-1");
    line!(out, "repl_backlog_active:0");
    line!(out, "repl_backlog_size:0");
    line!(out, "repl_backlog_first_byte_offset:0");
    line!(out, "repl_backlog_histlen:0");
}

fn cpu(ctx: &Ctx<'_>, out: &mut String) {
    // Time in commands is all that is measured; the rest is not told apart.
    let us: u64 = ctx.core.stats.commands.iter().map(|c| c.ns).sum::<u64>() / 1_000;
    line!(out, "used_cpu_sys:0.000000");
    line!(out, "used_cpu_user:{}.{:06}", us / 1_000_000, us % 1_000_000);
    line!(out, "used_cpu_sys_children:0.000000");
    line!(out, "used_cpu_user_children:0.000000");
    line!(out, "used_cpu_sys_main_thread:0.000000");
    line!(out, "used_cpu_user_main_thread:{}.{:06}", us / 1_000_000, us % 1_000_000);
}

const fn modules(_: &Ctx<'_>, _: &mut String) {}

fn commandstats(ctx: &Ctx<'_>, out: &mut String) {
    for (entry, s) in table::entries().zip(&ctx.core.stats.commands) {
        if s.calls + s.rejected + s.failed == 0 {
            continue;
        }
        let per_call = (s.ns / 10).checked_div(s.calls).unwrap_or(0);
        line!(
            out,
            "cmdstat_{}:calls={},usec={},usec_per_call={}.{:02},rejected_calls={},failed_calls={}",
            entry.full_name(),
            s.calls,
            s.ns / 1_000,
            per_call / 100,
            per_call % 100,
            s.rejected,
            s.failed
        );
    }
}

fn latencystats(ctx: &Ctx<'_>, out: &mut String) {
    if !ctx.core.config.latency_tracking {
        return;
    }
    for (entry, histogram) in table::entries().zip(&ctx.core.stats.latency) {
        let Some(histogram) = histogram else { continue };
        let shares: Vec<String> = ctx
            .core
            .config
            .latency_percentiles
            .iter()
            .map(|share| {
                let ns = histogram.percentile(*share);
                format!("p{share}={}.{:03}", ns / 1_000, ns % 1_000)
            })
            .collect();
        line!(out, "latency_percentiles_usec_{}:{}", entry.full_name(), shares.join(","));
    }
}

fn errorstats(ctx: &Ctx<'_>, out: &mut String) {
    for (code, n) in &ctx.core.stats.error_codes {
        line!(out, "errorstat_{code}:count={n}");
    }
}

fn cluster(_: &Ctx<'_>, out: &mut String) {
    line!(out, "cluster_enabled:0");
}

fn keyspace(ctx: &Ctx<'_>, out: &mut String) {
    for (n, db) in ctx.keys.space.dbs.iter().enumerate().filter(|(_, db)| !db.table.is_empty()) {
        let avg_ttl = db.average_ttl(ctx.keys.now_ms());
        line!(out, "db{n}:keys={},expires={},avg_ttl={avg_ttl}", db.table.len(), db.table.volatile());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use alloc::collections::BTreeSet;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    /// Fields that tools read: redis-cli, redis_exporter, RedisInsight, Sidekiq, BullMQ, RQ, Celery, Spring.
    const READ: &str = "redis_version redis_mode os arch_bits process_id run_id tcp_port uptime_in_seconds uptime_in_days \
        hz lru_clock executable config_file io_threads_active connected_clients cluster_connections maxclients \
        client_recent_max_input_buffer client_recent_max_output_buffer blocked_clients tracking_clients \
        clients_in_timeout_table total_blocking_keys total_blocking_keys_on_nokey used_memory used_memory_human \
        used_memory_rss used_memory_rss_human used_memory_peak used_memory_peak_human used_memory_peak_perc \
        used_memory_overhead used_memory_startup used_memory_dataset used_memory_dataset_perc allocator_allocated \
        allocator_active allocator_resident total_system_memory total_system_memory_human used_memory_lua \
        used_memory_scripts number_of_cached_scripts number_of_functions maxmemory maxmemory_human maxmemory_policy \
        allocator_frag_ratio allocator_frag_bytes allocator_rss_ratio allocator_rss_bytes rss_overhead_ratio \
        rss_overhead_bytes mem_fragmentation_ratio mem_fragmentation_bytes mem_not_counted_for_evict \
        mem_replication_backlog mem_clients_slaves mem_clients_normal mem_cluster_links mem_aof_buffer mem_allocator \
        active_defrag_running lazyfree_pending_objects lazyfreed_objects loading async_loading \
        rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_status \
        rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec rdb_last_cow_size aof_enabled aof_rewrite_in_progress \
        aof_rewrite_scheduled aof_last_rewrite_time_sec aof_current_rewrite_time_sec aof_last_bgrewrite_status \
        aof_last_write_status aof_last_cow_size module_fork_in_progress total_connections_received \
        total_commands_processed instantaneous_ops_per_sec total_net_input_bytes total_net_output_bytes \
        instantaneous_input_kbps instantaneous_output_kbps rejected_connections sync_full sync_partial_ok \
        sync_partial_err expired_keys expired_stale_perc expired_time_cap_reached_count evicted_keys evicted_clients \
        keyspace_hits keyspace_misses pubsub_channels pubsub_patterns latest_fork_usec migrate_cached_sockets \
        slave_expires_tracked_keys active_defrag_hits tracking_total_keys total_error_replies total_reads_processed \
        total_writes_processed role connected_slaves master_failover_state master_replid master_replid2 \
        master_repl_offset second_repl_offset repl_backlog_active repl_backlog_size repl_backlog_first_byte_offset \
        repl_backlog_histlen used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children cluster_enabled";

    fn titles(bench: &mut Bench, line: &str) -> Vec<String> {
        let c = bench.client();
        bench.run(c, line).lines().filter_map(|l| l.strip_prefix("# ")).map(ToString::to_string).collect()
    }

    #[test]
    fn what_tools_read_is_there_once() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        bench.run(c, "SET k v");
        let text = bench.run(c, "INFO everything");
        let names: Vec<&str> = text.lines().filter_map(|l| l.split_once(':')).map(|(name, _)| name).collect();
        let set: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(set.len(), names.len());
        let missing: Vec<&str> = READ.split_whitespace().filter(|name| !set.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(set.contains("db0") && set.contains("cmdstat_set"));
    }

    #[test]
    fn sections_are_chosen_as_redis_does() {
        let mut bench = Bench::new(&[]);
        let default = titles(&mut bench, "INFO");
        assert_eq!(titles(&mut bench, "INFO default"), default);
        assert!(!default.contains(&"Commandstats".to_string()) && default.contains(&"Modules".to_string()));
        let all = titles(&mut bench, "INFO ALL");
        assert_eq!(titles(&mut bench, "INFO everything"), all);
        assert!(all.contains(&"Commandstats".to_string()) && all.contains(&"Modules".to_string()));
        assert_eq!(titles(&mut bench, "INFO keyspace CPU"), ["CPU", "Keyspace"]);
        assert!(titles(&mut bench, "INFO nosuch").is_empty());
    }

    #[test]
    fn blocking_keys_are_counted() {
        let mut bench = Bench::new(&[]);
        let (a, b, c) = (bench.client(), bench.client(), bench.client());
        bench.run(a, "XGROUP CREATE s g $ MKSTREAM");
        bench.run(a, "XREADGROUP GROUP g me BLOCK 0 STREAMS s >");
        bench.run(b, "BLPOP l1 l2 0");
        let text = bench.run(c, "INFO clients");
        assert!(text.contains("blocked_clients:2\r\n") && text.contains("total_blocking_keys:3\r\n"), "{text}");
        assert!(text.contains("total_blocking_keys_on_nokey:1\r\n"), "{text}");
    }
}
