//! A MIGRATE under way, in bounded steps.
//!
//! The keys go out as RESTORE commands, one after the other without waiting for answers; each that the other server has
//! acknowledged is removed here. Meanwhile other clients' writes wait, as under CLIENT PAUSE WRITE, so that what is removed
//! is what was sent. So there is one migration at a time: MIGRATE is a write too. See `docs/decisions/migrate.md`.

use super::Server;
use crate::blocking::Wait;
use crate::core::Core;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::event;
use crate::links::{INPUT_KEPT, LinkError, LinkId, LinkState};
use crate::rdb::save;
use crate::reply::Reply;
use crate::session::args::OwnedArgs;
use crate::session::{ClientId, Endpoint, Fate};
use crate::text;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The other server's address makes no sense, or there is no way to it.
pub(crate) const CONNECTING: Error = Error::Fixed("IOERR error or timeout connecting to the client");
const WRITING: Error = Error::Fixed("IOERR error or timeout writing to target instance");
const READING: Error = Error::Fixed("IOERR error or timeout reading to target instance");

/// Keys that are put into their serialized form in one step.
const KEYS_PER_STEP: usize = 256;
/// Bytes that are waiting to be sent when no more keys are taken.
const QUEUED: usize = 256 * 1024;
/// Answers that are read in one step, each of which can remove a key.
const ANSWERS_PER_STEP: usize = 1_024;
/// Most of an answer that is looked at, in bytes.
const ANSWER_LEN: usize = 1_024;

/// How long a connection is kept for the next MIGRATE to the same server, in us, and how many are.
const SPARE_FOR_US: u64 = 10_000_000;
const SPARE_LINKS: usize = 64;

/// A connection that a MIGRATE has left.
#[derive(Debug)]
pub struct SpareLink {
    link: LinkId,
    to: Endpoint,
    /// As whom it has logged in there: nobody else is to go on with it.
    auth: OwnedArgs,
    /// The database that is selected there; None: it is not known.
    db: Option<i64>,
    until_us: u64,
}

/// What a MIGRATE says.
#[derive(Debug)]
pub struct Order {
    /// The other server.
    pub to: Endpoint,
    /// The AUTH command for it; empty: none.
    pub auth: OwnedArgs,
    /// Number of the database there.
    pub target_db: i64,
    /// Longest time without any progress, in us.
    pub timeout_us: u64,
    /// Whether the keys stay here.
    pub copy: bool,
    /// Whether keys there are overwritten.
    pub replace: bool,
    /// The database here.
    pub db: usize,
    /// The keys, all of which are there.
    pub keys: Vec<Box<[u8]>>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Migration {
    order: Order,
    client: ClientId,
    /// Whether it tracks keys: then it may not want to be told of its own changes.
    tracks: bool,
    link: LinkId,
    /// A broken connection was opened anew.
    retried: bool,
    /// The database that is selected at the other end of a connection that was used before.
    selected: Option<i64>,
    /// What goes before the keys is queued.
    begun: bool,
    /// The next key to send.
    next: usize,
    /// Answers to AUTH and SELECT that are not in.
    preface: usize,
    /// One of those was an error, so that the keys went to the wrong place, or nowhere.
    misdirected: bool,
    /// Keys that were sent and not answered.
    pending: VecDeque<usize>,
    /// Keys that were answered.
    answered: usize,
    /// The first error that the other server answered with.
    refusal: Option<Error>,
    /// Bytes sent, and answers of both kinds read, when it was last looked.
    progress: (u64, usize, usize),
    deadline_us: u64,
}

/// What a step came to.
enum Step {
    /// It goes on at this time, if not when something comes in.
    Wait(u64),
    Done(Result<(), Error>),
}

impl Core {
    /// Has a migration begin: from now on writes wait.
    pub(crate) fn begin_migration(&mut self, new: impl FnOnce(&mut Core) -> Migration) {
        let migration = new(self);
        self.migration = Some(Box::new(migration));
        self.pause.migrating = true;
    }

