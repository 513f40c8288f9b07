//! Received frames, checked once into a typed view (Ethernet II, RFC 791, RFC 9293).

use crate::checksum::{Sum, pseudo_header};
use crate::stats::Malformed;

pub(crate) const ETHERNET_LEN: usize = 14;
pub(crate) const IPV4_LEN: usize = 20;
pub(crate) const TCP_LEN: usize = 20;
/// Where the TCP header of every accepted and every sent frame begins: neither has IP options.
pub(crate) const TCP_AT: usize = ETHERNET_LEN + IPV4_LEN;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// Reads the big-endian word at `at`; the caller has checked the length.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Reads the big-endian double word at `at`; the caller has checked the length.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Whether sequence number `a` lies before `b` (RFC 9293, 3.4).
#[inline(always)]
pub(crate) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// A TCP segment whose frame is whole, addressed to this station and has right checksums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) peer_mac: [u8; 6],
    pub(crate) peer_addr: [u8; 4],
    pub(crate) peer_port: u16,
    pub(crate) local_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    /// The window field as it stands, not scaled.
    pub(crate) window: u16,
    /// Length of the TCP options.
    pub(crate) options_len: usize,
    pub(crate) payload_len: usize,
    /// Length of the frame without padding.
    pub(crate) frame_len: usize,
    /// Of a SYN only.
    pub(crate) syn_options: SynOptions,
}

impl Segment {
    pub(crate) fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Sequence numbers the segment takes.
    pub(crate) fn seq_len(&self) -> u32 {
        self.payload_len as u32 + u32::from(self.flags & SYN != 0) + u32::from(self.flags & FIN != 0)
    }
}

/// The options of a SYN that matter (RFC 9293 3.2, RFC 7323, RFC 2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SynOptions {
    pub(crate) mss: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
}

impl SynOptions {
    /// What a SYN without options means.
    const NONE: Self = Self { mss: 536, window_scale: None, sack_permitted: false };

    /// Reads the options of a SYN; what is malformed ends the list.
    pub(crate) fn parse(mut options: &[u8]) -> Self {
        let mut found = Self::NONE;
        loop {
            match options {
                [1, rest @ ..] => options = rest,
                [2, 4, a, b, rest @ ..] => {
                    // A zero MSS counts as none, as in Linux.
                    let mss = u16::from_be_bytes([*a, *b]);
                    if mss != 0 {
                        found.mss = mss;
                    }
                    options = rest;
                }
                [3, 3, shift, rest @ ..] => {
                    found.window_scale = Some((*shift).min(14));
                    options = rest;
                }
                [4, 2, rest @ ..] => {
                    found.sack_permitted = true;
                    options = rest;
                }
                [kind, len, ..] if *kind > 1 && *len >= 2 && usize::from(*len) <= options.len() => {
                    options = &options[usize::from(*len)..];
                }
                _ => return found,
            }
        }
    }
}

/// What a selective acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sacked {
    /// How many bytes beyond the acknowledged ones arrived.
    pub(crate) bytes: u32,
    /// Where they end.
    pub(crate) end: u32,
    /// Where something begins that arrived once more (RFC 2883).
    pub(crate) twice: Option<u32>,
}

