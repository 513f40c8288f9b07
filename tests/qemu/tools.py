"""The project's own programs that tests use: the load generator and the relay."""
import functools
import json
import os
import subprocess

from machine import ROOT


@functools.cache
def built(name):
    """The path of `name`'s release build. (`make test` has made it before; this finds it, or makes it.)"""
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "-p", name], cwd=ROOT, check=True, timeout=600)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "release", name)


def load(machine, *words, limit_s=120, check=True):
    """What barium-load found, run with `words` against `machine`; with `check`, anything amiss is an AssertionError."""
    command = [built("barium-load"), "--host", machine.host, "--port", str(machine.port), *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit_s)
    assert done.returncode == 0 or (not check and done.stdout), "%s\n%s\n%s" % (" ".join(command), done.stdout, done.stderr)
    return json.loads(done.stdout)
