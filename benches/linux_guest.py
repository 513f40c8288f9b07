#!/usr/bin/env python3
"""Makes the Linux guest that Barium is compared with: Debian's cloud kernel, and Debian's redis-server and busybox in an
initramfs. Nothing is installed on this machine; the packages are unpacked under build/, where the result is kept.

usage: linux_guest.py ARCH...

The packages are those of Debian 12 for the guest's architecture, fetched by apt-get with lists of its own, so that a PC can
make the aarch64 guest too. The kernel runs as Debian built it and with its own defaults; redis-server with an empty
configuration but for `save ""`, which is what Barium does: data in memory only.
"""
import dataclasses
import gzip
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = (("bookworm", "http://deb.debian.org/debian"), ("bookworm-security", "http://deb.debian.org/debian-security"))
# By our name of an architecture: Debian's, the directory of its libraries, the console that -serial is.
ARCHES = {"x86_64": ("amd64", "x86_64-linux-gnu", "ttyS0"), "aarch64": ("arm64", "aarch64-linux-gnu", "ttyAMA0")}
# What a network card of QEMU needs; what those need is found out. What a kernel has built in is not there as a file.
MODULES = ("virtio_pci", "virtio_mmio", "virtio_net")
PORT = 5555
READY = re.compile(rb"Linux guest is ready")

# What runs as process 1. The addresses come as parameters of the kernel command line that Linux hands on as variables.
INIT = r"""#!/bin/busybox sh
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module" || echo "insmod $module failed"; done </modules/order
ip link set lo up
ip addr add "$guest_ip/24" dev eth0
ip link set eth0 up || { echo "no network card"; poweroff -f; }
# What redis-server's own warnings ask for, and room for ten thousand clients.
echo 1 >/proc/sys/vm/overcommit_memory
echo 65535 >/proc/sys/net/core/somaxconn
echo 65535 >/proc/sys/net/ipv4/tcp_max_syn_backlog
echo never >/sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null
ulimit -n 65536
redis-server --port %d --save "" --appendonly no --protected-mode no --daemonize no --logfile /tmp/redis.log &
until redis-cli -p %d ping >/dev/null 2>&1; do sleep 0.1; done
echo "Linux guest is ready"
wait
cat /tmp/redis.log
poweroff -f
""" % (PORT, PORT)


@dataclasses.dataclass
class Image:
    """A guest on disk: kernel, initramfs, what they are made of, and the console's name for the kernel command line."""
    kernel: pathlib.Path
    initramfs: pathlib.Path
    versions: str
    console: str

    def append(self, address):
        """The kernel command line for this address of the guest."""
        # no_timer_check (x86 only): that check gives up where the host is busy, and ends in a panic.
        check = "no_timer_check " if self.console == "ttyS0" else ""
        return "console=%s quiet panic=-1 %srdinit=/init guest_ip=%s" % (self.console, check, address)


class Apt:
    """apt-get and apt-cache for one architecture, with lists and a cache of their own in `work`. An empty status file makes
    every package's dependencies count as missing, so that all of them are fetched."""

    def __init__(self, work, architecture):
        for name in ("lists/partial", "archives/partial"):
            (work / name).mkdir(parents=True)
        (work / "status").touch()
        (work / "sources.list").write_text("".join(
            "deb [signed-by=%s] %s %s main\n" % (KEYRING, self.mirror(suite, usual), suite) for suite, usual in SUITES))
        settings = {"Dir::Etc::SourceList": work / "sources.list", "Dir::Etc::SourceParts": "/dev/null",
                    "Dir::State::Lists": work / "lists", "Dir::State::status": work / "status", "Dir::Cache": work,
                    "Dir::Cache::Archives": work / "archives", "APT::Sandbox::User": "root", "APT::Architecture": architecture,
                    "APT::Architectures::": architecture}
        self.options = [word for name, value in settings.items() for word in ("-o", "%s=%s" % (name, value))]
        self.archives = work / "archives"

    @staticmethod
    def mirror(suite, usual):
        """The mirror that this machine uses for the suite, or the usual one."""
        done = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Suite: " + suite], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, timeout=60)
        found = done.stdout.split() if done.returncode == 0 else []
        return found[0].rstrip("/") if found else usual

    def run(self, program, *words):
        """Output of apt-get or apt-cache; SystemExit with what it said where it fails."""
        done = subprocess.run([program, *self.options, *words], cwd=self.archives, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=600)
        if done.returncode:
            raise SystemExit("%s %s: %s" % (program, " ".join(words), done.stderr.strip()[-2000:]))
        return done.stdout

    def fetch(self, architecture):
        """The .deb files of the kernel, of redis with its libraries, and of busybox."""
        self.run("apt-get", "-qq", "update")
        depends = self.run("apt-cache", "depends", "--important", "linux-image-cloud-" + architecture)
        kernel = re.search(r"Depends: (linux-image-\S+)", depends)
        if not kernel:
            raise SystemExit("linux-image-cloud-%s names no kernel:\n%s" % (architecture, depends))
        self.run("apt-get", "-qq", "-y", "--no-install-recommends", "--download-only", "install", "redis-tools", "busybox-static")
        self.run("apt-get", "-qq", "download", kernel[1])
        return sorted(self.archives.glob("*.deb"))


