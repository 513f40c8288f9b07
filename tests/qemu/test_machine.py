"""The kernel on each kind of machine: how a failure is reported, and what must work before there is a network."""
import re

import pytest

from resp import Connection

# What the console must say of each deliberate failure, by architecture where the hardware's words differ.
FAILURES = {
    "panic": rb"panicked at .*",
    "null": rb"0x8\b",
    "write-code": rb"(?i)write|writing",
    "write-constant": rb"(?i)write|writing",
    "execute-data": rb"(?i)execut|fetch",
    "stack-overflow": rb"(?i)guard page|double fault|overflow",
    "undefined": rb"(?i)undefined|invalid opcode",
}
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


@pytest.mark.parametrize("cpu", (0, 1))
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_reported_and_ends_the_run(arch, boot, failure, cpu):
    machine = boot(arch, wait=False, SMP=2, ARGS="debug=%s debug-cpu=%d" % (failure, cpu))
    status = machine.wait_exit(60)
    text = machine.console
    assert re.search(rb"CPU %d\b" % cpu, text), machine.transcript()
    assert re.search(FAILURES[failure], text), machine.transcript()
    assert re.search(rb"backtrace:( 0xffff[0-9a-f]{12})+", text), machine.transcript()
    assert re.search(rb"exit status 101\r?\n", text), machine.transcript()
    # QEMU passes the status on where the command gives it a way; otherwise it ends like after a power-off.
    assert status is not None


@pytest.mark.parametrize("smp", (1, 4))
def test_timers_and_wake_ups(arch, boot, smp):
    for extra in MACHINES[arch]:
        machine = boot(arch, wait=False, SMP=smp, ARGS="debug=wake", QEMU_ARGS=extra)
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
