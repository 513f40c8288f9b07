"""A bad wire between the tap and a guest: benches/relay (barium-relay), and the tap that it reads from and writes to."""
import fcntl
import json
import os
import struct
import subprocess

from namespace import TAP
from tools import built

TUNSETIFF, TUNSETOFFLOAD, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x400454D0, 0x0002, 0x1000


class Relay:
    """Runs as long as it is not closed. Made inside the namespace, before the guest, whose QEMU gets `netdev`.

    `options` are barium-relay's own: loss="0.01", delay_ms="5" and so on.
    """

    def __init__(self, directory, **options):
        ours, theirs = os.path.join(directory, "relay"), os.path.join(directory, "guest")
        words = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]
        tap = os.open("/dev/net/tun", os.O_RDWR)
        try:
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", TAP.encode(), IFF_TAP | IFF_NO_PI))
            # A machine that was on the tap before may have had checksums left to it; frames of the relay have no header that says so.
            fcntl.ioctl(tap, TUNSETOFFLOAD, 0)
            self.process = subprocess.Popen([built("barium-relay"), "--socket", ours, "--guest", theirs, *words], stdin=tap,
                                            stdout=subprocess.PIPE, text=True)
        finally:
            os.close(tap)
        # Datagrams on Unix sockets: whole frames, in order, none lost.
        self.netdev = "dgram,id=net0,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s" % (theirs, ours)

    def close(self):
        """Ends the relay; returns what it did, by direction, as it said last (once a second)."""
        self.process.terminate()
        lines = self.process.communicate(timeout=10)[0].splitlines()
        return json.loads(lines[-1]) if lines else {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.close()
