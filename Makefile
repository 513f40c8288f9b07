# Barium's commands; `make help` lists them. Logic lives in scripts/, which read the variables below from the environment.

ARCH ?=
PLATFORM ?=
SMP ?= 1
MEM ?= 256M
LOG ?= warn
PORT ?= 5555
NET ?= user
TAP ?= tap0
QUEUES ?= auto
IP ?=
GW ?=
MASK ?=
BLK ?= n
ACCEL ?= auto
ARGS ?=
QEMU_ARGS ?=
export ARCH PLATFORM SMP MEM LOG PORT NET TAP QUEUES IP GW MASK BLK ACCEL ARGS QEMU_ARGS

.DEFAULT_GOAL := help

# A wrong value stops here, before anything is installed or built, as one line. (The environment of $(shell) does not
# have the exported variables in make before 4.4, so they are handed over.)
quote = '$(subst ','\'',$($(1)))'
CHECKED := ARCH PLATFORM SMP MEM LOG PORT NET TAP QUEUES IP GW MASK BLK ACCEL
problem := $(shell $(foreach name,$(CHECKED),$(name)=$(call quote,$(name))) scripts/config.sh $(MAKECMDGOALS) 2>&1)
ifneq ($(problem),)
$(error $(problem))
endif

.PHONY: help setup setup-test image run qemu-command host test ci soak bench bench-gate docs fmt lint clean

help: ## list the commands and variables
	@scripts/help.sh

setup: ## install what building and running need (says what and why)
	@scripts/setup.sh run

setup-test: ## install what the tests need as well
	@scripts/setup.sh test

image: setup ## build build/barium_<platform>.elf (aarch64: and .bin), print its size
	@scripts/image.sh

run: setup ## build and boot in QEMU; Ctrl-A X leaves
	@scripts/image.sh
	@scripts/qemu.sh run

qemu-command: ## print, as one line for sh -c, what `make run` would start
	@scripts/setup.sh run >&2
	@scripts/image.sh >&2
	@scripts/qemu.sh command

host: ## run the same engine as a Linux process on 127.0.0.1:PORT
	@cargo run --release -p barium-host -- --port $(PORT)

test: setup-test ## host and QEMU tests, both architectures
	@scripts/test.sh test

ci: setup-test ## `make test`, then what takes longer
	@scripts/test.sh ci

soak: setup-test ## all of redis-benchmark on every machine, as a user would run it
	@scripts/soak.sh

bench: setup-test ## Barium beside a Linux guest: rates, latencies, instructions, memory; PROFILE= QUICK= BASE= FORCE= ROUNDS=
	@scripts/bench.sh

bench-gate: setup-test ## guest instructions against benches/floors.json; status 1 above one by 15 %; UPDATE=1 rewrites them
	@scripts/bench.sh gate

docs: ## write docs/commands.md and docs/configuration.md anew
	@UPDATE_DOCS=1 cargo test --quiet -p barium-kvstore --test docs

fmt: ## format the code
	@cargo fmt --all

lint: setup-test ## cargo fmt --check, clippy on every target, layering and file rules
	@scripts/lint.sh

clean: ## remove build/ and the compiler's output
	@rm -rf build && cargo clean
