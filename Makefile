# What there is to do with this repository. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
BIN := target/release/a2a-errata
TOOLS := target/tools
CARGO_DENY_VERSION := 0.20.2
CARGO_CYCLONEDX_VERSION := 0.5.9
export PATH := $(CURDIR)/$(TOOLS)/bin:$(PATH)

.PHONY: help setup build install demo test test-dashboards test-page test-deploy fuzz soak bench release clean-interop
.PHONY: cargo-deny cargo-cyclonedx
.PHONY: lint lint-format lint-clippy lint-docs lint-dependencies

help: ## List what there is to do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
		| while IFS=$$'\t' read -r name what; do printf '  make %-16s %s\n' "$$name" "$$what"; done

setup: ## Install what building and testing need and is missing (apt on Debian and Ubuntu)
	@.ci/setup

build: setup ## Build the release binary
	@cargo build --release --locked --bin a2a-errata

install: setup ## Install the release binary where cargo puts programs
	@cargo install --quiet --locked --path . --bin a2a-errata

demo: build ## Show each kind of fault before and after the proxy
	@$(BIN) demo

test: setup ## Run all tests: cargo, black box, interop with real SDKs; ends with a table
	@tests/run_all.py

test-dashboards: build ## Try board and alerts with a real Prometheus
	@tests/operate/dashboards.py --bin $(BIN)

test-page: build ## Try the status page in headless Chromium; screenshots in target/ci
	@tests/operate/page.py --bin $(BIN)

test-deploy: build ## Check deploy/: manifests, image, systemd unit
	@tests/operate/manifests.py --bin $(BIN)
	@tests/operate/image.py --bin $(BIN)
	@tests/operate/unit.py --bin $(BIN)

fuzz: setup ## Run each fuzz target for FUZZ_SECONDS (60); ends with a table
	@fuzz/run

soak: build ## Half an hour (SOAK_SECONDS) of mixed traffic and trouble: nothing grows, all counts agree
	@SOAK_SECONDS=$${SOAK_SECONDS:-1800} SOAK_BINARY=$(CURDIR)/$(BIN) cargo test --locked --test soak -- --nocapture

lint: cargo-deny ## Check format, lints, documentation and dependencies; goes on after a failure
	@$(MAKE) --no-print-directory --keep-going lint-format lint-clippy lint-docs lint-dependencies

lint-format:
	@cargo fmt --check
	@cargo fmt --check --manifest-path fuzz/Cargo.toml

lint-clippy:
	@cargo clippy --all-targets --locked --features bench -- -D warnings
	@cargo clippy --no-default-features --locked -- -D warnings

lint-docs:
	@RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --locked

lint-dependencies:
	@cargo deny --locked check licenses bans sources
	@if timeout 120 cargo deny fetch db >/dev/null 2>&1; then cargo deny --locked check advisories; \
		else echo "advisories: skipped because the advisory database could not be fetched"; fi

bench: build ## Measure what the proxy costs
	@benches/run

release: setup cargo-cyclonedx ## Make a release below target: archive, SBOM, checksums; built twice and compared
	@.ci/release --verify

clean-interop: ## Remove the SDKs that `make test` installed
	@rm -rf target/interop

# Unoptimized they are built in a minute each, and do their work in two seconds.
cargo-deny:
	@$(call install,cargo-deny,$(CARGO_DENY_VERSION))

cargo-cyclonedx:
	@$(call install,cargo-cyclonedx,$(CARGO_CYCLONEDX_VERSION))

# A subcommand of cargo and its version.
define install
if ! cargo $(subst cargo-,,$(1)) --version >/dev/null 2>&1; then \
	echo "Installing $(1) $(2) below $(TOOLS)"; \
	CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug $(1) --version $(2) \
		--root $(TOOLS) --target-dir $(TOOLS)/build; \
	rm -rf $(TOOLS)/build; \
fi
endef
