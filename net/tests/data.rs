//! The data phase, segment by segment: acknowledgements, windows, retransmission, vanished peers, full rings, memory.

mod common;

use barium_net::ConnId;
use common::raw::*;
use common::{EchoConn, PEER_ADDR, config, pattern};

fn opened(bench: &mut Bench) -> Peer {
    let mut p = Peer::new(PEER_ADDR, 1);
    p.open(bench);
    p
}

fn only(bench: &mut Bench) -> (ConnId, &mut EchoConn) {
    let (id, conn) = bench.service.conns.iter_mut().next().expect("one connection");
    (*id, conn)
}

/// Lets the service say something of its own accord.
fn push(bench: &mut Bench, bytes: &[u8]) {
    let (id, conn) = only(bench);
    conn.out.extend(bytes);
    bench.service.ready.push(id);
}

#[test]
fn a_pipeline_is_answered_in_full_segments_and_one_flush() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    let flushes = bench.nic.flushes;
    for _ in 0..10 {
        p.send(&mut bench, ACK | PSH, &[b'x'; 146]);
    }
    let answer = p.hear(bench.poll());
    assert_eq!(bench.nic.flushes, flushes + 1);
    assert!(answer.iter().all(|seg| seg.ack == p.seq));
    assert_eq!(answer.iter().map(|seg| seg.payload.len()).collect::<Vec<_>>(), [1460]);
}

#[test]
fn what_wraps_around_the_receive_buffer_comes_in_one_piece() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    let size = config().initial_receive_buffer;
    for round in 0..50_usize {
        let bytes: Vec<u8> = (0..331).map(|i| (round * 7 + i) as u8).collect();
        // Now and then only a part is taken, which ends before, at or behind the buffer's end.
        let take = 31 * (round % 11);
        bench.service.take = (take > 0).then_some(take);
        p.send(&mut bench, ACK | PSH, &bytes);
        let mut echoed: Vec<u8> = p.hear(bench.poll()).iter().flat_map(|seg| seg.payload.clone()).collect();
        let (id, conn) = only(&mut bench);
        assert_eq!(conn.pieces, round * 2 + 1);
        if take > 0 {
            assert_eq!(echoed, bytes[..take]);
            bench.service.take = None;
            bench.service.ready.push(id);
            echoed.extend(p.hear(bench.poll()).iter().flat_map(|seg| seg.payload.clone()));
        } else {
            conn.pieces += 1;
        }
        assert_eq!(echoed, bytes);
    }
    assert!(only(&mut bench).1.received > 4 * size);
}

#[test]
fn checksums_that_the_device_does_are_left_to_it() {
    let damaged = |p: &mut Peer, payload: &[u8]| {
        let mut frame = p.seg(ACK | PSH, payload).frame(p.addr);
        frame[34 + 16] ^= 0xff;
        frame
    };
    for checksums in [false, true] {
        let mut nic = barium_nic::fake::FakeNic::new(common::MAC, 256);
        nic.checksums = checksums;
        let mut bench = Bench::with_nic(config(), nic);
        // The peer checks what it is sent: the stack leaves the pseudo-header's sum, and the device goes on from there.
        let mut p = opened(&mut bench);
        let answer = p.say(&mut bench, ACK | PSH, b"odd");
        assert_eq!(answer.iter().map(|seg| &seg.payload[..]).collect::<Vec<_>>(), [b"odd"]);
        // A frame from the same host never had a checksum; without the device's word for it, it is a broken one.
        bench.nic.rx.push_back(damaged(&mut p, b"more"));
        p.seq = p.seq.wrapping_add(4);
        let answer = p.hear(bench.poll());
        assert_eq!(answer.iter().any(|seg| seg.payload == b"more"), checksums);
    }
}

/// What two stacks, one of whose devices cuts large frames up, say in the same conversation with a peer who takes `mss`.
fn with_and_without_cutting(mss: u16, window: u16, length: usize) -> ([Vec<Seg>; 2], usize) {
    let nic = || barium_nic::fake::FakeNic::new(common::MAC, 4096);
    let mut large_sent = 0;
    let said = [nic(), nic().cutting(8000)].map(|nic| {
        let mut bench = Bench::with_nic(config(), nic);
        let mut p = Peer::new(PEER_ADDR, 1);
        p.window = window;
        let mut syn = p.seg(SYN, &[]);
        syn.options[2..4].copy_from_slice(&mss.to_be_bytes());
        bench.nic.rx.push_back(syn.frame(p.addr));
        p.seq = p.seq.wrapping_add(1);
        p.hear(bench.poll());
        p.say(&mut bench, ACK, &[]);
        push(&mut bench, &pattern(length, 3));
        let mut said = p.hear(bench.poll());
        for _ in 0..1000 {
            // Now and then the peer says something too, so that acknowledgements change on the way.
            let word: &[u8] = if said.len().is_multiple_of(3) { b"!" } else { b"" };
            let more = p.say(&mut bench, ACK, word);
            if more.is_empty() {
                break;
            }
            said.extend(more);
        }
        large_sent += bench.nic.large_sent;
        said
    });
    (said, large_sent)
}

