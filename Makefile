# One .venv and one Cargo target folder behind every target. CI calls these and nothing else.
PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
SCRIPTS := Scripts
SEPARATOR := ;
else
SCRIPTS := bin
SEPARATOR := :
endif
BIN := $(VENV)/$(SCRIPTS)
BUILT := $(VENV)/.built
# What tests run with, by hash. `make build LOCK=` takes the newest that pyproject.toml allows.
LOCK := requirements/test.txt
# Tools that look at what we depend on have an environment of their own.
AUDIT := target/audit
WHEELS := target/wheels
PIP := pip install -q --disable-pip-version-check
# All that the core stands on is taken as the build has left it; the core is not optimised, which
# with its tests would take two thirds as long as the whole build. What is shipped, Python tests.
CORE_TESTS := cargo test --release --locked -q -p omsgrain-core --features binding --lib --tests \
	--config profile.release.package.omsgrain-core.opt-level=0
CORE_EXAMPLES := $(subst --lib --tests,--doc,$(CORE_TESTS))
# The build backend finds maturin by PATH.
export PATH := $(CURDIR)/$(BIN)$(SEPARATOR)$(PATH)
RUST := Cargo.toml Cargo.lock $(shell find rust/core rust/py -name '*.rs' -o -name '*.toml' 2>/dev/null)

.PHONY: demo test test-long test-services check fmt bench bench-stages small fuzz soak sanitize vectors docs site build wheel wheels dist trial container sbom audit resolve lock release-notes clean

demo: build ## build, then run the main job on real readings
	$(BIN)/python examples/demo

test: build ## all tests, under ten minutes on two cores
	$(CORE_TESTS)
	$(CORE_EXAMPLES)
	PYTHON=$(CURDIR)/$(BIN)/python rust/nostd/run.sh
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

test-long: build ## the same tests at the sizes that the issues name
	$(CORE_TESTS)
	$(BIN)/python -m pytest --long

test-services: build ## what needs servers from Debian's packages
	$(BIN)/python -m pytest --services -m services

check: build ## format, lints, the crate as published, types, stubs, layers, file lengths, names, words, generated docs
	cargo fmt --all --check
	for aside in benches fuzz nostd; do \
		cargo update --workspace --locked -q --manifest-path rust/$$aside/Cargo.toml || exit 1; done
	cargo clippy --release --locked --workspace --all-targets -q -- -D warnings
	cargo clippy --release --locked -p omsgrain-core --no-default-features -q -- -D warnings
	cargo clippy --release --locked -p omsgrain-core -q -- -D warnings
	cargo package --locked --allow-dirty -q -p omsgrain-core
	RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --no-deps -q -p omsgrain-core --features binding
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy python/omsgrain tests benches release
	$(BIN)/python -m mypy.stubtest omsgrain._core --mypy-config-file pyproject.toml
	$(BIN)/python tests/layers.py
	$(BIN)/python tests/lengths.py
	$(BIN)/python tests/names.py
	$(BIN)/python tests/words.py
	$(BIN)/python docs/make_fields.py --check
	$(BIN)/python docs/make_schemas.py --check
	$(BIN)/python docs/make_reference.py --check
	$(BIN)/python docs/make_images.py --check
	$(BIN)/python conformance/pack.py --check

fmt: build ## format everything
	cargo fmt --all
	$(BIN)/ruff format -q .
	$(BIN)/ruff check -q --fix .

bench: build ## measure against peers; writes benches/results
	$(BIN)/$(PIP) --no-build-isolation -e '.[bench]'
	$(BIN)/python -m benches

small: build ## a core built for size, beside the usual one, and what both cost
	cargo build --locked -q -p omsgrain-py --profile release
	cargo build --locked -q -p omsgrain-py --profile small
	$(BIN)/python -m benches.small

bench-stages: ## the core stage by stage, without Python; FEATURES=without-sha hashes without SHA instructions
	cargo bench --locked --manifest-path rust/benches/Cargo.toml --target-dir target/benches --features "$(FEATURES)"

