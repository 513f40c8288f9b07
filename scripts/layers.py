#!/usr/bin/env python3
"""Fails on a dependency between crates that the architecture forbids (ARCHITECTURE.md, "Layers").

Reads `cargo metadata`. Every workspace crate is listed with the ones it may use; a crate that is not listed is an error too.
"""
import json
import subprocess
import sys

# kvstore knows neither kernel nor net; net knows neither kernel nor kvstore; kernel knows nothing of RESP or TCP.
MAY_USE = {
    "barium-nic": set(),
    "barium-smp": set(),
    "barium-heap": {"barium-smp"},
    "barium-cell": set(),
    "barium-kernel": {"barium-heap", "barium-nic", "barium-smp"},
    "barium-net": {"barium-nic"},
    "barium-kvstore": {"barium-cell"},
    "barium-unikernel": {"barium-kernel", "barium-net", "barium-kvstore", "barium-nic", "barium-smp"},
    "barium-x86_64-pc": {"barium-unikernel", "barium-kernel"},
    "barium-aarch64-virt": {"barium-unikernel", "barium-kernel"},
    "barium-host": {"barium-kvstore", "barium-heap"},
    "barium-differential": set(),
    "barium-client-tests": set(),
    "barium-load": set(),
    "barium-relay": set(),
}
# Crates of others that belong to one layer.
ONLY_IN = {"smoltcp": {"barium-net"}, "virtio-drivers": {"barium-kernel"}}


def violations(metadata):
    """What is wrong, as lines of text."""
    members = set(metadata["workspace_members"])
    for package in metadata["packages"]:
        if package["id"] not in members:
            continue
        name = package["name"]
        if name not in MAY_USE:
            yield "%s is not listed in scripts/layers.py: say what it may depend on" % name
            continue
        for dependency in package["dependencies"]:
            used, kind = dependency["name"], dependency["kind"] or "normal"
            if kind == "dev":
                continue
            if used.startswith("barium-") and used not in MAY_USE[name]:
                yield "%s must not depend on %s" % (name, used)
            if name not in ONLY_IN.get(used, {name}):
                yield "%s must not depend on %s: it belongs to %s" % (name, used, ", ".join(ONLY_IN[used]))


def main():
    """Prints the violations; status 1 if there are any."""
    output = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"], check=True,
                            stdout=subprocess.PIPE, timeout=120).stdout
    found = list(violations(json.loads(output)))
    print("\n".join(found) or "layers: no forbidden dependency")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