#[test]
fn a_device_that_cuts_large_frames_up_makes_no_difference_on_the_wire() {
    for (mss, window) in [(1460, 512), (1460, 60), (536, 512), (900, 13)] {
        for length in [1, 1460, 1461, 2920, 7000, 8000, 100_000] {
            let ([plain, cut], large_sent) = with_and_without_cutting(mss, window, length);
            assert_eq!(plain, cut, "{mss} {window} {length}");
            let bytes: Vec<u8> = cut.iter().flat_map(|seg| seg.payload.clone()).collect();
            // With the answers to what the peer said.
            assert_eq!(bytes[..length], pattern(length, 3));
            assert_eq!(large_sent > 0, length > usize::from(mss), "{mss} {window} {length}");
        }
    }
}

#[test]
fn segments_go_out_by_themselves_while_the_large_buffers_are_on_their_way() {
    let mut nic = barium_nic::fake::FakeNic::new(common::MAC, 4096).cutting(5000);
    nic.large_left = 1;
    let mut bench = Bench::with_nic(config(), nic);
    let mut p = opened(&mut bench);
    push(&mut bench, &pattern(14_000, 3));
    let said = p.hear(bench.poll());
    assert_eq!(said.iter().flat_map(|seg| seg.payload.clone()).collect::<Vec<u8>>(), pattern(14_000, 3));
    assert_eq!(bench.nic.large_sent, 1);
}

#[test]
fn an_acknowledgement_waits_for_the_answer_but_not_for_long() {
    let mut bench = Bench::new(config());
    bench.service.mute = true;
    let mut p = opened(&mut bench);
    assert_eq!(p.say(&mut bench, ACK | PSH, b"half a com"), []);
    let start = bench.now_us;
    let sent = bench.pass(1_000_000);
    assert_eq!(sent.len(), 1);
    assert!((10_000..40_000).contains(&(sent[0].0 - start)), "{}", sent[0].0 - start);
    // More than a segment's worth is acknowledged at once.
    p.send(&mut bench, ACK, &[1; 1460]);
    let answer = p.say(&mut bench, ACK, &[1; 1460]);
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0].ack, p.seq);
    // Pure acknowledgements are answered with nothing.
    assert_eq!(p.say(&mut bench, ACK, &[]), []);
    assert_eq!(bench.pass(1_000_000).len(), 0);
}

#[test]
fn what_arrives_out_of_order_is_reported_and_kept() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    let first = p.seg(ACK, b"one ");
    p.seq = p.seq.wrapping_add(4);
    let answer = p.say(&mut bench, ACK, b"two");
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0].ack, first.seq);
    let mut sack = vec![1, 1, 5, 10];
    sack.extend_from_slice(&first.seq.wrapping_add(4).to_be_bytes());
    sack.extend_from_slice(&first.seq.wrapping_add(7).to_be_bytes());
    sack.rotate_left(2);
    let got = &answer[0].options;
    assert!(got.windows(10).any(|part| part == &sack[..10]), "{got:?}");
    bench.nic.rx.push_back(first.frame(p.addr));
    let answer = p.hear(bench.poll());
    assert_eq!(answer.last().expect("answer").payload, b"one two");
}

#[test]
fn what_is_lost_is_sent_again_after_200_ms_and_then_ever_more_rarely() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    let start = bench.now_us;
    let answer = p.say(&mut bench, ACK | PSH, b"PING");
    assert_eq!(answer.len(), 1);
    p.ack = p.ack.wrapping_sub(4);
    let sent = bench.pass(59_000_000);
    let times: Vec<u64> = sent.iter().map(|(at, _)| (at - start) / 1000).collect();
    let gaps: Vec<u64> = times.iter().zip([0].iter().chain(&times)).map(|(b, a)| b - a).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] + 20 >= pair[0]), "{gaps:?}");
    assert!((195..230).contains(&gaps[0]) && (390..450).contains(&gaps[1]), "{gaps:?}");
    assert!(gaps.last().is_some_and(|gap| *gap <= 12_100), "{gaps:?}");
    assert_eq!(bench.stack.stats().retransmits, sent.len() as u64);
    // It was only slow.
    let again = p.hear(vec![sent[0].1.clone()]);
    assert_eq!(again[0].payload, b"PING");
    assert_eq!(p.say(&mut bench, ACK | PSH, b"more").last().expect("answer").payload, b"more");
}

