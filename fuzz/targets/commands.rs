//! Commands made from the table, over three sessions, with time going by; at the end every value must survive a DUMP and
//! RESTORE, and all that was taken must be given back.
#![no_main]

use barium_fuzz::generate;
use barium_fuzz::host::Host;
use barium_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mut host = Host::new(3);
    let mut steps = 0;
    while !input.is_empty() && steps < 64 {
        steps += 1;
        let n = input.below(3);
        match input.below(24) {
            0 => host.pass_ms(input.pick(&[1, 10, 100, 2_000, 100_000])),
            1 if input.one_in(4) => host.hang_up(n),
            1 => host.reconnect(n),
            2 => host.set_reads(n, input.one_in(2)),
            3 => {
                let len = input.below(40);
                host.feed(n, input.take(len));
            }
            _ => {
                let words = generate::command(&mut input);
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                host.command(n, &words);
            }
        }
    }
    host.finish();
});