impl Sacked {
    /// Reads the SACK option (RFC 2018) among `options`; blocks that do not lie after `ack` count for nothing (RFC 2883).
    pub(crate) fn parse(mut options: &[u8], ack: u32) -> Self {
        let mut found = Self { bytes: 0, end: ack, twice: None };
        loop {
            match options {
                [1, rest @ ..] => options = rest,
                [kind, len, ..] if *kind > 1 && *len >= 2 && usize::from(*len) <= options.len() => {
                    if *kind == 5 {
                        for (n, block) in options[2..usize::from(*len)].chunks_exact(8).enumerate() {
                            let (left, right) = (u32_at(block, 0), u32_at(block, 4));
                            if n == 0 && before(left, ack) {
                                found.twice = Some(left);
                            }
                            if before(ack, left) && before(left, right) {
                                found.bytes = found.bytes.saturating_add(right.wrapping_sub(left));
                                found.end = if before(found.end, right) { right } else { found.end };
                            }
                        }
                    }
                    options = &options[usize::from(*len)..];
                }
                _ => return found,
            }
        }
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inbound {
    /// A TCP segment for this station.
    Tcp(Segment),
    /// ARP, ICMP or DHCP: the control interface's business. `len` is the frame's length without padding.
    Control {
        /// Length of the frame without padding.
        len: usize,
    },
}

/// What decides whether a frame is for this station.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Station {
    pub(crate) mac: [u8; 6],
    /// `None` until DHCP has given one.
    pub(crate) addr: Option<[u8; 4]>,
    /// DHCP answers are expected.
    pub(crate) dhcp: bool,
}

/// Length of the Ethernet, IPv4 and TCP headers without options: what [`Headers`] covers.
pub(crate) const HEADERS_LEN: usize = TCP_AT + TCP_LEN;

/// The headers of a TCP frame. Being of fixed length, they are read and written without a check of each access.
pub(crate) type Headers = [u8; HEADERS_LEN];

/// `N` bytes of the headers from `at` on.
#[inline(always)]
pub(crate) fn part<const N: usize>(headers: &Headers, at: usize) -> &[u8; N] {
    // `at` is a constant everywhere, and the fallback is never reached.
    headers[at..].first_chunk().unwrap_or(&[0; N])
}

/// Checks a frame. `verified`: the device vouches for its TCP checksum.
#[inline(always)]
pub(crate) fn parse(frame: &[u8], verified: bool, station: &Station) -> Result<Inbound, Malformed> {
    let Some((headers, rest)) = frame.split_first_chunk::<HEADERS_LEN>() else {
        return parse_short(frame, station);
    };
    // The frequent case first: a TCP segment without IP options, not fragmented, for this station.
    if headers[..6] != station.mac
        || u16_at(headers, 12) != ETHERTYPE_IPV4
        || headers[ETHERNET_LEN] != 0x45
        || headers[ETHERNET_LEN + 9] != PROTOCOL_TCP
    {
        return parse_short(frame, station);
    }
    let total_len = usize::from(u16_at(headers, ETHERNET_LEN + 2));
    let options_and_payload = match total_len.checked_sub(IPV4_LEN + TCP_LEN) {
        Some(len) => rest.get(..len).ok_or(Malformed::Truncated)?,
        None => return Err(Malformed::Truncated),
    };
    check_ip(headers[ETHERNET_LEN..].first_chunk().ok_or(Malformed::Truncated)?)?;
    segment(headers, options_and_payload, verified, station)
}

/// Checks what is common to all IPv4 headers.
#[inline]
fn check_ip(ip: &[u8; IPV4_LEN]) -> Result<(), Malformed> {
    // More fragments, or an offset; don't-fragment may be set.
    if u16_at(ip, 6) & 0x3fff != 0 {
        return Err(Malformed::Fragment);
    }
    if Sum::default().add_header(ip).fold() != [0xff, 0xff] {
        return Err(Malformed::IpChecksum);
    }
    Ok(())
}

/// Checks a frame that is no acceptable TCP segment: it may be ARP, ICMP or DHCP, or nothing.
fn parse_short(frame: &[u8], station: &Station) -> Result<Inbound, Malformed> {
    if frame.len() < ETHERNET_LEN + IPV4_LEN {
        return Err(Malformed::Truncated);
    }
    // The group bit: multicast and broadcast.
    let to_group = frame[0] & 1 != 0;
    if !to_group && frame[..6] != station.mac {
        return Err(Malformed::OtherStation);
    }
    match u16_at(frame, 12) {
        ETHERTYPE_IPV4 => {}
        ETHERTYPE_ARP => return Ok(Inbound::Control { len: frame.len() }),
        _ => return Err(Malformed::EtherType),
    }
    let ip = &frame[ETHERNET_LEN..];
    // Version 4 and a header without options: nothing serves a packet with source routes.
    if ip[0] != 0x45 {
        return Err(Malformed::IpHeader);
    }
    let total_len = usize::from(u16_at(ip, 2));
    if total_len < IPV4_LEN || total_len > ip.len() {
        return Err(Malformed::Truncated);
    }
    check_ip(ip.first_chunk().ok_or(Malformed::Truncated)?)?;
    let len = ETHERNET_LEN + total_len;
    match ip[9] {
        // For a group, or too short for its header.
        PROTOCOL_TCP if to_group => Err(Malformed::OtherStation),
        PROTOCOL_TCP => Err(Malformed::Truncated),
        PROTOCOL_ICMP => Ok(Inbound::Control { len }),
        // A DHCP client's port: nothing else here speaks UDP.
        PROTOCOL_UDP if station.dhcp && total_len >= IPV4_LEN + 8 && u16_at(ip, IPV4_LEN + 2) == 68 => {
            Ok(Inbound::Control { len })
        }
        _ => Err(Malformed::Protocol),
    }
}

/// Checks the TCP part of a frame whose IP header is sound.
#[inline]
fn segment(headers: &Headers, rest: &[u8], verified: bool, station: &Station) -> Result<Inbound, Malformed> {
    let peer_addr = *part::<4>(headers, ETHERNET_LEN + 12);
    let local_addr = *part::<4>(headers, ETHERNET_LEN + 16);
    // 0/8, 127/8, 224/4 and 240/4 are nobody's source address, nor is our own.
    if station.addr != Some(local_addr)
        || peer_addr == local_addr
        || matches!(peer_addr[0], 0 | 127 | 224..=255)
        || headers[6] & 1 != 0
    {
        return Err(Malformed::Address);
    }
    let header_len = usize::from(headers[TCP_AT + 12] >> 4) * 4;
    if header_len < TCP_LEN {
        return Err(Malformed::TcpHeader);
    }
    let options = rest.get(..header_len - TCP_LEN).ok_or(Malformed::Truncated)?;
    if !verified {
        let pseudo = pseudo_header(part(headers, ETHERNET_LEN + 12), TCP_LEN + rest.len());
        if pseudo.add_header(part(headers, TCP_AT)).add(rest).fold() != [0xff, 0xff] {
            return Err(Malformed::TcpChecksum);
        }
    }
    let flags = headers[TCP_AT + 13] & 0x3f;
    // SYN goes with neither FIN nor RST; no segment is without any flag; port 0 is nobody's.
    let (peer_port, local_port) = (u16_at(headers, TCP_AT), u16_at(headers, TCP_AT + 2));
    if (flags & SYN != 0 && flags & (FIN | RST) != 0)
        || (flags & FIN != 0 && flags & RST != 0)
        || flags & (SYN | RST | ACK) == 0
        || peer_port == 0
        || local_port == 0
    {
        return Err(Malformed::TcpHeader);
    }
    Ok(Inbound::Tcp(Segment {
        peer_mac: *part(headers, 6),
        peer_addr,
        peer_port,
        local_port,
        seq: u32_at(headers, TCP_AT + 4),
        ack: u32_at(headers, TCP_AT + 8),
        flags,
        window: u16_at(headers, TCP_AT + 14),
        options_len: options.len(),
        payload_len: rest.len() - options.len(),
        frame_len: HEADERS_LEN + rest.len(),
        syn_options: if flags & SYN != 0 { SynOptions::parse(options) } else { SynOptions::NONE },
    }))
}

/// Says of a packet that its UDP checksum was not computed (RFC 768). For one that the device vouches for: its field may hold
/// anything. Others are left alone.
pub(crate) fn clear_udp_checksum(frame: &mut [u8]) {
    const CHECKSUM: usize = ETHERNET_LEN + IPV4_LEN + 6;
    if u16_at(frame, 12) == ETHERTYPE_IPV4
        && frame.get(ETHERNET_LEN + 9) == Some(&PROTOCOL_UDP)
        && let Some(field) = frame.get_mut(CHECKSUM..CHECKSUM + 2)
    {
        field.fill(0);
    }
}

/// One segment for a peer, written by the stack itself rather than by smoltcp: SYN-ACK, RST, ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outbound<'a> {
    pub(crate) mac: [u8; 6],
    pub(crate) addr: [u8; 4],
    pub(crate) port: u16,
    pub(crate) local_mac: [u8; 6],
    pub(crate) local_addr: [u8; 4],
    pub(crate) local_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// Whole 32-bit words.
    pub(crate) options: &'a [u8],
}

