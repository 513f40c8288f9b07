#!/bin/sh
# Random command sequences to the host server and to the reference, replies compared: tests/differential. SECONDS_EACH
# bounds each family's run, SEED chooses the sequences.
set -eu
. "$(dirname "$0")/config.sh"
cd "$root"
cargo build --release --locked -p barium-host
BARIUM_HOST=$target_dir/release/barium-host REDIS_SERVER=$build/redis-server
export BARIUM_HOST REDIS_SERVER
exec cargo test --locked -p barium-differential "$@" -- --nocapture --test-threads 2
