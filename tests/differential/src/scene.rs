//! Several clients at once: those that wait and are served by others, subscribers, clients that look at each other.
//!
//! The clients take turns, so that both servers see one order. A turn is a command of one client; then every client that
//! does not wait says PING, and whatever it was sent before the answer is compared. A client that waits is left alone until it
//! is its turn again: it is unblocked then (which tells whether it still waited) and its reply compared.

use std::io;

use crate::differences::Reference;
use crate::judge::{Difference, Judge, difference, lost};
use crate::listing;
use crate::play::{Game, Manner, Pair};
use crate::wire::{Command, Connection, Reply, words};

/// Clients of a scene. The first one never waits.
pub const CLIENTS: usize = 3;
/// The words that stand for the clients' IDs, which are each server's own.
pub const IDS: [&[u8]; CLIENTS] = [b"{id0}", b"{id1}", b"{id2}"];
/// What a client's PING asks back.
const TOKEN: &[u8] = b"(the turn is over)";
/// A reply that stands for the end of a connection.
const CLOSED: &[u8] = b"(closed)";

/// One command of one client.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Whose.
    pub client: usize,
    /// Whether it may wait.
    pub waits: bool,
    /// What it says; [`IDS`] in it become IDs.
    pub command: Command,
}

/// One client, as each server knows it.
struct Client {
    ours: Connection,
    theirs: Connection,
    /// Its ID here and there.
    ids: [Vec<u8>; 2],
    judge: Judge,
    /// What it may wait for the answer of.
    waiting: Option<Command>,
    inside: bool,
}

/// The stage.
struct Scene<'a> {
    pair: &'a mut Pair,
    clients: Vec<Client>,
    resp3: u8,
    /// Counts clients that were unblocked.
    released: usize,
    /// By which it is seen that both servers have read what was sent before.
    control: [Connection; 2],
}

impl Pair {
    /// Plays the turns, after the lines of `setup`, each behind the number of a client. The bits of `resp3` choose each client's protocol.
    pub fn play_scene(&mut self, setup: &[&str], turns: &[Turn], resp3: u8) -> Result<(), Difference> {
        let control = control(self)?;
        let mut scene = Scene { pair: self, clients: Vec::new(), resp3, released: 0, control };
        for index in 0..CLIENTS {
            let client = scene.open(index)?;
            scene.clients.push(client);
        }
        for line in [&["0 FLUSHALL"], setup].concat() {
            let mut command = words(line);
            let client = command.remove(0).first().map_or(0, |digit| usize::from(digit - b'0'));
            scene.turn(&Turn { client, waits: false, command })?;
        }
        for turn in turns {
            scene.turn(turn)?;
        }
        for client in 0..CLIENTS {
            scene.release(client)?;
            if scene.clients[client].inside {
                scene.turn(&Turn { client, waits: false, command: words("DISCARD") })?;
            }
        }
        drop(scene);
        Game::open(self)?.compare_keyspace(Manner::default())
    }
}

