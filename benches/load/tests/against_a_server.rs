//! The generator against small servers of the test's own: one that stalls, one that lies, one that hangs up.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barium_load::options::{Arrivals, Options};
use barium_load::report::Tally;
use barium_load::run::Load;

/// What the server does with the `n`th request.
type Quirk = fn(n: usize, stream: &mut TcpStream) -> bool;

/// Serves PING and SET; every connection on a thread, all of which end with their connection.
fn server(quirk: Quirk) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let count = Arc::new(Mutex::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, count) = (stream.expect("a connection"), count.clone());
            std::thread::spawn(move || {
                let (mut buffer, mut kept) = ([0; 4096], Vec::new());
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    kept.extend_from_slice(&buffer[..n]);
                    while let Some(len) = command_len(&kept) {
                        let ping = kept.starts_with(b"*1");
                        kept.drain(..len);
                        if ping {
                            let _ = stream.write_all(b"+PONG\r\n");
                            continue;
                        }
                        // The lock is held while the quirk lasts: a server that stalls, stalls for all.
                        let mut count = count.lock().expect("sound");
                        *count += 1;
                        if !quirk(*count, &mut stream) {
                            return;
                        }
                    }
                }
            });
        }
    });
    address
}

/// Length of the whole command at the beginning of `bytes`.
fn command_len(bytes: &[u8]) -> Option<usize> {
    let lines = if bytes.first()? == &b'*' { 1 + 2 * usize::from(*bytes.get(1)? - b'0') } else { 1 };
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    ends.nth(lines - 1)
}

fn options(address: SocketAddr) -> Options {
    let SocketAddr::V4(server) = address else { panic!("IPv4") };
    let size = (0, 0);
    Options {
        server,
        clients: 4,
        ratio: (1, 0),
        size,
        fill: false,
        patience: Duration::from_millis(700),
        ..Options::default()
    }
}

fn measured(options: &Options, requests: u64) -> Tally {
    let mut load = Load::new(options).expect("epoll");
    let connects = load.connect(options.clients).expect("connects");
    assert!(connects.complete(), "{} of {} are there", connects.made, connects.wanted);
    load.measure(None, Some(requests)).expect("runs")
}

fn ok(stream: &mut TcpStream) -> bool {
    stream.write_all(b"+OK\r\n").is_ok()
}

#[test]
fn a_stall_counts_for_all_that_it_holds_up() {
    let stalling: Quirk = |n, stream| {
        if n == 100 {
            std::thread::sleep(Duration::from_millis(300));
        }
        ok(stream)
    };
    let open = Options { rate: Some(500.0), arrivals: Arrivals::Fixed, ..options(server(stalling)) };
    let tally = measured(&open, 400);
    assert_eq!((tally.right, tally.failed(false)), (400, false));
    // 300 ms hold up about 150 of the 400 requests, half of which by more than 150 ms.
    let late = tally.latency.count_between(140_000, u64::MAX);
    assert!((60..=130).contains(&late), "{late} requests were late");
    // Seen from when they were sent, only those under way were.
    assert!(tally.service.count_between(140_000, u64::MAX) <= 4);
    assert!(tally.longest_backlog > 100, "{}", tally.longest_backlog);
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let started = Instant::now();
    let tally = measured(&Options { rate: Some(1000.0), ..options(server(|_, stream| ok(stream))) }, 500);
    let took = started.elapsed().as_secs_f64();
    assert!((0.35..1.5).contains(&took), "500 requests at 1,000 a second took {took} s");
    assert_eq!(tally.answers(), 500);
}

#[test]
fn a_closed_loop_sends_what_was_asked_for_in_batches() {
    let tally = measured(&Options { pipeline: 7, ..options(server(|_, stream| ok(stream))) }, 1000);
    assert_eq!((tally.right, tally.latency.len(), tally.failed(false)), (1000, 1000, false));
}

#[test]
fn lies_errors_and_silence_are_told_apart() {
    let lying: Quirk = |n, stream| match n {
        10 => stream.write_all(b":1\r\n").is_ok(),
        20 => stream.write_all(b"-OOM command not allowed\r\n").is_ok(),
        _ => ok(stream),
    };
    let tally = measured(&options(server(lying)), 100);
    assert_eq!((tally.right, tally.wrong, tally.errors), (98, 1, 1));
    assert_eq!(tally.first_error.as_deref(), Some("OOM command not allowed"));
    let silent: Quirk = |n, stream| n % 30 == 0 || ok(stream);
    let tally = measured(&Options { clients: 1, ..options(server(silent)) }, 100);
    assert_eq!((tally.right, tally.unanswered), (29, 1));
}

#[test]
fn lost_connections_are_counted_and_the_others_go_on() {
    let tally = measured(&options(server(|n, stream| n != 50 && ok(stream))), 200);
    assert_eq!((tally.right, tally.resets, tally.unanswered), (199, 1, 1));
    let tally = measured(&Options { clients: 1, ..options(server(|n, stream| n != 50 && ok(stream))) }, 200);
    assert_eq!((tally.right, tally.resets), (49, 1));
    assert!(tally.failed(true));
}
