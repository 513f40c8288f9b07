//! `barium-host`: the engine as an ordinary Linux process on ordinary sockets, for tests, profiles and comparisons.
//!
//! usage: `barium-host [--port 5555] [--bind 127.0.0.1] [--seed N] [--PARAMETER VALUE]...`, with Redis's parameter names.

mod connections;
mod links;
mod machine;

use barium_heap::host::ProcessHeap;
use barium_kvstore::core::ServerEvent;
use barium_kvstore::server::{Server, Setup};
use connections::Connections;
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static HEAP: ProcessHeap = ProcessHeap::new();

/// What the command line says.
struct Options {
    bind: String,
    port: u16,
    seed: u64,
    config: Vec<(String, String)>,
}

fn options() -> Result<Options, String> {
    let mut o = Options { bind: "127.0.0.1".into(), port: 5555, seed: RandomState::new().hash_one(0), config: vec![] };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let name = arg.strip_prefix("--").ok_or_else(|| format!("{arg}: expected --name value"))?;
        let value = args.next().ok_or_else(|| format!("{arg}: a value is missing"))?;
        let number = || format!("{arg} {value}: not a number in range");
        match name {
            "bind" => o.bind = value,
            "port" => o.port = value.parse().map_err(|_| number())?,
            "seed" => o.seed = value.parse().map_err(|_| number())?,
            _ => o.config.push((name.into(), value)),
        }
    }
    Ok(o)
}

fn run() -> Result<(), String> {
    let options = options()?;
    let machine = machine::Linux::new(&HEAP);
    let clock = machine.clock();
    let port = options.port.to_string();
    let mut config: Vec<(&str, &str)> = vec![("port", &port)];
    config.extend(options.config.iter().map(|(n, v)| (n.as_str(), v.as_str())));
    let (now_us, unix_us) = (clock.monotonic_us(), clock.unix_us());
    let mut server = Server::new(Setup {
        identity: machine.identity(options.port),
        machine: Box::new(machine),
        seed: options.seed,
        config: &config,
        now_us,
        unix_us,
    })
    .map_err(|e| e.text().to_string())?;
    let address = format!("{}:{}", options.bind, options.port);
    let mut connections = Connections::listen(&address).map_err(|e| format!("{address}: {e}"))?;
    println!("ready: redis-cli -p {}", options.port);
    let mut wake_us = 0;
    loop {
        let wait = if wake_us == u64::MAX {
            None
        } else {
            Some(Duration::from_micros(u64::saturating_sub(wake_us, clock.monotonic_us())))
        };
        connections.wait(wait).map_err(|e| format!("poll: {e}"))?;
        server.set_time(clock.monotonic_us(), clock.unix_us());
        connections.serve(&mut server);
        // Whoever is woken may have more commands, and wait again: the time to wake up is known once nobody is left.
        loop {
            wake_us = server.tick();
            if !connections.serve_ready(&mut server) {
                break;
            }
        }
        if server.take_event() == Some(ServerEvent::Shutdown) {
            return Ok(());
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("barium-host: {e}");
            ExitCode::FAILURE
        }
    }
}
