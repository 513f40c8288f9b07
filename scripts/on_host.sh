#!/bin/sh
# on_host.sh COMMAND...: starts the host server on a free port, runs COMMAND with `--target 127.0.0.1:PORT` appended, ends
# the server. The command's status is the script's.
set -eu
. "$(dirname "$0")/config.sh"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$target_dir/release/barium-host" --port "$port" --enable-debug-command yes &
server=$!
trap 'kill $server 2>/dev/null || :' EXIT
tenths=0
until redis-cli -p "$port" ping >/dev/null 2>&1; do
    kill -0 $server 2>/dev/null || die "the host server ended"
    tenths=$((tenths + 1))
    [ $tenths -lt 100 ] || die "the host server does not answer"
    sleep 0.1
done
status=0
"$@" --target "127.0.0.1:$port" || status=$?
kill -0 $server 2>/dev/null || die "the host server did not survive"
exit $status