#[test]
fn a_peer_that_vanishes_owing_an_acknowledgement_is_reaped_in_a_minute() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    p.say(&mut bench, ACK | PSH, b"PING");
    let sent = bench.pass(70_000_000);
    assert!(Seg::parse(&sent.last().expect("frames").1, PEER_ADDR).expect("TCP").has(RST));
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 1));
    assert_eq!(bench.stack.stats().broken, 1);
    assert_eq!(bench.stack.next_deadline(), None);
}

#[test]
fn an_idle_peer_is_probed_and_reaped_if_it_is_gone() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    let answer = p.say(&mut bench, ACK | PSH, b"PING");
    assert_eq!(answer.len(), 1);
    p.say(&mut bench, ACK, &[]);
    // Twenty minutes of an idle peer that is there: a probe every five, answered.
    let (mut probes, start) = (0, bench.now_us);
    while bench.now_us < start + 1_200_000_000 {
        for (_, frame) in bench.pass(5_000_000) {
            let seg = Seg::parse(&frame, PEER_ADDR).expect("TCP");
            assert_eq!(seg.seq.wrapping_add(1), p.ack, "a probe");
            probes += 1;
            assert_eq!(p.say(&mut bench, ACK, &[]), []);
        }
    }
    assert!((3..=8).contains(&probes), "{probes}");
    assert_eq!(bench.stack.connections(), 1);
    // Then it is gone: a few probes and a RST.
    let sent = bench.pass(400_000_000);
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 1));
    assert!((4..=7).contains(&sent.len()), "{}", sent.len());
    assert!(Seg::parse(&sent.last().expect("frames").1, PEER_ADDR).expect("TCP").has(RST));
}

#[test]
fn a_push_after_a_long_silence_is_not_taken_for_a_timeout() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    p.say(&mut bench, ACK | PSH, b"SUBSCRIBE");
    p.say(&mut bench, ACK, &[]);
    bench.pass(250_000_000);
    push(&mut bench, b"message");
    let answer = p.hear(bench.poll());
    assert_eq!((answer[0].payload.as_slice(), answer[0].has(RST)), (&b"message"[..], false));
    assert_eq!(p.say(&mut bench, ACK, &[]), []);
    assert_eq!(bench.stack.connections(), 1);
}

#[test]
fn a_closed_window_is_probed_and_its_opening_used() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    p.window = 0;
    assert_eq!(p.say(&mut bench, ACK, &[]), []);
    push(&mut bench, b"wait for it");
    let mut got = Vec::new();
    let start = bench.now_us;
    while bench.now_us < start + 100_000_000 {
        // Every probe is answered with a window still closed, taking nothing.
        for (_, frame) in bench.pass(100_000) {
            let seg = Seg::parse(&frame, PEER_ADDR).expect("TCP");
            assert!(seg.payload.len() <= 1, "{seg:?}");
            got.push(seg);
            bench.nic.rx.push_back(p.seg(ACK, &[]).frame(p.addr));
        }
    }
    assert!((5..40).contains(&got.len()), "{} probes", got.len());
    assert_eq!(bench.stack.connections(), 1, "a peer that answers is not given up");
    p.window = 512;
    let answer = p.say(&mut bench, ACK, &[]);
    let text: Vec<u8> = answer.iter().flat_map(|seg| seg.payload.clone()).collect();
    assert_eq!(text, b"wait for it");
}

#[test]
fn what_the_service_does_not_take_closes_the_window_and_opens_it_again() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    bench.service.take = Some(0);
    let data = pattern(4096, 9);
    for part in data.chunks(1024) {
        p.send(&mut bench, ACK, part);
    }
    let answer = p.hear(bench.poll());
    let mut window = answer.last().map_or(256, |seg| seg.window);
    for (_, frame) in bench.pass(1_000_000) {
        window = p.hear(vec![frame])[0].window;
    }
    assert_eq!(window, 0);
    // Beyond the window: not taken, only told.
    let beyond = p.seg(ACK, &[7; 100]);
    bench.nic.rx.push_back(beyond.frame(p.addr));
    let answer = p.hear(bench.poll());
    assert_eq!((answer[0].ack, answer[0].window), (p.seq, 0));
    bench.service.take = Some(1000);
    let (id, _) = only(&mut bench);
    let mut back = Vec::new();
    for _ in 0..20 {
        bench.service.ready.push(id);
        for seg in p.hear(bench.poll()) {
            back.extend_from_slice(&seg.payload);
        }
        for seg in p.say(&mut bench, ACK, &[]) {
            back.extend_from_slice(&seg.payload);
        }
    }
    assert!(back == data, "{} of {}", back.len(), data.len());
    assert!(p.say(&mut bench, ACK | PSH, b"on").last().expect("answer").window > 0);
}

