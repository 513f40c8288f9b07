//! The parser: input that comes at once and input that comes in pieces must be the same to it.
#![no_main]

use barium_fuzz::host::Host;
use barium_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;

/// Stands for very many bytes, so that large arguments need no large input. The next byte says how many.
const MANY: u8 = 0xFE;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mut cuts = Input(input.take(16));
    let mut stream = Vec::new();
    while !input.is_empty() {
        match input.byte() {
            MANY => stream.resize(stream.len() + usize::from(input.byte()) * 1024, b'm'),
            other => stream.push(other),
        }
    }
    // One that is not authenticated has narrower limits.
    let requirepass = cuts.one_in(4);
    let said: Vec<Vec<u8>> = [false, true]
        .into_iter()
        .map(|in_pieces| {
            let mut host = Host::new(1);
            if requirepass {
                host.command(0, &[b"config", b"set", b"requirepass", b"x"]);
                host.reconnect(0);
            }
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let len = match cuts.byte() {
                    _ if !in_pieces => rest.len(),
                    0 => rest.len().div_ceil(2),
                    n @ 1..200 => usize::from(n).min(rest.len()),
                    n => (usize::from(n - 199) * 700).min(rest.len()),
                };
                host.feed(0, &rest[..len]);
                rest = &rest[len..];
            }
            host.said(0)
        })
        .collect();
    // INFO and CLIENT LIST tell the sizes of buffers and counters of bytes, which do depend on the pieces.
    let tells = |text: &[u8]| {
        [&b"qbuf"[..], b"used_memory", b"overhead"].iter().any(|w| text.windows(w.len()).any(|t| t == *w))
    };
    if !tells(&said[0]) && stream.len() < 512 * 1024 {
        assert!(said[0] == said[1], "at once: {}\nin pieces: {}", said[0].escape_ascii(), said[1].escape_ascii());
    }
});
