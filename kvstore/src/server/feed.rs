//! Bytes in: from what a session received to commands.

use super::Server;
use crate::error::Error;
use crate::reply::Reply;
use crate::session::parser::{Limits, Step};
use crate::session::{ClientId, Fate, ReplyMode, Session};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most input that is kept for a session that is stopped; what comes beyond it stays with the platform, in bytes.
const KEPT_WHILE_STOPPED: usize = 64 * 1024;
/// Bytes that are first appended to a command that was not complete; more with every try.
const APPEND: usize = 512;

/// What became of some input.
enum Input {
    /// So many bytes were used.
    Used(usize),
    /// There is something to be seen to after so many bytes: the session was stopped, or input goes on otherwise.
    Turn(usize),
}

impl Server {
    /// Bytes arrived from a session's peer. Carries out the commands in them and returns how many bytes were taken; the
    /// others are to be offered again when [`next_ready`](Self::next_ready) names the session or with the next arrival.
    /// With no bytes it goes on with input that was kept.
    pub fn feed(&mut self, id: ClientId, bytes: &[u8]) -> usize {
        if self.core.asleep_until_us != 0 {
            return self.hold(id);
        }
        let Some(mut session) = self.core.clients.take(id) else { return bytes.len() };
        self.begin(&mut session);
        let taken = self.feed_session(&mut session, bytes);
        session.client.bytes_in += taken as u64;
        self.core.stats.bytes_in += taken as u64;
        self.core.stats.reads += u64::from(taken > 0);
        self.finish(session);
        taken
    }

    /// While the engine sleeps nothing is taken; the platform is told when it has woken up.
    fn hold(&mut self, id: ClientId) -> usize {
        if let Some(s) = self.core.clients.get_mut(id)
            && !s.client.held
        {
            s.client.held = true;
            self.core.held.push(id);
        }
        0
    }

    /// Lends a session what it needs while it is served.
    #[inline]
    pub(super) fn begin(&mut self, session: &mut Session) {
        session.client.active_us = self.core.now_us;
        session.out.lend_buffer(|| self.spare_buffers.pop());
        let limit = *self.output_limit.get_or_insert_with(|| self.core.output_limit());
        session.out.set_limit(limit.max(session.out.owned()));
    }

    /// Takes it back, and looks at the output's limits.
    #[inline]
    pub(super) fn finish(&mut self, mut session: Box<Session>) {
        self.core.leave_run();
        session.parser.give_back(&mut self.spare_spans);
        if session.out.chunks() > 0 || session.out.overflowed() {
            self.output_limit = None;
            self.check_output(&mut session);
        }
        if let Some(buffer) = session.out.take_buffer() {
            self.spare_buffers.push(buffer);
        }
        self.note_memory(&mut session);
        self.core.clients.put_back(session);
    }

    #[inline]
    fn feed_session(&mut self, session: &mut Session, bytes: &[u8]) -> usize {
        let mut used = 0;
        let goes_on = session.client.is_stopped() || session.is_inside_command();
        let express = !goes_on && self.is_plain(session);
        if express {
            used = self.go_express(session, bytes);
            if used == bytes.len() {
                return used;
            }
        }
        self.feed_anything(session, bytes, used, express)
    }

    /// Goes on behind the first `used` bytes, which were taken. `tried`: what comes is no express request.
    #[inline(never)]
    fn feed_anything(&mut self, session: &mut Session, bytes: &[u8], mut used: usize, mut tried: bool) -> usize {
        loop {
            if session.client.fate != Fate::Open {
                return bytes.len();
            }
            if session.client.is_stopped() {
                return used + keep(session, &bytes[used..]);
            }
            let rest = &bytes[used..];
            if session.parser.is_filling() {
                if rest.is_empty() {
                    return used;
                }
                used += session.parser.fill(rest);
                continue;
            }
            let input = if !session.is_inside_command() {
                if rest.is_empty() {
                    return used;
                }
                self.run_in_place(session, rest, core::mem::take(&mut tried))
            } else {
                self.run_kept(session, rest)
            };
            match input {
                Input::Used(n) => {
                    used += n;
                    if used == bytes.len() {
                        return used;
                    }
                }
                Input::Turn(n) => used += n,
            }
        }
    }

    #[inline]
    fn limits(&self, session: &Session) -> Limits {
        Limits {
            max_bulk: self.core.config.proto_max_bulk_len,
            auth_required: self.core.must_authenticate(&session.client),
        }
    }

