//! What a command handler is given.

use crate::blocking::{Wait, WaitRequest};
use crate::command::{Command, flag};
use crate::core::Core;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::Keys;
use crate::reply::Reply;
use crate::session::args::Args;
use crate::session::{Client, ClientId};
use crate::value::Type;

/// A command handler. It writes exactly one reply, or returns an error, which is then written as the reply.
pub type Handler = for<'a> fn(&mut Ctx<'a>) -> Result<(), Error>;

/// A command being carried out. The fields are separate so that a handler can hold a value of `keys` while it writes to
/// `reply`.
pub struct Ctx<'a> {
    /// The command, or the subcommand.
    pub command: &'static Command,
    /// Its arguments, the name first.
    pub args: Args<'a>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// The keys of the selected database.
    pub keys: Keys<'a>,
    /// The session that sent it.
    pub client: &'a mut Client,
    /// Everything else that the server has.
    pub core: &'a mut Core,
    /// Whether it must not wait: inside EXEC or a script.
    pub deny_blocking: bool,
}

impl<'a> Ctx<'a> {
    /// Has keys whose time has come stay if clients are paused and this command is none that writes.
    pub fn freeze(&mut self, command: &Command) {
        self.keys.space.frozen =
            self.core.pause.until_us > self.core.now_us && !command.has(flag::WRITE | flag::MAY_REPLICATE);
    }

    /// An argument (the name is 0); empty if there are not so many.
    #[inline]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.args.get(index)
    }

    /// Number of arguments, with the name.
    #[inline]
    pub const fn argc(&self) -> usize {
        self.args.len()
    }

    /// An argument as an integer.
    #[inline]
    pub fn int(&self, index: usize) -> Result<i64, Error> {
        crate::number::parse_i64(self.arg(index)).ok_or(Error::NotInteger)
    }

    /// An argument as an integer within bounds; the error names the range as Redis does. Numbers from 0 on have one error
    /// for whatever is none.
    pub fn int_in(&self, index: usize, low: i64, high: i64) -> Result<i64, Error> {
        if low == 0 && high == i64::MAX {
            return self.int_or(index, low, high, crate::commands::collection::NOT_POSITIVE);
        }
        let n = self.int(index)?;
        if (low..=high).contains(&n) {
            return Ok(n);
        }
        Err(error_text!("ERR value is out of range, value must between {low} and {high}"))
    }

    /// The error for a subcommand that is not there, or was given more arguments than it takes.
    pub fn wrong_subcommand(&self) -> Error {
        let sub = crate::text::printable(self.arg(1), 128);
        let container = crate::text::printable(&self.arg(0).to_ascii_uppercase(), 128);
        error_text!("ERR unknown subcommand or wrong number of arguments for '{sub}'. Try {container} HELP.")
    }

    /// An argument as a double.
    pub fn double(&self, index: usize) -> Result<f64, Error> {
        crate::number::parse_f64(self.arg(index)).ok_or(Error::NotFloat)
    }

    /// Says that a key was changed ([`Keys::modified`]).
    #[inline]
    pub fn modified(&mut self, key: &[u8]) {
        self.keys.modified(key);
    }

    /// Publishes a keyspace event ([`Keys::notify`]).
    #[inline]
    pub fn notify(&mut self, class: u32, event: &'static str, key: &[u8]) {
        self.keys.notify(class, event, key);
    }

    /// Describes the effect by another command ([`Keys::effect`]).
    pub fn effect(&mut self, args: &[&[u8]]) {
        self.keys.effect(args);
    }

    /// Whether so many bytes more may be asked for.
    pub fn affordable(&self, bytes: usize) -> bool {
        self.core.affordable(bytes)
    }

    /// The timeout argument of a blocking command as a point of monotonic time, in us (None: wait for ever).
    pub fn timeout(&self, index: usize) -> Result<Option<u64>, Error> {
        let not_float = Error::Fixed("ERR timeout is not a float or out of range");
        let out_of_range = Error::Fixed("ERR timeout is out of range");
        let seconds = crate::number::LongDouble::parse(self.arg(index)).ok_or(not_float)?;
        let ms = seconds.seconds_to_ms().ok_or(out_of_range.clone())?;
        if ms < 0 {
            return Err(Error::Fixed("ERR timeout is negative"));
        }
        if ms == 0 {
            return Ok(None);
        }
        if ms.checked_add(self.core.now_ms()).is_none() {
            return Err(out_of_range);
        }
        Ok(Some(self.core.now_us.saturating_add((ms as u64).saturating_mul(1000))))
    }

    /// Waits until one of the keys (arguments `keys`) becomes a collection of the type; the command is then carried out
    /// again. Where waiting is not allowed (inside EXEC), and when the time comes, the reply is a null array - or a null,
    /// if `null_bulk` and it is not allowed.
    pub fn block(
        &mut self,
        of: Type,
        keys: impl IntoIterator<Item = usize>,
        until_us: Option<u64>,
        null_bulk: bool,
    ) -> Result<(), Error> {
        if self.deny_blocking {
            if null_bulk {
                self.reply.null()
            } else {
                self.reply.null_array()
            }
            return Ok(());
        }
        let keys = keys.into_iter().map(|i| self.arg(i).into()).collect();
        self.core.wait_request =
            Some(WaitRequest { wait: Wait::Key(of), even_without_key: false, args: None, keys, until_us });
        Ok(())
    }

    /// Writes something to a session other than by way of its own reply: pub/sub messages, MONITOR lines. To the present
    /// session it is sent after its reply.
    pub fn send_to(&mut self, id: ClientId, write: impl FnOnce(&mut Reply<'_>)) {
        self.core.deliver(Some(self.client), id, write);
    }
}
