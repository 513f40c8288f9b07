//! From the machine that the kernel found to the server that runs on it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;

use barium_kernel::boot::Machine;
use barium_kernel::power::{self, ExitStatus};
use barium_kernel::{announce, clock, cpu, drivers, entropy, memory};
use barium_kvstore::server::{Server, Setup};
use barium_net::steer::Steering;
use barium_net::{AddressMode, Config, Stack};
use barium_nic::Nic;
use barium_smp::mailbox;
use spin::{Mutex, Once};

use crate::budget::Budget;
use crate::engine::Engine;
use crate::link::{Link, Remote};
use crate::machine::{self, Kernel};
use crate::options::{Address, Options};
use crate::shared::{Bells, Shared};
use crate::worker::{End, Part, Worker};

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
    let nics = drivers::probe_net(machine, machine.cpus);
    let Some(nic) = nics.first() else {
        announce!("no network device that a driver here knows: a virtio-net-pci device is needed");
        power::exit(ExitStatus::Failure(NO_NETWORK));
    };
    let queues = if nics.len() > 1 { alloc::format!(", {} queue pairs", nics.len()) } else { String::new() };
    announce!("network: {}, {}, {}, MTU {}{queues}", nic.name(), Mac(nic.mac()), nic.interrupts(), nic.mtu());
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
    let banner = Banner { host_port: options.host_port, address: None };
    let engine = Engine::new(server, machine.cpus, budget.total - budget.low_water);
    let config = network_config(&options.address, &budget, machine.cpus);
    let queues = nics.into_iter().map(Link::Queue).collect();
    let Some((shared, parts)) =
        share_out(machine.cpus, engine, queues, banner, budget, options.poll_us(machine.cpus) * 1000)
    else {
        announce!("no memory for {} CPUs", machine.cpus);
        power::exit(ExitStatus::Failure(NO_ENGINE));
    };
    CPUS.call_once(|| Cpus { shared, parts: parts.into_iter().map(|part| Mutex::new(Some(part))).collect(), config });
    cpu::run_on_others(run_cpu);
    run_cpu(0)
}

/// What all CPUs find when they begin.
struct Cpus {
    shared: &'static Shared,
    /// By CPU, until it has come for it.
    parts: Vec<Mutex<Option<Part>>>,
    config: Config,
}

static CPUS: Once<Cpus> = Once::new();

/// One CPU's program. Whoever comes to its end powers the machine off.
fn run_cpu(cpu: usize) -> ! {
    let found = CPUS.get().and_then(|cpus| Some((cpus, cpus.parts.get(cpu)?.lock().take()?)));
    let Some((Cpus { shared, config, .. }, part)) = found else { halt() };
    let mut config = config.clone();
    if cpu > 0 {
        config.address = AddressMode::Told;
    }
    config.seed = [entropy::u64(), entropy::u64()];
    let stack = Stack::new(config, &part.link, clock::now_ns() / 1000);
    match Worker::new(cpu, shared, part, stack).run() {
        End::Program => power::exit(ExitStatus::Success),
        End::Device => {
            announce!("the network device failed");
            power::exit(ExitStatus::Failure(NO_NETWORK))
        }
    }
}

/// A CPU for which there is nothing to do.
fn halt() -> ! {
    loop {
        cpu::wait_for_interrupt(None);
    }
}

/// Units of all mailboxes together, where memory allows it, and the fewest that one has.
const MAILBOX_SHARE: usize = 32;
const MAILBOX_UNITS: core::ops::RangeInclusive<usize> = 128..=2048;

/// Gives each CPU its part: a queue pair where there is one for it, otherwise a way to another CPU's; mailboxes for what
/// others received for it.
fn share_out(
    cpus: usize,
    engine: Engine,
    queues: Vec<Link>,
    banner: Banner,
    budget: Budget,
    poll_ns: u64,
) -> Option<(&'static Shared, Vec<Part>)> {
    let bells: &'static Bells = Box::leak(Box::new(Bells::new(cpus)));
    let mut pairs = queues.into_iter();
    let queues = pairs.len();
    // Two mailboxes a CPU, in a small part of memory.
    let units = budget.total / MAILBOX_SHARE / mailbox::UNIT / (2 * cpus);
    let units = units.clamp(*MAILBOX_UNITS.start(), *MAILBOX_UNITS.end());
    let units = 1 << units.ilog2();
    let (mut frames, mut inboxes) = (Vec::new(), Vec::new());
    let (mut sends, mut send_inboxes) = (Vec::new(), Vec::new());
    if cpus > 1 {
        for cpu in 0..cpus {
            let (outbox, inbox) = mailbox::mailbox(units)?;
            frames.push(outbox);
            inboxes.push(inbox);
            if cpu < queues && queues < cpus {
                let (outbox, inbox) = mailbox::mailbox(units)?;
                sends.push(outbox);
                send_inboxes.push(inbox);
            }
        }
    }
    let first = pairs.as_slice().first()?;
    let (mac, mtu, completes_checksums) = (first.mac(), first.mtu(), first.completes_checksums());
    let mut banner = Some(banner);
    let (mut inboxes, mut send_inboxes) = (inboxes.into_iter(), send_inboxes.into_iter());
    let parts = (0..cpus).map(|cpu| {
        let link = match pairs.next() {
            Some(link) => link,
            None => Link::Remote(Remote {
                cpu: cpu % queues,
                outbox: sends[cpu % queues].clone(),
                bells,
                posted: false,
                mac,
                mtu,
                completes_checksums,
            }),
        };
        Part { link, frames: inboxes.next(), sends: send_inboxes.next(), banner: banner.take() }
    });
    let parts = parts.collect();
    // A CPU with a queue pair works for those without, too.
    let weights: Vec<u16> =
        (0..cpus).map(|cpu| if cpu < queues && queues < cpus { QUEUE_WEIGHT } else { WEIGHT }).collect();
    let steering = Steering::new(entropy::u64(), &weights);
    let shared = Shared::new(bells, engine, steering, frames, poll_ns);
    Some((Box::leak(Box::new(shared)), parts))
}

/// Shares of the connections: of a CPU, and of one that receives and sends for others.
const WEIGHT: u16 = 16;
const QUEUE_WEIGHT: u16 = 10;

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
fn network_config(address: &Address, budget: &Budget, cpus: usize) -> Config {
    let address = match *address {
        Address::Dhcp => AddressMode::Dhcp,
        Address::Static { ip, prefix_len, gateway } => {
            AddressMode::Static { addr: ip.octets(), prefix_len, gateway: gateway.map(|gateway| gateway.octets()) }
        }
    };
    let mut config = Config::new(address, PORT, [entropy::u64(), entropy::u64()]);
    config.max_connections = budget.connections;
    // Each CPU has its own; connections are not shared out evenly.
    config.buffer_budget = if cpus > 1 { 2 * budget.socket_buffers / cpus } else { budget.socket_buffers };
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
    /// Looks whether there is an address to announce, to the other CPUs too: at once, or when DHCP gives one or another.
    #[inline]
    pub fn update(&mut self, stack: &Stack, link: &Link, shared: &Shared) {
        let now = stack.address();
        if now.map(|address| address.addr) != self.address {
            shared.set_address(now.map(|address| address.addr));
            self.announce(now, link);
        }
    }

    #[cold]
    fn announce(&mut self, address: Option<barium_net::Address>, nic: &Link) {
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
