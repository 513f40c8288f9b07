//! ARP, ICMP echo and DHCP: smoltcp's Ethernet interface, for all that is not TCP.

use alloc::vec::Vec;

use barium_nic::Nic;
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::dhcpv4;
use smoltcp::time::Instant;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, HardwareAddress,
    Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, IpAddress, IpCidr, IpProtocol, Ipv4Address, Ipv4Cidr,
    Ipv4Packet,
};

use crate::config::AddressMode;
use crate::device::MAX_MTU;
use crate::wire::{ETHERNET_LEN, IPV4_LEN, u16_at, u32_at};

/// The station's address and its surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Address of this station.
    pub addr: [u8; 4],
    /// Length of the network prefix.
    pub prefix_len: u8,
    /// Router to other networks.
    pub gateway: Option<[u8; 4]>,
}

pub(crate) struct Control {
    iface: Interface,
    sockets: SocketSet<'static>,
    dhcp: Option<SocketHandle>,
    address: Option<Address>,
    mtu: usize,
    next_us: Option<u64>,
}

fn instant(now_us: u64) -> Instant {
    Instant::from_micros(now_us as i64)
}

impl Control {
    pub(crate) fn new(mode: AddressMode, mac: [u8; 6], mtu: usize, seed: u64, now_us: u64) -> Self {
        let mut config = smoltcp::iface::Config::new(HardwareAddress::Ethernet(EthernetAddress(mac)));
        config.random_seed = seed;
        let mut link = Silent { mtu };
        let iface = Interface::new(config, &mut link, instant(now_us));
        let mut sockets = SocketSet::new(Vec::new());
        let dhcp = matches!(mode, AddressMode::Dhcp).then(|| {
            let mut socket = dhcpv4::Socket::new();
            // A virtual switch may need a moment; a discovery every ten seconds would be felt at boot.
            let mut retry = socket.get_retry_config();
            retry.discover_timeout = smoltcp::time::Duration::from_secs(1);
            retry.initial_request_timeout = smoltcp::time::Duration::from_secs(1);
            socket.set_retry_config(retry);
            sockets.add(socket)
        });
        let mut control = Self { iface, sockets, dhcp, address: None, mtu, next_us: None };
        if let AddressMode::Static { addr, prefix_len, gateway } = mode {
            control.set_address(Some(Address { addr, prefix_len: prefix_len.min(32), gateway }));
        }
        control
    }

    pub(crate) fn address(&self) -> Option<Address> {
        self.address
    }

    fn set_address(&mut self, address: Option<Address>) {
        self.address = address;
        self.iface.update_ip_addrs(|addrs| {
            addrs.clear();
            if let Some(Address { addr, prefix_len, .. }) = address {
                let cidr = Ipv4Cidr::new(Ipv4Address::from(addr), prefix_len);
                // There is room: the list was just cleared.
                let _ = addrs.push(IpCidr::Ipv4(cidr));
            }
        });
        self.iface.routes_mut().remove_default_ipv4_route();
        if let Some(gateway) = address.and_then(|address| address.gateway) {
            // There is room: the one route was just removed.
            let _ = self.iface.routes_mut().add_default_ipv4_route(Ipv4Address::from(gateway));
        }
    }

    /// The station that frames for `addr` go to: itself if it is on the link, else the gateway.
    pub(crate) fn next_hop(&self, addr: [u8; 4]) -> Option<[u8; 4]> {
        let address = self.address?;
        let network = Ipv4Cidr::new(Ipv4Address::from(address.addr), address.prefix_len);
        if network.contains_addr(&Ipv4Address::from(addr)) { Some(addr) } else { address.gateway }
    }

    /// Asks for the link address of a station on the link (RFC 826). Returns the frames sent.
    pub(crate) fn ask_for<N: Nic>(&self, nic: &mut N, mac: [u8; 6], addr: [u8; 4]) -> u64 {
        let Some(address) = self.address else { return 0 };
        let arp = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: EthernetAddress(mac),
            source_protocol_addr: Ipv4Address::from(address.addr),
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: Ipv4Address::from(addr),
        };
        let ethernet = EthernetRepr {
            src_addr: EthernetAddress(mac),
            dst_addr: EthernetAddress::BROADCAST,
            ethertype: EthernetProtocol::Arp,
        };
        let sent = nic.transmit(ETHERNET_LEN + arp.buffer_len(), |frame| {
            let mut frame = EthernetFrame::new_unchecked(frame);
            ethernet.emit(&mut frame);
            arp.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
        });
        u64::from(sent.is_some())
    }

    /// Takes over the address that another stack of the same station has.
    pub(crate) fn tell(&mut self, addr: Option<[u8; 4]>) {
        self.set_address(addr.map(|addr| Address { addr, prefix_len: 32, gateway: None }));
    }

    /// Handles a received frame. Returns the frames sent.
    pub(crate) fn ingress<N: Nic>(&mut self, nic: &mut N, now_us: u64, frame: &[u8]) -> u64 {
        let mut link = Ethernet { nic, rx: Some(frame), mtu: self.mtu, sent: 0 };
        self.iface.poll_ingress_single(instant(now_us), &mut link, &mut self.sockets);
        let sent = link.sent;
        if self.dhcp.is_some() {
            self.next_us = Some(now_us);
        }
        sent
    }

    /// Sends what is due. Returns the frames sent.
    pub(crate) fn egress<N: Nic>(&mut self, nic: &mut N, now_us: u64) -> u64 {
        let mut link = Ethernet { nic, rx: None, mtu: self.mtu, sent: 0 };
        self.iface.poll_egress(instant(now_us), &mut link, &mut self.sockets);
        let sent = link.sent;
        self.next_us = self
            .iface
            .poll_at(instant(now_us), &self.sockets)
            // A full send ring must not turn into a busy loop.
            .map(|at| (at.total_micros().max(0) as u64).max(now_us + 1000));
        sent
    }

    /// Takes a change of address by DHCP, if there was one. Returns whether the address changed.
    pub(crate) fn follow_lease(&mut self) -> bool {
        let Some(handle) = self.dhcp else { return false };
        let address = match self.sockets.get_mut::<dhcpv4::Socket>(handle).poll() {
            None => return false,
            Some(dhcpv4::Event::Configured(lease)) => Some(Address {
                addr: lease.address.address().octets(),
                prefix_len: lease.address.prefix_len(),
                gateway: lease.router.map(|router| router.octets()),
            }),
            Some(dhcpv4::Event::Deconfigured) => None,
        };
        // An address nobody can have would make smoltcp panic.
        let address = address.filter(|address| {
            let addr = IpAddress::Ipv4(Ipv4Address::from(address.addr));
            addr.is_unicast() && !addr.is_unspecified()
        });
        let changed = address != self.address;
        if changed {
            self.set_address(address);
        }
        changed
    }

    /// When [`egress`](Self::egress) is next due.
    pub(crate) fn next_us(&self) -> Option<u64> {
        if self.dhcp.is_some() { Some(self.next_us.unwrap_or(0)) } else { None }
    }
}

