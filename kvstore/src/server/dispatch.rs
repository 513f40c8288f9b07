//! From a parsed command to its handler: the checks that come before, and what comes after.

use super::Server;
use super::room::Room;
use super::tracking::forget_caching;
use crate::blocking::{Wait, WaitRequest};
use crate::command::{Command, Group, flag};
use crate::commands::{self, table::Entry};
use crate::core::Core;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::{Effect, EffectForm, Keyspace};
use crate::reply::Reply;
use crate::session::args::Args;
use crate::session::output::{Mark, Output};
use crate::session::{Client, Fate, ReplyMode, Session};
use crate::text;
use alloc::string::String;

/// What is to be done with a command that passed the checks.
enum Verdict {
    Run,
    /// It was put into the transaction's queue.
    Queued,
    /// The session is paused; the command stays in its input.
    Hold,
}

impl Server {
    /// Carries out the command that the session's parser found in `buffer`.
    pub(super) fn process(&mut self, session: &mut Session, buffer: &[u8]) {
        self.core.end_run();
        let args = session.parser.args(buffer);
        if args.is_empty() {
            // An empty line is a command all the same, to what lasts for the next one.
            let Session { client, out, .. } = session;
            begin_reply(client);
            take_back_unwanted(client, out, None);
            forget_caching(client);
            return;
        }
        if session.parser.is_out_of_memory() {
            self.core.stats.error("OOM");
            let Session { client, out, .. } = session;
            let mark = out.mark();
            begin_reply(client);
            Reply { out, resp3: client.resp3 }.error(&Error::OutOfMemory);
            take_back_unwanted(client, out, Some(mark));
            return;
        }
        let Session { client, out, .. } = session;
        self.execute_in_full(client, out, args);
        if !self.keyspace.ready.is_empty() {
            self.serve_ready_after(session);
        }
        while let Some((id, why)) = self.core.unblock.pop() {
            self.unblock(id, why);
        }
    }

    /// Carries out a command of any session, with CLIENT REPLY OFF or SKIP too.
    pub(super) fn execute_in_full(&mut self, client: &mut Client, out: &mut Output, args: Args<'_>) {
        begin_reply(client);
        let mark = self.execute(client, out, args);
        take_back_unwanted(client, out, mark);
        if !client.pushes.is_empty() {
            out.append(&mut client.pushes);
        }
    }

    /// Checks, carries out and answers one command; returns where the reply begins, if there is one. Pushes that it caused are still to be
    /// sent.
    fn execute(&mut self, client: &mut Client, out: &mut Output, args: Args<'_>) -> Option<Mark> {
        let tracks = client.tracking.is_some();
        if tracks {
            self.keyspace.tracking.author = Some(client.handle);
        }
        let verdict = match find(&self.core, args) {
            Ok(entry) => self.check(client, entry, args).map(|v| (v, entry)),
            Err(e) => {
                if args.is(0, "post") || args.is(0, "host:") {
                    self.turn_away_http(client);
                    return None;
                }
                // It is known, and only the number of arguments is wrong.
                if let Some(entry) = lookup(&self.core, args) {
                    self.count_rejected(entry);
                }
                Err(e)
            }
        };
        // What was evicted to make room is said first.
        if !client.pushes.is_empty() {
            out.append(&mut client.pushes);
        }
        let mark = out.mark();
        let mut reply = Reply { out, resp3: client.resp3 };
        let mut ran = None;
        // Commands inside may switch replies off and on: EXEC takes back what is not wanted itself.
        let carries_out = client.multi.as_ref().is_some_and(|multi| !multi.failed);
        match verdict {
            Ok((Verdict::Run, entry)) => {
                self.run(client, reply, entry, args);
                ran = Some(entry.command);
            }
            Ok((Verdict::Queued, _)) => reply.simple("QUEUED"),
            Ok((Verdict::Hold, _)) => {}
            Err(e) => {
                let e = self.fail_transaction(client, args, e);
                self.core.stats.error(e.code());
                reply.error(&e);
            }
        }
        if tracks {
            self.after_tracked(client, ran, args);
        }
        let own = ran.is_some_and(|c| answers_with_pushes(c) || (carries_out && c.name == "exec"));
        (!own).then_some(mark)
    }