#[test]
fn a_full_send_ring_delays_but_loses_nothing() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    bench.nic.tx_capacity = 0;
    assert_eq!(p.say(&mut bench, ACK | PSH, b"PING"), []);
    assert_eq!(bench.stack.stats().ring_full, 1);
    assert!(bench.stack.next_deadline().is_some_and(|at| at <= bench.now_us));
    bench.nic.tx_capacity = 100;
    let answer = p.hear(bench.poll());
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0].payload, b"PING");
    assert_eq!(bench.stack.stats().frames_lost, 0);
    // A ring of two frames and much to send.
    bench.nic.tx_capacity = 2;
    let data = pattern(20_000, 3);
    push(&mut bench, &data);
    let mut back = Vec::new();
    for _ in 0..200 {
        let frames = bench.poll();
        assert!(frames.len() <= 2);
        for seg in p.hear(frames) {
            back.extend_from_slice(&seg.payload);
        }
        p.send(&mut bench, ACK, &[]);
    }
    assert!(back == data, "{} of {}", back.len(), data.len());
    assert_eq!(bench.stack.stats().retransmits, 0);
}

#[test]
fn large_output_gets_a_large_buffer_at_once_and_gives_it_back() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    p.window = 8192; // times 128: 1 MiB
    p.say(&mut bench, ACK, &[]);
    let data = pattern(1 << 20, 5);
    push(&mut bench, &data);
    let answer = p.hear(bench.poll());
    let first: usize = answer.iter().map(|seg| seg.payload.len()).sum();
    assert!(first >= 10 * 1460, "ten segments at once (RFC 6928): {first}");
    assert_eq!(bench.stack.grown_bytes(), (256 << 10) - 2048);
    let mut back: Vec<u8> = answer.into_iter().flat_map(|seg| seg.payload).collect();
    for _ in 0..2000 {
        if back.len() == data.len() {
            break;
        }
        bench.now_us += 100;
        for seg in p.say(&mut bench, ACK, &[]) {
            back.extend_from_slice(&seg.payload);
        }
    }
    assert!(back == data, "{} of {}", back.len(), data.len());
    p.say(&mut bench, ACK, &[]);
    let sent = bench.pass(30_000_000);
    assert_eq!(sent.len(), 0, "the peer need not know");
    assert_eq!(bench.stack.grown_bytes(), 0);
    assert_eq!(bench.stack.stats().buffers_shrunk, 1);
    assert_eq!(p.say(&mut bench, ACK | PSH, b"PING").last().expect("answer").payload, b"PING");
}

#[test]
fn large_input_gets_a_large_window() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    bench.service.mute = true;
    let data = vec![1; 1460];
    let mut window = 4096 / 16;
    let mut end = p.seq.wrapping_add(4096);
    let mut sent = 0;
    for _ in 0..100 {
        while end.wrapping_sub(p.seq) >= 1460 && sent < (1 << 20) {
            p.send(&mut bench, ACK, &data);
            sent += data.len();
        }
        bench.now_us += 100;
        for seg in p.hear(bench.poll()) {
            window = seg.window;
            end = seg.ack.wrapping_add(u32::from(window) * 16);
        }
    }
    assert!(sent >= 1 << 20, "{sent}");
    assert!(u32::from(window) * 16 >= 200 << 10, "{window}");
    assert_eq!(only(&mut bench).1.received, sent);
}

#[test]
fn a_peer_with_a_tiny_mss_gets_tiny_segments() {
    let mut bench = Bench::new(config());
    let mut p = Peer::new(PEER_ADDR, 1);
    let mut syn = p.seg(SYN, &[]);
    syn.options = vec![2, 4, 0, 100];
    bench.nic.rx.push_back(syn.frame(p.addr));
    p.hear(bench.poll());
    p.seq = p.seq.wrapping_add(1);
    p.window = 60_000;
    p.say(&mut bench, ACK, &[]);
    let data = pattern(5000, 8);
    push(&mut bench, &data);
    let mut back = Vec::new();
    let mut segs = p.hear(bench.poll());
    for _ in 0..100 {
        for seg in &segs {
            assert!(seg.payload.len() <= 100);
            back.extend_from_slice(&seg.payload);
        }
        segs = p.say(&mut bench, ACK, &[]);
    }
    assert!(back == data, "{} of {}", back.len(), data.len());
}

