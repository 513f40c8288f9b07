//! Users as replies.

use crate::acl::{Selector, User};
use crate::command::acl;
use crate::commands::table;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::reply::Reply;
use crate::text::printable;
use alloc::string::String;
use alloc::vec::Vec;

/// How many copies of a user's rules showing them takes, beside the reply.
const COPIES: usize = 3;

pub(super) fn whoami(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.bulk(ctx.core.acl.name(ctx.client.user));
    Ok(())
}

pub(super) fn users(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let names = ctx.core.acl.names();
    ctx.reply.array(names.len());
    names.for_each(|name| ctx.reply.bulk(name));
    Ok(())
}

pub(super) fn list(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let acl = &ctx.core.acl;
    let largest = acl.names().filter_map(|name| acl.user(acl.find(name)?)).map(User::memory_usage).max();
    if !ctx.affordable(largest.unwrap_or(0).saturating_mul(COPIES)) {
        return Err(Error::OutOfMemory);
    }
    ctx.reply.array(acl.names().len());
    for name in acl.names() {
        let rules = acl.find(name).and_then(|id| acl.user(id)).map(User::describe).unwrap_or_default();
        ctx.reply.bulk(&[b"user ", name, b" ", &rules].concat());
    }
    Ok(())
}

pub(super) fn getuser(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let acl = &ctx.core.acl;
    let Some(user) = acl.find(ctx.arg(2)).and_then(|id| acl.user(id)) else {
        ctx.reply.null();
        return Ok(());
    };
    if !ctx.affordable(user.memory_usage().saturating_mul(COPIES)) {
        return Err(Error::OutOfMemory);
    }
    let reply = &mut ctx.reply;
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(user.flags().count());
    user.flags().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|hash| reply.bulk(hash));
    selector(reply, user.root());
    reply.bulk(b"selectors");
    reply.array(user.selectors().len());
    for s in user.selectors() {
        reply.map(3);
        selector(reply, s);
    }
    Ok(())
}

/// Three pairs of a map.
fn selector(reply: &mut Reply<'_>, s: &Selector) {
    reply.bulk(b"commands");
    reply.bulk(&s.describe_commands());
    reply.bulk(b"keys");
    reply.bulk(&s.describe_keys());
    reply.bulk(b"channels");
    reply.bulk(&s.describe_channels());
}

pub(super) fn cat(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    match ctx.argc() {
        2 => {
            ctx.reply.array(acl::CATEGORY_NAMES.len());
            acl::CATEGORY_NAMES.iter().for_each(|(_, name)| ctx.reply.bulk(name.as_bytes()));
        }
        3 => {
            let Some((category, _)) = acl::category(ctx.arg(2)) else {
                return Err(error_text!("ERR Unknown category '{}'", printable(ctx.arg(2), 128)));
            };
            let names: Vec<String> =
                table::entries().filter(|e| e.command.categories() & category != 0).map(|e| e.full_name()).collect();
            ctx.reply.array(names.len());
            names.iter().for_each(|name| ctx.reply.bulk(name.as_bytes()));
        }
        _ => return Err(ctx.wrong_subcommand()),
    }
    Ok(())
}