impl Outbound<'_> {
    /// Length of the frame.
    pub(crate) fn frame_len(&self) -> usize {
        TCP_AT + TCP_LEN + self.options.len()
    }

    /// Writes the frame, all but its checksums, into `frame`, which is [`frame_len`](Self::frame_len) long.
    pub(crate) fn emit(&self, frame: &mut [u8]) {
        ethernet_header(frame, self.mac, self.local_mac);
        let ip_len = (frame.len() - ETHERNET_LEN) as u16;
        let ip = &mut frame[ETHERNET_LEN..];
        ip[..2].copy_from_slice(&[0x45, 0]);
        ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
        // No identification is needed with don't-fragment (RFC 6864).
        ip[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
        ip[8..12].copy_from_slice(&[64, PROTOCOL_TCP, 0, 0]);
        ip[12..16].copy_from_slice(&self.local_addr);
        ip[16..20].copy_from_slice(&self.addr);
        let tcp = &mut ip[IPV4_LEN..];
        tcp[..2].copy_from_slice(&self.local_port.to_be_bytes());
        tcp[2..4].copy_from_slice(&self.port.to_be_bytes());
        tcp[4..8].copy_from_slice(&self.seq.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.ack.to_be_bytes());
        tcp[12] = (((TCP_LEN + self.options.len()) / 4) << 4) as u8;
        tcp[13] = self.flags;
        tcp[14..16].copy_from_slice(&self.window.to_be_bytes());
        tcp[16..20].copy_from_slice(&[0; 4]);
        tcp[TCP_LEN..].copy_from_slice(self.options);
    }
}

