//! Opening and closing, segment by segment: the SYN queue, TIME-WAIT, resets.

mod common;

use barium_net::Fate;
use common::raw::*;
use common::{PEER_ADDR, config};

fn peer(port: u16) -> Peer {
    Peer::new(PEER_ADDR, port)
}

#[test]
fn a_syn_ack_offers_what_the_syn_offered() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    let answer = p.say(&mut bench, SYN, &[]);
    assert_eq!(answer[0].options, [2, 4, 5, 0xb4, 1, 3, 3, 4, 1, 1, 4, 2]);
    assert_eq!(answer[0].window, 4096, "not scaled in a SYN");
    let mut p = peer(2);
    let mut seg = p.seg(SYN, &[]);
    seg.options = vec![];
    bench.nic.rx.push_back(seg.frame(p.addr));
    let answer = p.hear(bench.poll());
    assert_eq!(answer[0].options, [2, 4, 5, 0xb4], "MSS only");
    p.seq += 1;
    p.say(&mut bench, ACK, &[]);
    let answer = p.say(&mut bench, ACK | PSH, b"hello");
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0].payload, b"hello");
    assert_eq!(answer[0].window, 4096, "no scale was agreed");
}

#[test]
fn data_may_come_with_the_last_segment_of_the_handshake() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    p.say(&mut bench, SYN, &[]);
    let answer = p.say(&mut bench, ACK | PSH, b"PING");
    assert_eq!(answer.len(), 1);
    assert_eq!((answer[0].payload.as_slice(), answer[0].ack), (&b"PING"[..], p.seq));
}

#[test]
fn a_lost_syn_ack_is_repeated_and_then_given_up() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    p.say(&mut bench, SYN, &[]);
    let sent = bench.pass(60_000_000);
    assert_eq!(sent.len(), 4);
    let first = Seg::parse(&sent[0].1, PEER_ADDR).expect("TCP");
    assert_eq!((first.flags, first.seq.wrapping_add(1)), (SYN | ACK, p.ack));
    assert_eq!(bench.stack.half_open(), 0);
    assert_eq!(bench.stack.stats().half_open_expired, 1);
    assert_eq!(bench.stack.next_deadline(), None, "nothing left to wait for");
}

#[test]
fn a_repeated_syn_is_answered_alike_and_another_one_anew() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    let first = p.say(&mut bench, SYN, &[]);
    p.seq -= 1;
    assert_eq!(p.say(&mut bench, SYN, &[]), first);
    p.seq = p.seq.wrapping_add(100_000);
    let other = p.say(&mut bench, SYN, &[]);
    assert_eq!(other[0].ack, p.seq);
    assert_eq!(bench.stack.half_open(), 1);
    assert_eq!(p.say(&mut bench, ACK, &[]), []);
    assert_eq!(bench.service.opened, 1);
}

#[test]
fn wrong_acknowledgements_of_a_syn_ack_are_reset() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    p.say(&mut bench, SYN, &[]);
    let mut wrong = p.clone();
    wrong.ack = wrong.ack.wrapping_add(1);
    let answer = wrong.say(&mut bench, ACK, &[]);
    assert_eq!((answer[0].flags, answer[0].seq), (RST, p.ack.wrapping_add(1)));
    assert_eq!(bench.service.opened, 0);
    assert_eq!(p.say(&mut bench, ACK, &[]), []);
    assert_eq!(bench.service.opened, 1);
}