    /// A connection that an earlier MIGRATE has left, and the database that is selected there.
    fn take_spare_link(&mut self, order: &Order) -> Option<(LinkId, Option<i64>)> {
        let (links, auth) = (&self.links, order.auth.args());
        let fits = |spare: &SpareLink| {
            spare.to == order.to
                && spare.auth.args().iter_from(0).eq(auth.iter_from(0))
                && links.get(spare.link).is_some_and(|link| link.state == LinkState::Open)
        };
        let at = self.spare_links.iter().position(fits)?;
        let spare = self.spare_links.swap_remove(at);
        Some((spare.link, spare.db))
    }

    /// Keeps a connection for the next MIGRATE.
    fn keep_link(&mut self, job: &mut Migration, db: Option<i64>) {
        if self.spare_links.len() >= SPARE_LINKS {
            let oldest = self.spare_links.remove(0);
            self.links.close(oldest.link, Fate::CloseAfterOutput);
        }
        let auth = core::mem::take(&mut job.order.auth);
        let until_us = self.now_us.saturating_add(SPARE_FOR_US);
        self.spare_links.push(SpareLink { link: job.link, to: job.order.to, auth, db, until_us });
    }

    /// Closes the connections that were kept long enough, or that the other end has closed. Returns when to look again,
    /// monotonic time in us.
    pub(super) fn close_spare_links(&mut self) -> u64 {
        let mut next_us = u64::MAX;
        let Self { links, spare_links, now_us, .. } = self;
        spare_links.retain(|spare| {
            let open = links.get(spare.link).is_some_and(|link| link.state == LinkState::Open && link.input.is_empty());
            let keep = open && spare.until_us > *now_us;
            if keep {
                next_us = next_us.min(spare.until_us);
            } else {
                links.close(spare.link, Fate::CloseAfterOutput);
            }
            keep
        });
        next_us
    }
}

impl Migration {
    /// A migration for a client.
    pub(crate) fn new(core: &mut Core, client: ClientId, tracks: bool, order: Order) -> Self {
        let spare = core.take_spare_link(&order);
        let (link, selected) = spare.unwrap_or_else(|| (core.links.open(order.to, order.timeout_us), None));
        let deadline_us = core.now_us.saturating_add(order.timeout_us);
        Self {
            order,
            client,
            tracks,
            link,
            retried: false,
            selected,
            begun: false,
            next: 0,
            preface: 0,
            misdirected: false,
            pending: VecDeque::new(),
            answered: 0,
            refusal: None,
            progress: (0, 0, 0),
            deadline_us,
        }
    }

    /// From the first key on over a new connection.
    fn begin_again(&mut self, core: &mut Core) {
        core.links.close(self.link, Fate::Abort);
        self.link = core.links.open(self.order.to, self.order.timeout_us);
        self.deadline_us = core.now_us.saturating_add(self.order.timeout_us);
        (self.retried, self.selected) = (true, None);
        (self.begun, self.next, self.preface, self.progress) = (false, 0, 0, (0, 0, 0));
        self.pending.clear();
    }

    /// Queues what goes before the keys.
    fn begin(&mut self, mut to: Reply<'_>) {
        self.begun = true;
        let auth = self.order.auth.args();
        if !auth.is_empty() {
            to.array(auth.len());
            auth.iter_from(0).for_each(|arg| to.bulk(arg));
            self.preface += 1;
        }
        if self.selected != Some(self.order.target_db) {
            to.array(2);
            to.bulk(b"SELECT");
            to.bulk_int(self.order.target_db);
            self.preface += 1;
        }
    }

    /// The answer to AUTH or SELECT.
    fn preface_answered(&mut self, line: &[u8]) {
        self.preface -= 1;
        if let Some(text) = line.strip_prefix(b"-") {
            self.misdirected = true;
            self.refuse(text);
        }
    }