# The stable compiler has the sanitizer, behind a flag that it takes as a nightly would. In a library
# that Python loads, its own runtime cannot stand first in the process; that of gcc is loaded first.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
SANITIZED := target/sanitize/python
BOUND := $(foreach file,lane.py python_types.py jsonl.py jcs.py reading_many.py strictness.py \
	compressed.py container_blocks.py container_packed.py signatures_many.py formats_shapes.py \
	formats_like.py blind.py memtable.py fingerprint.py,$(wildcard tests/*/test_$(file)))
sanitize: build ## the core's tests, those of the binding and those in C, with AddressSanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test --release --locked -q -p omsgrain-core --features binding --lib --tests \
		--target $(HOST) --target-dir target/sanitize
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Zexternal-clangrt" cargo build --release --locked -q \
		-p omsgrain-py --features pyo3/extension-module --config profile.release.opt-level=1 \
		--config profile.release.lto=false --target $(HOST) --target-dir target/sanitize/binding
	rm -rf $(SANITIZED) && mkdir -p $(SANITIZED) && cp -R python/omsgrain $(SANITIZED)
	cp target/sanitize/binding/$(HOST)/release/lib_core.so $(SANITIZED)/omsgrain/_core.abi3.so
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
		PYTHONPATH=$(SANITIZED) $(BIN)/python -m pytest -p no:cacheprovider $(BOUND)
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Zexternal-clangrt" cargo build --release --locked -q \
		--manifest-path rust/nostd/Cargo.toml --config profile.release.lto=false \
		--target $(HOST) --target-dir target/sanitize/nostd
	gcc -std=c11 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover -Irust/nostd -pthread rust/nostd/check.c \
		target/sanitize/nostd/$(HOST)/release/libomsgrain.a -o target/sanitize/check
	$(BIN)/python rust/nostd/vectors.py | ASAN_OPTIONS=detect_leaks=0 target/sanitize/check

FUZZ_SECONDS ?= 60
fuzz: build ## each fuzz target for a minute, or FUZZ_SECONDS: those of the core, then those in Python
	cd rust/fuzz && ./run.sh $(FUZZ_SECONDS)
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

soak: build ## half an hour of readers, writers, erasures and exports over one store
	$(BIN)/python -m benches.soak

vectors: build ## make the test vectors again with the oracle, then check them with the core
	$(BIN)/python test_vectors/make.py
	$(BIN)/omsgrain vectors test_vectors

docs: build ## the generated pages, and the rules of conformance in the package
	$(BIN)/python conformance/pack.py
	$(BIN)/python docs/make_fields.py
	$(BIN)/python docs/make_schemas.py
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_images.py
	$(BIN)/omsgrain conformance --format markdown --output docs/conformance.md

site: build ## the pages as a site, in site/; any warning is an error
	$(BIN)/$(PIP) --no-build-isolation -e '.[docs]'
	$(BIN)/mkdocs build --strict -q

build: $(BUILT)

$(BUILT): pyproject.toml $(LOCK) $(RUST)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP) $(if $(LOCK),--require-hashes -r $(LOCK),'maturin>=1.9,<2')
	$(BIN)/$(PIP) --no-build-isolation -e $(if $(LOCK),. --no-deps,'.[test]')
	touch $@

wheel: build ## the wheel of this machine
	$(BIN)/maturin build --release --out dist

wheels: build $(WHEELS)/.made ## those of all machines, or TARGETS=, in dist/wheels; 3: not all could be built
	PATH="$(CURDIR)/$(WHEELS)/$(SCRIPTS)$(SEPARATOR)$$PATH" $(BIN)/python -m release.wheels dist/wheels $(TARGETS)

dist: wheel ## wheel and sdist, and what must be in them or must not
	$(BIN)/maturin sdist --out dist
	$(BIN)/python -m release.contents dist

trial: dist ## both as a stranger meets them: installed elsewhere, each extra alone; needs a network
	$(BIN)/python -m release.trial dist

container: build ## build the image and use it, then the compose file; needs Docker or Debian
	$(BIN)/python -m pytest --services -rs tests/release/test_docker.py

sbom: wheel $(AUDIT)/.made ## lists for machines, CycloneDX: of crates as in the wheel, and of packages
	PATH="$(CURDIR)/$(AUDIT)/$(SCRIPTS)$(SEPARATOR)$$PATH" $(BIN)/python -m release.sbom dist

audit: build $(AUDIT)/.made ## known flaws, licences, sources of what we depend on; 3: not all was seen
	PATH="$(CURDIR)/$(AUDIT)/$(SCRIPTS)$(SEPARATOR)$$PATH" $(BIN)/python -m release.audit

resolve: build $(AUDIT)/.made ## whether all extras fit beside the newest of each large framework; 3: not all was tried
	PATH="$(CURDIR)/$(AUDIT)/$(SCRIPTS)$(SEPARATOR)$$PATH" $(BIN)/python -m release.resolve

lock: $(AUDIT)/.made ## lock the packages again; UPGRADE=1 takes the newest ones
	for extra in all test; do $(AUDIT)/$(SCRIPTS)/uv pip compile pyproject.toml --extra $$extra $(LOCKING) \
		-o requirements/$$extra.txt || exit 1; done
	for group in audit wheels; do $(AUDIT)/$(SCRIPTS)/uv pip compile --group $$group $(LOCKING) \
		-o requirements/$$group.txt || exit 1; done

LOCKING := -q --universal --python-version 3.10 --generate-hashes --no-header $(if $(UPGRADE),--upgrade)

$(AUDIT)/.made $(WHEELS)/.made: target/%/.made: requirements/%.txt
	test -x $(@D)/$(SCRIPTS)/python || $(PYTHON) -m venv $(@D)
	$(@D)/$(SCRIPTS)/$(PIP) --require-hashes -r $<
	touch $@

release-notes: ## what the changelog says of the version; TAG=v1.2.3 compares the tag too
	@$(PYTHON) -m release.notes $(TAG)

clean:
	rm -rf $(VENV) target dist python/omsgrain/*.so
