//! Loss recovery with a peer that acknowledges selectively, as Linux does.

mod common;

use common::raw::*;
use common::{PEER_ADDR, config, pattern};

/// A receiver that keeps what arrives out of order and says so.
struct Receiver {
    peer: Peer,
    base: u32,
    got: Vec<bool>,
    data: Vec<u8>,
    /// Its window changes with every acknowledgement.
    window: u16,
    /// It says what arrived out of order, and what arrived twice.
    selective: bool,
}

impl Receiver {
    fn new(bench: &mut Bench, total: usize, selective: bool) -> Self {
        let mut peer = Peer::new(PEER_ADDR, 1);
        if !selective {
            peer.syn_options = PLAIN_SYN_OPTIONS;
        }
        peer.open(bench);
        peer.window = 4000;
        let base = peer.ack;
        Self { peer, base, got: vec![false; total], data: vec![0; total], window: 4000, selective }
    }

    fn ack(&self) -> usize {
        self.got.iter().position(|got| !got).unwrap_or(self.got.len())
    }

    fn done(&self) -> bool {
        self.ack() == self.got.len()
    }

    /// Takes a segment and queues the acknowledgement.
    fn take(&mut self, bench: &mut Bench, seg: &Seg) {
        let at = seg.seq.wrapping_sub(self.base) as usize;
        let again = self.got[at];
        for (i, byte) in seg.payload.iter().enumerate() {
            assert!(!self.got[at + i] || self.data[at + i] == *byte);
            self.got[at + i] = true;
            self.data[at + i] = *byte;
        }
        let ack = self.ack();
        let mut options = vec![];
        if again && self.selective {
            options = vec![1, 1, 5, 10];
            options.extend(seg.seq.to_be_bytes());
            options.extend(seg.seq.wrapping_add(seg.payload.len() as u32).to_be_bytes());
        } else if let Some(start) = (ack..self.got.len()).find(|i| self.got[*i]) {
            let end = (start..self.got.len()).find(|i| !self.got[*i]).unwrap_or(self.got.len());
            options = vec![1, 1, 5, 10];
            options.extend(self.base.wrapping_add(start as u32).to_be_bytes());
            options.extend(self.base.wrapping_add(end as u32).to_be_bytes());
        }
        if !self.selective {
            options.clear();
        }
        // A peer whose acknowledgements are to be counted keeps its window.
        self.window += u16::from(self.selective);
        self.peer.window = self.window;
        self.peer.ack = self.base.wrapping_add(ack as u32);
        let mut seg = self.peer.seg(ACK, &[]);
        seg.options = options;
        bench.nic.rx.push_back(seg.frame(PEER_ADDR));
    }
}

/// Sends 200,000 bytes, losing the segments (by count) that `lose` names, over 10 ms; returns how long that took.
fn transfer(lose: impl Fn(usize) -> bool, ack_lost: impl Fn(usize) -> bool) -> (u64, u64) {
    transfer_to(true, lose, ack_lost, |_| false)
}

/// The same; segments that `late` names arrive behind all that were sent with them.
fn transfer_to(
    selective: bool,
    lose: impl Fn(usize) -> bool,
    ack_lost: impl Fn(usize) -> bool,
    late: impl Fn(usize) -> bool,
) -> (u64, u64) {
    let mut bench = Bench::new(config());
    let data = pattern(200_000, 1);
    let mut receiver = Receiver::new(&mut bench, data.len(), selective);
    let (id, conn) = bench.service.conns.iter_mut().next().expect("one");
    conn.out.extend(&data);
    let id = *id;
    bench.service.ready.push(id);
    let start = bench.now_us;
    let mut sent = 0;
    let mut acks = 0;
    let mut frames = bench.poll();
    let mut on_time = vec![];
    while !receiver.done() {
        // One way.
        on_time.extend(bench.pass(5_000).into_iter().map(|(_, frame)| frame));
        let mut overtaken = vec![];
        let mut arrive = |bench: &mut Bench, seg: &Seg| {
            receiver.take(bench, seg);
            acks += 1;
            if ack_lost(acks) {
                bench.nic.rx.pop_back();
            }
        };
        for frame in std::mem::take(&mut frames) {
            let Some(seg) = Seg::parse(&frame, PEER_ADDR) else { continue };
            if seg.payload.is_empty() {
                continue;
            }
            sent += 1;
            if late(sent) {
                overtaken.push(seg);
            } else if !lose(sent) {
                arrive(&mut bench, &seg);
            }
        }
        overtaken.iter().for_each(|seg| arrive(&mut bench, seg));
        // And back; the acknowledgements wait in the ring meanwhile.
        let waiting = std::mem::take(&mut bench.nic.rx);
        on_time.extend(bench.pass(5_000).into_iter().map(|(_, frame)| frame));
        bench.nic.rx = waiting;
        frames = std::mem::take(&mut on_time);
        frames.extend(bench.poll());
        assert!(bench.now_us < start + 60_000_000, "stuck at {}", receiver.ack());
    }
    assert!(receiver.data == data);
    (bench.now_us - start, bench.stack.stats().retransmits)
}

