//! What is said of a command that a user may not carry out.

use super::{LogEntry, Reason, UserId};
use crate::commands::table::Entry;
use crate::core::Core;
use crate::error::Error;
use crate::error_text;
use crate::server::dispatch;
use crate::session::Client;
use crate::session::args::Args;
use crate::text::printable;
use alloc::vec::Vec;

/// Why a command is refused. Ordered by how much it says: of several selectors' reasons the greatest is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The user may not use the command.
    Command,
    /// The user may not do that to the key at this argument.
    Key(usize),
    /// The user may not use the channel at this argument.
    Channel(usize),
}

/// Where a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// By itself.
    TopLevel,
    /// While it was queued for a transaction, or carried out in one.
    Multi,
}

impl Context {
    /// Where a session's commands are.
    pub fn of(client: &Client) -> Self {
        if client.multi.is_some() { Self::Multi } else { Self::TopLevel }
    }
}

impl Denial {
    /// The sentence that ACL DRYRUN answers, which names user, command, key or channel.
    pub fn sentence(self, user: &[u8], entry: Entry, args: Args<'_>) -> Vec<u8> {
        let name = entry.full_name();
        let (verb, object, kind): (&[u8], &[u8], &[u8]) = match self {
            Self::Command => (b"run", name.as_bytes(), b"command"),
            Self::Key(at) => (b"access", args.get(at), b"key"),
            Self::Channel(at) => (b"access", args.get(at), b"channel"),
        };
        [b"User ", user, b" has no permissions to ", verb, b" the '", object, b"' ", kind].concat()
    }

    /// The error reply, which does not name keys or channels.
    fn error(self, user: &[u8], entry: Entry) -> Error {
        match self {
            Self::Command => {
                let (user, command) = (printable(user, usize::MAX), entry.full_name());
                error_text!("NOPERM User {user} has no permissions to run the '{command}' command")
            }
            Self::Key(_) => Error::Fixed("NOPERM No permissions to access a key"),
            Self::Channel(_) => Error::Fixed("NOPERM No permissions to access a channel"),
        }
    }

    /// The error reply to a command that was allowed when it was queued.
    fn error_in_exec(self) -> Error {
        let reason = match self {
            Self::Command => "no permission to execute the command or subcommand",
            Self::Key(_) => "no permission to touch the specified keys",
            Self::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        error_text!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {reason}"
        )
    }
}

impl Core {
    /// Whether the session's user may carry out the command. What is refused is logged and counted.
    #[inline]
    pub fn permit(&mut self, client: &Client, entry: Entry, args: Args<'_>) -> Result<(), Error> {
        if client.unrestricted {
            return Ok(());
        }
        let denied = self.denied(client.user, entry, args);
        denied.map_or(Ok(()), |denial| {
            self.log_denial(client, denial, Context::of(client), entry, args);
            Err(denial.error(self.acl.name(client.user), entry))
        })
    }

    /// The same for a command of a transaction that is being carried out.
    pub fn permit_in_exec(&mut self, client: &Client, entry: Entry, args: Args<'_>) -> Result<(), Error> {
        if client.unrestricted {
            return Ok(());
        }
        self.denied(client.user, entry, args).map_or(Ok(()), |denial| {
            self.log_denial(client, denial, Context::Multi, entry, args);
            Err(denial.error_in_exec())
        })
    }

    /// Whether the session's user may carry out the command even though it does something to keys that the arguments do not
    /// name ([`User::allows_with_any_key`](super::User::allows_with_any_key)).
    pub fn permits_with_any_key(&self, client: &Client, args: Args<'_>, flags: u16) -> bool {
        client.unrestricted
            || self
                .acl
                .user(client.user)
                .zip(dispatch::lookup(self, args))
                .is_some_and(|(user, entry)| user.allows_with_any_key(entry, args, flags))
    }

    fn denied(&self, user: UserId, entry: Entry, args: Args<'_>) -> Option<Denial> {
        match self.acl.user(user) {
            Some(user) => user.check(entry, args).err(),
            None => Some(Denial::Command),
        }
    }

    fn log_denial(&mut self, client: &Client, denial: Denial, context: Context, entry: Entry, args: Args<'_>) {
        let name = entry.full_name();
        let (reason, object) = match denial {
            Denial::Command => (Reason::Command, name.as_bytes()),
            Denial::Key(at) => (Reason::Key, args.get(at)),
            Denial::Channel(at) => (Reason::Channel, args.get(at)),
        };
        let user = self.acl.name(client.user);
        let info = crate::commands::client::summary(client, self, &name);
        let entry = LogEntry::new(reason, context, object, user, info, self.now_ms());
        self.acl.log.add(entry, self.config.acllog_len);
    }

    /// Logs and counts an attempt to authenticate as `user` by `command`, named as it was given.
    pub fn log_failed_login(&mut self, client: &Client, user: &[u8], command: &[u8]) {
        let name = printable(command, 128).to_ascii_lowercase();
        let info = crate::commands::client::summary(client, self, &name);
        let entry = LogEntry::new(Reason::Auth, Context::of(client), command, user, info, self.now_ms());
        self.acl.log.add(entry, self.config.acllog_len);
    }
}
