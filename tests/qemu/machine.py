"""Boots Barium in QEMU for a test: the command is the one that `make qemu-command` prints; the console is kept."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
READY = re.compile(rb"ready in (\d+) ms: (redis-cli.*?)\r?\n")
# Emulated machines on a busy host: a boot takes about a second alone.
BOOT_LIMIT_S = 60


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


def free_port():
    """A TCP port of 127.0.0.1 that nothing uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def qemu_command(arch, **variables):
    """The line for `sh -c` that boots the image of `arch` with these make variables (SMP=4, MEM="32M", ARGS="...")."""
    environment = {name: value for name, value in os.environ.items() if name not in MAKE_VARIABLES}
    environment.update({name: str(value) for name, value in variables.items()}, ARCH=arch)
    environment.setdefault("ACCEL", "tcg")
    script = subprocess.run([ROOT / "scripts" / "qemu.sh", "command"], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=60)
    if script.returncode:
        raise RuntimeError("qemu.sh: " + script.stderr)
    return script.stdout.rstrip("\n")


MAKE_VARIABLES = ("ARCH", "PLATFORM", "SMP", "MEM", "LOG", "PORT", "NET", "TAP", "QUEUES", "IP", "GW", "MASK", "BLK", "ACCEL", "ARGS",
                  "QEMU_ARGS", "MAKEFLAGS", "MAKELEVEL")


class Machine:
    """One running guest. `host` and `port` are where its server is reached; `console` is all it has printed. With `netdev`
    (NET=tap) its network card is at that QEMU backend, named net0, instead of the tap."""

    def __init__(self, arch, *, wait=True, limit_s=BOOT_LIMIT_S, netdev=None, replace=("", ""), **variables):
        self.arch, self.variables = arch, variables
        self.console, self._lock = b"", threading.Lock()
        if variables.get("NET") == "tap":
            self.host, self.port = variables.get("IP", "10.0.2.15"), 5555
        else:
            self.host, self.port = "127.0.0.1", variables.setdefault("PORT", free_port())
        # A guest that resets itself would boot for ever: end QEMU instead.
        variables["QEMU_ARGS"] = (variables.get("QEMU_ARGS", "") + " -no-reboot").strip()
        # `replace`: what of make's command stands for something else here.
        self.command = qemu_command(arch, **variables).replace(*replace)
        if netdev:
            self.command = re.sub(r"-netdev tap\S*", lambda _: "-netdev " + netdev, self.command)
        self.started = time.monotonic()
        self.process = subprocess.Popen(["sh", "-c", "exec " + self.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, bufsize=0)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if wait:
            try:
                self.wait_for(READY, limit_s)
            except AssertionError:
                self.kill()
                raise

    def _read(self):
        while chunk := self.process.stdout.read(65536):
            with self._lock:
                self.console += chunk

    def type(self, keys):
        """Sends `keys` (bytes) to the console."""
        self.process.stdin.write(keys)

    def wait_for(self, pattern, limit_s):
        """The match of `pattern` (compiled, bytes) in the console, or an AssertionError that shows the console."""
        end = time.monotonic() + limit_s
        while True:
            ended = self.process.poll() is not None
            if ended:
                self._reader.join(5)
            match = pattern.search(self.console)
            if match:
                return match
            why = "ended with status %s" % self.process.returncode if ended else "still runs after %d s" % limit_s
            assert not ended and time.monotonic() < end, "%r not on the console; QEMU %s\n%s" % (
                pattern.pattern, why, self.transcript())
            time.sleep(0.02)

    def wait_exit(self, limit_s):
        """QEMU's exit status once the guest has powered off."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError("the guest still runs after %d s\n%s" % (limit_s, self.transcript())) from None
        self._reader.join(5)
        return status

    @property
    def running(self):
        """Whether QEMU lives and the guest has not panicked."""
        return self.process.poll() is None and not re.search(rb"(?i)\bpanic", self.console)

    def transcript(self):
        """Command and console, for a failure's report."""
        return "--- %s\n%s\n--- end of console" % (self.command, self.console.decode(errors="backslashreplace"))

    def kill(self):
        """Ends QEMU, this process only."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        self._reader.join(5)
        self.process.stdin.close()
        self.process.stdout.close()

    def cpu_seconds(self):
        """Host CPU time that QEMU has used, in seconds."""
        with open("/proc/%d/stat" % self.process.pid) as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
