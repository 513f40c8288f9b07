"""What the kernel does when something goes wrong, and that timers and wake-ups work: tests that the image makes itself when
its command line says debug=<kind>."""
import re
import subprocess

import pytest

from machine import MACHINES, ROOT

# A panic's status as QEMU passes it on: isa-debug-exit doubles it and adds one; semihosting passes it as it is.
STATUS = {"x86_64": (2 * 101 + 1) & 0xff, "aarch64": 101}
SEMIHOSTING = {"x86_64": {}, "aarch64": {"QEMU_ARGS": "-semihosting"}}

FAULTS = {
    "panic": r"panicked at .*\n.*asked for by debug=panic",
    "null": r"(?i)writ(e|ing).* 0x8\b",
    "write-code": r"(?i)writ(e|ing).* 0x[0-9a-f]+",
    "write-constant": r"(?i)writ(e|ing).* 0x[0-9a-f]+",
    "execute-data": r"(?i)(execution|executing).* 0x[0-9a-f]+",
    "stack-overflow": r"(?i)stack overflow",
    "undefined": r"(?i)(invalid opcode|undefined|unknown)",
    # On its own stack, whatever the one in use was.
    "double-fault": r"(?i)(double fault|exception while reporting another)",
}


def fail(boot, arch, kind, args="", **options):
    """Boots into the failure; QEMU's exit status and the console."""
    word = " semihosting" if arch == "aarch64" else ""
    machine = boot(arch, wait=False, ARGS="debug=%s%s %s" % (kind, word, args), **SEMIHOSTING[arch], **options)
    status = machine.wait_exit(60)
    return status, machine.console.decode().replace("\r", ""), machine


@pytest.mark.parametrize("kind", FAULTS)
def test_a_failure_is_told_with_a_backtrace_and_a_status(arch, boot, kind):
    status, text, machine = fail(boot, arch, kind)
    assert re.search(FAULTS[kind], text), machine.transcript()
    addresses = re.search(r"^backtrace: (.*)$", text, re.M)[1].split()
    assert 2 <= len(addresses) <= 64, machine.transcript()
    assert "exit status 101" in text
    assert status == STATUS[arch], machine.transcript()
    assert "ready in" not in text
    if kind == "panic":
        elf = next((ROOT / "build").glob("barium_%s-*.elf" % arch))
        lines = subprocess.run([ROOT / "scripts" / "symbolize", elf, *addresses], stdout=subprocess.PIPE, text=True, timeout=60)
        assert "barium_kernel::boot::start" in lines.stdout, lines.stdout


def test_another_cpu_fails_the_same_way(arch, boot):
    status, text, machine = fail(boot, arch, "stack-overflow", "debug-cpu=2", SMP=4)
    assert re.search(r"CPU 2: .*\n?.*(?i:stack overflow)", text), machine.transcript()
    assert status == STATUS[arch], machine.transcript()


@pytest.mark.parametrize("kind", ("panic", "panic-busy"))
def test_the_other_cpus_are_stopped(arch, boot, kind):
    """While they are halted, and while they run."""
    status, text, machine = fail(boot, arch, kind, SMP=4)
    assert "3 of 3 other CPUs stopped" in text, machine.transcript()
    assert status == STATUS[arch], machine.transcript()


def test_panic_reboot_resets(arch, boot):
    # machine.py gives QEMU -no-reboot, so that a reset ends it, with status 0.
    status, text, machine = fail(boot, arch, "panic", "panic=reboot")
    assert status == 0 and "exit status" not in text, machine.transcript()


def passes(boot, arch, kind, **options):
    """Boots into a check that gives a verdict; the console, when it is a good one."""
    machine = boot(arch, wait=False, ARGS="debug=" + kind, **options)
    status, text = machine.wait_exit(120), machine.console.decode().replace("\r", "")
    assert status == 0 and "passed" in text, machine.transcript()
    return text


@pytest.mark.parametrize("smp", (1, 2, 4))
def test_timers_fire_and_no_wake_up_is_lost(arch, boot, smp):
    text = passes(boot, arch, "wake", SMP=smp)
    waits = re.findall(r"wait of (\d+) us took (\d+) us", text)
    assert len(waits) == 8 and all(int(took) >= int(asked) for asked, took in waits), text
    assert smp == 1 or ", 0 lost" in text


def test_timers_and_wake_ups_of_other_machines(arch, boot):
    """On every interrupt controller."""
    others = [extra for extra in MACHINES[arch] if extra]
    if not others:
        pytest.skip("one kind of machine only")
    for extra in others:
        assert ", 0 lost" in passes(boot, arch, "wake", SMP=2, QEMU_ARGS=extra)


def test_byte_functions(arch, boot):
    passes(boot, arch, "bytes", MEM="32M")


@pytest.mark.parametrize("smp", (1, 4))
def test_objects_mapped_page_by_page(arch, boot, smp):
    """Every CPU sees an object's own contents, however often its address was another one's before."""
    text = passes(boot, arch, "window", MEM="64M", SMP=smp)
    assert int(re.search(r"(\d+) in the window", text)[1]) > 600, text
