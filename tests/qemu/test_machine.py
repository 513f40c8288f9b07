"""What must work on each kind of machine that one image is for, not only on the usual one."""
import pytest

from resp import Connection

# More than one kind of machine of the same architecture: make's QEMU command, then QEMU's own words appended.
MACHINES = {
    "x86_64": [""],
    "aarch64": [
        "-machine gic-version=2",
        "-machine gic-version=3 -cpu max",
        "-machine gic-version=3,its=off",
        "-machine gic-version=3,virtualization=on -cpu max",
        "-machine gic-version=2,virtualization=on -cpu cortex-a53",
    ],
}


def test_timers_and_wake_ups(arch, boot):
    """On every interrupt controller; test_kernel.py varies the number of CPUs of the usual one."""
    for extra in MACHINES[arch]:
        machine = boot(arch, wait=False, SMP=2, ARGS="debug=wake", QEMU_ARGS=extra)
        assert machine.wait_exit(120) == 0, machine.transcript()
        assert b"wake test passed" in machine.console, machine.transcript()


def test_byte_functions(arch, boot):
    machine = boot(arch, wait=False, MEM="32M", ARGS="debug=bytes")
    assert machine.wait_exit(120) == 0, machine.transcript()
    assert b"byte functions passed" in machine.console, machine.transcript()


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
