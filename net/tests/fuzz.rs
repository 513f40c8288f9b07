//! Frames that nobody should send: nothing may panic, leak or stop the stack from serving others.

mod common;

use barium_net::{AddressMode, Config};
use common::raw::*;
use common::{ADDR, MAC, PEER_ADDR, PORT, Random, config};

/// Bytes changed, cut or added at random.
fn spoil(frame: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        match random.below(8) {
            0 => frame.truncate(random.below(frame.len() as u64 + 1) as usize),
            1 => frame.extend((0..random.below(60)).map(|i| i as u8)),
            _ if !frame.is_empty() => {
                let at = random.below(frame.len() as u64) as usize;
                frame[at] = random.next() as u8;
            }
            _ => {}
        }
    }
}

fn still_serves(bench: &mut Bench, port: u16) {
    bench.now_us += 2_000_000;
    bench.poll();
    let mut p = Peer::new([10, 0, 0, 3], port);
    p.open(bench);
    assert_eq!(p.say(bench, ACK | PSH, b"PING").last().expect("answer").payload, b"PING");
    p.say(bench, RST, &[]);
}

#[test]
fn random_and_spoilt_frames() {
    for mode in [AddressMode::Static { addr: ADDR, prefix_len: 24, gateway: Some([10, 0, 0, 254]) }, AddressMode::Dhcp]
    {
        let mut bench = Bench::new(Config::new(mode, PORT, [5, 6]));
        let mut random = Random(11);
        let p = Peer::new(PEER_ADDR, 77);
        for i in 0..60_000u32 {
            let len = random.below(200) as usize;
            let body: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            let mut frame = match random.below(6) {
                0 => body,
                1 => p.seg(random.next() as u8, &body).frame(PEER_ADDR),
                2 => ip_frame(PEER_ADDR, ADDR, 1, &body),
                3 => ip_frame(PEER_ADDR, [255; 4], 17, &[&[0, 67, 0, 68, 0, len as u8 + 8, 0, 0][..], &body].concat()),
                4 => [&MAC[..], &MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &body].concat(),
                _ => ip_frame(PEER_ADDR, ADDR, random.next() as u8, &body),
            };
            if random.below(3) > 0 {
                spoil(&mut frame, &mut random);
            }
            bench.nic.rx.push_back(frame);
            if i % 16 == 0 {
                bench.now_us += random.below(100_000);
                bench.poll();
            }
        }
        bench.poll();
        assert!(bench.stack.stats().malformed_total() > 1000);
        if mode != AddressMode::Dhcp {
            still_serves(&mut bench, 9);
        }
    }
}

/// Valid segments with numbers near the interesting ones, in any state, with real checksums.
#[test]
fn random_segments_for_live_connections() {
    for seed in 0..60 {
        let mut config = config();
        config.max_half_open = 8;
        config.max_time_wait = 4;
        let mut bench = Bench::new(config);
        let mut random = Random(seed);
        let mut peers: Vec<Peer> = (1..6).map(|port| Peer::new(PEER_ADDR, port)).collect();
        for step in 0..4000 {
            let at = random.below(5) as usize;
            let p = &mut peers[at];
            let near = |random: &mut Random, n: u32| match random.below(8) {
                0 => n.wrapping_add(random.below(3000) as u32),
                1 => n.wrapping_sub(random.below(3000) as u32),
                2 => random.next() as u32,
                3 => n.wrapping_sub(1),
                4 => n.wrapping_add(1),
                _ => n,
            };
            let flags = match random.below(12) {
                0 => SYN,
                1 => RST,
                2 => ACK | FIN,
                3 => ACK | RST,
                4 => SYN | ACK,
                5 => random.next() as u8,
                _ => ACK,
            };
            let len = [0, 0, 1, 10, 536, 1460][random.below(6) as usize];
            let payload = vec![step as u8; len];
            let mut seg = p.seg(flags, &payload);
            seg.seq = near(&mut random, p.seq);
            seg.ack = near(&mut random, p.ack);
            seg.window = [0, 1, 512, 65535, random.next() as u16][random.below(5) as usize];
            if random.below(10) == 0 {
                seg.options = (0..random.below(11) * 4).map(|_| random.below(10) as u8).collect();
            }
            bench.nic.rx.push_back(seg.frame(PEER_ADDR));
            if flags & 0x3f == SYN || (seg.seq == p.seq && flags & ACK != 0) {
                p.seq = seg.seq.wrapping_add(len as u32 + u32::from(flags & (SYN | FIN) != 0));
            }
            if random.below(3) == 0 {
                bench.now_us += [10, 1000, 300_000, 20_000_000][random.below(4) as usize];
                bench.nic.tx_capacity = [0, 1, 4096, 4096][random.below(4) as usize];
                bench.service.take = [None, None, Some(0), Some(7)][random.below(4) as usize];
                for frame in bench.poll() {
                    let Some(seg) = Seg::parse(&frame, PEER_ADDR) else { continue };
                    peers[usize::from(seg.dst - 1)].hear(vec![frame]);
                }
            }
            // The service speaks, closes or hangs up now and then.
            if random.below(40) == 0 {
                let ids: Vec<_> = bench.service.conns.keys().copied().collect();
                if !ids.is_empty() {
                    let id = ids[random.below(ids.len() as u64) as usize];
                    let conn = bench.service.conns.get_mut(&id).expect("known");
                    match random.below(4) {
                        0 => conn.fate = barium_net::Fate::Abort,
                        1 => conn.fate = barium_net::Fate::CloseAfterOutput,
                        _ => conn.out.extend(vec![1; random.below(30_000) as usize]),
                    }
                    bench.service.ready.push(id);
                }
            }
        }
        bench.nic.tx_capacity = 4096;
        bench.service.take = None;
        bench.poll();
        assert_eq!(bench.service.opened, bench.service.closed + bench.service.conns.len());
        let frames = bench.pass(900_000_000).len();
        assert!(frames < 3000, "seed {seed}: {frames} frames to peers that say nothing");
        assert_eq!(bench.stack.connections(), 0, "seed {seed}: all peers are gone");
        assert_eq!(bench.stack.grown_bytes(), 0);
        assert_eq!(bench.service.opened, bench.service.closed);
        still_serves(&mut bench, 9);
    }
}
