"""Machines whose network card lies behind memory-mapped registers. PLATFORM=x86_64-qemu-microvm has no PCI and next to no
firmware: the image is the PC's, so that what is tested there is not all tested again. aarch64's virt has such places too."""
import re
import time

import pytest

import benchmark
from resp import Connection
from test_kernel import STATUS

MICROVM = "x86_64-qemu-microvm"
# Without ACPI tables the devices stand on the command line, with them in the tables, and power goes off as on a PC.
TABLES = pytest.mark.parametrize("tables", ("", "-machine acpi=on"), ids=("command-line", "acpi"))


@pytest.fixture
def microvm(request, boot):
    """Boots a microvm."""
    if "x86_64" not in (request.config.getoption("--arch") or ["x86_64"]):
        pytest.skip("x86_64 only")
    return lambda **options: boot("x86_64", PLATFORM=MICROVM, **options)


def serves(machine):
    """Small and large values go in and out."""
    value = "v" * 300_000
    with Connection(machine.host, machine.port) as connection:
        assert connection.ask("PING") == b"+PONG\r\n"
        assert connection.ask("SET", "k", value) == b"+OK\r\n"
        assert connection.ask("GET", "k") == b"$300000\r\n" + value.encode() + b"\r\n"


@TABLES
@pytest.mark.parametrize("smp", (1, 4))
def test_a_microvm_serves_and_ends_with_status_0(microvm, smp, tables):
    machine = microvm(SMP=smp, QEMU_ARGS=tables)
    text = machine.console.decode()
    assert re.search(r"\b%d CPUs?\b" % smp, text) and "MMIO line" in text, text
    serves(machine)
    with Connection(machine.host, machine.port) as connection:
        seconds = int(connection.ask("TIME").split(b"\r\n")[2])
        assert abs(seconds - time.time()) < 5
        connection.send(b"SHUTDOWN NOSAVE\r\n")
        assert connection.closed(10)
    assert machine.wait_exit(10) == 0, machine.transcript()


def test_redis_benchmark_on_a_microvm(microvm, namespace):
    with namespace:
        machine = microvm(NET="tap", MEM="512M")
        for options in (("-c", 30), ("-c", 200, "-P", 16)):
            rates = benchmark.run(machine.host, machine.port, "-n", 2000, *options, limit_s=150)
            assert set(rates) == set(benchmark.ROWS)
        serves(machine)


@TABLES
def test_a_panic_on_a_microvm_has_its_status(microvm, tables):
    machine = microvm(wait=False, SMP=4, ARGS="debug=panic", QEMU_ARGS=tables)
    assert machine.wait_exit(60) == STATUS["x86_64"], machine.transcript()
    assert b"3 of 3 other CPUs stopped" in machine.console, machine.transcript()


def test_timers_and_wake_ups_on_a_microvm(microvm):
    machine = microvm(wait=False, SMP=2, ARGS="debug=wake")
    assert machine.wait_exit(60) == 0, machine.transcript()
    assert b"wake test passed" in machine.console, machine.transcript()


def test_a_disk_and_a_second_card_beside_it(microvm):
    machine = microvm(BLK="y", QEMU_ARGS="-netdev user,id=net1,restrict=on -device virtio-net-device,netdev=net1")
    assert b"ready in" in machine.console


def test_an_idle_microvm_halts(microvm):
    machine = microvm(SMP=4)
    serves(machine)
    time.sleep(1)
    before = machine.cpu_seconds()
    time.sleep(3)
    assert machine.cpu_seconds() - before < 0.6


def test_a_legacy_device_is_told(microvm):
    machine = microvm(wait=False, QEMU_ARGS="-global virtio-mmio.force-legacy=true")
    machine.wait_for(re.compile(rb"legacy device.*force-legacy=false"), 60)


@pytest.mark.parametrize("gic", (2, 3))
def test_a_card_in_a_place_of_aarch64_virt(request, boot, gic):
    if "aarch64" not in (request.config.getoption("--arch") or ["aarch64"]):
        pytest.skip("aarch64 only")
    machine = boot("aarch64", SMP=2, QEMU_ARGS="-machine gic-version=%d -global virtio-mmio.force-legacy=false" % gic,
                   replace=("virtio-net-pci,netdev=net0,romfile=", "virtio-net-device,netdev=net0"))
    assert b"MMIO line" in machine.console, machine.transcript()
    serves(machine)
