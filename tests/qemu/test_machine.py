"""What must work on each kind of machine that one image is for, not only on the usual one."""
import pytest

from machine import MACHINES
from resp import Connection


@pytest.mark.parametrize("interrupts", ("", "-global virtio-net-pci.vectors=0"))
def test_every_kind_of_machine_serves(arch, boot, interrupts):
    """MSI-X and the pin, every interrupt controller, both exception levels."""
    for extra in MACHINES[arch]:
        machine = boot(arch, SMP=2, QEMU_ARGS=(extra + " " + interrupts).strip())
        with Connection(machine.host, machine.port) as connection:
            assert connection.ask("PING") == b"+PONG\r\n"
            assert connection.ask("SET", "k", "v") == b"+OK\r\n"
            assert connection.ask("GET", "k") == b"$1\r\nv\r\n"
        machine.kill()