    /// The answer to a RESTORE: the key that it acknowledges.
    fn key_answered(&mut self, line: &[u8]) -> Option<usize> {
        let key = self.pending.pop_front()?;
        self.answered += 1;
        if let Some(text) = line.strip_prefix(b"-") {
            self.refuse(text);
            return None;
        }
        (!self.misdirected).then_some(key)
    }

    fn refuse(&mut self, text: &[u8]) {
        let text = text::printable(text, ANSWER_LEN);
        self.refusal.get_or_insert_with(|| error_text!("ERR Target instance replied with error: {text}"));
    }

    /// Whether everything was sent and answered.
    fn is_complete(&self) -> bool {
        self.next == self.order.keys.len() && self.pending.is_empty() && self.preface == 0
    }

    /// How it ends: what the other server said comes before what became of the connection.
    fn end(&mut self, or: Result<(), Error>) -> Step {
        Step::Done(self.refusal.take().map_or(or, Err))
    }
}

impl Server {
    /// Does the next step of the migration. Returns when to come again, monotonic time in us.
    pub(super) fn migrate_step(&mut self) -> u64 {
        let Some(mut job) = self.core.migration.take() else { return u64::MAX };
        match self.advance(&mut job) {
            Step::Wait(until_us) => {
                self.core.migration = Some(job);
                until_us
            }
            Step::Done(result) => {
                self.end_migration(&mut job, result);
                self.core.now_us
            }
        }
    }

    fn advance(&mut self, job: &mut Migration) -> Step {
        let now = self.core.now_us;
        let Some(link) = self.core.links.get_mut(job.link) else { return job.end(Err(READING)) };
        match link.state {
            LinkState::Wanted | LinkState::Dialing if now >= job.deadline_us => return job.end(Err(WRITING)),
            LinkState::Wanted | LinkState::Dialing => return Step::Wait(job.deadline_us),
            LinkState::Failed(LinkError::Refused) => return job.end(Err(WRITING)),
            LinkState::Failed(LinkError::Unreachable) => return job.end(Err(CONNECTING)),
            LinkState::Open | LinkState::Ended => {}
        }
        if !job.begun {
            job.begin(Reply { out: &mut link.out, resp3: false });
            self.core.links.list(job.link);
        }
        let more_keys = match self.send_keys(job) {
            Ok(more) => more,
            Err(e) => return job.end(Err(e)),
        };
        let more_answers = match self.read_answers(job) {
            Ok(more) => more,
            Err(e) => return job.end(Err(e)),
        };
        if job.is_complete() {
            return job.end(Ok(()));
        }
        if more_answers {
            return Step::Wait(now);
        }
        let Some(link) = self.core.links.get(job.link) else { return job.end(Err(READING)) };
        let failure = if job.next < job.order.keys.len() || !link.out.is_empty() { WRITING } else { READING };
        if link.state == LinkState::Ended {
            // Nothing is known to have been carried out: a connection that the other server had closed by then gets another
            // chance, as in Redis.
            if job.answered == 0 && job.refusal.is_none() && !job.retried {
                job.begin_again(&mut self.core);
                return Step::Wait(job.deadline_us);
            }
            return job.end(Err(failure));
        }
        let progress = (link.sent, job.answered, job.preface);
        if progress != job.progress {
            (job.progress, job.deadline_us) = (progress, now.saturating_add(job.order.timeout_us));
        } else if now >= job.deadline_us {
            return job.end(Err(failure));
        }
        Step::Wait(if more_keys { now } else { job.deadline_us })
    }

