//! ARP, ICMP echo and DHCP.

mod common;

use barium_net::{AddressMode, Config, Malformed};
use common::raw::*;
use common::{ADDR, MAC, PEER_ADDR, PORT, config};
use smoltcp::wire::{
    DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress, Icmpv4Packet, Icmpv4Repr, Ipv4Address, UdpPacket, UdpRepr,
};

fn arp(target: [u8; 4]) -> Vec<u8> {
    let mut f = vec![0xff; 6];
    f.extend_from_slice(&[2, 0, 10, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 10, 0, 0, 2]);
    f.extend_from_slice(&PEER_ADDR);
    f.extend_from_slice(&[0; 6]);
    f.extend_from_slice(&target);
    f
}

#[test]
fn answers_arp_for_itself_only() {
    let mut bench = Bench::new(config());
    bench.nic.rx.push_back(arp(ADDR));
    let answer = bench.poll();
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0][..6], [2, 0, 10, 0, 0, 2]);
    assert_eq!(answer[0][20..22], [0, 2], "a reply");
    assert_eq!(answer[0][22..28], MAC);
    bench.nic.rx.push_back(arp([10, 0, 0, 77]));
    assert!(bench.poll().is_empty());
}

#[test]
fn answers_ping() {
    let mut bench = Bench::new(config());
    bench.nic.rx.push_back(arp(ADDR));
    bench.poll();
    let data = common::pattern(1400, 1);
    let echo = Icmpv4Repr::EchoRequest { ident: 7, seq_no: 3, data: &data };
    let mut body = vec![0; echo.buffer_len()];
    echo.emit(&mut Icmpv4Packet::new_unchecked(&mut body), &Default::default());
    bench.nic.rx.push_back(ip_frame(PEER_ADDR, ADDR, 1, &body));
    let answer = bench.poll();
    assert_eq!(answer.len(), 1);
    let packet = Icmpv4Packet::new_checked(&answer[0][34..]).expect("ICMP");
    assert_eq!(
        Icmpv4Repr::parse(&packet, &Default::default()),
        Ok(Icmpv4Repr::EchoReply { ident: 7, seq_no: 3, data: &data })
    );
    // A wrong checksum is not answered.
    body[40] ^= 1;
    bench.nic.rx.push_back(ip_frame(PEER_ADDR, ADDR, 1, &body));
    assert!(bench.poll().is_empty());
}

#[test]
fn drops_and_counts_what_is_not_for_it() {
    let mut bench = Bench::new(config());
    let p = Peer::new(PEER_ADDR, 1);
    let whole = p.seg(SYN, &[]).frame(p.addr);
    let mut frames = vec![];
    let mut f = whole.clone();
    *f.last_mut().expect("byte") ^= 1;
    frames.push((Malformed::TcpChecksum, f));
    let mut f = whole.clone();
    f[20] |= 0x20;
    frames.push((Malformed::Fragment, f));
    frames.push((Malformed::Truncated, whole[..50].to_vec()));
    let mut f = whole.clone();
    f[5] = 9;
    frames.push((Malformed::OtherStation, f));
    frames.push((Malformed::Protocol, ip_frame(PEER_ADDR, ADDR, 17, &[0; 8])));
    for (why, frame) in frames {
        bench.nic.rx.push_back(frame);
        assert!(bench.poll().is_empty(), "{why:?}");
        assert_eq!(bench.stack.stats().malformed(why), 1, "{why:?}");
    }
    assert_eq!(bench.stack.half_open(), 0);
}

const SERVER: [u8; 4] = [10, 0, 0, 254];

/// The DHCP message in a frame of the stack.
fn dhcp_of(frame: &[u8]) -> Option<(DhcpMessageType, u32, Option<Ipv4Address>, Ipv4Address)> {
    if frame[12..14] != [8, 0] || frame[23] != 17 || frame[36..38] != [0, 67] {
        return None;
    }
    let packet = DhcpPacket::new_checked(&frame[42..]).expect("DHCP");
    let repr = DhcpRepr::parse(&packet).expect("DHCP");
    Some((repr.message_type, repr.transaction_id, repr.requested_ip, repr.client_ip))
}

