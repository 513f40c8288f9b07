//! The phases of a run: connect, fill, warm up, measure. One thread, one epoll.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::arrivals::Schedule;
use crate::options::Options;
use crate::replies::{Outcome, Replies, Request};
use crate::report::{Connects, Tally};
use crate::values::Values;

/// Bytes written ahead when keys are filled, over all of a connection's requests under way.
const FILL_AHEAD: usize = 64 << 10;

/// A request under way.
#[derive(Clone, Copy)]
struct Pending {
    request: Request,
    /// When it was meant to be sent, and when it was.
    due: Instant,
    sent: Instant,
}

/// A connection.
struct Conn {
    stream: Option<TcpStream>,
    connected: bool,
    started: Instant,
    out: Vec<u8>,
    out_at: usize,
    writing: bool,
    pending: VecDeque<Pending>,
    replies: Replies,
}

/// How a phase chooses and paces its requests.
struct Phase {
    /// Keys in turn, written; otherwise random keys and kinds.
    fill: bool,
    schedule: Option<Schedule>,
    pipeline: usize,
    /// Requests still to be made.
    left: u64,
    until: Option<Instant>,
}

/// All connections, and what is known so far.
pub struct Load<'a> {
    options: &'a Options,
    values: Values,
    epoll: rustix::fd::OwnedFd,
    conns: Vec<Conn>,
    rng: fastrand::Rng,
    buffer: Vec<u8>,
    tally: Tally,
    /// Connections that are being made, and those with answers outstanding.
    connecting: usize,
    pending: usize,
    /// Connections that may take a request (open loop) or a batch of them (closed loop).
    free: VecDeque<usize>,
    /// Requests that a connection of an open loop may have under way; `None` in a closed loop.
    room: Option<usize>,
    last_answer: Instant,
}

