"""Malformed frames on the tap: dropped without a word, and nothing else is harmed."""
import socket
import struct
import time

import pytest

from namespace import ACK, ETHERTYPE_ARP, PSH, SYN, STRANGER_IP, STRANGER_MAC, Wire, checksum, ipv4, tcp
from resp import info

MSS = b"\x02\x04\x05\xb4"
IP_TCP, IP_ICMP, IP_UDP = 6, 1, 17
MORE_FRAGMENTS = 0x2000


def syn(port, **options):
    """A SYN to the server's port from the stranger's `port`."""
    return tcp(SYN, source_port=port, options=MSS, **options)


def echo(ident, data=b"ping"):
    """An ICMP echo request."""
    body = struct.pack("!HH", ident, 1) + data
    head = struct.pack("!BBH", 8, 0, 0)
    return head[:2] + struct.pack("!H", checksum(head + body)) + body


@pytest.fixture
def wire(tap_server):
    made = Wire()
    yield made
    made.close()


def answer(wire, port, limit_s):
    """The TCP flags of the guest's next segment to the stranger's `port`, or None."""
    frame = wire.receive(lambda f: f[12:14] == b"\x08\0" and f[23] == IP_TCP and f[30:34] == socket.inet_aton(STRANGER_IP)
                         and struct.unpack("!H", f[36:38])[0] == port, limit_s)
    return frame and frame[47]


def test_a_sound_syn_is_answered(tap_server, wire):
    """What the malformed ones below differ from in one thing."""
    wire.frame(ipv4(IP_TCP, syn(20_001)))
    assert answer(wire, 20_001, 5) == SYN | ACK


COUNTED_AS = {"wrong TCP checksum": "rx_dropped_tcp_checksum", "wrong IP checksum": "rx_dropped_ip_checksum",
              "first fragment": "rx_dropped_fragment", "later fragment": "rx_dropped_fragment",
              "truncated TCP header": "rx_dropped_truncated", "SYN from a broadcast address": "rx_dropped_address"}


@pytest.mark.parametrize("name, packet", (
    ("wrong TCP checksum", lambda port: ipv4(IP_TCP, syn(port, wrong_checksum=True))),
    ("wrong IP checksum", lambda port: ipv4(IP_TCP, syn(port), wrong_checksum=True)),
    ("first fragment", lambda port: ipv4(IP_TCP, syn(port), fragment=MORE_FRAGMENTS)),
    ("later fragment", lambda port: ipv4(IP_TCP, syn(port), fragment=100)),
    ("truncated TCP header", lambda port: ipv4(IP_TCP, syn(port)[:12])),
    ("TCP header longer than the packet", lambda port: ipv4(IP_TCP, syn(port, data_offset=15))),
    ("TCP header shorter than its least", lambda port: ipv4(IP_TCP, syn(port, data_offset=2))),
    ("IP length beyond the frame", lambda port: ipv4(IP_TCP, syn(port), length=1400)),
    ("IP length below the header", lambda port: ipv4(IP_TCP, syn(port), length=10)),
    ("another's address", lambda port: ipv4(IP_TCP, syn(port, target="10.0.2.16"), target="10.0.2.16")),
    ("SYN from a broadcast address", lambda port: ipv4(IP_TCP, syn(port, source="255.255.255.255"), source="255.255.255.255")),
))
def test_malformed_packets_are_dropped_and_counted(tap_server, wire, name, packet):
    port = 21_000 + sum(name.encode()) % 1000
    counter = COUNTED_AS.get(name, "rx_dropped")
    before = int(info(tap_server.host, tap_server.port, counter))
    wire.frame(packet(port))
    assert answer(wire, port, 0.3) is None
    with tap_server.connect() as connection:
        assert connection.ask("PING") == b"+PONG\r\n"
    assert int(info(tap_server.host, tap_server.port, counter)) > before


