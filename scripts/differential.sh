#!/bin/sh
# Random command sequences to the host server and to the references (Redis 7.0, Valkey 8.0), replies compared:
# tests/differential. SECONDS_EACH and SEQUENCES bound each family's run, SEED chooses the sequences.
set -eu
. "$(dirname "$0")/config.sh"
cd "$root"
cargo build --release --locked -p barium-host
BARIUM_HOST=$target_dir/release/barium-host REDIS_SERVER=$build/redis-server
VALKEY_SERVER=$build/valkey/usr/bin/valkey-server
export BARIUM_HOST REDIS_SERVER VALKEY_SERVER
[ -x "$VALKEY_SERVER" ] || echo "Valkey is not there ($VALKEY_SERVER): SKIPPED, only Redis 7.0 is compared with"
exec cargo test --locked --no-fail-fast -p barium-differential "$@" -- --nocapture --test-threads 2