impl Scene<'_> {
    fn open(&mut self, index: usize) -> Result<Client, Difference> {
        let resp3 = self.resp3 >> index & 1 == 1;
        let open = |port: u16, who: &str| -> Result<(Connection, Vec<u8>), Difference> {
            let connect = || -> io::Result<(Connection, Vec<u8>)> {
                let mut connection = Connection::open(port)?;
                if resp3 {
                    connection.ask("HELLO 3")?;
                }
                let id = connection.ask("CLIENT ID")?.text().to_vec();
                Ok((connection, id))
            };
            connect().map_err(|error| lost(&words("(connect)"), who, error))
        };
        let (ours, our_id) = open(self.pair.ours, "barium")?;
        let (theirs, their_id) = open(self.pair.theirs, "reference")?;
        let judge = Judge::new(self.pair.reference);
        Ok(Client { ours, theirs, ids: [our_id, their_id], judge, waiting: None, inside: false })
    }

    /// The command as one server is to get it.
    fn personal(&self, command: &Command, side: usize) -> Command {
        let word = |word: &Vec<u8>| match IDS.iter().position(|id| id == word) {
            Some(client) => self.clients[client].ids[side].clone(),
            None => word.clone(),
        };
        command.iter().map(word).collect()
    }

    /// A whole turn.
    fn turn(&mut self, turn: &Turn) -> Result<(), Difference> {
        self.release(turn.client)?;
        let name = turn.command[0].to_ascii_lowercase();
        let nested = self.clients[turn.client].inside && (name == b"multi" || name == b"watch");
        if nested && self.pair.reference == Reference::Valkey {
            // It ends the transaction there.
            return Ok(());
        }
        let waits = turn.waits && turn.client != 0 && !self.clients[turn.client].inside;
        // Inside of a transaction PING would only be queued.
        let asked = !waits && !self.clients[turn.client].inside && name != b"multi" || ends_transaction(&turn.command);
        let mut commands = vec![turn.command.clone()];
        if asked {
            if turn.command.len() > 1
                && turn.command[0].eq_ignore_ascii_case(b"client")
                && turn.command[1].eq_ignore_ascii_case(b"reply")
            {
                commands.push(words("CLIENT REPLY ON"));
            }
            commands.push(vec![b"PING".to_vec(), TOKEN.to_vec()]);
        }
        self.send(turn.client, &commands);
        if waits {
            self.clients[turn.client].waiting = Some(turn.command.clone());
            self.settle()?;
        } else {
            let (ours, theirs) = self.hear(turn.client, !asked)?;
            self.compare(turn.client, &turn.command, ours, theirs)?;
        }
        self.listen(turn.client, &name)
    }

    /// Waits until both servers have carried out what they were sent: they do that before they answer what comes later.
    fn settle(&mut self) -> Result<(), Difference> {
        if self.control.iter_mut().any(|control| control.ask("PING").is_err()) {
            // A client's CLIENT KILL hit it.
            self.control = control(self.pair)?;
            for control in &mut self.control {
                control.ask("PING").map_err(|error| lost(&words("PING"), "control", error))?;
            }
        }
        Ok(())
    }

    /// What clients other than `speaker`, who sent the command of this name, were sent meanwhile.
    fn listen(&mut self, speaker: usize, name: &[u8]) -> Result<(), Difference> {
        let listens = |client: &Client| client.waiting.is_none() && !client.inside;
        let others: Vec<usize> = (0..CLIENTS).filter(|at| *at != speaker && listens(&self.clients[*at])).collect();
        for other in &others {
            self.send(*other, &[vec![b"PING".to_vec(), TOKEN.to_vec()]]);
        }
        for other in others {
            let (ours, theirs) = self.hear(other, false)?;
            // 7.0 makes a consumer only when there is something to read or to claim.
            let known = |reply: &Reply| {
                let made = |text: &Reply| text.text().ends_with(b"xgroup-createconsumer");
                self.pair.reference == Reference::Valkey || !reply.items().iter().any(made)
            };
            let plain = |replies: Vec<Reply>| -> Vec<Reply> {
                let replies = replies.into_iter().filter(known);
                replies.map(|reply| listing::plain(self.pair.reference, &words("(hears)"), reply, &[])).collect()
            };
            let (ours, theirs) = (plain(ours), plain(theirs));
            let (mut ours, mut theirs) = (same_patterns_together(&ours), same_patterns_together(&theirs));
            if name.starts_with(b"sort") {
                // It looks for weights in the order of what it sorts, a hash table's.
                ours.sort();
                theirs.sort();
            }
            if ours != theirs {
                return Err(difference(&words(&format!("(client {other} hears)")), &ours, &theirs));
            }
            self.reopen_if_closed(other, &theirs)?;
        }
        Ok(())
    }

    /// Ends the waiting of a client, if it still waits, and compares what it got.
    fn release(&mut self, client: usize) -> Result<(), Difference> {
        let Some(command) = self.clients[client].waiting.clone() else { return Ok(()) };
        self.released += 1;
        let how = if self.released.is_multiple_of(3) { "ERROR" } else { "TIMEOUT" };
        self.settle()?;
        let mut answers = Vec::new();
        for (side, control) in self.control.iter_mut().enumerate() {
            let id = String::from_utf8_lossy(&self.clients[client].ids[side]).into_owned();
            let answer = control.ask(&format!("CLIENT UNBLOCK {id} {how}"));
            answers.push(answer.map_err(|error| lost(&words("CLIENT UNBLOCK"), "control", error))?);
        }
        if answers[0] != answers[1] {
            return Err(difference(&words(&format!("(client {client} is unblocked)")), &answers[0], &answers[1]));
        }
        self.clients[client].waiting = None;
        self.send(client, &[vec![b"PING".to_vec(), TOKEN.to_vec()]]);
        let (ours, theirs) = self.hear(client, false)?;
        self.compare(client, &command, ours, theirs)
    }

    /// Sends to both; a connection that is closed is noticed when its replies are read.
    fn send(&mut self, client: usize, commands: &[Command]) {
        let forms: [Vec<Command>; 2] =
            [0, 1].map(|side| commands.iter().map(|command| self.personal(command, side)).collect());
        let client = &mut self.clients[client];
        let _ = client.ours.send(&forms[0]);
        let _ = client.theirs.send(&forms[1]);
    }

    /// All replies up to the answer of PING, or `single`: up to the first reply that is no push.
    fn hear(&mut self, client: usize, single: bool) -> Result<(Vec<Reply>, Vec<Reply>), Difference> {
        let client = &mut self.clients[client];
        let theirs =
            replies(&mut client.theirs, single).map_err(|error| lost(&words("(reply)"), "reference", error))?;
        let ours = replies(&mut client.ours, single).map_err(|error| lost(&words("(reply)"), "barium", error))?;
        Ok((ours, theirs))
    }

    fn compare(
        &mut self,
        client: usize,
        command: &Command,
        ours: Vec<Reply>,
        theirs: Vec<Reply>,
    ) -> Result<(), Difference> {
        let ids: Vec<[Vec<u8>; 2]> = self.clients.iter().map(|client| client.ids.clone()).collect();
        let reference = self.pair.reference;
        let plain = |replies: Vec<Reply>, side: usize| -> Vec<Reply> {
            let ids: Vec<&[u8]> = ids.iter().map(|ids| &ids[side][..]).collect();
            replies.into_iter().map(|reply| listing::plain(reference, command, reply, &ids)).collect()
        };
        let (ours, theirs) = (plain(ours, 0), plain(theirs, 1));
        let (ours, theirs) = (same_patterns_together(&ours), same_patterns_together(&theirs));
        // Redis 7.0 may tell a client of a message that its own command caused before it answers the command.
        let (ours, theirs) = match self.pair.reference {
            Reference::Redis => (pushes_last(ours), pushes_last(theirs)),
            Reference::Valkey => (ours, theirs),
        };
        let state = &mut self.clients[client];
        let name = command[0].to_ascii_lowercase();
        // Valkey has one error for all channels.
        if name.ends_with(b"unsubscribe") && theirs.first().is_some_and(|reply| reply.text().starts_with(b"NOSUB")) {
            self.pair.coverage.count(command, &theirs[0]);
            return Ok(());
        }
        if ours.len() != theirs.len() || ours.is_empty() {
            if ours != theirs {
                return Err(difference(command, &ours, &theirs));
            }
            return Ok(());
        }
        let sorted = |replies: &[Reply]| {
            let mut replies: Vec<Reply> = replies.iter().map(without_count).collect();
            replies.sort();
            replies
        };
        if name.ends_with(b"unsubscribe") && sorted(&ours) == sorted(&theirs) {
            self.pair.coverage.count(command, &theirs[0]);
            return Ok(());
        }
        for (ours, theirs) in ours.iter().zip(&theirs) {
            if matches!(theirs, Reply::Many(b'>', _)) || theirs.text() == CLOSED {
                if ours != theirs {
                    return Err(difference(command, ours, theirs));
                }
                if name.ends_with(b"subscribe") {
                    self.pair.coverage.count(command, theirs);
                }
                continue;
            }
            state.judge.compare(&mut self.pair.coverage, command, ours, theirs)?;
            let refused = String::from_utf8_lossy(theirs.text()).contains("wrong number of arguments");
            match &name[..] {
                b"multi" if !theirs.is_error() => state.inside = true,
                b"exec" | b"discard" | b"reset" if !refused => state.inside = false,
                _ => {}
            }
        }
        self.reopen_if_closed(client, &theirs)
    }

    fn reopen_if_closed(&mut self, client: usize, replies: &[Reply]) -> Result<(), Difference> {
        if replies.last().is_some_and(|reply| reply.text() == CLOSED) {
            self.clients[client] = self.open(client)?;
        }
        Ok(())
    }
}

