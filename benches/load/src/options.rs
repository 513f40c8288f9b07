//! The command line.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use lexopt::prelude::*;

/// When requests of an open loop are meant to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Independently of each other: exponential gaps.
    Poisson,
    /// At equal distances.
    Fixed,
}

/// What a run is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The server.
    pub server: SocketAddrV4,
    /// Local addresses that connections are made from, in turn; none: the system's choice.
    pub sources: Vec<Ipv4Addr>,
    /// Connections that send requests.
    pub clients: usize,
    /// Connections held open beside them that send nothing after one PING.
    pub idle: usize,
    /// Connections that are being made at the same time.
    pub connecting: usize,
    /// Requests sent at once (closed loop) or under way at most (open loop), for each connection.
    pub pipeline: usize,
    /// SETs and GETs among the requests, as weights.
    pub ratio: (u32, u32),
    /// Smallest and largest value, in bytes. Each key has its own size.
    pub size: (usize, usize),
    /// Number of keys.
    pub keys: u64,
    /// What keys begin with.
    pub prefix: String,
    /// Write every key before the run.
    pub fill: bool,
    /// Requests a second, where they are sent by the clock and not by answers (open loop).
    pub rate: Option<f64>,
    /// How an open loop's requests are spread.
    pub arrivals: Arrivals,
    /// Requests in all.
    pub requests: Option<u64>,
    /// How long to send.
    pub time: Option<Duration>,
    /// How long to send before counting.
    pub warmup: Duration,
    /// How long a phase may stay without an answer, and the last answers may take.
    pub patience: Duration,
    /// Seed of keys, kinds and arrivals.
    pub seed: u64,
    /// Leave out the line for people.
    pub json_only: bool,
    /// A name for the run, repeated in the JSON object.
    pub name: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5555),
            sources: Vec::new(),
            clients: 50,
            idle: 0,
            connecting: 128,
            pipeline: 1,
            ratio: (1, 10),
            size: (256, 256),
            keys: 10_000,
            prefix: "load:".into(),
            fill: true,
            rate: None,
            arrivals: Arrivals::Poisson,
            requests: None,
            time: None,
            warmup: Duration::ZERO,
            patience: Duration::from_secs(30),
            seed: 1,
            json_only: false,
            name: String::new(),
        }
    }
}

/// Printed by `--help`.
pub const USAGE: &str = "\
barium-load: load for a server that speaks Redis's protocol

    barium-load [--host 127.0.0.1] [--port 5555] [--requests N | --time S] [options]

    --clients N         connections that send (50)
    --pipeline N        closed loop: requests sent at once; open loop: at most under way; each connection (1)
    --ratio SET:GET     kinds of requests (1:10)
    --size N | MIN-MAX  bytes of a value; each key has its own size (256)
    --keys N            number of keys (10000)
    --prefix TEXT       what keys begin with (load:)
    --no-fill           do not write every key first

    --rate R            open loop: R requests a second by the clock, whatever the answers do. Latency counts
                        from when a request was meant to be sent, so that a stall counts for all that it held up.
    --arrivals KIND     poisson or fixed distances (poisson)

    --requests N        end after N requests (100000 unless --time is given)
    --time S            end after S seconds
    --warmup S          send for S seconds first, uncounted (0)
    --patience S        fail when nothing is answered for S seconds (30)

    --idle N            hold N connections open besides, each of which was greeted once (0)
    --connecting N      connections being made at the same time (128)
    --source A[,B...]   local addresses to connect from, in turn

    --seed N            of keys, kinds and arrivals (1)
    --name TEXT         repeated in the output
    --json              print the JSON object only

Prints a line for people on stderr and one JSON object on stdout. Every value read is compared with what was written.
Status 1 where an answer was wrong, an error or missing, or a connection was lost.";

/// What the command line asked for.
#[derive(Debug, PartialEq)]
pub enum Asked {
    /// A run.
    Run(Box<Options>),
    /// The usage text.
    Help,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text}: not a number of seconds"))?;
    Duration::try_from_secs_f64(value).map_err(|_| format!("{text}: not a number of seconds"))
}

fn size(text: &str) -> Result<(usize, usize), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|_| format!("{text}: not a number of bytes"));
    let (low, high) = (number(low)?, number(high)?);
    if low > high || high > crate::values::MAX_LEN {
        Err(format!("{text}: not a range of sizes"))
    } else {
        Ok((low, high))
    }
}