#[test]
fn strays_are_reset_as_rfc_9293_says() {
    let mut bench = Bench::new(config());
    let p = peer(1);
    // A SYN for a port nobody listens at: RST with the acknowledgement of the SYN.
    let mut seg = p.seg(SYN, &[]);
    seg.dst = 80;
    bench.nic.rx.push_back(seg.frame(p.addr));
    let answer = Seg::parse(&bench.poll()[0], p.addr).expect("TCP");
    assert_eq!((answer.flags, answer.seq, answer.ack), (RST | ACK, 0, p.seq.wrapping_add(1)));
    assert_eq!((answer.src, answer.dst), (80, 1));
    // Data with an acknowledgement: RST with that number.
    let mut seg = p.seg(ACK, b"x");
    seg.ack = 77;
    bench.nic.rx.push_back(seg.frame(p.addr));
    let answer = Seg::parse(&bench.poll()[0], p.addr).expect("TCP");
    assert_eq!((answer.flags, answer.seq), (RST, 77));
    // A RST is never answered.
    bench.nic.rx.push_back(p.seg(RST, &[]).frame(p.addr));
    bench.nic.rx.push_back(p.seg(RST | ACK, &[]).frame(p.addr));
    assert!(bench.poll().is_empty());
    // No more than a bounded number a second.
    for i in 0..3000u32 {
        let mut seg = p.seg(ACK, b"x");
        seg.src = 2000 + i as u16;
        bench.nic.rx.push_back(seg.frame(p.addr));
    }
    assert!(bench.poll().len() < 1000);
    assert!(bench.stack.stats().resets_suppressed >= 2000);
}

#[test]
fn a_syn_flood_shuts_nobody_out_and_costs_little() {
    let mut bench = Bench::new(config());
    for i in 0..100_000u32 {
        let [_, a, b, c] = i.to_be_bytes();
        let p = Peer::new([11, a, b, c], 1000 + (i % 60_000) as u16);
        bench.nic.rx.push_back(p.seg(SYN, &[]).frame(p.addr));
        if i % 100 == 99 {
            bench.poll();
        }
    }
    assert_eq!(bench.stack.half_open(), 2048);
    assert_eq!(bench.stack.stats().half_open_evicted, 100_000 - 2048);
    let mut p = peer(1);
    p.open(&mut bench);
    assert_eq!(p.say(&mut bench, ACK | PSH, b"PING")[0].payload, b"PING");
    bench.pass(40_000_000);
    assert_eq!(bench.stack.half_open(), 0);
    assert_eq!(bench.stack.connections(), 1);
}

#[test]
fn a_thousand_connect_at_once_three_times_over() {
    let mut bench = Bench::new(config());
    for round in 0..3 {
        let mut peers: Vec<Peer> = (0..1500).map(|i| peer(1000 + round * 2000 + i)).collect();
        for p in &mut peers {
            p.send(&mut bench, SYN, &[]);
        }
        let hear_all = |peers: &mut Vec<Peer>, frames: Vec<Vec<u8>>| {
            for frame in frames {
                let port = u16::from_be_bytes([frame[36], frame[37]]);
                let at = usize::from(port - 1000 - round * 2000);
                peers[at].hear(vec![frame]);
            }
        };
        let frames = bench.poll();
        assert_eq!(frames.len(), 1500);
        hear_all(&mut peers, frames);
        for p in &mut peers {
            p.send(&mut bench, ACK, &[]);
            p.send(&mut bench, ACK | PSH, b"PING");
        }
        let frames = bench.poll();
        assert_eq!(frames.len(), 1500, "one answer each, with the acknowledgement in it");
        hear_all(&mut peers, frames);
        for p in &mut peers {
            p.send(&mut bench, ACK | FIN, &[]);
        }
        let frames = bench.poll();
        hear_all(&mut peers, frames);
        for p in &mut peers {
            p.send(&mut bench, ACK, &[]);
        }
        bench.poll();
        assert_eq!(bench.stack.connections(), 0);
    }
    assert_eq!((bench.service.opened, bench.service.closed), (4500, 4500));
}

