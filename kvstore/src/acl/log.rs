//! What was refused lately, for ACL LOG.

use super::Context;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;

/// Entries that are alike and no further apart than this are counted as one, in ms.
const MERGE_WITHIN_MS: i64 = 60_000;
/// How many of the newest entries are looked at for one that is alike.
const MERGE_WITH: usize = 10;
/// Most bytes of a name that are kept: a key can be as long as memory allows.
const MAX_NAME: usize = 4_096;

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Name and password were wrong.
    Auth,
    /// The command is not allowed.
    Command,
    /// A key is not.
    Key,
    /// A channel is not.
    Channel,
}

impl Reason {
    /// Each, in the order in which INFO counts them.
    pub const ALL: [Self; 4] = [Self::Auth, Self::Command, Self::Key, Self::Channel];

    /// As ACL LOG names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
        }
    }
}

/// Something that was refused, once or several times.
#[derive(Debug)]
pub struct LogEntry {
    /// How often.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command, key or channel.
    pub object: Box<[u8]>,
    /// The user, or the name that was tried.
    pub user: Box<[u8]>,
    /// The session that tried last, as CLIENT LIST shows it.
    pub client: String,
    /// Number of the entry since the start.
    pub id: u64,
    /// When it first happened, Unix time in ms.
    pub created_ms: i64,
    /// When it last happened, Unix time in ms.
    pub updated_ms: i64,
}

impl LogEntry {
    /// Something that happened for the first time.
    pub fn new(reason: Reason, context: Context, object: &[u8], user: &[u8], client: String, now_ms: i64) -> Self {
        let kept = |name: &[u8]| Box::from(&name[..name.len().min(MAX_NAME)]);
        let (object, user) = (kept(object), kept(user));
        Self { count: 1, reason, context, object, user, client, id: 0, created_ms: now_ms, updated_ms: now_ms }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && (self.updated_ms - other.updated_ms).abs() <= MERGE_WITHIN_MS
            && self.object == other.object
            && self.user == other.user
    }
}

/// The log, and counters that nothing resets.
#[derive(Debug, Default)]
pub struct AclLog {
    /// Newest first.
    entries: VecDeque<LogEntry>,
    next_id: u64,
    counts: [u64; Reason::ALL.len()],
}

impl AclLog {
    /// How often something was refused for this reason.
    pub const fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    /// The entries, newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// Forgets the entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Counts and logs; at most `max_len` entries are kept.
    pub fn add(&mut self, mut new: LogEntry, max_len: usize) {
        self.counts[new.reason as usize] += 1;
        if max_len > 0 {
            let like = self.entries.iter().take(MERGE_WITH).position(|old| old.is_like(&new));
            match like.and_then(|at| self.entries.remove(at)) {
                Some(old) => {
                    (new.count, new.id, new.created_ms) = (old.count + 1, old.id, old.created_ms);
                    self.entries.push_front(new);
                    return;
                }
                None => {
                    new.id = self.next_id;
                    self.next_id += 1;
                    self.entries.push_front(new);
                }
            }
        }
        self.entries.truncate(max_len);
    }
}