    /// Queues some keys. Returns whether more can be queued at once.
    fn send_keys(&mut self, job: &mut Migration) -> Result<bool, Error> {
        let now_ms = self.keyspace.now_ms;
        let Some(link) = self.core.links.get_mut(job.link) else { return Ok(false) };
        let mut to = Reply { out: &mut link.out, resp3: false };
        let mut queued = false;
        for _ in 0..KEYS_PER_STEP {
            if to.out.len() >= QUEUED {
                break;
            }
            let Some(key) = job.order.keys.get(job.next) else { break };
            job.next += 1;
            queued = true;
            let mut keys = self.keyspace.keys(job.order.db);
            // Its time has come since.
            let Some(item) = keys.peek(key) else { continue };
            let ttl_ms = item.deadline().map_or(0, |at| (at - now_ms).max(1));
            let payload = Arc::new(save::dump(item)?);
            job.pending.try_reserve(1)?;
            job.pending.push_back(job.next - 1);
            to.array(if job.order.replace { 5 } else { 4 });
            to.bulk(b"RESTORE");
            to.bulk(key);
            to.bulk_int(ttl_ms);
            to.bulk_shared(&payload);
            if job.order.replace {
                to.bulk(b"REPLACE");
            }
            if to.out.overflowed() {
                return Err(Error::OutOfMemory);
            }
        }
        let more = to.out.len() < QUEUED && job.next < job.order.keys.len();
        if queued {
            self.core.links.list(job.link);
        }
        Ok(more)
    }

    /// Reads some answers, and removes the keys that they acknowledge. Returns whether there may be more.
    fn read_answers(&mut self, job: &mut Migration) -> Result<bool, Error> {
        let Some(link) = self.core.links.get_mut(job.link) else { return Ok(false) };
        let mut input = core::mem::take(&mut link.input);
        let mut used = 0;
        let mut more = true;
        for _ in 0..ANSWERS_PER_STEP {
            let rest = &input[used..];
            let end = rest.iter().position(|b| *b == b'\n').filter(|_| job.preface + job.pending.len() > 0);
            let Some(end) = end else {
                more = false;
                break;
            };
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            used += end + 1;
            if job.preface > 0 {
                job.preface_answered(line);
            } else if let Some(at) = job.key_answered(line)
                && !job.order.copy
            {
                self.remove_migrated(job, at);
            }
        }
        if used == 0 && input.len() >= INPUT_KEPT {
            return Err(READING);
        }
        input.drain(..used);
        if let Some(link) = self.core.links.get_mut(job.link) {
            link.input = input;
        }
        // There may be more where there was no room before.
        if used > 0 {
            self.core.links.list(job.link);
        }
        Ok(more)
    }

    /// Removes a key that the other server has.
    fn remove_migrated(&mut self, job: &Migration, at: usize) {
        let key = &*job.order.keys[at];
        self.keyspace.tracking.author = job.tracks.then_some(job.client);
        let mut keys = self.keyspace.keys(job.order.db);
        keys.remove(key);
        keys.modified(key);
        keys.notify(event::GENERIC, "del", key);
        keys.logged(&[b"DEL", key]);
        self.keyspace.tracking.author = None;
    }

    /// Counts the command now that it is known what it took.
    fn count_migration(&mut self, client: ClientId, failed: bool) {
        let core = &mut self.core;
        let Some(entry) = core.index.find(b"migrate") else { return };
        core.stats.processed += 1;
        if let Some(s) = core.stats.commands.get_mut(entry.number) {
            s.calls += 1;
            s.failed += u64::from(failed);
        }
        let Some(session) = core.clients.take(client) else { return };
        if let Some(blocked) = session.client.blocked.as_ref().filter(|blocked| blocked.wait == Wait::Migration) {
            let took_us = core.now_us.saturating_sub(blocked.since_us);
            core.took(&session.client, blocked.args.args(), entry, took_us.saturating_mul(1_000));
        }
        core.clients.put_back(session);
    }

    /// Answers, and lets those go on who waited.
    fn end_migration(&mut self, job: &mut Migration, result: Result<(), Error>) {
        if job.is_complete() {
            self.core.keep_link(job, result.is_ok().then_some(job.order.target_db));
        } else {
            self.core.links.close(job.link, Fate::Abort);
        }
        self.core.pause.migrating = false;
        if let Err(e) = &result {
            self.core.stats.error(e.code());
        }
        self.count_migration(job.client, result.is_err());
        self.answer_waiting(job.client, |_, reply| match result {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(&e),
        });
        self.release_held();
    }
}