    /// Carries out the commands in a slice that begins with one; keeps what is not complete. `tried`: the first is no express
    /// request.
    fn run_in_place(&mut self, session: &mut Session, bytes: &[u8], mut tried: bool) -> Input {
        session.parser.set_cursor(0);
        let mut start = 0;
        let mut plain = self.is_plain(session);
        loop {
            let rest = bytes.get(start..).unwrap_or_default();
            if plain && !core::mem::take(&mut tried) && self.core.index.find_express(rest).is_some() {
                start += self.go_express(session, rest);
                session.parser.set_cursor(start);
                if start == bytes.len() {
                    return Input::Used(start);
                }
            }
            // What comes is no express request.
            self.roomy = None;
            session.parser.lend(&mut self.spare_spans);
            match session.parser.parse(bytes, self.limits(session)) {
                Step::Command => {
                    start = session.parser.cursor();
                    if plain && self.process_plain(session, bytes) {
                        session.parser.next_command();
                        continue;
                    }
                    self.process(session, bytes);
                    plain = self.is_plain(session);
                    session.parser.next_command();
                    if session.client.is_stopped() {
                        // What follows will be kept, and read from its start.
                        session.parser.set_cursor(0);
                        return Input::Turn(start);
                    }
                }
                Step::Incomplete => {
                    if start < bytes.len() {
                        self.append_query(session, &bytes[start..]);
                        session.parser.rebase(start);
                    }
                    return Input::Used(bytes.len());
                }
                Step::Big(len) => {
                    let cursor = session.parser.cursor();
                    self.append_query(session, &bytes[start..cursor]);
                    session.parser.rebase(start);
                    session.parser.begin_fill(len, self.core.affordable(len));
                    return Input::Turn(cursor);
                }
                Step::Bad => {
                    let error = session.parser.take_error();
                    self.protocol_error(session, &error);
                    return Input::Used(bytes.len());
                }
            }
        }
    }

    /// Goes on with the kept input, to which as much of the new bytes is appended as its last command needs; the rest is
    /// carried out in place.
    fn run_kept(&mut self, session: &mut Session, bytes: &[u8]) -> Input {
        let (mut appended, mut piece) = (0, APPEND);
        let mut query = core::mem::take(&mut session.query);
        self.roomy = None;
        session.parser.lend(&mut self.spare_spans);
        let had = query.len();
        let mut start = 0;
        loop {
            match session.parser.parse(&query, self.limits(session)) {
                Step::Command => {
                    start = session.parser.cursor();
                    self.process(session, &query);
                    session.parser.next_command();
                    if start >= had {
                        // All that was kept is done; the new bytes from here on are done in place.
                        session.parser.set_cursor(0);
                        return Input::Turn(start - had);
                    }
                    if session.client.is_stopped() {
                        keep_from(session, query, start);
                        return Input::Turn(appended);
                    }
                }
                Step::Incomplete => {
                    if appended == bytes.len() {
                        keep_from(session, query, start);
                        return Input::Used(appended);
                    }
                    let n = piece.min(bytes.len() - appended);
                    piece *= 4;
                    if !self.may_append(session, query.len() + n) || query.try_reserve(n).is_err() {
                        self.query_overflow(session);
                        return Input::Used(bytes.len());
                    }
                    query.extend_from_slice(&bytes[appended..appended + n]);
                    appended += n;
                }
                Step::Big(len) => {
                    let cursor = session.parser.cursor();
                    session.parser.begin_fill(len, self.core.affordable(len));
                    // Appended bytes behind the header are read again from the new bytes.
                    let mut behind = Vec::new();
                    if cursor < had {
                        let filled = session.parser.fill(&query[cursor..had]);
                        behind = query[cursor + filled..had].to_vec();
                    }
                    query.truncate(cursor);
                    query.extend_from_slice(&behind);
                    keep_from(session, query, start);
                    return Input::Turn(cursor.saturating_sub(had));
                }
                Step::Bad => {
                    let error = session.parser.take_error();
                    self.protocol_error(session, &error);
                    return Input::Used(bytes.len());
                }
            }
        }
    }

    fn may_append(&self, session: &Session, len: usize) -> bool {
        let big = session.parser.memory_usage();
        len + big <= self.core.config.query_buffer_limit && self.core.affordable(len)
    }

    fn append_query(&mut self, session: &mut Session, bytes: &[u8]) {
        let len = session.query.len() + bytes.len();
        if !self.may_append(session, len) || session.query.try_reserve_exact(bytes.len()).is_err() {
            return self.query_overflow(session);
        }
        session.query.extend_from_slice(bytes);
    }

    /// A session whose input is beyond its limit is closed.
    fn query_overflow(&mut self, session: &mut Session) {
        log::warn!("closing client {} ({}): its query is beyond the limit", session.client.id, session.client.peer);
        self.core.stats.query_limit_closes += 1;
        session.query = Vec::new();
        session.client.fate = Fate::Abort;
    }

    /// Answers what is not the protocol, unless replies are not wanted, and closes.
    fn protocol_error(&mut self, session: &mut Session, error: &Error) {
        log::info!("client {} ({}): {}", session.client.id, session.client.peer, error.text());
        self.core.stats.error(error.code());
        if session.client.reply_mode == ReplyMode::On {
            Reply { out: &mut session.out, resp3: session.client.resp3 }.error(error);
        }
        session.query = Vec::new();
        session.client.fate = Fate::CloseAfterOutput;
    }
}

/// Keeps input from `start` on, where a command begins.
fn keep_from(session: &mut Session, mut query: Vec<u8>, start: usize) {
    query.drain(..start);
    if query.is_empty() {
        query = Vec::new();
    }
    session.parser.rebase(start);
    session.query = query;
}

/// Keeps input of a stopped session, up to a bound; returns how much.
fn keep(session: &mut Session, bytes: &[u8]) -> usize {
    let n = KEPT_WHILE_STOPPED.saturating_sub(session.query.len()).min(bytes.len());
    if n > 0 && session.query.try_reserve(n).is_ok() {
        session.query.extend_from_slice(&bytes[..n]);
        return n;
    }
    0
}
