//! Connections between the stack and a smoltcp host.

mod common;

use common::*;
use smoltcp::socket::tcp::State;

#[test]
fn accepts_echoes_and_closes() {
    let mut w = World::new(config(), 1);
    let h = w.established(65535);
    echo(&mut w, h, b"PING\r\n", 1_000_000);
    w.socket(h).close();
    assert!(w.run(20_000_000, |w| w.stack.connections() == 0 && w.socket(h).state() == State::TimeWait));
    assert_eq!((w.service.opened, w.service.closed), (1, 1));
    let stats = w.stack.stats();
    assert_eq!((stats.accepted, stats.closed, stats.broken, stats.retransmits), (1, 1, 0, 0));
    assert_eq!(stats.malformed_total(), 0);
}

#[test]
fn carries_every_size_exactly() {
    let mut w = World::new(config(), 2);
    let h = w.established(1 << 17);
    for size in [1, 100, 1459, 1460, 1461, 4096, 16384, 65536, 131_061, 1 << 20] {
        echo(&mut w, h, &pattern(size, size as u64), 60_000_000);
    }
    assert!(w.stack.stats().buffers_grown > 0);
    assert_eq!(w.stack.stats().retransmits, 0);
}

#[test]
fn carries_on_through_loss_disorder_and_duplicates() {
    for seed in 0..30 {
        let mut w = World::new(config(), seed);
        w.trouble = Trouble { loss: 30, duplicate: 20, reorder: 50, delay_us: 200 };
        let h = w.established(1 << 16);
        echo(&mut w, h, &pattern(200_000, seed), 600_000_000);
        echo(&mut w, h, &pattern(700, seed), 600_000_000);
    }
}