    /// Closes the connection of a client that speaks HTTP: a browser that a foreign page sent here must not get as far as the
    /// commands in the body.
    #[cold]
    fn turn_away_http(&mut self, client: &mut Client) {
        log::warn!("client {} ({}) speaks HTTP, perhaps to attack this server; closed", client.id, client.peer);
        self.keyspace.tracking.author = None;
        client.fate = Fate::Abort;
    }

    /// A refused command makes the transaction that is being queued fail; a refused EXEC ends it.
    fn fail_transaction(&mut self, client: &mut Client, args: Args<'_>, error: Error) -> Error {
        if args.is(0, "exec") {
            client.multi = None;
            self.keyspace.unwatch(client);
            // Monitors see the end of the transaction.
            if let Some(entry) = lookup(&self.core, args) {
                self.core.feed_monitors(client, entry.command, args);
            }
            let reason = error.text();
            let reason = reason.strip_prefix("ERR ").unwrap_or(reason);
            return error_text!("EXECABORT Transaction discarded because of: {reason}");
        }
        if let Some(multi) = &mut client.multi {
            multi.failed = true;
        }
        error
    }

    /// The checks that do not depend on the handler, in Redis's order.
    #[inline]
    fn check(&mut self, client: &mut Client, entry: Entry, args: Args<'_>) -> Result<Verdict, Error> {
        let command = entry.command;
        if command.has(flag::PROTECTED)
            && let Some(text) = self.protection(client, entry)
        {
            return self.rejected(entry, Error::Fixed(text));
        }
        if !command.has(flag::NO_AUTH) && self.core.must_authenticate(client) {
            return self.rejected(entry, Error::Fixed("NOAUTH Authentication required."));
        }
        if client.multi.is_some() && command.has(flag::NO_MULTI) {
            return self.rejected(entry, Error::Fixed("ERR Command not allowed inside a transaction"));
        }
        if let Err(e) = self.core.permit(client, entry, args) {
            return self.rejected(entry, e);
        }
        if grows(client, command) && self.core.over_maxmemory() {
            let room = self.make_room();
            if self.keyspace.has_followups() {
                self.follow_up(Some(client));
            }
            match room {
                Room::Enough => {}
                Room::Later if self.may_exceed() => {}
                Room::Later => {
                    self.wait_for_memory(client, command, args);
                    return Ok(Verdict::Hold);
                }
                Room::None => return self.rejected(entry, Error::OutOfMemory),
            }
        }
        if client.is_plain() && self.core.pause.is_off() {
            return Ok(Verdict::Run);
        }
        if client.is_subscribed() && !client.resp3 && !allowed_when_subscribed(entry) {
            let e = error_text!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                entry.full_name()
            );
            return self.rejected(entry, e);
        }
        if client.monitor && command.has(flag::WRITE | flag::READONLY | flag::MAY_REPLICATE) {
            return self.rejected(entry, Error::Fixed("ERR Replica can't interact with the keyspace"));
        }
        if self.is_paused(client, command) {
            self.hold_back(client, command, args);
            return Ok(Verdict::Hold);
        }
        if let Some(multi) = &mut client.multi
            // SLOWLOG RESET and LATENCY RESET are none of these.
            && (entry.container.is_some()
                || !matches!(command.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset"))
        {
            multi.queue.push((command, args.to_owned()));
            return Ok(Verdict::Queued);
        }
        Ok(Verdict::Run)
    }

    /// Why a protected command is not allowed, if it is not: DEBUG, or a subcommand of MODULE.
    fn protection(&self, client: &Client, entry: Entry) -> Option<&'static str> {
        if entry.container.is_some() {
            return Some(commands::modules::NOT_ALLOWED);
        }
        (!self.core.config.debug_command.allows(client.peer)).then_some(commands::debug::NOT_ALLOWED)
    }

    fn rejected(&mut self, entry: Entry, error: Error) -> Result<Verdict, Error> {
        self.count_rejected(entry);
        Err(error)
    }

