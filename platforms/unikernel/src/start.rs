//! From the machine that the kernel found to the server that runs on it.

use core::fmt;

use barium_kernel::boot::Machine;
use barium_kernel::power::{self, ExitStatus};
use barium_kernel::{announce, cpu, drivers};
use barium_nic::Nic;

use crate::options::{Address, Options};

/// The exit status of a machine without a usable network device.
const NO_NETWORK: u8 = 2;

/// Runs the server. Returns by powering the machine off.
pub fn run(machine: &'static Machine) -> ! {
    let options = Options::parse(machine.boot.cmdline);
    for complaint in &options.complaints {
        announce!("{complaint}");
    }
    announce!(
        "Barium {} on {}: {} CPU{}, {} MiB of memory",
        env!("CARGO_PKG_VERSION"),
        machine.boot.loader,
        machine.cpus,
        if machine.cpus == 1 { "" } else { "s" },
        machine.boot.ram.total() >> 20
    );
    let Some(nic) = drivers::probe_net(machine) else {
        announce!("no network device that a driver here knows: a virtio-net-pci device is needed");
        power::exit(ExitStatus::Failure(NO_NETWORK));
    };
    announce!("network: {}, {}, {}, MTU {}", nic.name(), Mac(nic.mac()), nic.interrupts(), nic.mtu());
    match options.address {
        Address::Dhcp => announce!("address: asking DHCP"),
        Address::Static { ip, prefix_len, .. } => announce!("address: {ip}/{prefix_len}"),
    }
    loop {
        cpu::wait_for_interrupt(None);
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