/// Whose link address an ARP reply gives, and which.
pub(crate) fn arp_answer(frame: &[u8]) -> Option<([u8; 4], [u8; 6])> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    if frame.ethertype() != EthernetProtocol::Arp {
        return None;
    }
    let arp = ArpPacket::new_checked(frame.payload()).ok()?;
    match ArpRepr::parse(&arp).ok()? {
        ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply, source_hardware_addr, source_protocol_addr, ..
        } if source_hardware_addr.is_unicast() => Some((source_protocol_addr.octets(), source_hardware_addr.0)),
        _ => None,
    }
}

/// Of a segment of ours that cannot be delivered (ICMP destination unreachable, RFC 792): whose address and port it was
/// for, from which port, and its sequence number.
pub(crate) fn undelivered(frame: &[u8]) -> Option<([u8; 4], u16, u16, u32)> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    if frame.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new_checked(frame.payload()).ok()?;
    if ip.next_header() != IpProtocol::Icmp {
        return None;
    }
    let icmp = Icmpv4Packet::new_checked(ip.payload()).ok()?;
    // A packet that is too large for the way does not end a connection (RFC 1191); a SYN is never too large.
    if !icmp.verify_checksum()
        || icmp.msg_type() != Icmpv4Message::DstUnreachable
        || icmp.msg_code() == u8::from(Icmpv4DstUnreachable::FragRequired)
    {
        return None;
    }
    // Of the segment only its first eight bytes need be there.
    let quoted = icmp.data();
    let tcp = quoted.get(IPV4_LEN..IPV4_LEN + 8)?;
    if quoted[0] != 0x45 || quoted[9] != u8::from(IpProtocol::Tcp) {
        return None;
    }
    Some(([quoted[16], quoted[17], quoted[18], quoted[19]], u16_at(tcp, 2), u16_at(tcp, 0), u32_at(tcp, 4)))
}

fn capabilities(mtu: usize) -> DeviceCapabilities {
    let mut caps = DeviceCapabilities::default();
    caps.medium = Medium::Ethernet;
    caps.max_transmission_unit = mtu + ETHERNET_LEN;
    caps
}

/// The NIC as smoltcp sees it.
struct Ethernet<'a, N: Nic> {
    nic: &'a mut N,
    rx: Option<&'a [u8]>,
    mtu: usize,
    sent: u64,
}

struct Rx<'a>(&'a [u8]);

impl RxToken for Rx<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

struct Tx<'a, N: Nic> {
    nic: &'a mut N,
    sent: &'a mut u64,
}

impl<N: Nic> TxToken for Tx<'_, N> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut write = Some(f);
        let written = self.nic.transmit(len, |frame| write.take().map(|write| write(frame)));
        match (written.flatten(), write) {
            (Some(r), _) => {
                *self.sent += 1;
                r
            }
            // A full ring: ARP, ICMP and DHCP ask again.
            (None, Some(write)) => write(&mut [0; MAX_MTU + ETHERNET_LEN][..len]),
            (None, None) => unreachable!(),
        }
    }
}

impl<N: Nic> Device for Ethernet<'_, N> {
    type RxToken<'b>
        = Rx<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Tx<'b, N>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(Rx<'_>, Tx<'_, N>)> {
        let frame = self.rx.take()?;
        Some((Rx(frame), Tx { nic: self.nic, sent: &mut self.sent }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Tx<'_, N>> {
        self.nic.can_transmit().then_some(Tx { nic: self.nic, sent: &mut self.sent })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities(self.mtu)
    }
}

/// Stands for the NIC where an interface is made and only its capabilities are asked.
struct Silent {
    mtu: usize,
}

struct Never;

impl RxToken for Never {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&[])
    }
}

impl TxToken for Never {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        f(&mut [0; MAX_MTU + ETHERNET_LEN][..len])
    }
}

impl Device for Silent {
    type RxToken<'b> = Never;
    type TxToken<'b> = Never;

    fn receive(&mut self, _now: Instant) -> Option<(Never, Never)> {
        None
    }

    fn transmit(&mut self, _now: Instant) -> Option<Never> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities(self.mtu)
    }
}
