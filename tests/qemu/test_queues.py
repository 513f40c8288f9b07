"""Queue pairs of the network card: each CPU has one of its own where the tap device takes several."""
import re
import socket
import struct
import time

import pytest

from namespace import GUEST_IP, HOST_IP, Namespace, Wire, ipv4
from resp import Connection

QEMU_MAC = bytes.fromhex("525400123456")
UDP, PORT = 17, 7


@pytest.fixture(scope="module")
def multi_queue():
    made = Namespace(multi_queue=True)
    yield made
    made.close()


def datagram(source_port, data):
    """A UDP datagram, without a checksum, to the guest."""
    return ipv4(UDP, struct.pack("!HHHH", source_port, PORT, 8 + len(data), 0) + data, source=HOST_IP, target=GUEST_IP)


# How messages reach a CPU.
CONTROLLERS = {"x86_64": {"apic": ""}, "aarch64": {"gicv2m": "-machine gic-version=2", "its": "-machine gic-version=3"}}


@pytest.mark.parametrize("controller", ("apic", "gicv2m", "its"))
def test_every_cpu_receives_and_sends_on_a_pair_of_its_own(arch, boot, multi_queue, controller):
    """256 flows, each of whose frames comes back on the pair that it arrived at; the kernel counts them."""
    if controller not in CONTROLLERS[arch]:
        pytest.skip("not of this architecture")
    flows, rounds = 256, 8
    with multi_queue:
        args = "debug=queues debug-frames=%d" % (flows * rounds)
        machine = boot(arch, wait=False, SMP=4, NET="tap", ARGS=args, QEMU_ARGS=CONTROLLERS[arch][controller])
        machine.wait_for(re.compile(rb"queue test: 4 pairs on 4 CPUs"), 60)
        time.sleep(0.3)
        wire, returned = Wire(QEMU_MAC), set()
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        for round_ in range(rounds):
            for flow in range(flows):
                wire.frame(datagram(20_000 + flow, b"%d" % round_))
                if flow % 64 == 63:
                    time.sleep(0.02)
        came_back = lambda f: f[12:14] == b"\x08\0" and f[6:12] == QEMU_MAC and f[34:36] == struct.pack("!H", PORT)  # noqa: E731
        while frame := wire.receive(came_back, 1.0):
            returned.add((struct.unpack("!H", frame[36:38])[0] - 20_000, frame[42:43]))
        wire.close()
        # The guest stops when it has counted enough, the host's own multicast among them.
        assert len(returned) >= flows * rounds * 0.95, machine.transcript()
        assert machine.wait_exit(60) == 0, machine.transcript()
    counts = dict((int(n), int(frames)) for n, frames in re.findall(rb"queue pair (\d+): (\d+) frames", machine.console))
    interrupts = re.findall(rb"queue pair \d+: \d+ frames, (\d+) interrupts", machine.console)
    assert sorted(counts) == [0, 1, 2, 3], machine.transcript()
    # The tap spreads flows by their hash: a quarter each, roughly.
    assert min(counts.values()) > flows * rounds / 16, machine.transcript()
    assert all(int(n) > 0 for n in interrupts), machine.transcript()
    assert b"queue test passed" in machine.console


def test_one_cpu_on_a_tap_with_several_queues(arch, boot, multi_queue):
    with multi_queue:
        machine = boot(arch, NET="tap")
        with Connection(machine.host, machine.port) as connection:
            assert connection.ask("PING") == b"+PONG\r\n"
