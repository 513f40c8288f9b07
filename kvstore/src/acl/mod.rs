//! Access control: who the users are, what each may do, and a log of what was refused.
//!
//! A [`User`] has flags, passwords and [`Selector`]s; what one of the selectors allows as a whole is allowed. Sessions name
//! their user by [`UserId`]. A session whose user may do everything carries that as a flag of its own
//! ([`Client::unrestricted`]), so that it pays nothing; for the others commands are a bitmap by command number.
//!
//! Semantics and texts: <https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/>, Redis 7.2.

mod denial;
mod log;
mod password;
mod rules;
mod selector;
mod user;

pub use denial::{Context, Denial};
pub use log::{AclLog, LogEntry, Reason};
pub use password::generate as generate_password;
pub use rules::{RuleError, has_spaces};
pub use selector::Selector;
pub use user::User;

use crate::config::Config;
use crate::core::Core;
use crate::error::Error;
use crate::error_text;
use crate::session::{Client, ClientId, Fate, Subscriptions};
use crate::text::{printable, split_arguments};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use rules::merge_selectors;

/// A user as sessions name it. A user's sessions are ended before its number can be another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserId(u32);

impl UserId {
    /// The user "default", which always exists.
    pub const DEFAULT: Self = Self(0);
}

/// The users and what is kept about them.
#[derive(Debug)]
pub struct Acl {
    users: Vec<Option<Box<User>>>,
    /// Places in `users` that nobody has.
    free: Vec<UserId>,
    names: BTreeMap<Box<[u8]>, UserId>,
    /// What was refused lately.
    pub log: AclLog,
}

impl Acl {
    /// The user "default" alone: it may do everything, with `requirepass` as its password if that is set.
    pub fn new(config: &Config) -> Self {
        let mut acl = Self {
            users: alloc::vec![Some(Box::new(User::unlimited()))],
            free: Vec::new(),
            names: BTreeMap::new(),
            log: AclLog::default(),
        };
        acl.names.insert(DEFAULT_NAME.into(), UserId::DEFAULT);
        acl.set_default_password(&config.requirepass);
        acl
    }

    /// Sets the one password of the user "default"; an empty one lets everybody in.
    pub fn set_default_password(&mut self, password: &[u8]) {
        if let Some(Some(user)) = self.users.first_mut() {
            user.set_only_password(password);
        }
    }

    /// The user of this name.
    pub fn find(&self, name: &[u8]) -> Option<UserId> {
        self.names.get(name).copied()
    }

    /// A user.
    pub fn user(&self, id: UserId) -> Option<&User> {
        self.users.get(id.0 as usize)?.as_deref()
    }

    /// A user's name.
    pub fn name(&self, id: UserId) -> &[u8] {
        self.user(id).map_or(&[], |u| &u.name)
    }

    /// The names of all users, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.names.keys().map(|name| &**name)
    }

    /// Whether sessions are let in without a word: "default" is on and takes any password.
    pub fn is_open(&self) -> bool {
        self.user(UserId::DEFAULT).is_some_and(|u| u.enabled && u.no_password)
    }

    /// Whether "default" takes any password.
    pub fn default_has_no_password(&self) -> bool {
        self.user(UserId::DEFAULT).is_some_and(|u| u.no_password)
    }

    /// The user that name and password are right for.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<UserId> {
        let id = self.find(name)?;
        self.user(id)?.accepts(password).then_some(id)
    }

    /// Whether the user may do everything.
    fn is_unrestricted(&self, id: UserId) -> bool {
        self.user(id).is_some_and(User::is_unrestricted)
    }

    /// What a user becomes by some rules; nothing is changed yet. A user that does not exist begins with nothing.
    pub fn changed(&self, config: &Config, name: &[u8], rules: &[&[u8]]) -> Result<User, Error> {
        let merged = merge_selectors(rules).map_err(|start| {
            error_text!("ERR Unmatched parenthesis in acl selector starting at '{}'.", printable(start, usize::MAX))
        })?;
        let existing = self.find(name).and_then(|id| self.user(id));
        let mut user = existing.cloned().unwrap_or_else(|| User::new(name, config.pubsub_default_open));
        for rule in &merged {
            user.apply(rule, config.pubsub_default_open).map_err(|e| {
                error_text!("ERR Error in ACL SETUSER modifier '{}': {}", printable(rule, usize::MAX), e.text())
            })?;
        }
        Ok(user)
    }

    /// Puts a user in its place, or in a new one.
    fn put(&mut self, user: User) -> UserId {
        if let Some(id) = self.find(&user.name) {
            self.users[id.0 as usize] = Some(Box::new(user));
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.users.push(None);
            UserId(self.users.len() as u32 - 1)
        });
        self.names.insert(user.name.clone(), id);
        self.users[id.0 as usize] = Some(Box::new(user));
        id
    }

    /// A user as a line of the configuration gives it: its name, then rules, all with spaces between. "default" begins with
    /// nothing, as others do.
    pub fn load(&mut self, config: &Config, line: &str) -> Result<(), Error> {
        let wrong = |why: &str| error_text!("ERR bad value '{line}' for 'user': {why}");
        let words = split_arguments(line.as_bytes()).ok_or_else(|| wrong("unbalanced quotes"))?;
        let Some((name, rules)) = words.split_first() else { return Err(wrong("a name is missing")) };
        if has_spaces(name) {
            return Err(wrong("Spaces not allowed in ACL usernames"));
        }
        if self.find(name).is_some_and(|id| id != UserId::DEFAULT) {
            return Err(wrong("Duplicate user found. A user can only be defined once in config files"));
        }
        let rules: Vec<&[u8]> = core::iter::once(&b"reset"[..]).chain(rules.iter().map(Vec::as_slice)).collect();
        let user = self.changed(config, name, &rules).map_err(|e| wrong(e.text().trim_start_matches("ERR ")))?;
        if !user.enabled {
            ::log::warn!("the user '{}' is disabled (there is no 'on' in its description)", printable(name, 128));
        }
        self.put(user);
        Ok(())
    }
}

