//! ACL LOG.

use crate::acl::{Context, LogEntry};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::reply::Reply;

/// Entries that are shown where it is not said how many.
const DEFAULT_COUNT: usize = 10;

pub(super) fn log(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let count = match ctx.argc() {
        2 => DEFAULT_COUNT,
        3 if ctx.args.is(2, "RESET") => {
            ctx.core.acl.log.clear();
            ctx.reply.ok();
            return Ok(());
        }
        3 => usize::try_from(ctx.int(2)?).unwrap_or(0),
        _ => return Err(ctx.wrong_subcommand()),
    };
    let now_ms = ctx.core.now_ms();
    let entries = ctx.core.acl.log.entries();
    ctx.reply.array(count.min(entries.len()));
    entries.take(count).for_each(|e| entry(&mut ctx.reply, e, now_ms));
    Ok(())
}

fn entry(reply: &mut Reply<'_>, e: &LogEntry, now_ms: i64) {
    let text = |reply: &mut Reply<'_>, name: &str, value: &[u8]| {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    };
    let int = |reply: &mut Reply<'_>, name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.int(value);
    };
    let context = match e.context {
        Context::TopLevel => "toplevel",
        Context::Multi => "multi",
    };
    reply.map(10);
    int(reply, "count", e.count as i64);
    text(reply, "reason", e.reason.name().as_bytes());
    text(reply, "context", context.as_bytes());
    text(reply, "object", &e.object);
    text(reply, "username", &e.user);
    reply.bulk(b"age-seconds");
    reply.double((now_ms - e.updated_ms) as f64 / 1000.0);
    text(reply, "client-info", e.client.as_bytes());
    int(reply, "entry-id", e.id as i64);
    int(reply, "timestamp-created", e.created_ms);
    int(reply, "timestamp-last-updated", e.updated_ms);
}
