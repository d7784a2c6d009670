# SPDX-License-Identifier: Apache-2.0
"""Each parser in Python under changed seeds: a declared error, or a result that holds.

`make fuzz` runs the same targets for a minute each. What such a run has found lies in
tests/crashers/TARGET and is tried here for ever.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from fuzz import running, watching
from fuzz.faulty import broken
from fuzz.mutate import LONGEST, Mutator, Shape
from fuzz.table import TARGETS
from fuzz.target import outcome
from support.paths import TESTS

CRASHERS = TESTS / "crashers"
KEPT = [path for path in sorted(CRASHERS.glob("*/*")) if path.is_file()]

# Mutated names look like typos.
pytestmark = pytest.mark.filterwarnings("ignore::omsgrain.errors.OmsWarning")


@pytest.mark.parametrize("name", TARGETS)
def test_changed_seeds(name: str, tmp_path: Path, long: bool) -> None:
    target = TARGETS[name]
    tally = running.fuzz(target, tmp_path, seed=1, count=3_000 if long else 120)
    assert not tally.found, running.keep(CRASHERS / name, tally.found.values())
    assert tally.lines > 10


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_once(path: Path, tmp_path: Path) -> None:
    with TARGETS[path.parent.name].opened(tmp_path) as run:
        outcome(run, path.read_bytes())


def test_the_list_of_targets_names_each_once() -> None:
    """docs/testing.md says what is fuzzed; no target is missing there, and none is made up."""
    root = TESTS.parent
    page = (root / "docs" / "testing.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Fuzzing.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| [^|]+ \| ((?:`[\w-]+`(?:, )?)+) \|$", section, re.MULTILINE)
    named = sorted(name for row in rows for name in re.findall(r"`([\w-]+)`", row))
    core = [one.stem for one in (root / "rust" / "fuzz" / "fuzz_targets").glob("*.rs")]
    made = (root / "rust" / "fuzz" / "Cargo.toml").read_text(encoding="utf-8")
    assert all(f'name = "{one}"' in made for one in core)
    assert named == sorted([*TARGETS, *core])


def test_all_that_was_kept_has_its_target() -> None:
    assert {path.parent.name for path in KEPT} <= TARGETS.keys()


# --- that something is found ---------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["raise KeyError", "assert word != word", "int('x')"])
def test_a_fault_is_found_and_made_small(fault: str, tmp_path: Path) -> None:
    tally = running.fuzz(broken(fault), tmp_path, seed=1, count=2_000)
    (data,) = tally.found.values()
    assert len(data) <= 5
    (path,) = running.keep(tmp_path / "kept", [data])
    with (
        broken(fault).opened(tmp_path) as run,
        pytest.raises((LookupError, AssertionError, ValueError)),
    ):
        outcome(run, path.read_bytes())


DYING = """
import sys, tempfile
from pathlib import Path
from fuzz import running, watching
from fuzz.faulty import broken
watch = watching.Watch(Path(sys.argv[1]), memory=64 << 20, time=0.2)
target = broken(sys.argv[2])
with tempfile.TemporaryDirectory() as room:
    tally = running.fuzz(target, Path(room), seed=1, count=2_000, watch=watch)
print(list(tally.found))
"""


@pytest.mark.parametrize(
    ("fault", "ends"),
    [
        ("while True: pass", -27),  # SIGPROF: nothing in Python ends it
        ("import os; os.abort()", -6),
        ("bytearray(200 << 20)", 0),  # Python says so itself, and that is found like any error
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="bounds are those of Linux")
def test_an_input_has_its_bounds(fault: str, ends: int, tmp_path: Path) -> None:
    now = tmp_path / "now"
    command = [sys.executable, "-c", DYING, str(now), fault]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    assert done.returncode == ends, done.stderr
    assert ends or "MemoryError" in done.stdout
    if ends:
        assert re.match(rb"\d+:ab(?!c)", watching.last(now))


@pytest.mark.parametrize("shape", ["bytes", "lines", "json", "msgpack", "cbor"])
def test_changes_are_repeated_by_their_seed(shape: Shape) -> None:
    seeds = [b'{"a": [1, {"b": "x"}]}', b"\xa1\x61a\x01", b"\x81\xa1a\x92\x01\x02", b"a: 1\n- b\n"]
    once, again = (Mutator(shape, seeds, Random(5)) for _ in range(2))
    made = [once.next() for _ in range(300)]
    assert made == [again.next() for _ in range(300)]
    assert len(set(made)) > 200
    assert max(map(len, made)) <= LONGEST
