# SPDX-License-Identifier: Apache-2.0
"""Containers: what is written is read, in every combination.  Spec: OMS §11"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import containers
import omsgrain as og
from containers import CODECS, address, blob, envelope, inner, make, pool, saved, sealed, signed
from omsgrain import container, errors
from omsgrain.container import layout
from omsgrain.container.layout import pack_manifest, pack_states
from omsgrain.container.read import Item

POOL = pool(40)
SUCCESSOR = "ab" * 32
STATES: list[dict[str, Any]] = [
    {"superseded_by": SUCCESSOR, "system_valid_to": 1_768_471_200_000},
    {"verification_status": "retracted"},
    {"access_count": 2**40, "last_accessed_at": 0, "system_valid_to": -1},
    {"verification_status": "contested", "superseded_by": SUCCESSOR, "access_count": 1},
]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("containers")


def created_at(grain: bytes) -> int:
    return int.from_bytes(inner(grain)[5:9], "big")


@given(
    grains=st.lists(st.sampled_from(POOL), max_size=30),
    codec=st.sampled_from(CODECS),
    sort=st.booleans(),
    dedupe=st.booleans(),
    told=st.integers(0, 6),
)
def test_round_trip(
    room: Path, grains: list[bytes], codec: layout.Codec, sort: bool, dedupe: bool, told: int
) -> None:
    states = {address(g): STATES[i % len(STATES)] for i, g in enumerate(grains[:told])}
    path = room / "round.mg"
    written = container.write(
        path, iter(grains), manifest=states, codec=codec, sort=sort, dedupe=dedupe
    )
    expected = list({address(g): g for g in reversed(grains)}.values()) if dedupe else grains
    if dedupe:
        expected = [
            next(g for g in grains if address(g) == a) for a in dict.fromkeys(map(address, grains))
        ]
    if sort:
        expected = sorted(expected, key=created_at)
    assert written.paths == (path,)
    assert written.grains == len(expected)
    assert written.duplicates == len(grains) - len(expected)
    assert written.bytes == path.stat().st_size
    with container.read(path) as found:
        assert list(found) == expected
        assert [found[i] for i in range(len(found))] == expected
        assert [found.address(i) for i in range(len(found))] == [address(g) for g in expected]
        assert found.manifest == states
        assert (found.codec, found.header.sorted, found.header.deduplicated) == (
            codec,
            sort,
            dedupe,
        )
        assert found.verify().verified == len(expected)
    if codec == "none":
        manifest = pack_manifest(pack_states(states))
        assert path.read_bytes() == make(expected, flags=sort + 2 * dedupe, manifest=manifest)


@pytest.mark.parametrize("codec", (1, 2))
@pytest.mark.parametrize("cuts", [(), (1,), (100, 200), range(1, 3000, 7)])
def test_frames_of_other_writers(tmp_path: Path, codec: int, cuts: Any) -> None:
    """They may end within a grain."""
    size = sum(map(len, POOL))
    path = saved(tmp_path, make(POOL, codec=codec, cuts=[cut for cut in cuts if cut < size]))
    with container.read(path) as found:
        assert list(found) == POOL
        for i in Random("order").choices(range(len(POOL)), k=60):
            assert found[i] == POOL[i]
        assert found.verify() == container.ContainerReport(len(POOL))


def test_access(tmp_path: Path) -> None:
    grains = [blob(1), signed(blob(2)), sealed(3), blob(4)]
    path = tmp_path / "file.mg"
    container.write(str(path), grains)
    with container.read(str(path)) as found:
        assert len(found) == 4 and "4" in repr(found)
        assert (found[-1], found[-4]) == (grains[3], grains[0])
        for number in (4, -5):
            with pytest.raises(IndexError):
                found[number]
        assert found.grain(0) == og.decode(grains[0])
        assert found.address(1) == address(grains[1])
        with pytest.raises(errors.UnsupportedError):
            found.grain(1)
        with pytest.raises(errors.KeyMissingError):
            found.grain(2)


@pytest.mark.parametrize("codec", CODECS)
def test_closed(tmp_path: Path, codec: layout.Codec) -> None:
    path = tmp_path / "file.mg"
    container.write(path, [blob(1)], codec=codec, manifest={address(blob(1)): STATES[0]})
    found = container.read(path)
    found.close()
    found.close()
    for use in (
        lambda: found[0],
        lambda: list(found),
        lambda: found.manifest,
        lambda: found.grain(0),
        found.verify,
    ):
        with pytest.raises(errors.StoreError):
            use()


def test_items(tmp_path: Path) -> None:
    path = tmp_path / "file.mg"
    grains = [blob(n) for n in range(4)]
    items: list[Item] = [
        grains[0],
        bytearray(grains[1]),
        memoryview(grains[2]),
        og.decode(grains[3]),
    ]
    container.write(path, items)
    with container.read(path) as found:
        assert list(found) == grains
        # The file that is being read may be the one that is replaced.
        container.write(path, chain(found, [blob(5)]))
        assert list(found) == grains
    with container.read(path) as found:
        assert list(found) == [*grains, blob(5)]


NO_GRAINS = {
    "nothing": (b"", "ERR_TOO_SHORT"),
    "another version": (b"\x02" + blob(1)[1:], "ERR_VERSION"),
    "bytes follow": (blob(1) + b"\x00", "ERR_CORRUPT"),
    "cut": (blob(1)[:-1], "ERR_CORRUPT"),
    "signed bit, no envelope": (b"\x01\x01" + blob(1)[2:], "ERR_SIGNED_MISMATCH"),
    "bytes follow the envelope": (signed(blob(1)) + b"\x00", "ERR_CORRUPT"),
    "envelope cut": (signed(blob(1))[:-1], "ERR_CORRUPT"),
    "envelope, no signed bit": (envelope(blob(1)), "ERR_SIGNED_MISMATCH"),
    "envelope around no grain": (signed(blob(1)[:-1] + b"\xc1"), "ERR_CORRUPT"),
    "envelope around nothing": (envelope(b""), "ERR_TOO_SHORT"),
    "sealed, of no type": (b"\x01\x02\x00" + sealed(1)[3:], "ERR_UNKNOWN_TYPE"),
    "too large": (sealed(1, layout.MAX_GRAIN), "ERR_TOO_LARGE"),
}


@pytest.mark.parametrize("name", NO_GRAINS)
@pytest.mark.parametrize("sort", [False, True])
def test_invalid_grains(tmp_path: Path, name: str, sort: bool) -> None:
    """It is refused with its number, and nothing is left behind."""
    bad, code = NO_GRAINS[name]
    path = saved(tmp_path, b"was there")
    with pytest.raises(errors.OmsError) as caught:
        container.write(path, [blob(0), bad, blob(2)], sort=sort)
    assert caught.value.code == code
    assert path.read_bytes() == b"was there"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failing_source(tmp_path: Path) -> None:
    path = saved(tmp_path, b"was there")

    def source() -> Iterator[bytes]:
        yield blob(1)
        raise FileNotFoundError("mine")

    for sort in (False, True):
        with pytest.raises(FileNotFoundError):
            container.write(path, source(), sort=sort)
    with pytest.raises(TypeError):
        container.write(path, ["text"])  # type: ignore[list-item]
    assert path.read_bytes() == b"was there"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "ERR_DISK_FULL"),
        (errno.EDQUOT, "ERR_DISK_FULL"),
        (errno.EACCES, "ERR_ACCESS"),
        (errno.EIO, "ERR_STORE"),
    ],
)
def test_a_refusal_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    path = saved(tmp_path, b"was there")

    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched, pytest.raises(errors.StoreError) as caught:
        patched.setattr(os, "replace", refuse)
        container.write(path, [blob(1)])
    assert caught.value.code == code
    assert path.read_bytes() == b"was there"
    assert list(tmp_path.iterdir()) == [path]


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "file.mg"
    for options in ({"codec": "gzip"}, {"max_bytes": 0}, {"max_bytes": 2**32}):
        with pytest.raises(errors.SchemaError):
            container.write(path, [], **options)
    with pytest.raises(errors.SchemaError):
        container.verify(path, errors="ignore")  # type: ignore[arg-type]
    for use in (container.read, container.verify, container.parts):
        with pytest.raises(errors.NotFoundError):
            use(path)
    with pytest.raises(errors.StoreError):
        container.read(tmp_path)
    with pytest.raises(errors.StoreError):
        container.write(tmp_path / "absent" / "file.mg", [])
    with pytest.raises(errors.StoreError):
        container.write(tmp_path, [])


def test_same_address(tmp_path: Path) -> None:
    """A second signature makes no second grain."""
    path = tmp_path / "file.mg"
    first, second = signed(blob(1)), signed(blob(1), b"t" * 64)
    assert first != second
    written = container.write(path, [first, second, blob(1)], dedupe=True)
    assert (written.grains, written.duplicates) == (2, 1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "last", [blob(1), signed(blob(2)), sealed(3)], ids=["plain", "signed", "sealed"]
)
def test_manifest(tmp_path: Path, codec: layout.Codec, last: bytes) -> None:
    path = tmp_path / "file.mg"
    states: dict[str, dict[str, Any]] = {
        address(last): {"verification_status": "verified", "superseded_by": None},
        address(blob(9)): {"access_count": 0, "verification_status": "unverified"},
        address(blob(8)): {"system_valid_to": 5, "access_count": 7},
    }
    container.write(path, [blob(9), blob(8), last], manifest=states, codec=codec)
    with container.read(path) as found:
        assert found.manifest == {
            address(last): {"verification_status": "verified"},
            address(blob(8)): {"system_valid_to": 5, "access_count": 7},
        }
        assert found[2] == last
        assert bool(found.header.manifest_at) == (last == sealed(3))
        assert found.verify().ok
    container.write(path, [blob(9)], manifest={address(blob(9)): {}})
    with container.read(path) as found:
        assert found.manifest == {}
        assert found.flags == 0


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ({"ab": {}}, "ERR_HASH_LENGTH"),
        ({"AB" * 32: {}}, "ERR_HASH_FORMAT"),
        ({1: {}}, "ERR_SCHEMA"),
        ({address(blob(1)): 1}, "ERR_SCHEMA"),
        ({address(blob(1)): {"sb": SUCCESSOR}}, "ERR_SCHEMA"),
        ({address(blob(1)): {"superseded_by": 1}}, "ERR_SCHEMA"),
        ({address(blob(1)): {"superseded_by": "ab"}}, "ERR_HASH_LENGTH"),
        ({address(blob(1)): {"verification_status": "sure"}}, "ERR_SCHEMA"),
        ({address(blob(1)): {"access_count": True}}, "ERR_SCHEMA"),
        ({address(blob(1)): {"access_count": 1.0}}, "ERR_SCHEMA"),
        ({address(blob(1)): {"access_count": -1}}, "ERR_RANGE"),
        ({address(blob(1)): {"system_valid_to": 2**63}}, "ERR_RANGE"),
        ({address(blob(2)): {"access_count": 1}}, "ERR_NOT_FOUND"),
    ],
)
def test_manifest_refused(tmp_path: Path, states: Any, code: str) -> None:
    with pytest.raises(errors.OmsError) as caught:
        container.write(tmp_path / "file.mg", [blob(1)], manifest=states)
    assert caught.value.code == code
    assert not list(tmp_path.iterdir())


def test_threads(tmp_path: Path) -> None:
    grains = [blob(n, note="x" * (n % 700)) for n in range(6000)]
    path = tmp_path / "file.mg"
    container.write(path, grains, codec="zstd", check=False)
    wrong: list[int] = []
    with container.read(path) as found:

        def work(seed: int) -> None:
            rng = Random(seed)
            wrong.extend(n for n in rng.choices(range(6000), k=50) if found[n] != grains[n])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_not_checked(tmp_path: Path) -> None:
    """`check=False` is for grains that were verified: what is not one is found by `verify`."""
    path = tmp_path / "file.mg"
    container.write(path, [blob(1), b"\x01 no grain", blob(2)], check=False)
    (problem,) = container.verify(path, errors="collect").problems
    assert (problem.part, problem.number) == ("grain", 1)


def test_layout_is_the_oracle() -> None:
    assert layout.MAX_GRAIN > 2**20
    flags = (layout.SORTED, layout.DEDUPLICATED, layout.PACKED, layout.FIELD_MAP, layout.MANIFEST)
    assert flags == (
        containers.SORTED,
        containers.DEDUPLICATED,
        containers.PACKED,
        containers.FIELD_MAP,
        containers.MANIFEST,
    )
