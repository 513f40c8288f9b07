//! RESP2 and RESP3 as a client sees them.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A command: its words.
pub type Command = Vec<Vec<u8>>;

/// Longest wait for a reply; nothing that is generated blocks for longer than milliseconds.
const REPLY_LIMIT: Duration = Duration::from_secs(20);

/// A reply, with the bytes that carry its meaning.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// A reply of one line: its type byte (`+ - : , # ( _`) and the text behind it.
    Line(u8, Vec<u8>),
    /// A bulk, error or verbatim string (`$ ! =`); none is RESP2's null.
    Bulk(u8, Option<Vec<u8>>),
    /// An array, set, push, map or attribute (`* ~ > % |`), keys and values in turn, with an attribute the reply it is of; none is RESP2's null array.
    Many(u8, Option<Vec<Reply>>),
}

impl Reply {
    /// The text of a bulk or line, for replies that are read rather than compared.
    pub fn text(&self) -> &[u8] {
        match self {
            Reply::Line(_, text) | Reply::Bulk(_, Some(text)) => text,
            _ => b"",
        }
    }

    /// The elements of an array, set or map.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Many(_, Some(items)) => items,
            _ => &[],
        }
    }

    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Line(b'-', _) | Reply::Bulk(b'!', _))
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Line(kind, text) => write!(out, "{}{}", *kind as char, text.escape_ascii()),
            Reply::Bulk(kind, Some(text)) => write!(out, "{}\"{}\"", *kind as char, text.escape_ascii()),
            Reply::Bulk(kind, None) => write!(out, "{}-1", *kind as char),
            Reply::Many(kind, Some(items)) => {
                write!(out, "{}", *kind as char)?;
                out.debug_list().entries(items).finish()
            }
            Reply::Many(kind, None) => write!(out, "{}-1", *kind as char),
        }
    }
}

/// A command as a person would type it.
pub fn shown(command: &Command) -> String {
    let words: Vec<String> = command
        .iter()
        .map(|word| {
            let text = word.escape_ascii().to_string();
            if text.is_empty() || text.contains([' ', '\\']) { format!("\"{text}\"") } else { text }
        })
        .collect();
    words.join(" ")
}

/// Appends the bytes of `command` to `out`.
pub fn encode(command: &Command, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for word in command {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The words of a command given as text, separated by single blanks.
pub fn words(text: &str) -> Command {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A connection to a server.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    at: usize,
}

impl Connection {
    /// Connects to a port of this machine.
    pub fn open(port: u16) -> io::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_LIMIT))?;
        stream.set_write_timeout(Some(REPLY_LIMIT))?;
        Ok(Connection { stream, buffer: Vec::new(), at: 0 })
    }

    /// Sends commands in one piece.
    pub fn send(&mut self, commands: &[Command]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            encode(command, &mut bytes);
        }
        self.stream.write_all(&bytes)
    }

    /// Sends a command given as text without blanks inside words; its reply.
    pub fn ask(&mut self, text: &str) -> io::Result<Reply> {
        self.send(&[words(text)])?;
        self.reply()
    }

    /// The next reply.
    pub fn reply(&mut self) -> io::Result<Reply> {
        let reply = self.parse()?;
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
        }
        Ok(reply)
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut piece = [0; 65536];
        let size = self.stream.read(&mut piece)?;
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.buffer.extend_from_slice(&piece[..size]);
        Ok(())
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut from = self.at;
        loop {
            if let Some(end) = self.buffer[from..].windows(2).position(|two| two == b"\r\n") {
                let line = self.buffer[self.at..from + end].to_vec();
                self.at = from + end + 2;
                return Ok(line);
            }
            from = self.at.max(self.buffer.len().saturating_sub(1));
            self.fill()?;
        }
    }

    fn parse(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (&kind, rest) = line.split_first().ok_or(io::ErrorKind::InvalidData)?;
        if b"+-:,#(_".contains(&kind) {
            return Ok(Reply::Line(kind, rest.to_vec()));
        }
        let count: i64 =
            std::str::from_utf8(rest).ok().and_then(|text| text.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        match (kind, usize::try_from(count)) {
            (b'$' | b'!' | b'=', Err(_)) => Ok(Reply::Bulk(kind, None)),
            (b'$' | b'!' | b'=', Ok(size)) => {
                while self.buffer.len() < self.at + size + 2 {
                    self.fill()?;
                }
                let text = self.buffer[self.at..self.at + size].to_vec();
                self.at += size + 2;
                Ok(Reply::Bulk(kind, Some(text)))
            }
            (b'*' | b'~' | b'>' | b'%', Err(_)) => Ok(Reply::Many(kind, None)),
            (b'*' | b'~' | b'>' | b'%', Ok(count)) => {
                let count = if kind == b'%' { 2 * count } else { count };
                let items: io::Result<Vec<Reply>> = (0..count).map(|_| self.parse()).collect();
                Ok(Reply::Many(kind, Some(items?)))
            }
            // An attribute belongs to the reply that follows it.
            (b'|', Ok(count)) => {
                let items: io::Result<Vec<Reply>> = (0..2 * count + 1).map(|_| self.parse()).collect();
                Ok(Reply::Many(kind, Some(items?)))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
