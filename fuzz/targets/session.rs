//! Any bytes, with whole commands among them, over two sessions: the engine with its parser in front.
#![no_main]

use barium_fuzz::generate;
use barium_fuzz::host::{Host, request};
use barium_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;

/// Ends a piece: what follows comes from the other session.
const SWITCH: u8 = 0xFE;
/// Ends a piece: what follows comes after a while.
const WAIT: u8 = 0xFD;
/// Stands for a command made of the bytes that follow.
const COMMAND: u8 = 0xFC;

fuzz_target!(|bytes: &[u8]| {
    let mut host = Host::new(2);
    let mut n = 0;
    let mut input = Input(bytes);
    let mut piece = Vec::new();
    while !input.is_empty() {
        match input.byte() {
            COMMAND => {
                let words = generate::command(&mut input);
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                piece.extend_from_slice(&request(&words));
            }
            SWITCH => {
                host.feed(n, &std::mem::take(&mut piece));
                n = 1 - n;
            }
            WAIT => {
                host.feed(n, &std::mem::take(&mut piece));
                host.pass_ms(50);
            }
            other => piece.push(other),
        }
        if generate::takes_long(&piece) {
            return;
        }
    }
    host.feed(n, &piece);
    drop(piece);
    host.finish();
});
