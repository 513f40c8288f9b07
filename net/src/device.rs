//! smoltcp's view of the NIC for one connection, and for none.
//!
//! smoltcp writes IP packets; [`Port`] puts them into Ethernet frames on the real NIC and, on the way, turns smoltcp's
//! sequence numbers and window scale into those that the peer was told (see [`Conn`](crate::conn::Conn)).
//! [`Capture`] swallows what smoltcp says in a handshake that is only staged.

use barium_nic::Nic;
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::train::Train;
use crate::wire::{self, ETHERNET_LEN, FIN, HEADERS_LEN, Headers, SYN, TCP_AT, TCP_LEN, before, u16_at, u32_at};

/// Largest IP packet handled, in bytes.
pub(crate) const MAX_MTU: usize = 1500;

/// What smoltcp is told of the link: IP packets, checksums done outside.
pub(crate) fn ip_capabilities(mtu: usize) -> DeviceCapabilities {
    let mut caps = DeviceCapabilities::default();
    caps.medium = Medium::Ip;
    caps.max_transmission_unit = mtu;
    caps.checksum = ChecksumCapabilities::ignored();
    caps
}

/// What is needed to turn smoltcp's packets of one connection into frames, and what is learnt from them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) peer_mac: [u8; 6],
    pub(crate) local_mac: [u8; 6],
    /// Sequence number on the wire minus smoltcp's.
    pub(crate) seq_delta: u32,
    /// Window scale that smoltcp believes it announced.
    pub(crate) inner_shift: u8,
    /// Window scale that the peer was told.
    pub(crate) wire_shift: u8,
    /// The device completes TCP checksums.
    pub(crate) checksum_offload: bool,
    pub(crate) mtu: u16,
    /// End of what was sent so far, as a sequence number on the wire.
    pub(crate) snd_nxt: u32,
    /// A timer made smoltcp go back to what was not acknowledged, and it has not yet sent all of that again.
    pub(crate) rewound: bool,
    /// Where the last segment that was sent again begins, and the end of what was sent before it.
    pub(crate) resent: (u32, u32),
    /// Frames sent.
    pub(crate) sent: u32,
    /// Segments among them that were sent before.
    pub(crate) retransmits: u32,
    /// Frames that found no room.
    pub(crate) lost: u32,
}

impl Link {
    /// Completes a frame whose IP and TCP part smoltcp wrote.
    #[inline]
    fn finish(&mut self, frame: &mut [u8]) {
        // smoltcp writes no IP options, so that whatever it sends has these headers.
        let Some((headers, rest)) = frame.split_first_chunk_mut::<HEADERS_LEN>() else { return };
        let options_len = usize::from(headers[TCP_AT + 12] >> 4) * 4 - TCP_LEN;
        self.account(u32_at(headers, TCP_AT + 4), headers[TCP_AT + 13], (rest.len() - options_len) as u32);
        self.complete(headers, rest);
    }

    /// Fills in what smoltcp does not know of a frame's headers; `rest` is what follows them.
    #[inline]
    pub(crate) fn complete(&self, headers: &mut Headers, rest: &[u8]) {
        wire::ethernet_header(headers, self.peer_mac, self.local_mac);
        let seq = u32_at(headers, TCP_AT + 4).wrapping_add(self.seq_delta);
        headers[TCP_AT + 4..TCP_AT + 8].copy_from_slice(&seq.to_be_bytes());
        let flags = headers[TCP_AT + 13];
        if flags & SYN == 0 && self.inner_shift != self.wire_shift {
            let window = (u32::from(u16_at(headers, TCP_AT + 14)) << self.inner_shift) >> self.wire_shift;
            let window = u16::try_from(window).unwrap_or(u16::MAX);
            headers[TCP_AT + 14..TCP_AT + 16].copy_from_slice(&window.to_be_bytes());
        }
        wire::fill_checksums(headers, rest, self.checksum_offload);
    }

