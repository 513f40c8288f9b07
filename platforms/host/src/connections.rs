//! Sockets: what arrives is fed to the server, what the server has to say is sent.

use crate::links::Links;
use barium_kvstore::server::Server;
use barium_kvstore::session::{ClientId, Endpoint, Fate};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

const LISTENER: Token = Token(usize::MAX);
/// Tokens from here on are links.
pub const LINKS: usize = usize::MAX / 2;
/// Bytes read at once.
const READ: usize = 64 * 1024;
/// Most bytes read from one connection before the others have their turn.
const TURN: usize = 1024 * 1024;

struct Connection {
    stream: TcpStream,
    id: ClientId,
    /// What arrived and the server did not take.
    untaken: Vec<u8>,
    /// Whether there may be more to read.
    readable: bool,
    /// Whether the peer has finished.
    finished: bool,
}

/// All connections.
pub struct Connections {
    poll: Poll,
    events: Events,
    listener: TcpListener,
    /// By token, which is the session's slot.
    open: HashMap<usize, Connection>,
    /// Connections that had their turn and may have more to read.
    unfinished: Vec<usize>,
    buffer: Box<[u8]>,
    links: Links,
}

impl Connections {
    /// Listens on an address.
    pub fn listen(address: &str) -> io::Result<Self> {
        let address: SocketAddr =
            address.parse().map_err(|_| io::Error::new(ErrorKind::InvalidInput, "not an address and a port"))?;
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            poll,
            events: Events::with_capacity(1024),
            listener,
            open: HashMap::new(),
            unfinished: Vec::new(),
            buffer: vec![0; READ].into_boxed_slice(),
            links: Links::default(),
        })
    }

    /// Waits for something to happen.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = if self.unfinished.is_empty() { timeout } else { Some(Duration::ZERO) };
        let timeout = timeout.into_iter().chain(self.links.patience()).min();
        match self.poll.poll(&mut self.events, timeout) {
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    /// Serves the connections on which something happened.
    pub fn serve(&mut self, server: &mut Server) {
        let mut tokens = core::mem::take(&mut self.unfinished);
        let mut accept = false;
        for event in &self.events {
            if event.token() == LISTENER {
                accept = true;
                continue;
            }
            let token = event.token().0;
            if token >= LINKS {
                self.links.note(token - LINKS, event);
                continue;
            }
            if let Some(c) = self.open.get_mut(&token) {
                c.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
                if !tokens.contains(&token) {
                    tokens.push(token);
                }
            }
        }
        if accept {
            self.accept(server);
        }
        for token in tokens {
            self.serve_one(server, token);
        }
        self.serve_ready(server);
    }

    /// Serves the connections and links that the server names; whether there were any.
    pub fn serve_ready(&mut self, server: &mut Server) -> bool {
        let mut any = self.links.serve(server, self.poll.registry(), &mut self.buffer);
        while let Some(id) = server.next_ready() {
            any = true;
            let token = id.slot as usize;
            if self.open.get(&token).is_some_and(|c| c.id == id) {
                self.serve_one(server, token);
            }
        }
        any
    }

    fn accept(&mut self, server: &mut Server) {
        loop {
            let (mut stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) => {
                    log::warn!("accept: {e}");
                    return;
                }
            };
            let _ = stream.set_nodelay(true);
            let local = stream.local_addr().unwrap_or(peer);
            let id = match server.connect(endpoint(peer), endpoint(local)) {
                Ok(id) => id,
                Err(_) => {
                    let _ = stream.write(b"-ERR max number of clients reached\r\n");
                    continue;
                }
            };
            let token = id.slot as usize;
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, Token(token), interest).is_err() {
                server.disconnect(id);
                continue;
            }
            self.open.insert(token, Connection { stream, id, untaken: vec![], readable: true, finished: false });
            self.serve_one(server, token);
        }
    }

    /// Reads, feeds and writes one connection as far as it goes.
    fn serve_one(&mut self, server: &mut Server, token: usize) {
        let Some(c) = self.open.get_mut(&token) else { return };
        let mut broken = false;
        // Input that was kept goes first.
        let untaken = core::mem::take(&mut c.untaken);
        let taken = server.feed(c.id, &untaken);
        c.untaken = untaken[taken..].to_vec();
        let mut turn = 0;
        while c.readable && !c.finished && c.untaken.is_empty() && server.fate(c.id) == Fate::Open {
            if turn >= TURN {
                self.unfinished.push(token);
                break;
            }
            match c.stream.read(&mut self.buffer) {
                Ok(0) => {
                    c.finished = true;
                    server.peer_finished(c.id);
                }
                Ok(n) => {
                    turn += n;
                    let taken = server.feed(c.id, &self.buffer[..n]);
                    c.untaken = self.buffer[taken..n].to_vec();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => c.readable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    broken = true;
                    break;
                }
            }
            broken |= !send(c, server);
        }
        broken |= !send(c, server);
        let closed = match server.fate(c.id) {
            Fate::Open => false,
            Fate::CloseAfterOutput => server.output(c.id).is_empty(),
            Fate::Abort => true,
        };
        if (broken || closed)
            && let Some(mut c) = self.open.remove(&token)
        {
            let _ = self.poll.registry().deregister(&mut c.stream);
            server.disconnect(c.id);
        }
    }
}

/// Sends what the socket takes; false: the connection is broken.
fn send(c: &mut Connection, server: &mut Server) -> bool {
    loop {
        let bytes = server.output(c.id);
        if bytes.is_empty() {
            return true;
        }
        match c.stream.write(bytes) {
            Ok(n) if server.sent(c.id, n).is_none() => {}
            Ok(_) => return true,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn endpoint(address: SocketAddr) -> Endpoint {
    match address {
        SocketAddr::V4(a) => Endpoint { addr: a.ip().octets(), port: a.port() },
        SocketAddr::V6(a) => Endpoint { addr: a.ip().to_ipv4().map_or([0; 4], |ip| ip.octets()), port: a.port() },
    }
}
