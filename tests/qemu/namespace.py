"""A network namespace with a tap device, for tests that need more than QEMU's user networking: thousands of connections,
other source addresses, raw frames. It vanishes with the process, whatever happens."""
import ctypes
import os
import socket
import struct
import subprocess

CLONE_NEWNET = 0x40000000
HOST_IP, GUEST_IP, TAP = "10.0.2.2", "10.0.2.15", "tap0"
# A station of the test's own on the tap: the host's kernel knows neither its MAC nor its address, so it never answers.
STRANGER_MAC, STRANGER_IP = b"\x02\x00\x00\x00\x00\x77", "10.0.2.119"
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result:
        raise OSError(ctypes.get_errno(), what + " (network namespaces need root; scripts/test.sh takes care of it)")


class Namespace:
    """`with Namespace() as ns:` the calling thread, and what it starts, is in the namespace. May be entered again.

    With `multi_queue` the tap takes several queue pairs, and only them: QEMU opens it with as many as there are CPUs.
    """

    def __init__(self, addresses=20, multi_queue=False):
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _check(_libc.unshare(CLONE_NEWNET), "unshare")
            self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            run = lambda *words: subprocess.run(["ip", *words], check=True, timeout=10)  # noqa: E731
            run("link", "set", "lo", "up")
            run("tuntap", "add", "dev", TAP, "mode", "tap", *["multi_queue"] * multi_queue)
            # Linux's 1,000 frames are less than 1,600 clients send at once; what is dropped comes again after 200 ms and more.
            run("link", "set", TAP, "txqueuelen", "10000")
            run("addr", "add", HOST_IP + "/24", "dev", TAP)
            # More source addresses, since each has only some 28,000 ports.
            self.sources = [HOST_IP] + ["10.0.2.%d" % (20 + n) for n in range(addresses)]
            for address in self.sources[1:]:
                run("addr", "add", address + "/24", "dev", TAP)
            run("link", "set", TAP, "up")
        finally:
            _check(_libc.setns(home, CLONE_NEWNET), "setns")
            os.close(home)
        self._homes = []

    def __enter__(self):
        self._homes.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        _check(_libc.setns(self.fd, CLONE_NEWNET), "setns")
        return self

    def __exit__(self, *_):
        home = self._homes.pop()
        _check(_libc.setns(home, CLONE_NEWNET), "setns")
        os.close(home)

    def close(self):
        """Lets go of the namespace."""
        os.close(self.fd)


def checksum(data):
    """The Internet checksum of `data` (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(protocol, payload, *, source=STRANGER_IP, target=GUEST_IP, fragment=0, ident=1, wrong_checksum=False, length=None):
    """An IPv4 packet; `fragment` is the flags-and-offset field, `length` overrides the total length it claims."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length or 20 + len(payload), ident, fragment, 64, protocol, 0,
                         socket.inet_aton(source), socket.inet_aton(target))
    header_sum = checksum(header) ^ (0x5555 if wrong_checksum else 0)
    return header[:10] + struct.pack("!H", header_sum) + header[12:] + payload


def tcp(flags, *, source_port, seq=1, ack=0, data=b"", options=b"", source=STRANGER_IP, target=GUEST_IP, target_port=5555,
        wrong_checksum=False, data_offset=None):
    """A TCP segment; `flags` as in FLAGS, `data_offset` overrides the header's length in words."""
    words = data_offset if data_offset is not None else 5 + len(options) // 4
    header = struct.pack("!HHIIBBHHH", source_port, target_port, seq, ack, words << 4, flags, 64240, 0, 0) + options
    pseudo = socket.inet_aton(source) + socket.inet_aton(target) + struct.pack("!BBH", 0, 6, len(header) + len(data))
    value = checksum(pseudo + header + data) ^ (0x5555 if wrong_checksum else 0)
    return header[:16] + struct.pack("!H", value) + header[18:] + data


FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ETHERTYPE_IPV4, ETHERTYPE_ARP = 0x0800, 0x0806


class Wire:
    """Raw frames on the tap. Made and used inside the namespace."""

    def __init__(self, guest_mac=None):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind((TAP, 0))
        self.guest_mac = guest_mac or self.resolve()

    def frame(self, payload, *, ethertype=ETHERTYPE_IPV4, target=None, source=STRANGER_MAC):
        """Sends one frame to the guest."""
        self.socket.send((target or self.guest_mac) + source + struct.pack("!H", ethertype) + payload)

    def receive(self, wanted, limit_s=2.0):
        """The first frame that the guest sends to which `wanted(frame)` is true, or None."""
        import time
        end = time.monotonic() + limit_s
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                frame = self.socket.recv(65536)
            except TimeoutError:
                return None
            if wanted(frame):
                return frame
        return None

    def resolve(self):
        """The guest's MAC, asked for by ARP from the stranger's address."""
        query = struct.pack("!HHBBH", 1, ETHERTYPE_IPV4, 6, 4, 1) + STRANGER_MAC + socket.inet_aton(STRANGER_IP) + bytes(6) \
            + socket.inet_aton(GUEST_IP)
        for _ in range(5):
            self.socket.send(b"\xff" * 6 + STRANGER_MAC + struct.pack("!H", ETHERTYPE_ARP) + query)
            answer = self.receive(lambda f: f[12:14] == b"\x08\x06" and f[20:22] == b"\0\x02"
                                  and f[28:32] == socket.inet_aton(GUEST_IP), 2.0)
            if answer:
                return answer[22:28]
        raise AssertionError("the guest does not answer ARP")

    def close(self):
        """Closes the socket."""
        self.socket.close()
