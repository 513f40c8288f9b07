//! From the machine that the kernel found to the server that runs on it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;

use barium_kernel::boot::Machine;
use barium_kernel::drivers::Net;
use barium_kernel::power::{self, ExitStatus};
use barium_kernel::{announce, clock, drivers, entropy, memory};
use barium_kvstore::server::{Server, Setup};
use barium_net::{AddressMode, Config, Stack};
use barium_nic::Nic;

use crate::budget::Budget;
use crate::engine::Engine;
use crate::machine::{self, Kernel};
use crate::options::{Address, Options};
use crate::worker::{End, Worker};

/// The port that the guest listens on.
const PORT: u16 = 5555;

/// Exit status of a machine without a usable network device, and of one on which the engine does not start.
const NO_NETWORK: u8 = 2;
const NO_ENGINE: u8 = 3;

/// Runs the server. Returns by powering the machine off.
pub fn run(machine: &'static Machine) -> ! {
    let options = Options::parse(machine.boot.cmdline);
    for complaint in &options.complaints {
        announce!("{complaint}");
    }
    announce!(
        "Barium {} ({}): {} CPU{}, {} MiB of memory",
        env!("CARGO_PKG_VERSION"),
        machine.boot.loader,
        machine.cpus,
        if machine.cpus == 1 { "" } else { "s" },
        machine.boot.ram.total().div_ceil(1 << 20)
    );
    let Some(mut nic) = drivers::probe_net(machine, 1).pop() else {
        announce!("no network device that a driver here knows: a virtio-net-pci device is needed");
        power::exit(ExitStatus::Failure(NO_NETWORK));
    };
    announce!("network: {}, {}, {}, MTU {}", nic.name(), Mac(nic.mac()), nic.interrupts(), nic.mtu());
    if nic.interrupts() == "none" {
        log::warn!("the network device has no interrupt: it is looked at every millisecond");
    }

    let stats = memory::stats();
    let budget = Budget::new(stats.total, stats.held);
    let Some(server) = engine(machine, &options, budget) else {
        power::exit(ExitStatus::Failure(NO_ENGINE));
    };
    if server.core.acl.is_open() {
        log::warn!("no password: whoever reaches port {PORT} may read and change everything (requirepass=, user=)");
    }
    let stack = Stack::new(network_config(&options.address, &budget), &*nic, clock::now_ns() / 1000);
    let banner = Banner { host_port: options.host_port, address: None };
    let program = Engine::new(server, budget.total - budget.low_water, banner);
    let mut worker = Worker { nic: &mut nic, stack, program, poll_ns: options.poll_us * 1000 };
    match worker.run() {
        End::Program => power::exit(ExitStatus::Success),
        End::Device => {
            announce!("the network device failed");
            power::exit(ExitStatus::Failure(NO_NETWORK))
        }
    }
}

/// The engine with the command line's parameters. Those it does not take are said and left out.
fn engine(machine: &Machine, options: &Options<'_>, budget: Budget) -> Option<Server> {
    let max_memory = budget.max_memory.to_string();
    let port = PORT.to_string();
    let start = |parameters: &[(&str, &str)]| {
        let now_us = clock::now_ns() / 1000;
        Server::new(Setup {
            machine: Box::new(Kernel::new(budget)),
            identity: machine::identity(machine, PORT),
            seed: entropy::u64(),
            config: parameters,
            now_us,
            unix_us: clock::unix_ns() / 1000,
        })
        .map_err(|error| error.text().to_string())
    };
    let mut parameters: Vec<(&str, &str)> = Vec::from([("maxmemory", &*max_memory), ("port", &*port)]);
    parameters.extend(&options.engine);
    if let Ok(server) = start(&parameters) {
        return Some(server);
    }
    // One of them is wrong: those that are wrong by themselves are said and left out.
    parameters.retain(|&(name, value)| {
        let alone: Result<_, String> = start(&[(name, value)]).map(drop);
        alone.map_err(|error| announce!("{name}={value}: {}", error.trim_start_matches("ERR "))).is_ok()
    });
    start(&parameters).map_err(|error| announce!("the engine does not start: {error}")).ok()
}

/// The stack's parameters.
fn network_config(address: &Address, budget: &Budget) -> Config {
    let address = match *address {
        Address::Dhcp => AddressMode::Dhcp,
        Address::Static { ip, prefix_len, gateway } => {
            AddressMode::Static { addr: ip.octets(), prefix_len, gateway: gateway.map(|gateway| gateway.octets()) }
        }
    };
    let mut config = Config::new(address, PORT, [entropy::u64(), entropy::u64()]);
    config.max_connections = budget.connections;
    config.buffer_budget = budget.socket_buffers;
    config
}

/// Says when clients can connect, and where.
pub struct Banner {
    /// The port on the host that leads here.
    host_port: Option<u16>,
    /// The address that was announced.
    address: Option<[u8; 4]>,
}

impl Banner {
    /// Looks whether there is an address to announce: at once, or when DHCP gives one or another.
    #[inline]
    pub fn update(&mut self, stack: &Stack, nic: &Net) {
        let now = stack.address();
        if now.map(|address| address.addr) != self.address {
            self.announce(now, nic);
        }
    }

    #[cold]
    fn announce(&mut self, address: Option<barium_net::Address>, nic: &Net) {
        let first = self.address.is_none();
        self.address = address.map(|address| address.addr);
        let Some(address) = address else {
            log::warn!("the address was withdrawn");
            return;
        };
        let ip = Ipv4Addr::from(address.addr);
        let gateway = address.gateway.map_or_else(|| "none".to_string(), |gateway| Ipv4Addr::from(gateway).to_string());
        let link = if nic.link_up() { "" } else { ", link down" };
        announce!("address: {ip}/{}, gateway {gateway}{link}", address.prefix_len);
        let ms = clock::now_ns() / 1_000_000;
        match self.host_port {
            _ if !first => {}
            Some(port) => announce!("ready in {ms} ms: redis-cli -p {port}"),
            None => announce!("ready in {ms} ms: redis-cli -h {ip} -p {PORT}"),
        }
    }
}

/// A station address in its usual form.
struct Mac([u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
