//! Connections that the station opens: whom it asks, what it sends, and how it learns that it was in vain.

mod common;

use barium_net::{AddressMode, Dial, DialError, Endpoint};
use common::raw::*;
use common::{ADDR, MAC, PEER_ADDR, PORT, World, config, pattern};
use smoltcp::socket::tcp;

const SERVER: u16 = 6379;

fn dial(bench: &mut Bench, ticket: u32, addr: [u8; 4], timeout_us: u64) -> Vec<Vec<u8>> {
    bench.service.dials.push_back(Dial { ticket, to: Endpoint { addr, port: SERVER }, timeout_us });
    bench.poll()
}

fn mac_of(addr: [u8; 4]) -> [u8; 6] {
    [2, 0, addr[0], addr[1], addr[2], addr[3]]
}

/// Whose link address an ARP request of the stack asks for.
fn asked(frame: &[u8]) -> Option<[u8; 4]> {
    let request = frame[12..14] == [8, 6] && frame[20..22] == [0, 1];
    if !request {
        return None;
    }
    assert_eq!((&frame[..6], &frame[6..12]), (&[0xff; 6][..], &MAC[..]));
    assert_eq!((&frame[22..28], &frame[28..32]), (&MAC[..], &ADDR[..]));
    frame[38..42].try_into().ok()
}

fn arp_reply(addr: [u8; 4]) -> Vec<u8> {
    let mut f = Vec::from(MAC);
    f.extend(mac_of(addr));
    f.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    f.extend(mac_of(addr));
    f.extend(addr);
    f.extend(MAC);
    f.extend(ADDR);
    f
}

/// Answers the question for the link address and returns the SYN.
fn syn_of(bench: &mut Bench, next_hop: [u8; 4], frames: &[Vec<u8>]) -> Vec<u8> {
    assert_eq!((frames.len(), asked(&frames[0])), (1, Some(next_hop)));
    bench.nic.rx.push_back(arp_reply(next_hop));
    let mut sent = bench.poll();
    assert_eq!(sent.len(), 1);
    sent.remove(0)
}

/// The peer's side of a connection of which it has the SYN.
fn server(syn: &Seg) -> (Peer, u16) {
    let mut peer = Peer::new(PEER_ADDR, SERVER);
    peer.ack = syn.seq.wrapping_add(1);
    (peer, syn.src)
}

/// Queues a segment of the peer for the local port.
fn say(bench: &mut Bench, peer: &mut Peer, port: u16, flags: u8, payload: &[u8]) -> Vec<Seg> {
    let mut seg = peer.seg(flags, payload);
    seg.dst = port;
    peer.seq = peer.seq.wrapping_add(payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0));
    bench.nic.rx.push_back(seg.frame(peer.addr));
    peer.hear(bench.poll())
}

#[test]
fn a_syn_follows_the_answer_to_arp_and_is_acknowledged_both_ways() {
    let mut bench = Bench::new(config());
    let frames = dial(&mut bench, 7, PEER_ADDR, 5_000_000);
    let syn = Seg::parse(&syn_of(&mut bench, PEER_ADDR, &frames), PEER_ADDR).expect("TCP");
    assert_eq!((syn.flags, syn.dst, syn.ack, syn.window), (SYN, SERVER, 0, 4096));
    assert_eq!(syn.options, [2, 4, 5, 0xb4, 1, 3, 3, 4, 1, 1, 4, 2]);
    assert!(syn.src >= 49_152);
    let (mut peer, port) = server(&syn);
    // The window of the SYN-ACK counts in bytes: one segment and not one more may be under way.
    peer.window = 1000;
    let answer = say(&mut bench, &mut peer, port, SYN | ACK, &[]);
    assert_eq!((answer.len(), answer[0].flags, answer[0].ack), (1, ACK, peer.seq));
    assert_eq!((answer[0].seq, answer[0].window), (syn.seq.wrapping_add(1), 4096 >> 4));
    let (ticket, conn, local) = bench.service.dialed[0];
    assert_eq!((ticket, local), (7, port));
    bench.service.conns.get_mut(&conn).expect("known").out.extend(pattern(3000, 1));
    bench.service.ready.push(conn);
    let sent = peer.hear(bench.poll());
    let bytes: usize = sent.iter().map(|seg| seg.payload.len()).sum();
    assert_eq!(bytes, 1000 >> 7 << 7, "what the window of the SYN-ACK allows");
    peer.window = 512;
    let rest = say(&mut bench, &mut peer, port, ACK, &[]);
    assert_eq!(rest.iter().map(|seg| seg.payload.len()).sum::<usize>(), 3000 - bytes);
    // Bytes come in as on any other connection, and the peer's farewell is answered.
    assert!(say(&mut bench, &mut peer, port, ACK | PSH, b"hello").iter().any(|seg| seg.payload == b"hello"));
    let last = say(&mut bench, &mut peer, port, ACK | FIN, &[]);
    assert!(last.last().expect("FIN").has(FIN | ACK));
    say(&mut bench, &mut peer, port, ACK, &[]);
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 1));
    assert_eq!((bench.stack.stats().dialed, bench.stack.stats().dial_failed), (1, 0));
    assert_eq!(bench.stack.next_deadline(), None);
}