def test_frames_cut_anywhere(tap_server, wire):
    """Every prefix of a SYN's frame, of an ARP query's and of an echo request's."""
    whole_arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + STRANGER_MAC + socket.inet_aton(STRANGER_IP) + bytes(6) \
        + socket.inet_aton(tap_server.host)
    for ethertype, whole in ((0x0800, ipv4(IP_TCP, syn(22_000))), (ETHERTYPE_ARP, whole_arp), (0x0800, ipv4(IP_ICMP, echo(1)))):
        for size in range(len(whole)):
            wire.frame(whole[:size], ethertype=ethertype)
    assert answer(wire, 22_000, 0.3) is None
    with tap_server.connect() as connection:
        assert connection.ask("PING") == b"+PONG\r\n"


def test_data_for_no_connection_is_reset(tap_server, wire):
    wire.frame(ipv4(IP_TCP, tcp(ACK | PSH, source_port=23_000, seq=5, ack=77, data=b"PING\r\n")))
    flags = answer(wire, 23_000, 2)
    assert flags is not None and flags & 4


def test_a_closed_port_is_reset(tap_server, wire):
    wire.frame(ipv4(IP_TCP, syn(23_100, target_port=80)))
    flags = answer(wire, 23_100, 2)
    assert flags is not None and flags & 4


def test_a_segment_with_a_wrong_checksum_inside_a_connection(tap_server, wire):
    """The bad copy is dropped, the good one that follows is served."""
    port = 24_000
    wire.frame(ipv4(IP_TCP, syn(port, seq=100)))
    frame = wire.receive(lambda f: f[12:14] == b"\x08\0" and f[23] == IP_TCP and f[36:38] == struct.pack("!H", port)
                         and f[47] == SYN | ACK, 5)
    (theirs,) = struct.unpack("!I", frame[38:42])
    for wrong in (True, False):
        wire.frame(ipv4(IP_TCP, tcp(ACK | PSH, source_port=port, seq=101, ack=theirs + 1, data=b"ECHO %s\r\n" % (
            b"bad!" if wrong else b"good"), wrong_checksum=wrong)))
    reply = wire.receive(lambda f: f[23] == IP_TCP and f[36:38] == struct.pack("!H", port) and b"$4" in f, 5)
    assert reply and b"$4\r\ngood\r\n" in reply
    wire.frame(ipv4(IP_TCP, tcp(4, source_port=port, seq=101 + 11, ack=theirs + 1)))


def test_answers_ping(tap_server, wire):
    wire.frame(ipv4(IP_ICMP, echo(77, b"are you there?")))
    reply = wire.receive(lambda f: f[12:14] == b"\x08\0" and f[23] == IP_ICMP and f[34] == 0, 5)
    assert reply and struct.unpack("!H", reply[38:40])[0] == 77 and b"are you there?" in reply


def test_thousands_of_bad_frames_leak_nothing(tap_server, wire):
    import random
    rng = random.Random(5)

    def abuse(count):
        for n in range(count):
            kind = n % 4
            if kind == 0:
                wire.frame(ipv4(IP_TCP, syn(30_000 + n, wrong_checksum=True)))
            elif kind == 1:
                wire.frame(ipv4(IP_TCP, syn(30_000 + n), fragment=MORE_FRAGMENTS, ident=n))
            elif kind == 2:
                wire.frame(ipv4(rng.choice((IP_TCP, IP_ICMP, IP_UDP, 99)), rng.randbytes(rng.randrange(1, 200))))
            else:
                wire.frame(rng.randbytes(rng.randrange(1, 1400)), ethertype=rng.choice((0x0800, ETHERTYPE_ARP, 0x86DD, 0x1234)))
            if n % 100 == 99:
                with tap_server.connect() as connection:
                    assert connection.ask("PING") == b"+PONG\r\n"

    abuse(200)
    before = int(info(tap_server.host, tap_server.port, "used_memory"))
    abuse(4000)
    time.sleep(0.2)
    assert int(info(tap_server.host, tap_server.port, "used_memory")) < before + 65_536


def test_a_burst_that_fits_the_ring_loses_nothing(tap_server, wire):
    """128 echo requests back to back; each is answered."""
    for n in range(128):
        wire.frame(ipv4(IP_ICMP, echo(1000 + n)))
    seen = set()
    while len(seen) < 128:
        reply = wire.receive(lambda f: f[12:14] == b"\x08\0" and f[23] == IP_ICMP and f[34] == 0, 3)
        assert reply, "only %d of 128 were answered" % len(seen)
        seen.add(struct.unpack("!H", reply[38:40])[0])
