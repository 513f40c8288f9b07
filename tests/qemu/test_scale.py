"""Thousands of connections: what an idle one costs in memory and in instructions, and many busy ones."""
import json
import struct
import subprocess
import time

from machine import ROOT, Machine
from resp import Connection
from tools import built, load

IDLE = 10_000
# Of guest memory, for everything that an idle connection needs.
BYTES_EACH = 16 * 1024
# Small GETs and nothing else.
GETS = ("--ratio", "0:1", "--size", 16, "--keys", 1000)


class Counted:
    """A machine on the tap whose instructions are counted (benches/insn_count.c). Waiting is not counted as work."""

    def __init__(self, request, arch, directory, args=""):
        self.count_file = directory / "count"
        plugin = "-plugin %s,out=%s" % (ROOT / "build" / "insn_count.so", self.count_file)
        self.machine = Machine(arch, NET="tap", MEM="512M", ARGS="poll=0 " + args, QEMU_ARGS=plugin)
        request.node.machine = self.machine

    def instructions(self):
        """Guest instructions since reset."""
        return struct.unpack("<Q", self.count_file.read_bytes()[:8])[0]

    def number(self, section, field):
        """A number from INFO."""
        with Connection(self.machine.host, self.machine.port, 60) as connection:
            lines = connection.ask("INFO", section).decode().split("\r\n")
        return next(int(line.split(":")[1]) for line in lines if line.startswith(field + ":"))

    def gets(self, clients):
        """Instructions a GET from so many clients, connecting and leaving apart, and the longest and the median wait in us."""
        costs = []
        for requests in (10_000, 40_000):
            before = self.instructions()
            found = load(self.machine, "--clients", clients, *GETS, "--no-fill", "--requests", requests)
            costs.append(self.instructions() - before)
        return (costs[1] - costs[0]) / 30_000, found["latency_us"]["max"], found["latency_us"]["p50"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.machine.kill()


def test_ten_thousand_idle_connections(request, namespace, tmp_path, arch):
    """They come quickly, are small, and cost the others nothing."""
    with namespace, Counted(request, arch, tmp_path, "maxclients=12000") as guest:
        load(guest.machine, "--clients", 50, *GETS, "--requests", 20_000)
        memory = guest.number("memory", "used_memory_rss")
        alone = min(guest.gets(50)[0] for _ in range(2))
        words = [built("barium-load"), "--host", guest.machine.host, "--port", guest.machine.port, "--clients", 1, "--idle", IDLE,
                 "--no-fill", *GETS, "--rate", 1, "--time", 45]
        holder = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True)
        try:
            end = time.monotonic() + 60
            while guest.number("clients", "connected_clients") < IDLE + 2:
                assert time.monotonic() < end and holder.poll() is None, "10,000 connections are not there"
                time.sleep(0.2)
            each = (guest.number("memory", "used_memory_rss") - memory) / IDLE
            beside = min(guest.gets(50)[0] for _ in range(2))
            assert guest.number("clients", "connected_clients") >= IDLE + 2, "they were there all the time"
            found = json.loads(holder.communicate(timeout=120)[0])
        finally:
            holder.kill()
            holder.wait()
        connects = found["connect_idle"]
        print("%.2f s for 10,000 connections, %.0f bytes each, %.0f instructions a GET beside them and %.0f without" % (
            connects["seconds"], each, beside, alone))
        assert (connects["made"], found["idle_lost"]) == (IDLE, 0)
        # 3 s where the host has nothing else to do; 10,600 instructions each on both.
        assert connects["seconds"] < 12
        assert 2048 < each < BYTES_EACH
        # A rate of 0.9 of that without them.
        assert beside < alone / 0.9


def test_sixteen_hundred_busy_clients(request, namespace, tmp_path, arch):
    """Each of them gets its answers, none much later than the others, for the instructions that fifty cause."""
    with namespace, Counted(request, arch, tmp_path) as guest:
        load(guest.machine, "--clients", 50, *GETS, "--requests", 20_000)
        few, many = (min(guest.gets(clients) for _ in range(2)) for clients in (50, 1600))
        print("%.0f instructions a GET from 50 clients, %.0f from 1,600, of which the slowest waited %.0f ms" % (
            few[0], many[0], many[1] / 1000))
        # A rate of 0.8 of that of 50.
        assert many[0] < few[0] / 0.8
        # No frame was lost on the way, or its client would have waited for a retransmission after a second or more.
        assert many[1] < 8 * many[2] + 1_000_000