#[test]
fn a_refusal_is_told_at_once_and_only_a_right_one() {
    let mut bench = Bench::new(config());
    let frames = dial(&mut bench, 1, PEER_ADDR, 5_000_000);
    let syn = Seg::parse(&syn_of(&mut bench, PEER_ADDR, &frames), PEER_ADDR).expect("TCP");
    let (mut peer, port) = server(&syn);
    let right = peer.ack;
    for wrong in [right.wrapping_add(1), right.wrapping_sub(1)] {
        peer.ack = wrong;
        assert_eq!(say(&mut bench, &mut peer, port, RST | ACK, &[]), []);
        let answer = say(&mut bench, &mut peer, port, SYN | ACK, &[]);
        assert_eq!((answer.len(), answer[0].flags, answer[0].seq), (1, RST, wrong));
    }
    say(&mut bench, &mut peer, port, RST, &[]);
    say(&mut bench, &mut peer, port, SYN, &[]);
    assert_eq!(bench.service.dial_failed, []);
    peer.ack = right;
    assert_eq!(say(&mut bench, &mut peer, port, RST | ACK, &[]), []);
    assert_eq!(bench.service.dial_failed, [(1, DialError::Refused)]);
    assert_eq!(bench.stack.next_deadline(), None);
}

/// ICMP destination unreachable with this code, about a frame of the stack's.
fn unreachable(code: u8, about: &[u8]) -> Vec<u8> {
    let mut icmp = vec![3, code, 0, 0, 0, 0, 0, 0];
    icmp.extend(&about[14..14 + 28]);
    let sum: u32 = icmp.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    icmp[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    ip_frame(PEER_ADDR, ADDR, 1, &icmp)
}

#[test]
fn a_router_s_refusal_counts_if_it_knows_the_syn() {
    let mut bench = Bench::new(config());
    let frames = dial(&mut bench, 1, PEER_ADDR, 5_000_000);
    let syn = syn_of(&mut bench, PEER_ADDR, &frames);
    let mut other = syn.clone();
    other[38] ^= 1;
    for frame in [unreachable(1, &other), unreachable(4, &syn)] {
        bench.nic.rx.push_back(frame);
        bench.poll();
        assert_eq!(bench.service.dial_failed, []);
    }
    bench.nic.rx.push_back(unreachable(1, &syn));
    bench.poll();
    assert_eq!(bench.service.dial_failed, [(1, DialError::Refused)]);
}

#[test]
fn a_lost_syn_is_sent_again_and_a_silent_peer_given_up() {
    let mut bench = Bench::new(config());
    let frames = dial(&mut bench, 1, PEER_ADDR, 8_000_000);
    let syn = syn_of(&mut bench, PEER_ADDR, &frames);
    let began = bench.now_us;
    let sent = bench.pass(60_000_000);
    let times: Vec<u64> = sent.iter().map(|(at, _)| at - began).collect();
    assert_eq!(times, [1_000_000, 3_000_000, 7_000_000]);
    assert!(sent.iter().all(|(_, frame)| *frame == syn));
    assert_eq!(bench.service.dial_failed, [(1, DialError::TimedOut)]);
    assert_eq!(bench.stack.next_deadline(), None);
    // An answer that comes too late is reset.
    let (mut peer, port) = server(&Seg::parse(&syn, PEER_ADDR).expect("TCP"));
    assert_eq!(say(&mut bench, &mut peer, port, SYN | ACK, &[])[0].flags, RST);
}

#[test]
fn nobody_has_the_address() {
    let mut bench = Bench::new(config());
    dial(&mut bench, 1, PEER_ADDR, 2_500_000);
    // Somebody else's answer is none.
    bench.nic.rx.push_back(arp_reply([10, 0, 0, 9]));
    let sent = bench.pass(10_000_000);
    assert_eq!(sent.iter().filter_map(|(_, frame)| asked(frame)).collect::<Vec<_>>(), [PEER_ADDR; 2]);
    assert_eq!(bench.service.dial_failed, [(1, DialError::TimedOut)]);
}

#[test]
fn what_is_not_on_the_link_goes_to_the_gateway() {
    let far = [192, 0, 2, 1];
    let mut bench = Bench::new(config());
    assert!(dial(&mut bench, 1, far, 1_000_000).is_empty());
    let mut with_gateway = config();
    with_gateway.address = AddressMode::Static { addr: ADDR, prefix_len: 24, gateway: Some(PEER_ADDR) };
    for (ticket, addr) in [ADDR, [127, 0, 0, 1], [0; 4], [224, 0, 0, 1], [255; 4]].into_iter().enumerate() {
        assert!(dial(&mut bench, 2 + ticket as u32, addr, 1_000_000).is_empty());
    }
    assert_eq!(bench.service.dial_failed, [1, 2, 3, 4, 5, 6].map(|ticket| (ticket, DialError::Unreachable)));
    let mut bench = Bench::new(with_gateway);
    let frames = dial(&mut bench, 1, far, 1_000_000);
    let syn = syn_of(&mut bench, PEER_ADDR, &frames);
    assert_eq!((&syn[..6], &syn[30..34]), (&mac_of(PEER_ADDR)[..], &far[..]));
    let mut without = config();
    without.address = AddressMode::Dhcp;
    let mut bench = Bench::new(without);
    dial(&mut bench, 1, far, 1_000_000);
    assert_eq!(bench.service.dial_failed, [(1, DialError::NoAddress)]);
}

#[test]
fn many_at_once_take_ports_of_their_own_that_are_ours() {
    let mut bench = Bench::new(config());
    bench.service.own_every = Some(4);
    for ticket in 0..40 {
        dial(&mut bench, ticket, PEER_ADDR, 5_000_000);
    }
    let refused: Vec<_> = (32..40).map(|ticket| (ticket, DialError::TooMany)).collect();
    assert_eq!(bench.service.dial_failed, refused);
    bench.nic.rx.push_back(arp_reply(PEER_ADDR));
    let mut ports: Vec<u16> =
        bench.poll().iter().filter_map(|frame| Seg::parse(frame, PEER_ADDR)).map(|seg| seg.src).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 32);
    assert!(ports.iter().all(|port| port.is_multiple_of(4)));
}

