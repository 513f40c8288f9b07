"""What the console shows, how a machine is configured, and how it ends."""
import re
import subprocess
import time

import pytest

from machine import READY, Machine, free_port
from resp import Connection


@pytest.mark.parametrize("smp, mem", ((1, "256M"), (4, "256M"), (8, "1G"), (2, "5G")))
def test_the_console_says_what_it_runs_on(arch, boot, smp, mem):
    port = free_port()
    machine = boot(arch, SMP=smp, MEM=mem, PORT=port)
    text = machine.console.decode()
    assert re.search(r"Barium \d+\.\d+\.\d+", text), text
    assert re.search(r"\b%d CPUs?\b" % smp, text), text
    found = re.search(r"(\d+) MiB", text)
    mib = int(mem[:-1]) * (1024 if mem.endswith("G") else 1)
    assert found and 0.8 * mib <= int(found[1]) <= mib, text
    assert "virtio" in text and "10.0.2.15" in text, text
    assert READY.search(machine.console)[2] == b"redis-cli -p %d" % port
    with Connection(machine.host, port) as connection:
        assert connection.ask("PING") == b"+PONG\r\n"


def test_log_off_is_silent(arch, boot):
    machine = boot(arch, wait=False, LOG="off")
    deadline = time.monotonic() + 60
    while True:
        try:
            with Connection(machine.host, machine.port, 2) as connection:
                if connection.ask("PING") == b"+PONG\r\n":
                    break
        except OSError:
            assert time.monotonic() < deadline, "no PONG\n" + machine.transcript()
            time.sleep(0.1)
    # The firmware's own clearing of the screen aside.
    assert b"ready" not in machine.console and b"Barium" not in machine.console, machine.transcript()


def test_dhcp(arch, boot):
    machine = boot(arch, IP="dhcp")
    assert b"10.0.2.15" in machine.console
    with Connection(machine.host, machine.port) as connection:
        assert connection.ask("PING") == b"+PONG\r\n"


def test_another_network(arch, boot):
    machine = boot(arch, IP="192.168.77.20", GW="192.168.77.1", MASK="255.255.255.0")
    assert b"192.168.77.20" in machine.console
    with Connection(machine.host, machine.port) as connection:
        assert connection.ask("PING") == b"+PONG\r\n"


def test_tap(arch, boot, namespace):
    with namespace:
        machine = boot(arch, NET="tap")
        assert READY.search(machine.console)[2] == b"redis-cli -h 10.0.2.15 -p 5555"
        with Connection(machine.host, machine.port) as connection:
            assert connection.ask("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("how", ("NOSAVE", ""))
def test_shutdown_powers_off_with_status_0(arch, boot, how):
    machine = boot(arch, SMP=2)
    with Connection(machine.host, machine.port) as connection:
        connection.send(("SHUTDOWN %s\r\n" % how).encode())
        assert connection.closed(10)
    assert machine.wait_exit(10) == 0


def test_a_wrong_boot_option_is_told(arch, boot):
    machine = boot(arch, wait=False, ARGS="maxmemory=lots")
    machine.wait_for(re.compile(rb"maxmemory"), 60)


def test_a_missing_password_is_warned_of(arch, boot):
    assert re.search(rb"(?i)password", boot(arch).console)
    assert not re.search(rb"(?i)no password", boot(arch, ARGS="requirepass=secret").console)


def test_debug_commands_are_off_by_default(arch, boot):
    machine = boot(arch)
    with Connection(machine.host, machine.port) as connection:
        assert connection.ask("DEBUG", "SLEEP", "0").startswith(b"-ERR DEBUG command not allowed.")


def test_an_idle_guest_halts(arch, boot):
    """A guest with nothing to do uses next to none of the host's CPU, with the default poll and several CPUs too."""
    for smp in (1, 4):
        machine = boot(arch, SMP=smp)
        with Connection(machine.host, machine.port) as connection:
            connection.ask("PING")
            time.sleep(1)
            before = machine.cpu_seconds()
            time.sleep(3)
            assert machine.cpu_seconds() - before < 0.6
        machine.kill()


def test_an_attached_disk_disturbs_nothing(arch, boot):
    machine = boot(arch, BLK="y")
    with Connection(machine.host, machine.port) as connection:
        assert connection.ask("PING") == b"+PONG\r\n"