#[test]
fn twenty_thousand_in_a_row_from_the_same_ports() {
    let mut bench = Bench::new(config());
    for i in 0..20_000u32 {
        // Every port is used again and again, without the wait that the peer would owe.
        let mut p = peer(1000 + (i % 50) as u16);
        p.seq = i.wrapping_mul(100_000);
        p.open(&mut bench);
        assert_eq!(p.say(&mut bench, ACK | PSH, b"PING")[0].payload, b"PING");
        let last = p.say(&mut bench, ACK | FIN, &[]);
        assert!(last.last().expect("FIN").has(FIN | ACK), "{last:?}");
        assert_eq!(p.say(&mut bench, ACK, &[]), []);
        bench.now_us += 100;
    }
    assert_eq!(bench.stack.connections(), 0);
    assert_eq!(bench.stack.stats().accepted, 20_000);
}

#[test]
fn closing_first_leaves_a_time_wait_that_a_newer_syn_replaces() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    p.open(&mut bench);
    for conn in bench.service.conns.values_mut() {
        conn.fate = Fate::CloseAfterOutput;
    }
    let answer = p.say(&mut bench, ACK | PSH, b"QUIT");
    assert_eq!(
        (answer[0].payload.as_slice(), answer[0].flags),
        (&b"QUIT"[..], ACK | FIN),
        "data and FIN in one segment"
    );
    assert_eq!(bench.service.closed, 1, "the service is done with it");
    assert_eq!(bench.stack.connections(), 1, "the peer is not");
    assert_eq!(p.say(&mut bench, ACK, &[]), []);
    let answer = p.say(&mut bench, ACK | FIN, &[]);
    assert_eq!((answer[0].flags, answer[0].ack), (ACK, p.seq));
    assert_eq!((bench.stack.connections(), bench.stack.time_wait()), (0, 1));
    // The FIN again, because its acknowledgement was lost.
    p.seq -= 1;
    let answer = p.say(&mut bench, ACK | FIN, &[]);
    assert_eq!((answer[0].flags, answer[0].ack, answer[0].seq), (ACK, p.seq, p.ack));
    // An old SYN is no new connection, a RST no end of the wait.
    let mut old = p.clone();
    old.seq = p.seq.wrapping_sub(5000);
    assert_eq!(old.say(&mut bench, SYN, &[])[0].flags, ACK);
    assert_eq!(p.say(&mut bench, RST, &[]), []);
    assert_eq!(bench.stack.time_wait(), 1);
    let before = p.ack;
    p.seq = p.seq.wrapping_add(1);
    p.open(&mut bench);
    assert!((p.ack.wrapping_sub(before) as i32) > 0, "the new sequence numbers lie after the old");
    assert_eq!(bench.stack.time_wait(), 0);
    assert_eq!(bench.stack.stats().time_wait_reused, 1);
    assert_eq!(p.say(&mut bench, ACK | PSH, b"PING")[0].payload, b"PING");
}

#[test]
fn time_wait_ends() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    p.open(&mut bench);
    for conn in bench.service.conns.values_mut() {
        conn.fate = Fate::CloseAfterOutput;
    }
    p.say(&mut bench, ACK | PSH, b"QUIT");
    p.say(&mut bench, ACK | FIN, &[]);
    assert_eq!(bench.stack.time_wait(), 1);
    bench.pass(16_000_000);
    assert_eq!(bench.stack.time_wait(), 0);
    assert_eq!(bench.stack.next_deadline(), None);
}

#[test]
fn a_reborn_peer_gets_through_its_own_old_connection() {
    let mut bench = Bench::new(config());
    let mut old = peer(1);
    old.open(&mut bench);
    // It forgot everything and begins anew: it is asked, answers with a RST, and its next SYN is welcome (RFC 5961 4.2).
    let mut p = peer(1);
    p.seq = 0x7000_0000;
    let answer = p.say(&mut bench, SYN, &[]);
    assert_eq!((answer[0].flags, answer[0].ack, answer[0].seq), (ACK, old.seq, old.ack));
    let mut rst = p.seg(RST, &[]);
    rst.seq = answer[0].ack;
    bench.nic.rx.push_back(rst.frame(p.addr));
    bench.poll();
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 1));
    p.seq = 0x7000_0000;
    p.open(&mut bench);
    assert_eq!(bench.service.opened, 2);
}

