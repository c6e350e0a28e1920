# SPDX-License-Identifier: GPL-2.0-only
#
# A thin front: cargo builds Rust, xtask builds kernels (docs/building.md).
# Every target works in a fresh clone on Debian 12.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=

XTASK = $(CARGO) run -q -p xtask --
TARGET = $(or $(CARGO_TARGET_DIR),target)
# What users get, and what tests need beside it.
IMAGES = --config default --config tiny --config lab --config remote
TEST_IMAGES = --config tiny --config smp --config default --config debug --config torture --config lab --config fuzz --config container --config remote

.PHONY: all demo test check lint bench kernel images install clean deps deps-build deps-demo

all: kernel
	$(CARGO) build --release
	$(TARGET)/release/tane generate build/man

# Copies a real tree into a real ext4 image and out again, as any user.
demo: deps-demo
	$(XTASK) kernel --config tiny
	$(CARGO) build --release -p tane-cli
	TANE_IMAGE=$(CURDIR)/build/images/tane-tiny.elf scripts/demo $(TARGET)/release/tane

test: images
	scripts/test

# Exactly what CI runs.
check:
	.ci/run

lint: deps
	scripts/lint

# BENCH holds options of tane bench: make bench BENCH="--only cat --runs 31".
bench: deps
	$(XTASK) kernel --config tiny --config default --config smp
	$(CARGO) build --release -p tane-cli -p tane-bench
	$(TARGET)/release/tane bench $(BENCH)

kernel: deps-build
	$(XTASK) kernel $(IMAGES)

images: deps
	$(XTASK) kernel $(TEST_IMAGES)

# Works on what `make` built, so that `sudo make install` compiles nothing.
install:
	scripts/install "$(DESTDIR)$(PREFIX)" "$(TARGET)/release"

clean:
	rm -rf build
	$(CARGO) clean

deps:
	scripts/install-deps

deps-build:
	scripts/install-deps build

deps-demo:
	scripts/install-deps build demo