/// Writes the Ethernet header of an IPv4 frame.
#[inline]
pub(crate) fn ethernet_header(frame: &mut [u8], to: [u8; 6], from: [u8; 6]) {
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..14].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
}

/// Fills in the checksums of a frame that holds an IPv4 header without options and a TCP segment; `rest` is what follows
/// the headers. With `offload` the TCP field gets the sum of the pseudo-header, which is what the device goes on from.
#[inline]
pub(crate) fn fill_checksums(headers: &mut Headers, rest: &[u8], offload: bool) {
    headers[ETHERNET_LEN + 10..ETHERNET_LEN + 12].copy_from_slice(&[0, 0]);
    let sum = Sum::default().add_header(part(headers, ETHERNET_LEN)).finish();
    headers[ETHERNET_LEN + 10..ETHERNET_LEN + 12].copy_from_slice(&sum);
    headers[TCP_AT + 16..TCP_AT + 18].copy_from_slice(&[0, 0]);
    let pseudo = pseudo_header(part(headers, ETHERNET_LEN + 12), TCP_LEN + rest.len());
    let sum = if offload { pseudo.fold() } else { pseudo.add_header(part(headers, TCP_AT)).add(rest).finish() };
    headers[TCP_AT + 16..TCP_AT + 18].copy_from_slice(&sum);
}

