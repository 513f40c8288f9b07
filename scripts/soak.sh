#!/bin/sh
# All of redis-benchmark against what `make run` starts, on both architectures, with 1 and 4 CPUs.
set -eu
here=$(dirname "$0")
for arch in x86_64 aarch64; do
    ARCH=$arch PLATFORM='' "$here/image.sh" >&2
done
exec python3 "$here/../benches/soak.py" "$@"
