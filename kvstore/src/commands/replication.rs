//! What clients ask a master about its replicas. There are none yet.

use crate::blocking::{Wait, WaitRequest};
use crate::command::{Arg, Command, Group, acl, flag};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::number::parse_i64;
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "role",
        group: Group::Server,
        since: "2.8.12",
        summary: "Returns the replication role.",
        complexity: "O(1)",
        arity: 1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST,
        acl: acl::ADMIN | acl::DANGEROUS,
        run: Some(role),
        ..Command::DEFAULT
    },
    Command {
        name: "wait",
        group: Group::Generic,
        since: "3.0.0",
        summary: "Blocks until the asynchronous replication of all preceding write commands sent by the connection is completed.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::BLOCKING,
        acl: acl::CONNECTION,
        args: &[Arg::integer("numreplicas"), Arg::integer("timeout")],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        run: Some(wait),
        ..Command::DEFAULT
    },
    Command {
        name: "waitaof",
        group: Group::Generic,
        since: "7.2.0",
        summary: "Blocks until all of the preceding write commands sent by the connection are written to the append-only file of the primary and/or replicas.",
        complexity: "O(1)",
        arity: 4,
        flags: flag::BLOCKING,
        acl: acl::CONNECTION,
        args: &[Arg::integer("numlocal"), Arg::integer("numreplicas"), Arg::integer("timeout")],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        run: Some(waitaof),
        ..Command::DEFAULT
    },
];

/// A master at offset 0, without replicas.
fn role(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.array(3);
    ctx.reply.bulk(b"master");
    ctx.reply.int(0);
    ctx.reply.array(0);
    Ok(())
}

/// A timeout argument in whole ms as a point of monotonic time, in us (None: wait for ever).
fn timeout_ms(ctx: &Ctx<'_>, index: usize) -> Result<Option<u64>, Error> {
    let ms = parse_i64(ctx.arg(index)).ok_or(Error::Fixed("ERR timeout is not an integer or out of range"))?;
    if ms < 0 {
        return Err(Error::Fixed("ERR timeout is negative"));
    }
    if ms.checked_add(ctx.core.now_ms()).is_none() {
        return Err(Error::Fixed("ERR timeout is out of range"));
    }
    Ok((ms > 0).then(|| ctx.core.now_us.saturating_add((ms as u64).saturating_mul(1000))))
}

fn wait_for(ctx: &mut Ctx<'_>, wait: Wait, until_us: Option<u64>) {
    ctx.core.wait_request = Some(WaitRequest { wait, even_without_key: false, args: None, keys: Vec::new(), until_us });
}

/// Whether no replicas are to be waited for: the number is kept in 32 bits, as Redis keeps it.
const fn is_none(replicas: i64) -> bool {
    replicas as i32 <= 0
}

fn wait(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let replicas = ctx.int(1)?;
    let until_us = timeout_ms(ctx, 2)?;
    if is_none(replicas) || ctx.deny_blocking {
        ctx.reply.int(0);
    } else {
        wait_for(ctx, Wait::Replicas, until_us);
    }
    Ok(())
}

fn waitaof(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let local = ctx.int_in(1, 0, 1)?;
    let replicas = ctx.count_or(2, super::collection::NOT_POSITIVE)? as i64;
    let until_us = timeout_ms(ctx, 3)?;
    if local > 0 {
        return Err(Error::Fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."));
    }
    if is_none(replicas) || ctx.deny_blocking {
        ctx.reply.array(2);
        ctx.reply.int(0);
        ctx.reply.int(0);
    } else {
        wait_for(ctx, Wait::ReplicaLogs, until_us);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn nobody_acknowledges() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        assert_eq!(bench.run(c, "ROLE"), "[master 0 []]");
        assert_eq!(bench.run(c, "WAIT 0 0"), "0");
        assert_eq!(bench.run(c, "WAITAOF 0 0 0"), "[0 0]");
        assert_eq!(bench.run(c, "WAIT 4611686018427387904 0"), "0", "which has no lower 32 bits");
        assert_eq!(bench.run(c, "WAITAOF 0 2147483648 0"), "[0 0]");
        for (command, reply) in [("WAIT 1 50", "0"), ("WAITAOF 0 2 50", "[0 0]")] {
            assert_eq!(bench.run(c, command), "");
            bench.pass_ms(49);
            assert_eq!(bench.read(c), "");
            bench.pass_ms(2);
            assert_eq!(bench.read(c), reply);
        }
        assert_eq!(bench.run(c, "WAIT 1 0"), "");
        bench.pass_ms(1_000_000);
        assert_eq!(bench.read(c), "");
        let other = bench.client();
        assert_eq!(bench.run(other, "CLIENT UNBLOCK 1"), "1");
        assert_eq!(bench.read(c), "0");
        bench.run(c, "MULTI");
        bench.run(c, "WAIT 1 0");
        bench.run(c, "WAITAOF 0 1 0");
        assert_eq!(bench.run(c, "EXEC"), "[0 [0 0]]");
    }

    #[test]
    fn errors_are_redis_s() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        for (command, error) in [
            ("WAIT x 1", "value is not an integer or out of range"),
            ("WAIT 1 x", "timeout is not an integer or out of range"),
            ("WAIT 1 -1", "timeout is negative"),
            ("WAIT 1 9223372036854775807", "timeout is out of range"),
            ("WAITAOF 1 0 0", "WAITAOF cannot be used when numlocal is set but appendonly is disabled."),
            ("WAITAOF 2 0 0", "value is out of range, value must between 0 and 1"),
            ("WAITAOF x 1 0", "value is not an integer or out of range"),
            ("WAITAOF 0 x 0", "value is out of range, must be positive"),
            ("WAITAOF 0 -1 0", "value is out of range, must be positive"),
        ] {
            assert_eq!(bench.run(c, command), alloc::format!("-ERR {error}"), "{command}");
        }
    }
}