    /// Learns from a segment what was sent: smoltcp's sequence number, flags, bytes of payload.
    #[inline]
    pub(crate) fn account(&mut self, seq: u32, flags: u8, payload: u32) {
        let seq = seq.wrapping_add(self.seq_delta);
        let len = payload + u32::from(flags & FIN != 0);
        if len > 0 {
            let end = seq.wrapping_add(len);
            if before(seq, self.snd_nxt) {
                self.retransmits += 1;
                self.resent = (seq, self.snd_nxt);
            }
            if !before(end, self.snd_nxt) {
                self.rewound = false;
                self.snd_nxt = end;
            }
        }
        self.sent += 1;
    }
}

/// The NIC as one connection sees it.
pub(crate) struct Port<'a, N: Nic> {
    pub(crate) nic: &'a mut N,
    /// The IP packet to receive.
    pub(crate) rx: Option<&'a [u8]>,
    pub(crate) link: &'a mut Link,
    /// Where the device cuts up large frames and there is much to send.
    pub(crate) train: Option<&'a mut Train>,
    /// The send ring was full when smoltcp wanted to send.
    pub(crate) blocked: bool,
}

pub(crate) struct PortRx<'a>(&'a [u8]);

impl RxToken for PortRx<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

pub(crate) struct PortTx<'a, N: Nic> {
    nic: &'a mut N,
    link: &'a mut Link,
    train: Option<&'a mut Train>,
}

impl<N: Nic> TxToken for PortTx<'_, N> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        match self.train {
            Some(train) if train.takes(len) => train.consume(self.nic, self.link, len, f),
            _ => send_one(self.nic, self.link, len, f),
        }
    }
}

/// Sends one packet of `len` bytes, which `write` writes, as a frame.
#[inline]
pub(crate) fn send_one<N: Nic, R>(nic: &mut N, link: &mut Link, len: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut write = Some(write);
    let written = nic.transmit_tcp(ETHERNET_LEN + len, |frame| {
        let r = write.take().map(|write| write(&mut frame[ETHERNET_LEN..]));
        link.finish(frame);
        r
    });
    match (written.flatten(), write) {
        (Some(r), _) => r,
        (None, Some(write)) => {
            link.lost += 1;
            discard(len, write)
        }
        // `write` is only taken where its result is kept.
        (None, None) => unreachable!(),
    }
}

/// Lets smoltcp write a packet that nobody will see.
fn discard<R>(len: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut scratch = [0; MAX_MTU];
    write(&mut scratch[..len])
}

impl<N: Nic> Device for Port<'_, N> {
    type RxToken<'b>
        = PortRx<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = PortTx<'b, N>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(PortRx<'_>, PortTx<'_, N>)> {
        let packet = self.rx.take()?;
        Some((PortRx(packet), PortTx { nic: self.nic, link: self.link, train: None }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<PortTx<'_, N>> {
        if !self.nic.can_transmit() {
            self.blocked = true;
            return None;
        }
        Some(PortTx { nic: self.nic, link: self.link, train: self.train.as_deref_mut() })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        ip_capabilities(usize::from(self.link.mtu))
    }
}

/// No NIC at all: keeps the sequence number and end of the last segment that smoltcp sent.
pub(crate) struct Capture<'a> {
    /// The IP packet to receive.
    pub(crate) rx: Option<&'a [u8]>,
    /// smoltcp's sequence number in its last segment.
    pub(crate) seq: u32,
    /// Sequence number after it.
    pub(crate) end: u32,
    pub(crate) mtu: u16,
}

pub(crate) struct CaptureTx<'a>(&'a mut u32, &'a mut u32);

impl TxToken for CaptureTx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = [0; MAX_MTU];
        let r = f(&mut packet[..len]);
        let tcp = &packet[wire::IPV4_LEN..];
        let payload = len - wire::IPV4_LEN - usize::from(tcp[12] >> 4) * 4;
        *self.0 = u32_at(tcp, 4);
        *self.1 = self.0.wrapping_add(payload as u32 + u32::from(tcp[13] & SYN != 0));
        r
    }
}

impl Device for Capture<'_> {
    type RxToken<'b>
        = PortRx<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = CaptureTx<'b>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(PortRx<'_>, CaptureTx<'_>)> {
        let packet = self.rx.take()?;
        Some((PortRx(packet), CaptureTx(&mut self.seq, &mut self.end)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<CaptureTx<'_>> {
        Some(CaptureTx(&mut self.seq, &mut self.end))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        ip_capabilities(usize::from(self.mtu))
    }
}