    /// Counts a command that is refused before it is carried out.
    pub(super) fn count_rejected(&mut self, entry: Entry) {
        if let Some(s) = self.core.stats.commands.get_mut(entry.number) {
            s.rejected += 1;
        }
    }

    /// Whether a command is held back by CLIENT PAUSE or a MIGRATE.
    fn is_paused(&self, client: &Client, command: &Command) -> bool {
        let pause = self.core.pause;
        let is_one_of = |flags| {
            let queued = client.multi.as_ref().filter(|_| command.name == "exec");
            command.has(flags) || queued.is_some_and(|m| m.queue.iter().any(|(c, _)| c.has(flags)))
        };
        let by_client =
            pause.until_us > self.core.now_us && (!pause.writes_only || is_one_of(flag::WRITE | flag::MAY_REPLICATE));
        by_client || (pause.migrating && is_one_of(flag::WRITE))
    }

    #[inline]
    fn run(&mut self, client: &mut Client, reply: Reply<'_>, entry: Entry, args: Args<'_>) {
        let db = client.db;
        let touch = !client.no_touch;
        let mut keys = self.keyspace.keys(db);
        keys.touch = touch;
        let mut ctx =
            Ctx { command: entry.command, args, reply, keys, client, core: &mut self.core, deny_blocking: false };
        ctx.freeze(entry.command);
        call(&mut ctx, entry);
        self.keyspace.frozen = false;
        self.core.feed_monitors(client, entry.command, args);
        if self.core.wait_request.is_some() {
            self.block(client, entry.command, args);
        }
        if self.keyspace.has_followups() {
            self.follow_up(Some(client));
        }
    }
}

/// A command begins: one of which CLIENT REPLY SKIP speaks is the present one now.
fn begin_reply(client: &mut Client) {
    if client.reply_mode == ReplyMode::SkipNext {
        client.reply_mode = ReplyMode::SkipThis;
    }
}

/// Whether what a command answers are pushes, which CLIENT REPLY does not hold back.
pub fn answers_with_pushes(command: &Command) -> bool {
    command.group == Group::Pubsub && command.name.ends_with("subscribe")
}

/// Takes the reply that begins at `mark` (None: there is none) back if its client does not want it (CLIENT REPLY).
pub(super) fn take_back_unwanted(client: &mut Client, out: &mut Output, mark: Option<Mark>) {
    match client.reply_mode {
        ReplyMode::On => return,
        // It is answered later; that is when its reply is skipped.
        ReplyMode::SkipThis if client.blocked.is_some() => return,
        ReplyMode::SkipThis => client.reply_mode = ReplyMode::On,
        ReplyMode::SkipThisAndNext => client.reply_mode = ReplyMode::SkipNext,
        ReplyMode::SkipNext | ReplyMode::Off => {}
    }
    mark.into_iter().for_each(|mark| out.truncate(mark));
}

/// The command that the arguments name, with the right number of them.
#[inline]
pub fn find(core: &Core, args: Args<'_>) -> Result<Entry, Error> {
    let Some(entry) = lookup(core, args) else {
        return Err(match core.index.find(args.get(0)) {
            None => unknown_command(args),
            Some(entry) => error_text!(
                "ERR unknown subcommand '{}'. Try {} HELP.",
                text::printable(args.get(1), 128),
                entry.command.name.to_ascii_uppercase()
            ),
        });
    };
    if !entry.command.arity_fits(args.len()) || entry.command.run.is_none() {
        return Err(error_text!("ERR wrong number of arguments for '{}' command", entry.full_name()));
    }
    Ok(entry)
}

/// Whether a command may need more memory: its own doing, that of what EXEC carries out, or the place in a queue.
fn grows(client: &Client, command: &Command) -> bool {
    let Some(multi) = client.multi.as_deref() else { return command.has(flag::DENYOOM) };
    match command.name {
        "exec" => multi.queue.iter().any(|(c, _)| c.has(flag::DENYOOM)),
        "discard" | "reset" | "quit" => false,
        _ => true,
    }
}

