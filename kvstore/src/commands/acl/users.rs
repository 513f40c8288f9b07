//! Creating, changing, trying out and removing users.

use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::server::dispatch;
use crate::text::printable;
use alloc::vec::Vec;

/// How many copies of its arguments a command makes at most: of rules the joined ones, the new state, and an error that
/// quotes one as text.
const COPIES: usize = 10;

/// Errs if there is no memory for the copies of the arguments, and of as many bytes more.
fn reserve(ctx: &Ctx<'_>, more: usize) -> Result<(), Error> {
    let given: usize = ctx.args.iter_from(2).map(<[u8]>::len).sum();
    if ctx.affordable(given.saturating_add(more).saturating_mul(COPIES)) { Ok(()) } else { Err(Error::OutOfMemory) }
}

pub(super) fn setuser(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let name = ctx.args.get(2);
    if crate::acl::has_spaces(name) {
        return Err(Error::Fixed("ERR Usernames can't contain spaces or null characters"));
    }
    let existing = ctx.core.acl.find(name).and_then(|id| ctx.core.acl.user(id)).map_or(0, |u| u.memory_usage());
    reserve(ctx, existing)?;
    let rules: Vec<&[u8]> = ctx.args.iter_from(3).collect();
    let user = ctx.core.acl.changed(&ctx.core.config, name, &rules)?;
    ctx.core.set_user(ctx.client, user);
    ctx.reply.ok();
    Ok(())
}

pub(super) fn deluser(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.args.iter_from(2).any(|name| name == b"default") {
        return Err(Error::Fixed("ERR The 'default' user cannot be removed"));
    }
    let mut removed = 0;
    for name in ctx.args.iter_from(2) {
        removed += usize::from(ctx.core.remove_user(ctx.client, name));
    }
    ctx.reply.count(removed);
    Ok(())
}

pub(super) fn dryrun(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    reserve(ctx, 0)?;
    let name = ctx.args.get(2);
    let user = ctx.core.acl.find(name).and_then(|id| ctx.core.acl.user(id));
    let Some(user) = user else { return Err(error_text!("ERR User '{}' not found", printable(name, usize::MAX))) };
    let call = ctx.args.tail(3);
    let Some(entry) = dispatch::lookup(ctx.core, call) else {
        return Err(error_text!("ERR Command '{}' not found", printable(call.get(0), usize::MAX)));
    };
    if !entry.command.arity_fits(call.len()) {
        return Err(error_text!("ERR wrong number of arguments for '{}' command", entry.full_name()));
    }
    match user.check(entry, call) {
        Ok(()) => ctx.reply.ok(),
        Err(denial) => ctx.reply.bulk(&denial.sentence(name, entry, call)),
    }
    Ok(())
}