fn ratio(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once(':').and_then(|(set, get)| Some((set.parse().ok()?, get.parse().ok()?)));
    match parsed {
        Some((set, get)) if u32::checked_add(set, get).is_some_and(|sum| sum > 0) => Ok((set, get)),
        _ => Err(format!("{text}: not SET:GET weights")),
    }
}

/// Reads the words of a command line, without the program's name.
pub fn parse(words: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Asked, String> {
    let mut o = Options::default();
    let mut parser = lexopt::Parser::from_args(words);
    let (mut host, mut port) = (*o.server.ip(), o.server.port());
    let text = |parser: &mut lexopt::Parser| -> Result<String, String> {
        parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
    };
    while let Some(word) = parser.next().map_err(|error| error.to_string())? {
        let Long(name) = word else { return Err(word.unexpected().to_string()) };
        let name = name.to_owned();
        macro_rules! number {
            () => {{
                let text = text(&mut parser)?;
                text.parse().map_err(|_| format!("--{name}: {text} is not a number that fits"))?
            }};
        }
        match name.as_str() {
            "help" => return Ok(Asked::Help),
            "host" => host = text(&mut parser)?.parse().map_err(|_| "--host: an IPv4 address, please")?,
            "port" => port = number!(),
            "source" => {
                for address in text(&mut parser)?.split(',') {
                    o.sources.push(address.parse().map_err(|_| format!("--source: {address} is no IPv4 address"))?);
                }
            }
            "clients" => o.clients = number!(),
            "idle" => o.idle = number!(),
            "connecting" => o.connecting = number!(),
            "pipeline" => o.pipeline = number!(),
            "ratio" => o.ratio = ratio(&text(&mut parser)?)?,
            "size" => o.size = size(&text(&mut parser)?)?,
            "keys" => o.keys = number!(),
            "prefix" => o.prefix = text(&mut parser)?,
            "no-fill" => o.fill = false,
            "rate" => o.rate = Some(number!()),
            "arrivals" => {
                o.arrivals = match text(&mut parser)?.as_str() {
                    "poisson" => Arrivals::Poisson,
                    "fixed" => Arrivals::Fixed,
                    other => return Err(format!("--arrivals: {other} is neither poisson nor fixed")),
                }
            }
            "requests" => o.requests = Some(number!()),
            "time" => o.time = Some(seconds(&text(&mut parser)?)?),
            "warmup" => o.warmup = seconds(&text(&mut parser)?)?,
            "patience" => o.patience = seconds(&text(&mut parser)?)?,
            "seed" => o.seed = number!(),
            "name" => o.name = text(&mut parser)?,
            "json" => o.json_only = true,
            _ => return Err(format!("--{name}: no such option")),
        }
    }
    o.server = SocketAddrV4::new(host, port);
    if o.requests.is_none() && o.time.is_none() {
        o.requests = Some(100_000);
    }
    if o.clients == 0 || o.pipeline == 0 || o.keys == 0 || o.connecting == 0 {
        return Err("--clients, --pipeline, --keys and --connecting are at least 1".into());
    }
    if o.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e8)) {
        return Err("--rate: more than 0 and at most 100 million requests a second".into());
    }
    Ok(Asked::Run(Box::new(o)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Options, String> {
        match parse(line.split_whitespace().map(Into::into))? {
            Asked::Run(options) => Ok(*options),
            Asked::Help => Err("help".into()),
        }
    }

    #[test]
    fn reads_every_kind_of_option() {
        let o =
            run("--host 10.0.2.15 --port 77 --clients 3 --ratio 2:5 --size 10-8388608 --rate 1500.5 --arrivals fixed \
                     --time 0.5 --source 10.0.2.2,10.0.2.20 --no-fill --json --pipeline=16")
            .expect("valid");
        assert_eq!(o.server, "10.0.2.15:77".parse().expect("address"));
        assert_eq!((o.clients, o.pipeline, o.ratio, o.size), (3, 16, (2, 5), (10, 8 << 20)));
        assert_eq!((o.rate, o.arrivals, o.requests), (Some(1500.5), Arrivals::Fixed, None));
        assert_eq!((o.time, o.sources.len(), o.fill, o.json_only), (Some(Duration::from_millis(500)), 2, false, true));
        assert_eq!(run("").expect("defaults").requests, Some(100_000));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in [
            "--clients 0",
            "--ratio 0:0",
            "--ratio 3",
            "--size 9-3",
            "--rate 0",
            "--rate nan",
            "--time -1",
            "--arrivals x",
            "--wrong",
            "word",
            "--port 70000",
            "--host x",
        ] {
            assert!(run(line).is_err(), "{line}");
        }
    }
}
