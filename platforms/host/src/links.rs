//! Connections to other servers that the engine asks for: ordinary sockets that do not wait.

use crate::connections::LINKS;
use barium_kvstore::links::{LinkError, LinkId, LinkRequest};
use barium_kvstore::server::Server;
use barium_kvstore::session::Fate;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

struct Link {
    stream: TcpStream,
    id: LinkId,
    /// When to give up; None once it is open.
    until: Option<Instant>,
    readable: bool,
    /// What arrived and the server did not take.
    untaken: Vec<u8>,
    /// Whether the peer has finished.
    finished: bool,
    /// Whether something happened to it.
    concerned: bool,
}

/// All links, by the engine's slot.
#[derive(Default)]
pub struct Links {
    open: HashMap<usize, Link>,
}

impl Links {
    /// How long the first of those that are being opened may still wait.
    pub fn patience(&self) -> Option<Duration> {
        let until = self.open.values().filter_map(|link| link.until).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Notes what happened to a link.
    pub fn note(&mut self, slot: usize, event: &Event) {
        if let Some(link) = self.open.get_mut(&slot) {
            link.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
            link.concerned = true;
        }
    }

    /// Opens what the server wants and serves the links that something happened to; whether there were any.
    pub fn serve(&mut self, server: &mut Server, registry: &Registry, buffer: &mut [u8]) -> bool {
        let mut any = false;
        while let Some(request) = server.next_link() {
            any = true;
            match dial(request, registry) {
                Ok(link) => drop(self.open.insert(request.id.slot as usize, link)),
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    server.link_failed(request.id, LinkError::Refused)
                }
                Err(_) => server.link_failed(request.id, LinkError::Unreachable),
            }
        }
        while let Some(id) = server.next_ready_link() {
            if let Some(link) = self.open.get_mut(&(id.slot as usize)) {
                link.concerned = true;
            }
        }
        if self.open.is_empty() {
            return any;
        }
        let now = Instant::now();
        self.open.retain(|_, link| {
            let late = link.until.is_some_and(|until| until <= now);
            if !core::mem::take(&mut link.concerned) && !late {
                return true;
            }
            any = true;
            let goes_on = link.serve(server, buffer, late);
            if !goes_on {
                let _ = registry.deregister(&mut link.stream);
            }
            goes_on
        });
        any
    }
}

fn dial(request: LinkRequest, registry: &Registry) -> io::Result<Link> {
    let mut stream = TcpStream::connect(SocketAddr::from((request.to.addr, request.to.port)))?;
    let token = Token(LINKS + request.id.slot as usize);
    registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
    let until = Instant::now().checked_add(Duration::from_micros(request.timeout_us));
    Ok(Link { stream, id: request.id, until, readable: false, untaken: vec![], finished: false, concerned: false })
}

impl Link {
    /// Goes as far as it can; false: it is over, and the server knows.
    fn serve(&mut self, server: &mut Server, buffer: &mut [u8], late: bool) -> bool {
        if self.until.is_some() {
            match self.stream.peer_addr() {
                Ok(_) => {
                    self.until = None;
                    let _ = self.stream.set_nodelay(true);
                    if !server.link_opened(self.id) {
                        return false;
                    }
                }
                Err(e)
                    if e.kind() == ErrorKind::NotConnected && !late && matches!(self.stream.take_error(), Ok(None)) =>
                {
                    return true;
                }
                Err(_) => {
                    server.link_failed(self.id, LinkError::Refused);
                    return false;
                }
            }
        }
        let goes_on = self.read(server, buffer)
            && self.write(server)
            && match server.link_fate(self.id) {
                Fate::Open => true,
                Fate::CloseAfterOutput => !server.link_output(self.id).is_empty(),
                Fate::Abort => false,
            };
        if !goes_on {
            server.link_closed(self.id);
        }
        goes_on
    }

    /// Reads what the server takes; false: the connection is broken.
    fn read(&mut self, server: &mut Server, buffer: &mut [u8]) -> bool {
        let taken = server.link_received(self.id, &self.untaken);
        self.untaken.drain(..taken);
        while self.readable && !self.finished && self.untaken.is_empty() {
            match self.stream.read(buffer) {
                Ok(0) => {
                    self.finished = true;
                    server.link_finished(self.id);
                }
                Ok(n) => {
                    let taken = server.link_received(self.id, &buffer[..n]);
                    self.untaken.extend_from_slice(&buffer[taken..n]);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends what the socket takes; false: the connection is broken.
    fn write(&mut self, server: &mut Server) -> bool {
        loop {
            let bytes = server.link_output(self.id);
            if bytes.is_empty() {
                return true;
            }
            match self.stream.write(bytes) {
                Ok(n) => server.link_sent(self.id, n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}