/// Name of the user that sessions begin as.
const DEFAULT_NAME: &[u8] = b"default";

impl Core {
    /// Whether a session has to authenticate before anything else.
    #[inline]
    pub fn must_authenticate(&self, client: &Client) -> bool {
        !client.authenticated && !self.acl.is_open()
    }

    /// Makes a session a user's.
    pub fn become_user(&self, client: &mut Client, user: UserId, authenticated: bool) {
        client.user = user;
        client.authenticated = authenticated;
        client.unrestricted = authenticated && self.acl.is_unrestricted(user);
    }

    /// Makes a session what it is when it connects: the user "default", let in if that needs no password.
    pub fn become_default(&self, client: &mut Client) {
        self.become_user(client, UserId::DEFAULT, self.acl.is_open());
    }

    /// Creates or replaces a user. Sessions that listen to channels which it may no longer listen to are ended.
    pub fn set_user(&mut self, present: &mut Client, user: User) {
        let lost = self.acl.find(&user.name).and_then(|id| self.acl.user(id)).and_then(|old| user.channels_lost(old));
        let id = self.acl.put(user);
        let unrestricted = self.acl.is_unrestricted(id);
        let mut ended: Vec<ClientId> = Vec::new();
        let mut look_at = |client: &mut Client| {
            if client.user == id {
                client.unrestricted = client.authenticated && unrestricted;
                if let Some(left) = &lost
                    && client.subscriptions.as_ref().is_some_and(|s| listens_elsewhere(s, left))
                {
                    ended.push(client.handle);
                }
            }
        };
        look_at(present);
        self.clients.iter_mut().for_each(|s| look_at(&mut s.client));
        self.end_sessions(present, &ended);
    }

    /// Removes a user and ends its sessions; false if there is none of this name.
    pub fn remove_user(&mut self, present: &mut Client, name: &[u8]) -> bool {
        let Some(id) = self.acl.names.remove(name) else { return false };
        self.acl.users[id.0 as usize] = None;
        self.acl.free.push(id);
        let of_user = |c: &Client| (c.user == id).then_some(c.handle);
        let ended: Vec<ClientId> =
            of_user(present).into_iter().chain(self.clients.iter().filter_map(|s| of_user(&s.client))).collect();
        self.end_sessions(present, &ended);
        true
    }

    /// Ends sessions that lost their right to be there: the present one after its reply.
    fn end_sessions(&mut self, present: &mut Client, ended: &[ClientId]) {
        let disown = |client: &mut Client| {
            (client.user, client.authenticated, client.unrestricted) = (UserId::DEFAULT, false, false);
        };
        for &id in ended {
            if id == present.handle {
                disown(present);
                present.fate = Fate::CloseAfterOutput;
            } else {
                if let Some(s) = self.clients.get_mut(id) {
                    disown(&mut s.client);
                }
                self.clients.end(id, Fate::Abort);
            }
        }
    }
}

/// Whether some subscription is to something that none of the patterns allows.
fn listens_elsewhere(subscriptions: &Subscriptions, allowed: &[Box<[u8]>]) -> bool {
    let literally = |name: &[u8]| allowed.iter().any(|p| **p == *name);
    let matching = |name: &[u8]| allowed.iter().any(|p| crate::glob::matches(p, name));
    !(subscriptions.patterns.iter().all(|p| literally(p))
        && subscriptions.channels.iter().chain(&subscriptions.shards).all(|c| matching(c)))
}
