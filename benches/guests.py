"""The machines of a comparison: Barium, and the rival beside it (a Debian Linux guest with redis-server, or an earlier Barium),
in the same QEMU with the same devices, each on a tap device in a network namespace of its own.

Both of a pair are booted at the same time; whoever does not have its turn is stopped through QEMU's monitor, its virtual clock
with it, so that it costs the host nothing and one's run is followed by the other's within a second.
"""
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "qemu"))

import linux_guest  # noqa: E402
from machine import READY, Machine  # noqa: E402
from namespace import GUEST_IP, Namespace  # noqa: E402
from resp import Connection  # noqa: E402

# Linux takes some ten seconds to boot under emulation; more on a busy host.
BOOT_LIMIT_S = 240
# Redis may still free what FLUSHALL removed.
SETTLE_S = 0.3
PLATFORMS = {"x86_64": "x86_64-qemu-q35", "aarch64": "aarch64-qemu-virt"}


@dataclasses.dataclass
class Contestant:
    """A server that can be booted: its name, what it is exactly, QEMU's words after those of `make qemu-command`, and the
    console line that says that it is up."""
    name: str
    version: str
    qemu_words: list
    ready: re.Pattern

    def boot(self, arch, smp, mem):
        """A running Guest of this kind."""
        return Guest(self, arch, smp, mem)


def revision():
    """This tree's commit, with '+' where something in it was changed since."""
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, text=True, timeout=60).stdout  # noqa: E731
    return git("rev-parse", "--short=10", "HEAD").strip() + ("+" if git("status", "--porcelain", "-uno").strip() else "")


def barium():
    """The image under build/."""
    return Contestant("Barium", "this tree, %s" % revision(), [], READY)


def linux(arch):
    """Debian's kernel and redis-server."""
    image = linux_guest.make(arch)
    words = ["-kernel", image.kernel, "-initrd", image.initramfs, "-append", image.append(GUEST_IP)]
    return Contestant("Linux", "Debian 12 guest: %s; kernel command line: %s" % (image.versions, image.append(GUEST_IP)),
                      list(map(str, words)), linux_guest.READY)


def base(rev, arch):
    """The Barium of an earlier revision, built outside this tree (whose .cargo/config.toml would count for it too); the image
    is kept under build/base/."""
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], check=True, stdout=subprocess.PIPE, timeout=120).stdout  # noqa: E731
    try:
        commit = git("rev-parse", "--verify", "--quiet", rev + "^{commit}").decode().strip()
    except subprocess.CalledProcessError:
        raise SystemExit("BASE=%s is no revision of this repository" % rev) from None
    platform = PLATFORMS[arch]
    image = ROOT / "build" / "base" / commit / ("barium_%s.%s" % (platform, "elf" if arch == "x86_64" else "bin"))
    if not image.exists():
        print("building %s (%s) for %s" % (rev, commit[:10], arch), file=sys.stderr, flush=True)
        image.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as tree:
            subprocess.run(["tar", "-x", "-C", tree], input=git("archive", commit), check=True, timeout=120)
            subprocess.run(["scripts/image.sh"], cwd=tree, check=True, timeout=3600, stdout=sys.stderr.fileno(),
                           env={**os.environ, "ARCH": arch, "PLATFORM": "", "CARGO_TARGET_DIR": str(ROOT / "build/base/target")})
            shutil.copyfile(pathlib.Path(tree) / "build" / image.name, image.with_suffix(".new"))
        image.with_suffix(".new").rename(image)
    return Contestant("Barium " + commit[:10], "Barium at %s (%s)" % (rev, commit[:10]), ["-kernel", str(image)], READY)


class Guest:
    """A booted contestant. `benchmark` and the like have to be called inside `with guest:`, its turn: it runs, and the calling
    thread is in its network namespace. Outside, it is stopped."""

    def __init__(self, contestant, arch, smp, mem):
        self.contestant, self.namespace = contestant, Namespace()
        self.folder = tempfile.TemporaryDirectory(prefix="barium-bench-")
        monitor = self.folder.name + "/qmp"
        words = ["-qmp", "unix:%s,server=on,wait=off" % monitor, *contestant.qemu_words]
        with self.namespace:
            self.machine = Machine(arch, wait=False, SMP=smp, MEM=mem, NET="tap", PLATFORM=PLATFORMS[arch],
                                   QEMU_ARGS=" ".join(map(shlex.quote, words)))
        try:
            self.machine.wait_for(contestant.ready, BOOT_LIMIT_S)
            with self.namespace, Connection(self.host, self.port, 30) as connection:
                assert connection.ask("PING") == b"+PONG\r\n", self.machine.transcript()
            self.boot_s = time.monotonic() - self.machine.started
            self.monitor = Monitor(monitor)
            self.monitor.execute("stop")
        except BaseException:
            self.close()
            raise

    @property
    def host(self):
        """The guest's address, in its namespace."""
        return self.machine.host

    @property
    def port(self):
        """The server's port."""
        return self.machine.port

    def __enter__(self):
        self.monitor.execute("cont")
        self.namespace.__enter__()
        time.sleep(SETTLE_S)
        return self

    def __exit__(self, kind, error, _):
        self.namespace.__exit__()
        if kind is None:
            self.monitor.execute("stop")

    def ask(self, *words):
        """One command over a connection of its own."""
        with Connection(self.host, self.port, 60) as connection:
            return connection.ask(*words)

    def flush(self):
        """Empties the server."""
        assert self.ask("FLUSHALL") == b"+OK\r\n"
        time.sleep(SETTLE_S)

    def cpu_seconds(self):
        """Host CPU time of QEMU's threads so far, to the nanosecond (Documentation/scheduler/sched-stats.rst)."""
        tasks = pathlib.Path("/proc/%d/task" % self.machine.process.pid).glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def close(self):
        """Ends the machine."""
        self.machine.kill()
        self.namespace.close()
        self.folder.cleanup()


class Monitor:
    """QEMU's machine protocol (docs/interop/qmp-spec): a JSON object a line."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rb")
        self.lines.readline()
        self.execute("qmp_capabilities")

    def execute(self, command):
        """Carries out a command; events that come between are dropped."""
        self.socket.sendall(json.dumps({"execute": command}).encode() + b"\n")
        while line := self.lines.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise OSError("QEMU's monitor: %s: %s" % (command, answer["error"].get("desc")))
            if "return" in answer:
                return answer["return"]
        raise OSError("QEMU has closed its monitor")
