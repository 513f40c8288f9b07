"""The make interface: errors in one line, a command for scripts, help. Uses the images that are built already."""
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from machine import MAKE_VARIABLES, ROOT, free_port
from resp import Connection


def make(*words, limit_s=60):
    """Runs make from another directory; the finished process."""
    environment = {name: value for name, value in os.environ.items() if name not in MAKE_VARIABLES}
    return subprocess.run(["make", "-C", str(ROOT), "--no-print-directory", *words], env=environment, cwd="/", timeout=limit_s,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(autouse=True)
def _own_machine(request):
    if request.config.getoption("--target"):
        pytest.skip("does not concern a server")


@pytest.mark.parametrize("setting, told", (
    ("ARCH=arm", "x86_64 aarch64"), ("PLATFORM=pc", "x86_64-qemu-q35 x86_64-qemu-microvm aarch64-qemu-virt"), ("SMP=0", "1 to 64"),
    ("SMP=many", "1 to 64"), ("MEM=lots", "256M"), ("MEM=16M", "32M"), ("LOG=loud", "off error warn info debug trace"),
    ("PORT=0", "1 to 65535"), ("PORT=70000", "1 to 65535"), ("NET=wifi", "user tap"), ("TAP=a/b", "tap0"),
    ("QUEUES=0", "1 to 16"), ("QUEUES=2", "NET=tap"), ("IP=10.0.2", "10.0.2.15"), ("IP=10.0.2.256", "dhcp"), ("GW=gateway", "10.0.2.2"), ("MASK=255.0.255.0", "255.255.255.0"),
    ("BLK=maybe", "n y"), ("ACCEL=hvf", "auto kvm tcg"),
))
@pytest.mark.parametrize("goal", ("run", "qemu-command", "image"))
def test_a_wrong_value_is_one_line(goal, setting, told):
    done = make(goal, setting)
    assert done.returncode != 0 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert setting in line and told in line, line


def test_architecture_and_platform_have_to_agree():
    (line,) = make("run", "ARCH=x86_64", "PLATFORM=aarch64-qemu-virt").stderr.splitlines()
    assert "PLATFORM=aarch64-qemu-virt" in line and "x86_64-qemu-q35" in line


def test_a_taken_port_is_one_line_that_names_it():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = make("run", "PORT=%d" % port)
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert "PORT=%d" % port in line


def test_make_alone_is_help():
    alone, asked = make(), make("help")
    assert alone.returncode == 0 and alone.stdout == asked.stdout
    for name in ("ARCH", "PLATFORM", "SMP", "MEM", "LOG", "PORT", "NET", "TAP", "QUEUES", "IP", "GW", "MASK", "BLK", "ACCEL", "ARGS",
                 "QEMU_ARGS"):
        assert re.search(r"^ *%s=" % name, alone.stdout, re.M), name
    for goal in ("run", "test", "ci", "image", "qemu-command", "soak", "bench"):
        assert re.search(r"^ *%s\b" % goal, alone.stdout, re.M), goal


def test_setup_has_nothing_left_to_do():
    started = time.monotonic()
    done = make("setup-test")
    assert done.returncode == 0 and done.stdout == done.stderr == ""
    assert time.monotonic() - started < 10


def test_image_prints_sizes(arch):
    done = make("image", "ARCH=" + arch, limit_s=900)
    assert done.returncode == 0, done.stderr
    for path in re.findall(r"^(/\S+): (\d+) bytes$", done.stdout, re.M):
        assert os.path.getsize(path[0]) == int(path[1])
    kinds = re.findall(r"barium_%s-qemu-\w+\.(elf|bin): \d+ bytes" % arch, done.stdout)
    assert sorted(kinds) == (["elf"] if arch == "x86_64" else ["bin", "elf"])


def test_qemu_command_is_one_line_that_boots(arch):
    port = free_port()
    done = make("-s", "qemu-command", "ARCH=" + arch, "PORT=%d" % port, "SMP=2", "ACCEL=tcg",
                "ARGS=requirepass=it's maxmemory=64mb", "QEMU_ARGS=-name 'a name'", limit_s=900)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert "./" not in line and "/build/barium_" in line and line.endswith("-name 'a name'")
    guest = subprocess.Popen(["sh", "-c", line], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                with Connection("127.0.0.1", port, 2) as connection:
                    assert connection.ask("AUTH", "it's") == b"+OK\r\n"
                    assert connection.ask("CONFIG", "GET", "maxmemory").endswith(b"67108864\r\n")
                    connection.send(b"SHUTDOWN NOSAVE\r\n")
                    break
            except (OSError, TimeoutError):
                assert time.monotonic() < deadline and guest.poll() is None, guest.stdout.read()
                time.sleep(0.1)
        assert guest.wait(20) == 0
    finally:
        if guest.poll() is None:
            os.killpg(guest.pid, signal.SIGKILL)
        guest.wait()


def test_make_run_on_a_terminal_until_ctrl_a_x(arch):
    """As a person would: make run, redis-cli, Ctrl-A X."""
    import pty
    import select
    port = free_port()
    pid, screen_fd = pty.fork()
    if pid == 0:
        os.chdir("/")
        os.execvp("make", ["make", "-C", str(ROOT), "ARCH=" + arch, "SMP=4", "PORT=%d" % port, "ACCEL=tcg", "run"])
    screen, deadline = b"", time.monotonic() + 900
    try:
        while b"ready in" not in screen or not screen.endswith(b"\n"):
            assert select.select([screen_fd], [], [], 60)[0] and time.monotonic() < deadline, screen
            screen += os.read(screen_fd, 65536)
        assert b"redis-cli -p %d" % port in screen
        with Connection("127.0.0.1", port) as connection:
            assert connection.ask("PING") == b"+PONG\r\n"
        os.write(screen_fd, b"\x01x")
        end = time.monotonic() + 10
        while (finished := os.waitpid(pid, os.WNOHANG))[0] == 0:
            assert time.monotonic() < end, "Ctrl-A X does not leave"
            if select.select([screen_fd], [], [], 0.1)[0]:
                try:
                    os.read(screen_fd, 65536)
                except OSError:
                    pass
        assert os.waitstatus_to_exitcode(finished[1]) == 0
        pid = 0
    finally:
        if pid:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        os.close(screen_fd)