#[test]
fn only_the_exact_rst_resets() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    p.open(&mut bench);
    let mut rst = p.seg(RST, &[]);
    rst.seq = p.seq.wrapping_add(10);
    bench.nic.rx.push_back(rst.frame(p.addr));
    let answer = p.hear(bench.poll());
    assert_eq!((answer[0].flags, answer[0].ack, answer[0].seq), (ACK, p.seq, p.ack), "asked about");
    for seq in [p.seq.wrapping_sub(1), p.seq.wrapping_add(1 << 20)] {
        rst.seq = seq;
        bench.nic.rx.push_back(rst.frame(p.addr));
        assert!(bench.poll().is_empty(), "outside the window");
    }
    assert_eq!(bench.stack.connections(), 1);
    rst.seq = p.seq;
    bench.nic.rx.push_back(rst.frame(p.addr));
    assert!(bench.poll().is_empty());
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 1));
    assert_eq!(bench.stack.stats().broken, 1);
}

#[test]
fn a_refused_connection_and_one_too_many_are_reset() {
    let mut config = config();
    config.max_connections = 1;
    let mut bench = Bench::new(config);
    bench.service.refuse = true;
    let mut p = peer(1);
    p.say(&mut bench, SYN, &[]);
    let answer = p.say(&mut bench, ACK, &[]);
    assert!(answer[0].has(RST));
    assert_eq!((bench.stack.connections(), bench.stack.stats().refused), (0, 1));
    bench.service.refuse = false;
    peer(2).open(&mut bench);
    let mut p = peer(3);
    p.say(&mut bench, SYN, &[]);
    assert!(p.say(&mut bench, ACK, &[])[0].has(RST));
    assert_eq!((bench.stack.connections(), bench.stack.stats().refused), (1, 2));
}

#[test]
fn an_abort_sends_a_rst() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    p.open(&mut bench);
    let id = *bench.service.conns.keys().next().expect("one");
    bench.service.conns.get_mut(&id).expect("one").fate = Fate::Abort;
    bench.service.ready.push(id);
    let answer = p.hear(bench.poll());
    assert!(answer[0].has(RST));
    assert_eq!(answer[0].seq, p.ack);
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 1));
}

#[test]
fn half_closed_peers_get_their_answer() {
    let mut bench = Bench::new(config());
    bench.service.close_on_finish = false;
    let mut p = peer(1);
    p.open(&mut bench);
    p.send(&mut bench, ACK | PSH, b"one");
    p.send(&mut bench, ACK | FIN, b"two");
    let answer = p.hear(bench.poll());
    assert_eq!(answer[0].payload, b"onetwo");
    assert_eq!(answer[0].ack, p.seq, "the FIN is acknowledged with it");
    let id = *bench.service.conns.keys().next().expect("one");
    let conn = bench.service.conns.get_mut(&id).expect("one");
    assert!(conn.peer_finished);
    conn.out.extend(b"three");
    conn.fate = Fate::CloseAfterOutput;
    bench.service.ready.push(id);
    let answer = p.hear(bench.poll());
    assert_eq!((answer[0].payload.as_slice(), answer[0].has(FIN)), (&b"three"[..], true));
    assert_eq!(p.say(&mut bench, ACK, &[]), []);
    assert_eq!((bench.stack.connections(), bench.stack.time_wait()), (0, 0));
}

#[test]
fn a_peer_that_never_says_goodbye_is_not_waited_for_long() {
    let mut bench = Bench::new(config());
    let mut p = peer(1);
    p.open(&mut bench);
    for conn in bench.service.conns.values_mut() {
        conn.fate = Fate::CloseAfterOutput;
    }
    p.say(&mut bench, ACK | PSH, b"QUIT");
    // Our FIN is acknowledged, its own never comes.
    assert_eq!(p.say(&mut bench, ACK, &[]), []);
    let sent = bench.pass(120_000_000);
    assert_eq!(bench.stack.connections(), 0);
    assert!(sent.len() <= 3, "{}", sent.len());
}