/// [`fill_checksums`] for a whole frame; one too short for the headers is left alone.
pub(crate) fn fill_frame_checksums(frame: &mut [u8], offload: bool) {
    if let Some((headers, rest)) = frame.split_first_chunk_mut() {
        fill_checksums(headers, rest, offload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const STATION: Station = Station { mac: [2, 0, 0, 0, 0, 1], addr: Some([10, 0, 0, 1]), dhcp: true };

    fn syn() -> Vec<u8> {
        let out = Outbound {
            mac: STATION.mac,
            addr: [10, 0, 0, 1],
            port: 6379,
            local_mac: [2, 0, 0, 0, 0, 2],
            local_addr: [10, 0, 0, 2],
            local_port: 40000,
            seq: 0x0102_0304,
            ack: 0,
            flags: SYN,
            window: 64240,
            options: &[2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7],
        };
        let mut frame = vec![0xa5; out.frame_len()];
        out.emit(&mut frame);
        fill_frame_checksums(&mut frame, false);
        frame
    }

    fn parsed(frame: &[u8]) -> Result<Segment, Malformed> {
        match parse(frame, false, &STATION)? {
            Inbound::Tcp(segment) => Ok(segment),
            Inbound::Control { .. } => panic!("not TCP"),
        }
    }

    #[test]
    fn reads_what_it_wrote() {
        let mut frame = syn();
        frame.extend([0; 9]); // padding
        let segment = parsed(&frame).expect("valid");
        assert_eq!(
            (segment.seq, segment.peer_port, segment.local_port, segment.window),
            (0x0102_0304, 40000, 6379, 64240)
        );
        assert_eq!((segment.payload_len, segment.seq_len()), (0, 1));
        assert_eq!(segment.syn_options, SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true });
    }

    #[test]
    fn names_what_is_wrong() {
        type Spoil = fn(&mut Vec<u8>);
        let cases: [(Malformed, Spoil); 12] = [
            (Malformed::Truncated, |f| f.truncate(33)),
            (Malformed::Truncated, |f| f.truncate(60)),
            (Malformed::OtherStation, |f| f[5] ^= 1),
            (Malformed::EtherType, |f| f[13] = 0xdd),
            (Malformed::IpHeader, |f| f[14] = 0x46),
            (Malformed::IpHeader, |f| f[14] = 0x65),
            (Malformed::Fragment, |f| f[20] |= 0x20),
            (Malformed::Fragment, |f| f[21] |= 1),
            (Malformed::IpChecksum, |f| f[22] ^= 1),
            (Malformed::TcpChecksum, |f| *f.last_mut().expect("byte") ^= 1),
            (Malformed::TcpHeader, |f| f[TCP_AT + 12] = 0x40),
            (Malformed::TcpHeader, |f| {
                f[TCP_AT + 13] |= FIN;
                fill_frame_checksums(f, false);
            }),
        ];
        for (i, (want, spoil)) in cases.iter().enumerate() {
            let mut frame = syn();
            spoil(&mut frame);
            assert_eq!(parsed(&frame).expect_err("spoilt"), *want, "case {i}");
        }
        let other = Station { addr: Some([10, 0, 0, 9]), ..STATION };
        assert!(matches!(parse(&syn(), false, &other), Err(Malformed::Address)));
    }

    #[test]
    fn sack_blocks_are_summed() {
        let mut options = vec![1, 1, 5, 26];
        for (left, right) in [(50u32, 90u32), (3000, 4000), (1500, 1600)] {
            options.extend(left.to_be_bytes());
            options.extend(right.to_be_bytes());
        }
        let found = Sacked { bytes: 1100, end: 4000, twice: Some(50) };
        assert_eq!(Sacked::parse(&options, 1000), found, "a duplicate's block is none of what is missing");
        options.truncate(20);
        assert_eq!(Sacked::parse(&options, 1000), Sacked { bytes: 0, end: 1000, twice: None });
    }

    #[test]
    fn odd_options_end_the_list() {
        let none = SynOptions::NONE;
        for options in [&[][..], &[0, 2, 4, 5, 0xb4], &[2], &[2, 4, 5], &[8, 0], &[8, 1, 1], &[254, 40, 1]] {
            assert_eq!(SynOptions::parse(options), none, "{options:?}");
        }
    }
}