impl<'a> Load<'a> {
    /// Nothing is connected yet.
    pub fn new(options: &'a Options) -> io::Result<Self> {
        let wanted = (options.clients + options.idle + 64) as u64;
        let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        if limit.current.is_some_and(|current| current < wanted) {
            limit.current = limit.maximum;
            rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)?;
        }
        Ok(Self {
            options,
            values: Values::new(options.prefix.clone(), options.size),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            conns: Vec::new(),
            rng: fastrand::Rng::with_seed(options.seed),
            buffer: vec![0; 256 << 10],
            tally: Tally::default(),
            connecting: 0,
            pending: 0,
            free: VecDeque::new(),
            room: None,
            last_answer: Instant::now(),
        })
    }

    /// Makes `count` more connections and greets each with a PING. Returns what that took.
    pub fn connect(&mut self, count: usize) -> io::Result<Connects> {
        let started = Instant::now();
        self.last_answer = started;
        self.tally = Tally::default();
        let first = self.conns.len();
        let end = first + count;
        while self.conns.len() < end || self.connecting > 0 || self.pending > 0 {
            while self.conns.len() < end && self.connecting + self.pending < self.options.connecting {
                self.begin_connection()?;
            }
            if !self.wait(None)? {
                break;
            }
        }
        let tally = std::mem::take(&mut self.tally);
        Ok(Connects {
            wanted: count,
            made: tally.right as usize,
            seconds: started.elapsed().as_secs_f64(),
            longest_us: tally.latency.max(),
            lost: tally.resets,
            errors: tally.errors,
            first_error: tally.first_error,
        })
    }

    fn begin_connection(&mut self) -> io::Result<()> {
        let at = self.conns.len();
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
        if let Some(&source) = self.options.sources.get(at % self.options.sources.len().max(1)) {
            rustix::net::bind(&socket, &SocketAddrV4::new(source, 0))?;
        }
        match rustix::net::connect(&socket, &self.options.server) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN | epoll::EventFlags::OUT)?;
        self.conns.push(Conn {
            stream: Some(TcpStream::from(socket)),
            connected: false,
            started: Instant::now(),
            out: Vec::new(),
            out_at: 0,
            writing: true,
            pending: VecDeque::new(),
            replies: Replies::default(),
        });
        self.connecting += 1;
        Ok(())
    }

    /// Writes every key once.
    pub fn fill(&mut self) -> io::Result<Tally> {
        let largest = self.options.size.1 + 64;
        let pipeline = (FILL_AHEAD / largest).clamp(1, 256);
        let phase = Phase { fill: true, schedule: None, pipeline, left: self.options.keys, until: None };
        self.run_phase(phase)
    }

    /// Sends for `time` or `requests`, whichever ends first, and waits for the answers.
    pub fn measure(&mut self, time: Option<Duration>, requests: Option<u64>) -> io::Result<Tally> {
        let o = self.options;
        self.run_phase(Phase {
            fill: false,
            schedule: o.rate.map(|rate| Schedule::new(rate, o.arrivals, o.seed)),
            pipeline: o.pipeline,
            left: requests.unwrap_or(u64::MAX),
            until: time.map(|time| Instant::now() + time),
        })
    }

    fn run_phase(&mut self, mut phase: Phase) -> io::Result<Tally> {
        let started = Instant::now();
        self.tally = Tally::default();
        self.last_answer = started;
        let clients = self.conns.len().min(self.options.clients);
        self.free = (0..clients).collect();
        self.room = phase.schedule.is_some().then_some(phase.pipeline);
        let total = phase.left;
        let mut backlog: VecDeque<Instant> = VecDeque::new();
        loop {
            let now = Instant::now();
            let over = phase.left == 0 || phase.until.is_some_and(|until| now >= until);
            let mut timeout = None;
            if let Some(schedule) = phase.schedule.as_mut() {
                while phase.left > 0 {
                    let due = started + Duration::from_nanos(schedule.next_ns());
                    if due > now || phase.until.is_some_and(|until| due >= until) {
                        timeout = Some(due);
                        break;
                    }
                    schedule.advance();
                    phase.left -= 1;
                    backlog.push_back(due);
                }
                self.tally.longest_backlog = self.tally.longest_backlog.max(backlog.len());
                while let Some(&due) = backlog.front() {
                    let Some(at) = self.free.pop_front() else { break };
                    if self.conns[at].stream.is_none() {
                        continue;
                    }
                    backlog.pop_front();
                    self.ask(at, &phase, total, due);
                    if self.conns[at].pending.len() < phase.pipeline {
                        self.free.push_back(at);
                    }
                    self.flush(at)?;
                }
            } else {
                while phase.left > 0 && !over {
                    let Some(at) = self.free.pop_front() else { break };
                    if self.conns[at].stream.is_none() {
                        continue;
                    }
                    for _ in 0..phase.pipeline.min(usize::try_from(phase.left).unwrap_or(usize::MAX)) {
                        phase.left -= 1;
                        self.ask(at, &phase, total, now);
                    }
                    self.flush(at)?;
                }
                timeout = phase.until;
            }
            if over && self.pending == 0 && (backlog.is_empty() || self.open_clients(clients) == 0) {
                break;
            }
            if self.pending == 0 && self.open_clients(clients) == 0 {
                break;
            }
            if !self.wait(if over { None } else { timeout.or(phase.until) })? {
                break;
            }
        }
        self.tally.unanswered += self.pending as u64 + backlog.len() as u64;
        self.tally.seconds = started.elapsed().as_secs_f64();
        Ok(std::mem::take(&mut self.tally))
    }

    /// Idle connections that were made and are gone.
    pub fn idle_lost(&self) -> u64 {
        let idle = self.conns.get(self.options.clients..).unwrap_or_default();
        idle.iter().filter(|conn| conn.connected && conn.stream.is_none()).count() as u64
    }

    fn open_clients(&self, clients: usize) -> usize {
        // Only asked when nothing is under way.
        self.conns[..clients].iter().filter(|conn| conn.stream.is_some()).count()
    }

    /// Puts one request into the output of connection `at`.
    fn ask(&mut self, at: usize, phase: &Phase, total: u64, due: Instant) {
        let request = if phase.fill {
            Request::Set(total - phase.left - 1)
        } else {
            let key = self.rng.u64(..self.options.keys);
            let (set, get) = self.options.ratio;
            if self.rng.u32(..set + get) < set { Request::Set(key) } else { Request::Get(key) }
        };
        self.push(at, request, due);
    }

    fn push(&mut self, at: usize, request: Request, due: Instant) {
        let conn = &mut self.conns[at];
        match request {
            Request::Ping => conn.out.extend_from_slice(b"*1\r\n$4\r\nPING\r\n"),
            Request::Get(key) => self.values.get(&mut conn.out, key),
            Request::Set(key) => self.values.set(&mut conn.out, key),
        }
        conn.pending.push_back(Pending { request, due, sent: Instant::now() });
        self.pending += 1;
    }

    /// Writes what the socket takes.
    fn flush(&mut self, at: usize) -> io::Result<()> {
        let conn = &mut self.conns[at];
        let Some(stream) = conn.stream.as_mut() else { return Ok(()) };
        while conn.out_at < conn.out.len() {
            match stream.write(&conn.out[conn.out_at..]) {
                Ok(n) => {
                    conn.out_at += n;
                    self.tally.bytes_out += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.lose(at),
            }
        }
        if conn.out_at == conn.out.len() {
            conn.out.clear();
            conn.out_at = 0;
        }
        let writing = !conn.out.is_empty();
        if writing != conn.writing {
            conn.writing = writing;
            let flags = if writing { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            epoll::modify(&self.epoll, &*stream, epoll::EventData::new_u64(at as u64), flags)?;
        }
        Ok(())
    }

    /// The connection is gone, with what it owed.
    fn lose(&mut self, at: usize) -> io::Result<()> {
        let conn = &mut self.conns[at];
        if let Some(stream) = conn.stream.take() {
            epoll::delete(&self.epoll, &stream)?;
            self.tally.resets += 1;
            self.connecting -= usize::from(!conn.connected);
            self.pending -= conn.pending.len();
            self.tally.unanswered += conn.pending.len() as u64;
            conn.pending.clear();
        }
        Ok(())
    }

    /// Waits for something to happen, at most until `until`, and deals with it. Returns false when patience is at an end.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let now = Instant::now();
        let patience = self.last_answer + self.options.patience;
        if now >= patience && (self.pending > 0 || self.connecting > 0) {
            return Ok(false);
        }
        let limit = until.map_or(patience, |until| until.min(patience));
        let limit = limit.saturating_duration_since(now);
        let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 256];
        let n = match epoll::wait(&self.epoll, &mut events[..], Some(&timeout)) {
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..n] {
            let at = event.data.u64() as usize;
            let flags = event.flags;
            if !self.conns[at].connected && !self.established(at)? {
                continue;
            }
            if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                self.receive(at)?;
            }
            if flags.contains(epoll::EventFlags::OUT) {
                self.flush(at)?;
            }
        }
        Ok(true)
    }

    /// Looks how an attempt to connect ended, and greets the server. Returns false if it failed.
    fn established(&mut self, at: usize) -> io::Result<bool> {
        let conn = &mut self.conns[at];
        let Some(stream) = conn.stream.as_ref() else { return Ok(false) };
        if !matches!(stream.take_error(), Ok(None)) {
            self.lose(at)?;
            return Ok(false);
        }
        conn.connected = true;
        let started = conn.started;
        self.connecting -= 1;
        self.push(at, Request::Ping, started);
        self.flush(at)?;
        Ok(self.conns[at].stream.is_some())
    }

    /// Reads what came and accounts for the answers in it.
    fn receive(&mut self, at: usize) -> io::Result<()> {
        loop {
            let conn = &mut self.conns[at];
            let Some(stream) = conn.stream.as_mut() else { return Ok(()) };
            let n = match stream.read(&mut self.buffer) {
                Ok(0) => return self.lose(at),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.lose(at),
            };
            let now = Instant::now();
            // Part of a long answer is a sign of life too.
            self.last_answer = now;
            self.tally.bytes_in += n as u64;
            let mut bytes = &self.buffer[..n];
            let before = conn.pending.len();
            while !bytes.is_empty() {
                let Some(&Pending { request, due, sent }) = conn.pending.front() else {
                    // Nobody asked; an error before the end is the server's reason for it.
                    let text = String::from_utf8_lossy(bytes).trim_end().to_owned();
                    self.tally.count(Outcome::Error(text), None);
                    break;
                };
                let (taken, outcome) = conn.replies.take(&self.values, request, bytes);
                bytes = &bytes[taken..];
                if let Some(outcome) = outcome {
                    conn.pending.pop_front();
                    self.pending -= 1;
                    self.tally.count(outcome, Some((now - due, now - sent)));
                }
            }
            let after = conn.pending.len();
            let frees = match self.room {
                Some(room) => before >= room && after < room,
                None => before > 0 && after == 0,
            };
            if frees && at < self.options.clients {
                self.free.push_back(at);
            }
            if n < self.buffer.len() {
                return Ok(());
            }
        }
    }
}
