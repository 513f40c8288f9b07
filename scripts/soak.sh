#!/bin/sh
# All of redis-benchmark against what `make run` starts, on both architectures, with 1 and 4 CPUs.
set -eu
here=$(dirname "$0")
for arch in x86_64 aarch64; do
    ARCH=$arch PLATFORM='' "$here/image.sh" >&2
done
# What was built just before still shows in the load average: that passes by itself.
export PREFLIGHT_WAIT="${PREFLIGHT_WAIT:-180}"
exec python3 "$here/../benches/soak.py" "$@"