#[test]
fn without_loss() {
    let (time, retransmits) = transfer(|_| false, |_| false);
    assert_eq!(retransmits, 0);
    assert!(time <= 60_000, "{time}");
}

#[test]
fn one_loss_costs_no_timeout() {
    let (time, retransmits) = transfer(|n| n == 40, |_| false);
    assert_eq!(retransmits, 1);
    assert!(time <= 150_000, "{time}");
}

#[test]
fn neighbouring_losses_cost_no_timeout() {
    let (time, retransmits) = transfer(|n| n == 40 || n == 41 || n == 44, |_| false);
    assert_eq!(retransmits, 3);
    assert!(time <= 190_000, "{time}");
}

#[test]
fn a_loss_near_the_end_of_the_flight_costs_no_timeout() {
    for last in [1, 2] {
        // The first flight is of ten segments: only one or two come behind the lost one.
        let (time, retransmits) = transfer(|n| n == 10 - last, |_| false);
        assert_eq!(retransmits, 1, "{last}");
        assert!(time <= 220_000, "{last}: {time}");
    }
}

#[test]
fn the_loss_of_all_acknowledgements_of_a_flight_costs_less_than_a_timeout() {
    let quiet = transfer(|_| false, |_| false).0;
    // Acknowledgements 25 to 48 are those of one flight.
    let (time, _) = transfer(|_| false, |n| (25..=48).contains(&n));
    assert!(time > quiet && time < quiet + 150_000, "{time} {quiet}");
}

#[test]
fn a_loss_now_and_then() {
    for seed in 0..8u64 {
        let lost = |n: usize, of: u64| {
            (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed << 40) >> 33 & 127 < of
        };
        let (time, retransmits) = transfer(|n| lost(n, 2), |n| lost(n + 5000, 2));
        assert!(retransmits < 30, "seed {seed}: {retransmits}");
        assert!(time <= 1_500_000, "seed {seed}: {time}");
    }
}

#[test]
fn without_selective_acknowledgements_duplicates_are_counted() {
    let (time, retransmits) = transfer_to(false, |n| n == 40, |_| false, |_| false);
    assert_eq!(retransmits, 1);
    assert!(time <= 150_000, "{time}");
}

#[test]
fn what_was_only_overtaken_costs_one_segment_and_no_rate() {
    let quiet = transfer(|_| false, |_| false).0;
    // The first is taken for lost; then that it came twice is heard of, and there is patience with the others.
    let (time, retransmits) = transfer_to(true, |_| false, |_| false, |n| [21, 55, 80, 110].contains(&n));
    assert_eq!(retransmits, 1);
    assert!(time <= quiet + 20_000, "{time} {quiet}");
}

#[test]
fn what_is_found_lost_while_the_send_ring_is_full_is_sent_when_there_is_room() {
    let mut bench = Bench::new(config());
    let data = pattern(10 * 1460, 1);
    let mut receiver = Receiver::new(&mut bench, data.len(), true);
    let (id, conn) = bench.service.conns.iter_mut().next().expect("one");
    conn.out.extend(&data);
    let id = *id;
    bench.service.ready.push(id);
    let flight: Vec<Seg> = bench.poll().iter().filter_map(|frame| Seg::parse(frame, PEER_ADDR)).collect();
    for seg in flight.iter().filter(|seg| !seg.payload.is_empty()).skip(1) {
        receiver.take(&mut bench, seg);
    }
    // The hole is seen, its time runs out, and the ring has no room. Nothing more will come from the peer.
    bench.nic.tx_capacity = 0;
    assert_eq!(bench.pass(50_000), []);
    bench.nic.tx_capacity = 100;
    for (_, frame) in bench.pass(5_000_000) {
        if let Some(seg) = Seg::parse(&frame, PEER_ADDR).filter(|seg| !seg.payload.is_empty()) {
            receiver.take(&mut bench, &seg);
        }
    }
    assert!(receiver.done(), "the peer waits at {}", receiver.ack());
    assert!(receiver.data == data);
}