#[test]
fn buffers_of_idle_connections_are_taken_back_when_memory_is_short() {
    let mut config = config();
    config.buffer_budget = 1 << 20;
    let mut bench = Bench::new(config);
    bench.service.mute = true;
    let upload = |bench: &mut Bench, p: &mut Peer| {
        let mut window = 4096;
        for _ in 0..100 {
            for _ in 0..window / 1460 {
                p.send(bench, ACK, &[1; 1460]);
            }
            bench.now_us += 100;
            for seg in p.hear(bench.poll()) {
                window = u32::from(seg.window) * 16;
            }
        }
        window
    };
    let mut peers: Vec<Peer> = (1..10).map(|port| Peer::new(PEER_ADDR, port)).collect();
    for p in &mut peers {
        p.open(&mut bench);
        upload(&mut bench, p);
    }
    assert!(bench.stack.grown_bytes() <= 1 << 20);
    bench.pass(10_000_000);
    let mut p = Peer::new(PEER_ADDR, 99);
    p.open(&mut bench);
    upload(&mut bench, &mut p);
    assert!(upload(&mut bench, &mut p) > 200 << 10, "it got what the idle gave back");
    assert!(bench.stack.grown_bytes() <= 1 << 20);
    assert!(bench.stack.stats().buffers_shrunk >= 3);
}

#[test]
fn input_taken_late_and_silently_opens_the_window() {
    let mut bench = Bench::new(config());
    bench.service.mute = true;
    bench.service.take = Some(0);
    let mut p = opened(&mut bench);
    for _ in 0..4 {
        p.send(&mut bench, ACK, &[1; 1024]);
    }
    bench.poll();
    bench.pass(1_000_000);
    bench.service.take = None;
    let (id, _) = only(&mut bench);
    bench.service.ready.push(id);
    let answer = p.hear(bench.poll());
    assert!(answer.last().is_some_and(|seg| seg.window > 0), "{answer:?}");
}

#[test]
fn a_closing_connection_lives_as_long_as_its_peer_takes_something() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    p.window = 0;
    p.say(&mut bench, ACK, &[]);
    push(&mut bench, &[7; 20_000]);
    bench.poll();
    only(&mut bench).1.fate = barium_net::Fate::CloseAfterOutput;
    let (id, _) = only(&mut bench);
    bench.service.ready.push(id);
    // It takes a little every twenty seconds, for five minutes.
    for _ in 0..15 {
        for (_, frame) in bench.pass(20_000_000) {
            p.hear(vec![frame]);
        }
        p.window = 1;
        let frames = p.say(&mut bench, ACK, &[]);
        assert!(frames.iter().any(|seg| !seg.payload.is_empty()), "{frames:?}");
        p.window = 0;
        p.say(&mut bench, ACK, &[]);
        assert_eq!(bench.stack.connections(), 1);
    }
    // Then only answers, with a window that stays closed.
    for _ in 0..140 {
        for (_, frame) in bench.pass(1_000_000) {
            let seg = Seg::parse(&frame, PEER_ADDR).expect("TCP");
            if !seg.has(RST) {
                bench.nic.rx.push_back(p.seg(ACK, &[]).frame(p.addr));
            }
        }
    }
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 1));
}

#[test]
fn a_closed_window_after_our_fin_is_no_reason_to_send() {
    let mut bench = Bench::new(config());
    let mut p = opened(&mut bench);
    p.window = 0;
    p.say(&mut bench, ACK, &[]);
    push(&mut bench, b"bye");
    bench.poll();
    let (id, conn) = only(&mut bench);
    conn.fate = barium_net::Fate::CloseAfterOutput;
    bench.service.ready.push(id);
    bench.poll();
    // The probes get through, the window stays closed; all is acknowledged, FIN and all.
    let mut frames = 0;
    for _ in 0..300 {
        for (_, frame) in bench.pass(100_000) {
            frames += 1;
            p.hear(vec![frame]);
            bench.nic.rx.push_back(p.seg(ACK, &[]).frame(p.addr));
        }
    }
    assert!(frames < 40, "{frames}");
    let sent = bench.pass(200_000_000);
    assert!(sent.len() < 20, "{}", sent.len());
    assert_eq!(bench.stack.connections(), 0);
}
