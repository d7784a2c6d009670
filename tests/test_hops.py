# SPDX-License-Identifier: Apache-2.0
"""How many files of the package a main verb passes through. A reader can follow a short path.

Each call is made once to warm up (imports, first pages) and then counted, in this process and in
the threads that it starts. The ceilings only go down.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, MappingProxyType
from typing import Any

import pytest

import omsgrain as og
from support.aimem_files import chunk, made
from support.http_server import IMPORT, TYPED, Site
from support.shell import Shell

PACKAGE = str(Path(og.__file__).parent)
TIME = 1_768_471_200_000


def belief(n: int) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": f"robot-{n}",
        "relation": "mg:perceives",
        "object": f"shelf {n}",
        "confidence": 0.9,
        "created_at": TIME + n,
        "user_id": "ada",
    }


def memory(n: int) -> dict[str, Any]:
    return {
        "id": f"00000000-0000-4000-8000-{n:012}",
        "content": f"Ada waters bed {n}",
        "created_at": "2026-01-15T10:00:00Z",
        "memory_type": "observation",
    }


@dataclass(frozen=True)
class Trace:
    """The code of the package that one call ran."""

    codes: frozenset[CodeType]

    @property
    def files(self) -> list[str]:
        return sorted({code.co_filename.removeprefix(PACKAGE + "/") for code in self.codes})

    @property
    def functions(self) -> int:
        return len(self.codes)


def trace_of(call: Callable[[int], object], *, threads: bool = False) -> Trace:
    """The functions of the package that ``call(1)`` enters, after ``call(0)``.

    With ``threads`` those that other threads enter count too. Without, a thread that writes the
    index in a quiet moment does not.
    """
    seen: set[CodeType] = set()

    def profile(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            code = frame.f_code
            if code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
                seen.add(code)

    # Set before the first call: a thread that it starts may do the work of the second.
    if threads:
        threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call(0)
        gc.collect()  # or what earlier tests left would be finalized within the call
        gc.disable()
        seen.clear()
        call(1)
    finally:
        gc.enable()
        sys.setprofile(None)
        threading.setprofile(None)
    return Trace(frozenset(seen))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[og.GrainStore]:
    with og.open(tmp_path / "s.omsg") as store:
        store.put_many([belief(n) for n in range(10)])
        yield store


def encode(store: og.GrainStore) -> Trace:
    return trace_of(lambda n: og.encode(belief(n)))


def get(store: og.GrainStore) -> Trace:
    addresses = [store.put(belief(n)) for n in range(2)]
    return trace_of(lambda n: store.get(addresses[n]))


def query(store: og.GrainStore) -> Trace:
    return trace_of(lambda n: store.query(subject=f"robot-{n}"))


def put(store: og.GrainStore) -> Trace:
    return trace_of(lambda n: store.put(belief(100 + n)))


def supersede(store: og.GrainStore) -> Trace:
    old = [store.put(belief(n)) for n in range(2)]
    return trace_of(lambda n: store.supersede(old[n], {**belief(n), "object": "gone"}))


def delete(store: og.GrainStore) -> Trace:
    old = [store.put(belief(n)) for n in range(2)]
    return trace_of(lambda n: store.delete(old[n]))


def erase(store: og.GrainStore) -> Trace:
    for n in range(2):
        store.put({**belief(n), "user_id": f"person-{n}"})
    return trace_of(lambda n: store.privacy.erase([f"person-{n}"], reason_code="request"))


#: Files of the package that a call may pass through: the measure of today.
CEILINGS: dict[str, tuple[Callable[[og.GrainStore], Trace], int]] = {
    "og.encode": (encode, 1),
    "store.get": (get, 6),
    "store.query": (query, 10),
    "store.put": (put, 10),
    "store.supersede": (supersede, 14),
    "store.delete": (delete, 13),
    "store.privacy.erase": (erase, 23),
}
HTTP_IMPORT, CLI_IMPORT = 32, 38
"""Two more than there are: a thread may write the index meanwhile."""


def told(name: str, path: Trace, ceiling: int) -> str:
    return (
        f"{name}: {len(path.files)} files of {ceiling}, {path.functions} functions\n"
        + "\n".join(path.files)
    )


@pytest.mark.parametrize("name", CEILINGS)
def test_a_verb_passes_through_few_files(store: og.GrainStore, name: str) -> None:
    measure, ceiling = CEILINGS[name]
    path = measure(store)
    print(told(name, path, ceiling))
    assert 0 < len(path.files) <= ceiling, told(name, path, ceiling)


def test_a_put_that_the_core_has_no_plan_for_takes_the_same_path(store: og.GrainStore) -> None:
    """So is a dict, too, once the process has used all the plans that the core keeps."""
    path = trace_of(lambda n: store.put(MappingProxyType(belief(100 + n))))
    ceiling = CEILINGS["store.put"][1]
    assert len(path.files) <= ceiling, told("store.put", path, ceiling)


def test_an_http_import_passes_through_few_files(tmp_path: Path) -> None:
    site = Site(tmp_path / "s.omsg")
    token = site.token()

    def call(n: int) -> None:
        body = made(chunk(2 * n + 1), chunk(2 * n + 2, "24 beds"))
        answer = site.ask("POST", IMPORT, token, content=body, headers=TYPED)
        assert answer.status_code == 200

    path = trace_of(call, threads=True)
    site.close()
    print(told("HTTP import", path, HTTP_IMPORT))
    assert 0 < len(path.files) <= HTTP_IMPORT, told("HTTP import", path, HTTP_IMPORT)


def test_a_command_passes_through_few_files(shell: Shell, tmp_path: Path) -> None:
    for n in range(2):
        records = [memory(2 * n + 1), memory(2 * n + 2)]
        text = json.dumps({"mif_version": "2.0", "memories": records})
        (tmp_path / f"{n}.mif.json").write_text(text, "utf-8")

    def call(n: int) -> None:
        assert shell("import", "s.omsg", f"{n}.mif.json", "--user", "ada") == 0, shell.err

    path = trace_of(call, threads=True)
    print(told("omsgrain import", path, CLI_IMPORT))
    assert 0 < len(path.files) <= CLI_IMPORT, told("omsgrain import", path, CLI_IMPORT)
