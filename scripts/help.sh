#!/bin/sh
# Lists the commands (from the Makefile's own '##' texts) and the variables.
cd "$(dirname "$0")/.." || exit 1
echo "Barium: a unikernel that is a Redis-compatible server."
echo
echo "  make run      sets up what is missing, builds, boots in QEMU; then: redis-cli -p 5555 (Ctrl-A X leaves)"
echo "  make test     sets up what is missing and runs the tests"
echo
echo "Commands:"
sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | while IFS="$(printf '\t')" read -r name text; do
    printf '  %-13s %s\n' "$name" "$text"
done
cat <<END

Variables (make ARCH=aarch64 SMP=4 run):
  ARCH=x86_64            x86_64 | aarch64
  PLATFORM=...           x86_64-qemu-q35 | x86_64-qemu-microvm | aarch64-qemu-virt (by default
                         the first for ARCH)
  SMP=1                  CPUs
  MEM=256M               memory, from 32M
  LOG=warn               off | error | warn | info | debug | trace
  PORT=5555              port on this machine (127.0.0.1) that leads to the guest's 5555
  NET=user               user | tap
  TAP=tap0               the tap device for NET=tap
  QUEUES=auto            queue pairs of the network card with NET=tap: auto (one for each CPU, up to 16, where the tap
                         device was made with multi_queue) | 1..16
  IP=10.0.2.15           the guest's address, or dhcp
  GW=10.0.2.2            its gateway
  MASK=255.255.255.0     its netmask
  BLK=n                  n | y: attach disk.img (made with 64 MiB if missing)
  ACCEL=auto             auto | kvm | tcg: auto takes KVM only if the image really boots on it
  ARGS=""                appended to the kernel command line: ARGS="maxmemory=64mb requirepass=secret"
  QEMU_ARGS=""           appended to the QEMU command

Variables of make bench (docs/performance.md):
  PROFILE="..."          some of: rows20 pipeline clients1600 mixed memtier latency idle_connections smp4 rest instructions memory
  SCALE=1                share of the requests and of the time of each run
  UPDATE=1               writes the tables of docs/performance.md anew (make bench-gate: the floors, too)
  ROUNDS=2               boots of each machine; a row has two values a boot
  BASE=<revision>        the rival is Barium at that revision, not Linux
  QUICK=1                few requests: shows that it works, not how fast it is
  FORCE=1                measures although something disturbs, and says so in the report
END
