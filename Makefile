# ZkEnsemble: `make quickstart` to see it run, `make test` to prove it.
# Both install what a fresh Debian-like machine lacks, and say so. Everything fetched stays under ~/.cache/zkensemble.

SHELL := /bin/bash
TARGET := $(or $(CARGO_TARGET_DIR),target)
PATH := $(HOME)/.cargo/bin:$(PATH)
export PATH
CARGO ?= cargo
SETUP := tests/harness/setup.sh
RUN_TESTS := python3 tests/harness/run_tests.py

# Seconds of measurement for each row of the benchmark; `make bench BENCH_SECS=10` for figures worth publishing.
BENCH_SECS ?= 2

.DEFAULT_GOAL := help
.PHONY: help quickstart test check bench fmt deny setup build clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

quickstart: setup-build build ## a three-member ensemble on this machine, until Ctrl-C
	@exec $(TARGET)/release/zk-operator local examples/three-members.yaml --server-binary $(TARGET)/release/zk-server

test: setup ## everything: lints, unit and scenario tests, the sweep, real clients, the Java server as a peer
	@$(RUN_TESTS)

check: setup-build ## the quick part of `test`: needs neither Java nor Python packages
	@$(RUN_TESTS) --only fmt,clippy,build,unit,sim

bench: setup-bench ## our server against the Java server, in the same run
	@python3 tests/harness/bench.py --secs $(BENCH_SECS)

fmt: setup-build ## rewrite the sources in the project's format
	$(CARGO) fmt --all

deny: ## licences, duplicate crates and sources of the dependencies
	@$(SETUP) deny
	@$(RUN_TESTS) --only deny

setup: ## install what the tests need
	@$(SETUP) test

build: setup-build ## the two binaries, optimised
	$(CARGO) build --release --locked -p zk-server -p zk-operator

.PHONY: setup-build setup-bench
setup-build:
	@$(SETUP) build

setup-bench:
	@$(SETUP) bench

clean: ## remove what was built; the cache of fetched things stays
	$(CARGO) clean
