//! The platform's words on the kernel command line. What it does not know is the engine's configuration.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::Ipv4Addr;

use barium_kernel::cmdline::{self, Word};

/// Without `ip=` and `gw=`: QEMU's user networking.
const DEFAULT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const DEFAULT_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Longest time that the loop looks for the next frame before it halts, in microseconds, and the default of one CPU.
const MAX_POLL_US: u64 = 1_000_000;
const DEFAULT_POLL_US: u64 = 1000;

/// Where the address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// `ip=dhcp`.
    Dhcp,
    /// `ip= gw= mask=`.
    Static {
        /// This station.
        ip: Ipv4Addr,
        /// Length of the network's prefix.
        prefix_len: u8,
        /// The router, unless `gw=none`.
        gateway: Option<Ipv4Addr>,
    },
}

/// What the command line asks for.
#[derive(Debug)]
pub struct Options<'a> {
    /// `ip= gw= mask=`.
    pub address: Address,
    /// `poll=`, in microseconds: how long to look for the next frame before halting. 0 halts at once.
    pub poll_us: Option<u64>,
    /// `host-port=`: the port on the host that leads here, when there is one.
    pub host_port: Option<u16>,
    /// Everything else, in order: the engine's configuration.
    pub engine: Vec<(&'a str, &'a str)>,
    /// What was wrong, one line each. The defaults stand in.
    pub complaints: Vec<String>,
}

impl<'a> Options<'a> {
    /// How long so many CPUs look for the next frame before they halt, in microseconds. One CPU looks, for a halt costs
    /// more than a short wait. Of several some mostly have work while others wait: on a host that has not a core for each of
    /// them whoever looks keeps another from working, so that they do it only where they are told to.
    pub fn poll_us(&self, cpus: usize) -> u64 {
        self.poll_us.unwrap_or(if cpus == 1 { DEFAULT_POLL_US } else { 0 })
    }

    /// Reads the line.
    pub fn parse(line: &'a str) -> Self {
        let mut options =
            Self { address: Address::Dhcp, poll_us: None, host_port: None, engine: Vec::new(), complaints: Vec::new() };
        let (mut ip, mut gateway, mut prefix_len) = (Some(DEFAULT_ADDRESS), None, 24);
        for Word { key, value } in cmdline::words(line) {
            let Some(value) = value else {
                options.complain(key, "", "an option has the form name=value");
                continue;
            };
            match key {
                "ip" if value == "dhcp" => ip = None,
                "ip" => match value.parse() {
                    Ok(address) => ip = Some(address),
                    Err(_) => options.complain(key, value, "an IPv4 address such as 10.0.2.15, or dhcp"),
                },
                "gw" if value == "none" => gateway = Some(None),
                "gw" => match value.parse() {
                    Ok(address) => gateway = Some(Some(address)),
                    Err(_) => options.complain(key, value, "an IPv4 address such as 10.0.2.2, or none"),
                },
                "mask" => match parse_mask(value) {
                    Some(len) => prefix_len = len,
                    None => {
                        options.complain(key, value, "a netmask such as 255.255.255.0, or a prefix length, 0 to 32")
                    }
                },
                "poll" => match value.parse() {
                    Ok(us) if us <= MAX_POLL_US => options.poll_us = Some(us),
                    _ => options.complain(key, value, "microseconds, 0 to 1000000"),
                },
                "host-port" => match value.parse() {
                    Ok(port) if port > 0 => options.host_port = Some(port),
                    _ => options.complain(key, value, "a port, 1 to 65535"),
                },
                _ if cmdline::KERNEL_WORDS.contains(&key) => {}
                _ => options.engine.push((key, value)),
            }
        }
        if let Some(ip) = ip {
            let default = (ip == DEFAULT_ADDRESS).then_some(DEFAULT_GATEWAY);
            options.address = Address::Static { ip, prefix_len, gateway: gateway.unwrap_or(default) };
        }
        options
    }

    /// Notes that `key=value` is wrong and what would be right.
    pub fn complain(&mut self, key: &str, value: &str, right: &str) {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(text, "{key}={value}: {right}");
        self.complaints.push(text);
    }
}

/// A netmask, dotted or as a prefix length.
fn parse_mask(value: &str) -> Option<u8> {
    if let Ok(mask) = value.parse::<Ipv4Addr>() {
        let bits = mask.to_bits();
        return (bits.leading_ones() + bits.trailing_zeros() >= 32).then_some(bits.leading_ones() as u8);
    }
    value.parse().ok().filter(|len| *len <= 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_qemus_user_network() {
        let options = Options::parse("");
        let gateway = Some(DEFAULT_GATEWAY);
        assert_eq!(options.address, Address::Static { ip: DEFAULT_ADDRESS, prefix_len: 24, gateway });
        assert_eq!((options.poll_us(1), options.poll_us(4), options.host_port), (1000, 0, None));
        assert!(options.complaints.is_empty() && options.engine.is_empty());
    }

    #[test]
    fn all_words() {
        let line = "log=info ip=192.168.7.9 mask=255.255.0.0 gw=192.168.0.1 poll=0 host-port=7777 maxmemory=64mb \
                    requirepass=\"a b\" user=\"ann on >pw ~*\" user=\"default off\"";
        let options = Options::parse(line);
        let ip = Ipv4Addr::new(192, 168, 7, 9);
        let gateway = Some(Ipv4Addr::new(192, 168, 0, 1));
        assert_eq!(options.address, Address::Static { ip, prefix_len: 16, gateway });
        assert_eq!((options.poll_us(1), options.host_port), (0, Some(7777)));
        assert_eq!(
            options.engine,
            [("maxmemory", "64mb"), ("requirepass", "a b"), ("user", "ann on >pw ~*"), ("user", "default off")]
        );
        assert!(options.complaints.is_empty());
        assert_eq!(Options::parse("ip=dhcp").address, Address::Dhcp);
        let alone = Options::parse("ip=10.9.0.2 mask=8");
        assert_eq!(alone.address, Address::Static { ip: Ipv4Addr::new(10, 9, 0, 2), prefix_len: 8, gateway: None });
    }

    #[test]
    fn wrong_values_are_named() {
        let options = Options::parse("ip=10.0.2 mask=255.0.255.0 poll=x host-port=0 gw=here nonsense");
        let said: Vec<&str> = options.complaints.iter().map(|c| c.split_once(':').expect("a reason").0).collect();
        assert_eq!(said, ["ip=10.0.2", "mask=255.0.255.0", "poll=x", "host-port=0", "gw=here", "nonsense="]);
        assert_eq!(options.poll_us, None);
        assert_eq!(Options::parse("poll=70").poll_us(4), 70);
    }
}
