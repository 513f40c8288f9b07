"""One client that sends a fixed script of frames in lockstep, request after reply, by a TCP of its own on the raw tap: no host
kernel decides how bytes become segments or when they are acknowledged, so the guest's instructions are the same from run to run.

Each request is one segment, which acknowledges the reply before it. Every reply is compared with what it has to be.
"""
import socket
import statistics
import struct
import time

from namespace import ACK, FIN, GUEST_IP, PSH, STRANGER_IP, SYN, Wire, ipv4, tcp
from resp import command

PORT = 5555
# The script is played so often between two readings of the counter, and so often the counter is read. What disturbs a
# stretch only ever adds to it (a timer that ran, on a host that held its breath something sent again), rarely to all:
# their lowest decile is the script alone.
REPEATS, STRETCHES = 10, 60
VALUE = b"v" * 64
ELEMENTS = [b"element:%02d" % i for i in range(10)]
LIST = b"*10\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(element), element) for element in ELEMENTS)
# What is sent before the count begins, then what is counted: (request, its reply).
BEFORE = ((command("FLUSHALL"), b"+OK\r\n"), (command("RPUSH", "list", *ELEMENTS), b":10\r\n"))
SCRIPT = ((command("PING"), b"+PONG\r\n"), (command("SET", "key:000000000001", VALUE), b"+OK\r\n"),
          (command("GET", "key:000000000001"), b"$64\r\n" + VALUE + b"\r\n"), (command("LRANGE", "list", "0", "9"), LIST))
# Until the guest has halted after its last reply.
SETTLE_S = 0.02


class Client:
    """One TCP connection from the stranger's address."""

    def __init__(self, wire, port):
        self.wire, self.port, self.seq, self.ack = wire, port, 1, 0
        self.send(SYN, options=struct.pack("!BBH", 2, 4, 1460))
        answer = self.segment(lambda flags, data: flags & SYN)
        self.seq, self.ack = 2, answer[0] + 1
        self.send(ACK)

    def send(self, flags, data=b"", options=b""):
        """One segment."""
        self.wire.frame(ipv4(6, tcp(flags, source_port=self.port, seq=self.seq, ack=self.ack, data=data, options=options)))
        self.seq += len(data)

    def segment(self, wanted):
        """(sequence number, data) of the guest's next segment for which `wanted(flags, data)` holds."""
        frame = self.wire.receive(lambda frame: self.mine(frame) and wanted(frame[47], self.data(frame)), 20)
        assert frame, "no answer from the guest within 20 s"
        return struct.unpack_from("!I", frame, 38)[0], self.data(frame)

    def mine(self, frame):
        """Whether the frame is a TCP segment from the server to this connection."""
        return frame[12:14] == b"\x08\x00" and frame[23] == 6 and frame[26:30] == socket.inet_aton(GUEST_IP) \
            and frame[30:34] == socket.inet_aton(STRANGER_IP) and struct.unpack_from("!HH", frame, 34) == (PORT, self.port)

    @staticmethod
    def data(frame):
        """The segment's data."""
        return frame[34 + (frame[46] >> 4) * 4:14 + struct.unpack_from("!H", frame, 16)[0]]

    def ask(self, request, reply):
        """One request, which is answered by one segment."""
        self.send(PSH | ACK, request)
        # A segment that was sent again comes with a number that was had before.
        seq, data = self.segment(lambda _, data: data)
        while seq != self.ack:
            seq, data = self.segment(lambda _, data: data)
        assert data == reply, "%r is answered with %r" % (request, data)
        self.ack = (self.ack + len(data)) & 0xFFFFFFFF


def instructions(count, port):
    """Guest instructions per request of the script; `count()` gives those since reset. Inside the namespace."""
    wire = Wire()
    try:
        client = Client(wire, port)
        for request, reply in BEFORE + SCRIPT:
            client.ask(request, reply)
        readings = []
        for _ in range(STRETCHES + 1):
            # The first stretch only warms up.
            for request, reply in SCRIPT * REPEATS:
                client.ask(request, reply)
            client.send(ACK)
            time.sleep(SETTLE_S)
            readings.append(count())
        client.send(FIN | ACK)
        stretches = [after - before for before, after in zip(readings, readings[1:])]
        return statistics.quantiles(stretches, n=10)[0] / (REPEATS * len(SCRIPT))
    finally:
        wire.close()
