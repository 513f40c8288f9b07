#!/bin/sh
# Installs what is missing, and says what and why: `setup.sh run` what building and booting need, `setup.sh test` what the
# tests need beside it. Does nothing, quickly, where all is there. Debian 12's packages are installed by apt-get (with sudo
# where needed); elsewhere, or without the right to install, it prints the list and stops.
set -eu
. "$(dirname "$0")/config.sh"
level=${1:-run}
cd "$root"

packages='' reasons=''

# need PACKAGE REASON TEST...: PACKAGE is wanted unless the command TEST succeeds
need() {
    package_name=$1 reason=$2
    shift 2
    if "$@" >/dev/null 2>&1; then return 0; fi
    packages="$packages $package_name"
    reasons="$reasons
  $package_name: $reason"
}
have() { command -v "$1"; }
c_compiler_works() { echo '#include <sys/socket.h>' | cc -fsyntax-only -xc -; }
python_has_venv() { python3 -c 'import ensurepip, venv'; }

if [ "$level" = test ] || [ "$ARCH" = x86_64 ]; then
    need qemu-system-x86 "the machine that x86_64 boots on" have qemu-system-x86_64
fi
if [ "$level" = test ] || [ "$ARCH" = aarch64 ]; then
    need qemu-system-arm "the machine that aarch64 boots on" have qemu-system-aarch64
fi
need gcc "links build scripts and the listen() shim that QEMU's user networking needs" have cc
need libc6-dev "C headers for the same" c_compiler_works
need python3 "turns the aarch64 ELF into the raw image" have python3
need redis-tools "redis-cli, redis-benchmark and the reference server's program" have redis-cli
if [ "$level" = test ]; then
    need python3-venv "keeps the tests' Python packages under build/" python_has_venv
    need nodejs "runs the JavaScript client libraries' tests" have node
    need npm "installs those libraries, as tests/clients/node/package-lock.json says" have npm
    need g++ "builds libFuzzer, which the fuzz targets are linked with" have c++
    need iproute2 "tap devices and network namespaces for the network tests" have ip
fi

if [ -n "$packages" ]; then
    echo "These Debian packages are missing:$reasons" >&2
    id=$(sed -n 's/^ID=//p' /etc/os-release 2>/dev/null | tr -d '"')
    install="apt-get install -y --no-install-recommends$packages"
    if [ "$id" != debian ]; then
        echo "This is not Debian: install what corresponds to them, then run make again." >&2
        exit 1
    fi
    if [ "$(id -u)" = 0 ]; then
        sudo=
    elif command -v sudo >/dev/null 2>&1; then
        sudo=sudo
    else
        echo "Neither root nor sudo: run as root, then make again: apt-get update && $install" >&2
        exit 1
    fi
    echo "Installing them: $sudo apt-get update && $sudo $install" >&2
    $sudo apt-get update -qq >&2
    # shellcheck disable=SC2086 # words
    $sudo env DEBIAN_FRONTEND=noninteractive $install -qq >&2
fi

if ! command -v rustup >/dev/null 2>&1; then
    echo "rustup is missing: it brings the Rust toolchain named in rust-toolchain.toml. Install it from https://rustup.rs" >&2
    exit 1
fi
channel=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)
if ! rustup run "$channel" rustc --version >/dev/null 2>&1; then
    echo "Installing the Rust toolchain $channel, which the project is built with" >&2
    rustup toolchain install "$channel" --profile minimal --no-self-update >&2
fi
sysroot=$(rustup run "$channel" rustc --print sysroot)
for bare in x86_64-unknown-none aarch64-unknown-none; do
    [ -d "$sysroot/lib/rustlib/$bare/lib" ] && continue
    echo "Installing the Rust target $bare, which the unikernel is compiled for" >&2
    rustup target add --toolchain "$channel" "$bare" >&2
done
if [ "$level" = test ]; then
    [ -x "$sysroot/bin/cargo-fmt" ] || rustup component add --toolchain "$channel" rustfmt >&2
    [ -x "$sysroot/bin/cargo-clippy" ] || rustup component add --toolchain "$channel" clippy >&2
fi

mkdir -p "$build"
if [ ! "$build/listen_backlog.so" -nt scripts/listen_backlog.c ]; then
    cc -O2 -Wall -Wextra -shared -fPIC -o "$build/listen_backlog.so" scripts/listen_backlog.c
fi

[ "$level" = test ] || exit 0
# The reference server is the same program as redis-check-rdb of redis-tools, under another name; Debian's redis-server
# package would start a service besides.
if command -v redis-server >/dev/null 2>&1; then
    ln -sfn "$(command -v redis-server)" "$build/redis-server"
else
    ln -sfn "$(command -v redis-check-rdb)" "$build/redis-server"
fi
[ -x "$build/valkey/usr/bin/valkey-server" ] || scripts/fetch_valkey.sh "$build/valkey" >&2 ||
    echo "Valkey, the second reference server, could not be fetched: what compares with it will say that it is skipped" >&2
if [ ! "$build/insn_count.so" -nt benches/insn_count.c ]; then
    cc -O2 -Wall -Wextra -shared -fPIC -o "$build/insn_count.so" benches/insn_count.c
fi
wanted=$(cksum <tests/requirements.txt)
if [ "$(cat "$build/venv/requirements.cksum" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing the tests' Python packages into build/venv: $(tr '\n' ' ' <tests/requirements.txt)" >&2
    rm -rf "$build/venv"
    python3 -m venv "$build/venv"
    "$build/venv/bin/pip" install --quiet --disable-pip-version-check -r tests/requirements.txt >&2
    echo "$wanted" >"$build/venv/requirements.cksum"
fi
cargo_fuzz=0.13.2
if [ "$(cargo-fuzz --version 2>/dev/null || "$build/cargo-fuzz/bin/cargo-fuzz" --version 2>/dev/null)" != "cargo-fuzz $cargo_fuzz" ]; then
    echo "Installing cargo-fuzz $cargo_fuzz into build/cargo-fuzz" >&2
    # A debug build: it only calls others.
    cargo install --quiet --debug --locked --root "$build/cargo-fuzz" --target-dir "$build/cargo-fuzz/target" \
        --version "$cargo_fuzz" cargo-fuzz >&2
    rm -rf "$build/cargo-fuzz/target"
fi
modules=tests/clients/node/node_modules
wanted=$(cksum <tests/clients/node/package-lock.json)
if [ "$(cat "$modules/lock.cksum" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing the JavaScript client libraries into $modules" >&2
    npm ci --prefix tests/clients/node --no-audit --no-fund --silent >&2
    echo "$wanted" >"$modules/lock.cksum"
fi