fn control(pair: &Pair) -> Result<[Connection; 2], Difference> {
    let open = |port: u16| Connection::open(port).map_err(|error| lost(&words("(connect)"), "control", error));
    Ok([open(pair.ours)?, open(pair.theirs)?])
}

/// Whether the client is outside of a transaction after this, in any case.
fn ends_transaction(command: &Command) -> bool {
    let name = command[0].to_ascii_lowercase();
    command.len() == 1 && [&b"exec"[..], b"discard", b"reset"].contains(&&name[..])
}

/// The replies with what matched several patterns of one client in one order: theirs is a hash table's.
fn same_patterns_together(replies: &[Reply]) -> Vec<Reply> {
    let message = |reply: &Reply| match reply.items() {
        [kind, _, channel, text] if kind.text() == b"pmessage" => Some((channel.clone(), text.clone())),
        _ => None,
    };
    let groups = replies.chunk_by(|a, b| message(a).is_some() && message(a) == message(b));
    let sorted = |group: &[Reply]| {
        let mut group = group.to_vec();
        group.sort();
        group
    };
    groups.flat_map(sorted).collect()
}

/// The replies in order, then the pushes in order.
fn pushes_last(replies: Vec<Reply>) -> Vec<Reply> {
    let (pushes, mut answers): (Vec<Reply>, Vec<Reply>) =
        replies.into_iter().partition(|reply| matches!(reply, Reply::Many(b'>', _)));
    answers.extend(pushes);
    answers
}

/// A reply of (UN)SUBSCRIBE without its last element, the number of subscriptions that are left.
fn without_count(reply: &Reply) -> Reply {
    match reply {
        Reply::Many(kind, Some(items)) if items.len() == 3 => Reply::Many(*kind, Some(items[..2].to_vec())),
        other => other.clone(),
    }
}

fn replies(connection: &mut Connection, single: bool) -> io::Result<Vec<Reply>> {
    let mut replies = Vec::new();
    loop {
        match connection.reply() {
            Ok(reply) => {
                let over = reply.text() == TOKEN || reply.items().get(1).is_some_and(|text| text.text() == TOKEN);
                if over && !single {
                    return Ok(replies);
                }
                let push = matches!(reply, Reply::Many(b'>', _));
                replies.push(reply);
                if single && !push {
                    return Ok(replies);
                }
            }
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) => {
                return Err(error);
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
            Err(_) => {
                replies.push(Reply::Line(b'-', CLOSED.to_vec()));
                return Ok(replies);
            }
        }
    }
}