#[test]
fn one_that_is_no_longer_wanted_is_reset() {
    let mut bench = Bench::new(config());
    bench.service.refuse = true;
    let frames = dial(&mut bench, 1, PEER_ADDR, 5_000_000);
    let syn = Seg::parse(&syn_of(&mut bench, PEER_ADDR, &frames), PEER_ADDR).expect("TCP");
    let (mut peer, port) = server(&syn);
    let answer = say(&mut bench, &mut peer, port, SYN | ACK, &[]);
    assert!(answer.last().expect("RST").has(RST));
    assert_eq!((bench.stack.connections(), bench.service.closed), (0, 0));
}

/// A listening peer that sends back what it gets, over a wire that loses and reorders.
#[test]
fn a_whole_conversation_over_a_bad_wire() {
    let mut world = World::new(config(), 5);
    world.trouble = common::Trouble { loss: 50, duplicate: 20, reorder: 50, delay_us: 300 };
    let mut socket = tcp::Socket::new(tcp::SocketBuffer::new(vec![0; 8192]), tcp::SocketBuffer::new(vec![0; 8192]));
    socket.listen(PORT).expect("listens");
    let handle = world.peer_sockets.add(socket);
    world.service.mute = true;
    let to = Endpoint { addr: PEER_ADDR, port: PORT };
    world.service.dials.push_back(Dial { ticket: 1, to, timeout_us: 60_000_000 });
    assert!(world.run(60_000_000, |w| !w.service.dialed.is_empty()), "{:?}", world.service.dial_failed);
    let (_, conn, _) = world.service.dialed[0];
    let bytes = pattern(100_000, 3);
    world.service.conns.get_mut(&conn).expect("known").out.extend(&bytes);
    world.service.ready.push(conn);
    let mut got = Vec::new();
    let mut back = 0;
    let done = world.run(120_000_000, |w| {
        let socket = w.socket(handle);
        while socket.can_recv() && socket.can_send() {
            let more = socket.recv(|b| (b.len(), b.to_vec())).expect("recv");
            back += socket.send_slice(&more).expect("send");
            got.extend(more);
        }
        got.len() == bytes.len() && w.service.conns.get(&conn).is_some_and(|c| c.received == back)
    });
    assert!(done && got == bytes, "{} there, {back} back", got.len());
}
