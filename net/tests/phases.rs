//! Turns in which the service is another's: what waits for it is kept, and the rest goes on.

mod common;

use common::raw::*;
use common::{ADDR, PEER_ADDR, config};

/// A turn without the second phase. Returns the frames sent.
fn turn_without_service(bench: &mut Bench) -> Vec<Vec<u8>> {
    bench.stack.ingress(&mut bench.nic, bench.now_us, |_, _| false);
    bench.stack.egress(&mut bench.nic, bench.now_us);
    bench.nic.tx.drain(..).collect()
}

#[test]
fn batches_are_kept_until_the_service_can_be_had() {
    let mut bench = Bench::new(config());
    let mut peers = [Peer::new(PEER_ADDR, 1), Peer::new(PEER_ADDR, 2)];
    assert!(!bench.stack.wants_service());
    for p in &mut peers {
        // A handshake needs no service.
        p.send(&mut bench, SYN, &[]);
        let answer = turn_without_service(&mut bench);
        assert_eq!(p.hear(answer)[0].flags, SYN | ACK);
        p.send(&mut bench, ACK, &[]);
        assert!(turn_without_service(&mut bench).is_empty());
    }
    assert!(bench.stack.wants_service());
    for piece in [&b"one "[..], b"two ", b"three"] {
        for p in &mut peers {
            p.send(&mut bench, ACK | PSH, piece);
        }
        assert!(turn_without_service(&mut bench).is_empty(), "nothing to say, and acknowledgements may wait");
    }
    assert_eq!((bench.service.opened, bench.service.conns.len()), (0, 0));
    let answer = bench.poll();
    assert_eq!(bench.service.opened, 2);
    for p in &mut peers {
        let segments = p.hear(answer.clone());
        let [segment] = segments.iter().filter(|s| s.dst == p.port).collect::<Vec<_>>()[..] else {
            panic!("{segments:?}")
        };
        assert_eq!((segment.payload.as_slice(), segment.ack), (&b"one two three"[..], p.seq));
    }
    assert!(!bench.stack.wants_service());
}

#[test]
fn what_ended_meanwhile_is_told_once_and_before_what_began() {
    let mut bench = Bench::new(config());
    let mut p = Peer::new(PEER_ADDR, 1);
    p.open(&mut bench);
    // One that the service knows and one that it never heard of end; another begins.
    p.send(&mut bench, RST | ACK, &[]);
    turn_without_service(&mut bench);
    let mut unknown = Peer::new(PEER_ADDR, 2);
    unknown.send(&mut bench, SYN, &[]);
    let answer = turn_without_service(&mut bench);
    unknown.hear(answer);
    unknown.send(&mut bench, ACK, &[]);
    unknown.send(&mut bench, RST | ACK, &[]);
    turn_without_service(&mut bench);
    let mut q = Peer::new(PEER_ADDR, 3);
    q.open(&mut bench);
    bench.poll();
    assert_eq!(bench.service.conns.len(), 1);
    assert_eq!(bench.service.opened, bench.service.closed + 1);
    assert_eq!(bench.stack.connections(), 1);
    assert_eq!(q.say(&mut bench, ACK | PSH, b"here")[0].payload, b"here");
}

#[test]
fn frames_of_others_are_left_alone() {
    let mut bench = Bench::new(config());
    let mut p = Peer::new(PEER_ADDR, 1);
    p.send(&mut bench, SYN, &[]);
    let mut frames = Vec::new();
    let received = bench.stack.ingress(&mut bench.nic, bench.now_us, |frame, verified| {
        frames.push((frame.to_vec(), verified));
        true
    });
    bench.stack.egress(&mut bench.nic, bench.now_us);
    assert_eq!((received, bench.stack.half_open(), bench.nic.tx.len()), (1, 0, 0));
    // Where it belongs it is handed in.
    let (mut frame, verified) = frames.remove(0);
    bench.stack.input(&mut bench.nic, bench.now_us, &mut frame, verified);
    assert_eq!((bench.stack.half_open(), bench.nic.tx.len()), (1, 1));
}

#[test]
fn a_stack_is_told_its_address() {
    let mut bench = Bench::new(barium_net::Config { address: barium_net::AddressMode::Told, ..config() });
    let mut p = Peer::new(PEER_ADDR, 1);
    assert!(p.say(&mut bench, SYN, &[]).is_empty(), "it has none yet");
    bench.stack.tell_address(Some(ADDR));
    let mut q = Peer::new(PEER_ADDR, 2);
    q.open(&mut bench);
    bench.stack.tell_address(Some(ADDR));
    assert_eq!(bench.stack.connections(), 1, "nothing new");
    bench.stack.tell_address(None);
    bench.poll();
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 1));
}
