//! A bad wire between a tap device and a guest: frames are lost, late, out of order or doubled, by a seed.
//!
//! The kernel's own (netem) is not everywhere. The guest's side is a pair of Unix datagram sockets, which QEMU has as
//! `-netdev dgram`; they lose nothing by themselves. The tap's descriptor is standard input, opened by whoever starts this
//! (tests/qemu/relay.py), for opening one takes a system call that safe Rust has no name for.
#![forbid(unsafe_code)]

mod wire;

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use wire::{Counts, Quality, Wire};

const USAGE: &str = "\
barium-relay: a bad wire between a tap device and a guest

    barium-relay --socket PATH --guest PATH [options] <>tap

    --socket PATH      Unix datagram socket to make; the guest's frames come here
    --guest PATH       the guest's socket
    --loss SHARE       of the frames are lost, each way (0)
    --delay-ms MS      that every frame takes, each way (0)
    --reorder SHARE    of the frames take longer (0)
    --reorder-ms MS    by so much (1)
    --duplicate SHARE  of the frames come twice (0)
    --limit FRAMES     on the wire each way, beyond which more are lost (10000)
    --seed N           of all that (1)

Frames other than IPv4 (ARP) are only delayed. Once a second, where anything changed, a line of JSON on standard output tells
what was done. Ends when standard output is closed, or by a signal.";

struct Options {
    socket: PathBuf,
    guest: PathBuf,
    quality: Quality,
    seed: u64,
}

fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Options>, lexopt::Error> {
    let (mut socket, mut guest, mut seed) = (None, None, 1);
    let mut quality = Quality { reorder_us: 1000, limit: 10_000, ..Quality::default() };
    let share = |parser: &mut lexopt::Parser| -> Result<f64, lexopt::Error> {
        let share: f64 = parser.value()?.parse()?;
        if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("a share is from 0 to 1".into()) }
    };
    let time = |parser: &mut lexopt::Parser| -> Result<u64, lexopt::Error> {
        let ms: f64 = parser.value()?.parse()?;
        if (0.0..=60_000.0).contains(&ms) { Ok((ms * 1000.0) as u64) } else { Err("at most a minute".into()) }
    };
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(word) = parser.next()? {
        match word {
            Long("socket") => socket = Some(PathBuf::from(parser.value()?)),
            Long("guest") => guest = Some(PathBuf::from(parser.value()?)),
            Long("loss") => quality.loss = share(&mut parser)?,
            Long("delay-ms") => quality.delay_us = time(&mut parser)?,
            Long("reorder") => quality.reorder = share(&mut parser)?,
            Long("reorder-ms") => quality.reorder_us = time(&mut parser)?,
            Long("duplicate") => quality.duplicate = share(&mut parser)?,
            Long("limit") => quality.limit = parser.value()?.parse()?,
            Long("seed") => seed = parser.value()?.parse()?,
            Long("help") => return Ok(None),
            _ => return Err(word.unexpected()),
        }
    }
    let (Some(socket), Some(guest)) = (socket, guest) else { return Err("--socket and --guest are needed".into()) };
    Ok(Some(Options { socket, guest, quality, seed }))
}

fn json(name: &str, c: &Counts) -> String {
    format!(
        r#""{name}":{{"frames":{},"lost":{},"reordered":{},"duplicated":{},"overflowed":{}}}"#,
        c.frames, c.lost, c.reordered, c.duplicated, c.overflowed
    )
}

/// Whether an attempt to send is to be made again later: the receiver's queue is full.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Hands a frame to the guest. Returns false if it has to wait. While there is no guest, frames go nowhere.
fn to_guest(socket: &UnixDatagram, guest: &Path, frame: &[u8]) -> bool {
    !matches!(socket.send_to(frame, guest), Err(error) if is_full(&error))
}

fn relay(options: &Options) -> io::Result<()> {
    let stdin = io::stdin();
    let tap = stdin.as_fd();
    rustix::io::ioctl_fionbio(tap, true)?;
    // What a run that was killed left behind.
    let _ = std::fs::remove_file(&options.socket);
    let socket = UnixDatagram::bind(&options.socket)?;
    socket.set_nonblocking(true)?;
    let started = Instant::now();
    let now_us = || started.elapsed().as_micros() as u64;
    let mut inward = Wire::new(options.quality, options.seed);
    let mut outward = Wire::new(options.quality, options.seed ^ 0x5bd1_e995);
    let (mut told, mut tell_us) = ((Counts::default(), Counts::default()), 1_000_000);
    let mut buffer = vec![0; 65_536];
    loop {
        let now = now_us();
        let mut full = false;
        inward.leave(now, |frame| {
            let taken = to_guest(&socket, &options.guest, frame);
            full |= !taken;
            taken
        });
        outward.leave(now, |frame| match rustix::io::write(tap, frame) {
            Err(error) if is_full(&error.into()) => {
                full = true;
                false
            }
            // Also where the device is down: a wire that leads nowhere.
            _ => true,
        });
        let counts = (inward.counts, outward.counts);
        if now >= tell_us && counts != told {
            use std::io::Write;
            (told, tell_us) = (counts, now + 1_000_000);
            let mut out = io::stdout().lock();
            writeln!(out, "{{{},{}}}", json("to_guest", &counts.0), json("from_guest", &counts.1))?;
        }
        // A queue that was full is looked at again soon: no event tells when another's socket has room.
        let next = inward.next_us().into_iter().chain(outward.next_us()).min().unwrap_or(u64::MAX);
        let again = if full { now + 100 } else { next };
        let left = again.min(tell_us.max(now + 1000)).saturating_sub(now_us());
        let timeout = Timespec { tv_sec: (left / 1_000_000) as i64, tv_nsec: (left % 1_000_000 * 1000) as i64 };
        let mut ready = [PollFd::from_borrowed_fd(tap, PollFlags::IN), PollFd::new(&socket, PollFlags::IN)];
        match poll(&mut ready, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Bounded, so that what is due leaves in between.
        for _ in 0..64 {
            match rustix::io::read(tap, &mut buffer[..]) {
                Ok(n) => inward.enter(now_us(), &buffer[..n]),
                Err(error) if is_full(&error.into()) => break,
                // The device is down; it may come up again.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(1));
                    break;
                }
            }
        }
        for _ in 0..64 {
            match socket.recv(&mut buffer) {
                Ok(n) => outward.enter(now_us(), &buffer[..n]),
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
    }
}

fn main() -> ExitCode {
    match parse(std::env::args_os().skip(1)) {
        Ok(None) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Ok(Some(options)) => match relay(&options) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("barium-relay: {error}");
                ExitCode::FAILURE
            }
        },
        Err(problem) => {
            eprintln!("barium-relay: {problem}");
            ExitCode::from(2)
        }
    }
}