/// The command that the arguments name, whatever their number; of a container the subcommand, if there is a second word.
#[inline]
pub fn lookup(core: &Core, args: Args<'_>) -> Option<Entry> {
    let entry = core.index.find(args.get(0))?;
    if entry.command.subcommands.is_empty() || args.len() < 2 {
        return Some(entry);
    }
    let sub = args.get(1);
    let i = entry.command.subcommands.iter().position(|s| s.name.as_bytes().eq_ignore_ascii_case(sub))?;
    Some(Entry { command: &entry.command.subcommands[i], container: Some(entry.command), number: entry.number + 1 + i })
}

fn unknown_command(args: Args<'_>) -> Error {
    let mut beginning = String::new();
    for arg in args.iter_from(1) {
        if beginning.len() >= 128 {
            break;
        }
        let room = 128 - beginning.len();
        beginning.push('\'');
        beginning.push_str(&text::printable(arg, room));
        beginning.push_str("' ");
    }
    error_text!("ERR unknown command '{}', with args beginning with: {beginning}", text::printable(args.get(0), 128))
}

fn allowed_when_subscribed(entry: Entry) -> bool {
    let name = if entry.container.is_some() { "" } else { entry.command.name };
    matches!(
        name,
        "ping"
            | "subscribe"
            | "ssubscribe"
            | "psubscribe"
            | "unsubscribe"
            | "sunsubscribe"
            | "punsubscribe"
            | "quit"
            | "reset"
    )
}

/// Carries a command out and counts it: the handler, its error, its time, its effect. For commands inside of others too
/// (EXEC's, a script's).
pub fn call(ctx: &mut Ctx<'_>, entry: Entry) {
    let begin_ns = ctx.core.machine.monotonic_ns();
    carry_out(ctx, entry);
    // A command that waits for a key is counted when it is served, or gives up; MIGRATE when it is done.
    let counted_later = |request: &WaitRequest| matches!(request.wait, Wait::Key(_) | Wait::Migration);
    if ctx.core.wait_request.as_ref().is_some_and(counted_later) {
        ctx.core.stats.processed -= 1;
        if let Some(s) = ctx.core.stats.commands.get_mut(entry.number) {
            s.calls -= 1;
        }
        return;
    }
    let asleep_us = ctx.core.asleep_until_us.saturating_sub(ctx.core.now_us);
    let took_ns = ctx.core.machine.monotonic_ns().saturating_sub(begin_ns);
    ctx.core.took(ctx.client, ctx.args, entry, took_ns.saturating_add(asleep_us.saturating_mul(1_000)));
}

/// The same without the time.
#[inline(always)]
pub(super) fn carry_out(ctx: &mut Ctx<'_>, entry: Entry) {
    let Some(handler) = entry.command.run else { return };
    let dirty = ctx.keys.space.dirty;
    ctx.command = entry.command;
    let result = handler(ctx);
    ctx.core.stats.processed += 1;
    ctx.client.commands += 1;
    ctx.client.last_command = Some(entry.command);
    if let Some(s) = ctx.core.stats.commands.get_mut(entry.number) {
        s.calls += 1;
    }
    if let Err(e) = result {
        ctx.core.stats.error(e.code());
        if let Some(s) = ctx.core.stats.commands.get_mut(entry.number) {
            s.failed += 1;
        }
        ctx.reply.error(&e);
    }
    if ctx.keys.space.effects_wanted || ctx.keys.space.effect_form == EffectForm::Replaced {
        log_effect(ctx.keys.space, ctx.client.db, entry.command, ctx.args, dirty);
    }
}

/// Adds the command itself to the effects, if it changed something and has not described that otherwise.
fn log_effect(space: &mut Keyspace, db: usize, command: &Command, args: Args<'_>, dirty_before: u64) {
    let form = core::mem::take(&mut space.effect_form);
    if form == EffectForm::Verbatim
        && space.effects_wanted
        && space.dirty != dirty_before
        && command.has(flag::WRITE | flag::MAY_REPLICATE)
    {
        space.effects.push(Effect { db, args: args.to_owned() });
    }
}