class Initramfs:
    """Writes an archive that Linux unpacks as its first root: cpio's "newc" format (Documentation/driver-api/early-userspace/
    buffer-format.rst), which is the header below, a name and the contents, each padded to four bytes."""

    def __init__(self):
        self.data, self.entries = bytearray(), 0

    def _entry(self, name, mode, contents=b""):
        self.entries += 1
        encoded = name.encode() + b"\0"
        fields = (self.entries, mode, 0, 0, 1, 0, len(contents), 0, 0, 0, 0, len(encoded), 0)
        self.data += b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        self.data += bytes(-len(self.data) % 4)
        self.data += contents
        self.data += bytes(-len(self.data) % 4)

    def directory(self, name):
        """A directory; its parents have to be there."""
        self._entry(name, stat.S_IFDIR | 0o755)

    def file(self, name, contents, mode=0o755):
        """A regular file."""
        self._entry(name, stat.S_IFREG | mode, contents)

    def link(self, name, target):
        """A symbolic link."""
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def write(self, path):
        """Writes the archive, compressed."""
        self._entry("TRAILER!!!", 0)
        path.write_bytes(gzip.compress(bytes(self.data), 6, mtime=0))


def needed(program, libraries):
    """Names of the shared libraries that a program needs, and those they need: {name: path}."""
    found, waiting = {}, [program]
    while waiting:
        listing = subprocess.run(["readelf", "-d", waiting.pop()], check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", listing):
            if name not in found:
                if name not in libraries:
                    raise SystemExit("%s needs %s, which no package brought" % (program, name))
                found[name] = libraries[name]
                waiting.append(libraries[name])
    return found


def with_dependencies(names, known):
    """Files of the kernel modules and of those they depend on (their .modinfo says so), each after what it needs."""
    order = []
    for name in names:
        if name not in known:
            continue
        depends = re.search(rb"\0depends=([^\0]*)\0", known[name].read_bytes())
        below = with_dependencies(filter(None, depends[1].decode().replace("-", "_").split(",")), known) if depends else []
        order += [file for file in below + [known[name]] if file not in order]
    return order


def assemble(tree, triplet, path):
    """Puts the initramfs together from the unpacked packages."""
    archive = Initramfs()
    for name in ("bin", "lib", "lib64", "lib/" + triplet, "modules"):
        archive.directory(name)
    archive.file("init", INIT.encode())
    archive.file("bin/busybox", next(tree.glob("**/bin/busybox")).read_bytes())
    # redis-server, redis-check-rdb and redis-sentinel are one program, which goes by its name.
    server = tree / "usr/bin/redis-check-rdb"
    archive.file("bin/redis-server", server.read_bytes())
    client = tree / "usr/bin/redis-cli"
    archive.file("bin/redis-cli", client.read_bytes())
    libraries = {library.name: library for library in tree.glob("**/lib*/**/*.so*")}
    wanted = needed(server, libraries) | needed(client, libraries)
    for name, library in wanted.items():
        archive.file("lib/%s/%s" % (triplet, name), library.resolve().read_bytes())
    # The loader's own place is part of the ABI.
    interpreter = re.search(r"interpreter: /?(\S+?)\]", subprocess.run(
        ["readelf", "-l", server], check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout)[1]
    archive.file(interpreter, libraries[pathlib.Path(interpreter).name].resolve().read_bytes())
    modules = with_dependencies(MODULES, {file.stem.replace("-", "_"): file for file in tree.glob("**/kernel/**/*.ko")})
    for file in modules:
        archive.file("modules/" + file.name, file.read_bytes(), 0o644)
    archive.file("modules/order", "".join(file.name + "\n" for file in modules).encode(), 0o644)
    archive.write(path)


def versions(packages):
    """'linux-image-... 6.1, redis-tools 5:7.0, ...' of the packages that matter."""
    shown = []
    for package in packages:
        name, version, _ = package.name.split("_")
        if name.startswith(("linux-image", "redis", "busybox", "libc6", "libjemalloc")):
            shown.append("%s %s" % (name, version.replace("%3a", ":")))
    return ", ".join(shown)


def make(arch, root=ROOT):
    """The guest's image, made now if it is not there or this script is newer. SystemExit says what is in the way."""
    debian, triplet, console = ARCHES[arch]
    into = root / "build" / "linux-guest" / arch
    image = Image(into / "vmlinuz", into / "initramfs.cpio.gz", "", console)
    made = into / "versions"
    if not made.exists() or made.stat().st_mtime < pathlib.Path(__file__).stat().st_mtime:
        for program in ("apt-get", "apt-cache", "dpkg", "readelf"):
            if not shutil.which(program):
                raise SystemExit("%s is missing: the Linux guest is made of Debian's packages (BASE=<revision> compares with an "
                                 "earlier Barium instead)" % program)
        print("Making the Linux guest for %s of Debian's packages, in %s" % (arch, into), file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            packages = Apt(work, debian).fetch(debian)
            for package in packages:
                subprocess.run(["dpkg", "-x", package, work / "tree"], check=True, timeout=300)
            into.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(next((work / "tree/boot").glob("vmlinuz-*")), image.kernel)
            assemble(work / "tree", triplet, image.initramfs)
            # Last: a half-made guest is made again.
            made.write_text(versions(packages))
    image.versions = made.read_text()
    return image


if __name__ == "__main__":
    for wanted_arch in sys.argv[1:] or list(ARCHES):
        print("%s: %s" % (wanted_arch, make(wanted_arch).versions))
