"""What applications do through client libraries of other languages: the programs under tests/clients, which count their own
tests and fail if one does."""
import subprocess

import pytest

from machine import ROOT

CLIENTS = ROOT / "tests" / "clients"


def run(command):
    """Runs a client's tests to their end; shows what they printed if one failed."""
    done = subprocess.run(command, cwd=CLIENTS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
    text = done.stdout.decode(errors="replace")
    assert done.returncode == 0, text
    assert " passed, 0 failed" in text.splitlines()[-1], text


@pytest.mark.parametrize("library", ("ioredis", "node-redis"))
def test_javascript(server, library):
    run(["node", "node/%s.mjs" % library, "%s:%d" % (server.host, server.port)])


def test_rust(server):
    # (`make test` has built it before.)
    run(["cargo", "run", "--quiet", "--locked", "-p", "barium-client-tests", "--", "%s:%d" % (server.host, server.port)])
