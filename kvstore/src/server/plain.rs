//! The short way of most commands: one that deals with keys or only answers, from a session about which nothing is out of
//! the ordinary.
//!
//! It leaves out what cannot apply, and nothing else: what it does not take goes through [`dispatch`](super::dispatch).

use super::Server;
use super::dispatch::{call, carry_out};
use crate::command::flag;
use crate::commands::table::Way;
use crate::ctx::Ctx;
use crate::reply::Reply;
use crate::session::Session;

impl Server {
    /// Whether simple commands of this session go the short way. They do not change that; other commands may.
    #[inline]
    pub(super) fn is_plain(&self, session: &Session) -> bool {
        session.client.is_plain() && self.core.is_plain()
    }

    /// Carries out the command that the parser found in `buffer`, if it is a simple command against which nothing speaks.
    /// False: it is something else, and nothing was done.
    #[inline]
    pub(super) fn process_plain(&mut self, session: &mut Session, buffer: &[u8]) -> bool {
        let args = session.parser.args(buffer);
        let Some((entry, way)) = self.core.index.find_simple(args) else { return false };
        let command = entry.command;
        if !command.arity_fits(args.len())
            || session.parser.is_out_of_memory()
            || (command.has(flag::DENYOOM) && self.core.over_maxmemory())
        {
            return false;
        }
        let Session { client, out, .. } = session;
        let mut keys = self.keyspace.keys(client.db);
        keys.touch = !client.no_touch;
        let reply = Reply { out, resp3: client.resp3 };
        let mut ctx = Ctx { command, args, reply, keys, client, core: &mut self.core, deny_blocking: false };
        if way == Way::Quick && !ctx.core.config.exact_times {
            ctx.core.join_run(entry.number);
            carry_out(&mut ctx, entry);
        } else {
            ctx.core.end_run();
            call(&mut ctx, entry);
        }
        if self.keyspace.has_followups() {
            self.follow_up(Some(client));
            // What other sessions redirect to this one.
            if !client.pushes.is_empty() {
                out.append(&mut client.pushes);
            }
            if !self.keyspace.ready.is_empty() {
                self.serve_ready_after(session);
            }
        }
        true
    }
}
