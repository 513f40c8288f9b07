//! Long commands that are carried out in bounded steps between the turns of the event loop, while their clients wait.

use crate::blocking::{Wait, WaitRequest};
use crate::core::Core;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::reply::Reply;
use crate::session::ClientId;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// What is left to do of a command.
pub trait Work: core::fmt::Debug + Send {
    /// Does a bounded part of it. Returns what the client is answered once all is done.
    ///
    /// # Errors
    /// What the client is answered if it cannot be done.
    fn step(&mut self, space: &mut Keyspace, core: &mut Core) -> Result<Option<Answer>, Error>;

    /// Whether it has to see the keys as they are at one moment: other clients are not served meanwhile.
    fn stops_others(&self) -> bool {
        false
    }
}

/// What a client is answered in the end.
#[derive(Debug)]
pub enum Answer {
    /// `+OK`.
    Ok,
    /// A line.
    Line(String),
}

impl Answer {
    /// Writes it.
    pub fn write(&self, reply: &mut Reply<'_>) {
        match self {
            Answer::Ok => reply.ok(),
            Answer::Line(text) => reply.simple(text),
        }
    }
}

/// A command that is being carried out.
#[derive(Debug)]
pub struct Job {
    /// Who waits for it.
    pub client: ClientId,
    /// What is left to do.
    pub work: Box<dyn Work>,
}

/// Carries out the present command, of which `work` is to be done: the first step at once, the others later. A transaction is
/// one step, however long.
pub fn carry_out(ctx: &mut Ctx<'_>, work: impl Work + 'static) -> Result<(), Error> {
    let mut work: Box<dyn Work> = Box::new(work);
    loop {
        if let Some(answer) = work.step(ctx.keys.space, ctx.core)? {
            answer.write(&mut ctx.reply);
            return Ok(());
        }
        if !ctx.deny_blocking {
            ctx.core.jobs.push(Job { client: ctx.client.handle, work });
            let (args, keys, until_us) = (None, Vec::new(), None);
            ctx.core.wait_request =
                Some(WaitRequest { wait: Wait::Time, even_without_key: false, args, keys, until_us });
            return Ok(());
        }
    }
}
