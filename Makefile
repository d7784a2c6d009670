# One .venv and one Cargo target folder behind every target. CI calls these and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILT := $(VENV)/.built
# The build backend finds maturin by PATH.
export PATH := $(CURDIR)/$(BIN):$(PATH)
RUST := Cargo.toml Cargo.lock $(shell find rust/core rust/py -name '*.rs' -o -name '*.toml' 2>/dev/null)

.PHONY: demo test test-long test-services check fmt bench bench-stages small fuzz sanitize vectors docs build clean

demo: build ## build, then run the main job on real readings
	$(BIN)/omsgrain demo

test: build ## all tests, under ten minutes on two cores
	cargo test --release --locked -q -p omsgrain-core --lib --tests
	PYTHON=$(CURDIR)/$(BIN)/python rust/nostd/run.sh
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

test-long: build ## the same tests at the sizes that the issues name
	cargo test --release --locked -q -p omsgrain-core --lib --tests
	$(BIN)/python -m pytest --long

test-services: build ## what needs servers from Debian's packages
	$(BIN)/python -m pytest --services -m services

check: build ## format, lints, types, stubs, layers, file lengths, generated docs
	cargo fmt --all --check
	for aside in benches fuzz nostd; do \
		cargo update --workspace --locked -q --manifest-path rust/$$aside/Cargo.toml || exit 1; done
	cargo clippy --release --locked --workspace --all-targets -q -- -D warnings
	cargo clippy --release --locked -p omsgrain-core --no-default-features -q -- -D warnings
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy python/omsgrain tests benches
	$(BIN)/python -m mypy.stubtest omsgrain._core --mypy-config-file pyproject.toml
	$(BIN)/python tests/layers.py
	$(BIN)/python tests/lengths.py
	$(BIN)/python docs/make_fields.py --check
	$(BIN)/python docs/make_schemas.py --check

fmt: build ## format everything
	cargo fmt --all
	$(BIN)/ruff format -q .
	$(BIN)/ruff check -q --fix .

bench: build ## measure against peers; writes benches/results
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation -e '.[bench]'
	$(BIN)/python -m benches

small: build ## a core built for size, beside the usual one, and what both cost
	cargo build --locked -q -p omsgrain-py --profile release
	cargo build --locked -q -p omsgrain-py --profile small
	$(BIN)/python -m benches.small

bench-stages: ## the core stage by stage, without Python
	cargo bench --locked --manifest-path rust/benches/Cargo.toml --target-dir target/benches

sanitize: ## the core's tests with AddressSanitizer; needs a nightly toolchain
	RUSTFLAGS=-Zsanitizer=address cargo +nightly test --release --locked -q -p omsgrain-core --lib --tests \
		--target $(shell rustc -vV | sed -n 's/^host: //p') --target-dir target/sanitize

fuzz: ## each fuzz target for a minute
	cd rust/fuzz && ./run.sh 60

vectors: build ## make the test vectors anew with the oracle, then check them with the core
	$(BIN)/python test_vectors/make.py
	$(BIN)/omsgrain vectors test_vectors

docs: build ## the generated pages
	$(BIN)/python docs/make_fields.py
	$(BIN)/python docs/make_schemas.py
	$(BIN)/omsgrain conformance --format markdown --output docs/conformance.md

build: $(BUILT)

$(BUILT): pyproject.toml $(RUST)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check 'maturin>=1.9,<2'
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV) target python/omsgrain/*.so