/// A DHCP server's answer.
fn dhcp_answer(kind: DhcpMessageType, xid: u32, addr: [u8; 4]) -> Vec<u8> {
    let lease = Some(60);
    let repr = DhcpRepr {
        message_type: kind,
        transaction_id: xid,
        secs: 0,
        client_hardware_address: EthernetAddress(MAC),
        client_ip: Ipv4Address::UNSPECIFIED,
        your_ip: Ipv4Address::from(addr),
        server_ip: Ipv4Address::from(SERVER),
        router: Some(Ipv4Address::from(SERVER)),
        subnet_mask: Some(Ipv4Address::new(255, 255, 255, 0)),
        relay_agent_ip: Ipv4Address::UNSPECIFIED,
        broadcast: false,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(Ipv4Address::from(SERVER)),
        parameter_request_list: None,
        dns_servers: None,
        max_size: None,
        lease_duration: lease,
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    };
    let udp = UdpRepr { src_port: 67, dst_port: 68 };
    let mut body = vec![0; udp.header_len() + repr.buffer_len()];
    udp.emit(
        &mut UdpPacket::new_unchecked(&mut body),
        &Ipv4Address::from(SERVER).into(),
        &Ipv4Address::from(addr).into(),
        repr.buffer_len(),
        |payload| repr.emit(&mut DhcpPacket::new_unchecked(payload)).expect("room"),
        &Default::default(),
    );
    ip_frame(SERVER, addr, 17, &body)
}

/// Waits for the stack's next DHCP message of a kind and answers it.
fn serve_dhcp(bench: &mut Bench, want: DhcpMessageType, answer: DhcpMessageType, addr: [u8; 4]) {
    for _ in 0..100 {
        for (_, frame) in bench.pass(1_000_000) {
            if frame[12..14] == [8, 6] {
                // The stack looks for the server, to renew.
                let mut reply = MAC.to_vec();
                reply.extend_from_slice(&[2, 0, 10, 0, 0, 254, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 10, 0, 0, 254]);
                reply.extend_from_slice(&SERVER);
                reply.extend_from_slice(&MAC);
                reply.extend_from_slice(&addr);
                bench.nic.rx.push_back(reply);
                continue;
            }
            let Some((kind, xid, _, _)) = dhcp_of(&frame) else { continue };
            assert_eq!(kind, want);
            bench.nic.rx.push_back(dhcp_answer(answer, xid, addr));
            let next = bench.poll();
            bench.nic.tx.extend(next);
            return;
        }
    }
    panic!("no {want:?}");
}

#[test]
fn gets_and_renews_a_lease_and_follows_a_new_address() {
    use DhcpMessageType::{Ack, Discover, Offer, Request};
    let mut bench = Bench::new(Config::new(AddressMode::Dhcp, PORT, [3, 4]));
    assert_eq!(bench.stack.address(), None);
    serve_dhcp(&mut bench, Discover, Offer, ADDR);
    serve_dhcp(&mut bench, Request, Ack, ADDR);
    let address = bench.stack.address().expect("leased");
    assert_eq!((address.addr, address.prefix_len, address.gateway), (ADDR, 24, Some(SERVER)));
    let mut p = Peer::new(PEER_ADDR, 1);
    p.open(&mut bench);
    assert_eq!(p.say(&mut bench, ACK | PSH, b"PING")[0].payload, b"PING");
    serve_dhcp(&mut bench, Request, Ack, ADDR);
    assert_eq!(bench.stack.address().map(|address| address.addr), Some(ADDR));
    p.ack = p.ack.wrapping_add(0);
    assert_eq!(p.say(&mut bench, ACK | PSH, b"PING").last().expect("answer").payload, b"PING", "it survived");
    // The lease runs out: no address, no connection; then a new one.
    bench.pass(200_000_000);
    assert_eq!(bench.stack.address(), None);
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 1));
    serve_dhcp(&mut bench, Discover, Offer, [10, 0, 0, 9]);
    serve_dhcp(&mut bench, Request, Ack, [10, 0, 0, 9]);
    assert_eq!(bench.stack.address().map(|address| address.addr), Some([10, 0, 0, 9]));
}
