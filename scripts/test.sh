#!/bin/sh
# Runs the tests (`test.sh test`, `test.sh ci`). They make network namespaces and tap devices of their own: as root, or as
# "root" of a user namespace where another user runs them.
set -eu
. "$(dirname "$0")/config.sh"
cd "$root"
# The make variables of `make run` do not concern the tests.
unset ARCH PLATFORM SMP MEM LOG PORT NET TAP IP GW MASK BLK ACCEL ARGS QEMU_ARGS
if [ "$(id -u)" = 0 ]; then
    exec python3 scripts/run_tests.py "$1"
fi
exec unshare --user --map-root-user python3 scripts/run_tests.py "$1"
