# SPDX-License-Identifier: Apache-2.0
"""Grains in blocks: what is done with many at once is what is done with each.  Spec: OMS §11"""

from __future__ import annotations

import threading
from array import array
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from random import Random

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from containers import CODECS, address, blob, pool, sealed, signed
from omsgrain import _core, container, errors
from omsgrain.container.layout import Codec
from omsgrain.container.read import examine, gather
from omsgrain.container.region import Block, digest, even
from omsgrain.container.write import Hashing
from omsgrain.store import export_filter

POOL = pool(40)
BAD = [b"\x01 no grain", b"\x01", blob(1) + b"\x00", signed(blob(1))[:-1], sealed(1)[:9]]


@given(st.lists(st.lists(st.integers(10, 60), max_size=9), max_size=9))
def test_blocks_end_where_those_of_all_grains_would(
    monkeypatch_batch: None, sizes: list[list[int]]
) -> None:
    grains = [[bytes([n % 256]) * n for n in part] for part in sizes]
    found = list(even(Block.of(part) for part in grains))
    wanted = list(gather([grain for part in grains for grain in part]))
    assert [one.grains() for one in found] == [one.grains() for one in wanted]


@pytest.fixture(scope="module")
def monkeypatch_batch() -> object:
    """Blocks of 100 bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omsgrain.container.region.BATCH", 100)
        patch.setattr(import_module("omsgrain.container.read"), "BATCH", 100)
        yield


def test_cutting_keeps_what_is_known() -> None:
    whole = Block.of(POOL)
    whole = Block(whole.data, whole.sizes, examine(whole)[0])
    for count in (0, 1, 17, len(POOL)):
        for part, grains in zip(whole.cut(count), (POOL[:count], POOL[count:]), strict=True):
            assert part.grains() == grains
            assert part.digests is not None
            assert [digest(part.digests, i).hex() for i in range(len(part))] == [
                address(grain) for grain in grains
            ]


@given(st.lists(st.sampled_from([*POOL, *BAD]), max_size=12))
def test_each_is_examined_as_if_alone(grains: list[bytes]) -> None:
    digests, bad = examine(Block.of(grains))
    for i, grain in enumerate(grains):
        alone, wrong = examine(Block.of([grain]))
        assert digest(digests, i) == alone
        assert [(e.code, e.offset) for n, e in bad if n == i] == [
            (e.code, e.offset) for _, e in wrong
        ]
        assert bool(wrong) == (grain in BAD)
        if not wrong:
            assert alone.hex() == address(grain)


@given(st.lists(st.sampled_from([*POOL, *BAD]), min_size=1, max_size=6))
def test_plain_ones_become_pairs(grains: list[bytes]) -> None:
    pairs = _core.check_plain(grains)
    plain = all(g not in BAD and g[0] == 1 and not g[1] & 3 for g in grains)
    assert pairs == ([(sha256(g).digest(), g) for g in grains] if plain else None)


def test_sizes_that_are_not_those_of_the_grains() -> None:
    for sizes in (b"", b"\x01", array("I", [3]).tobytes(), array("I", [2, 1]).tobytes()):
        with pytest.raises(errors.CorruptError):
            _core.split_block(b"ab", sizes)


@pytest.mark.parametrize("alone", [0, 1 << 40])
def test_hashing_beside(monkeypatch: pytest.MonkeyPatch, alone: int) -> None:
    monkeypatch.setattr(import_module("omsgrain.container.write"), "_ALONE", alone)
    pieces = [Random(n).randbytes(n * 100) for n in range(30)]
    with Hashing() as made:
        for piece in pieces:
            made.add(piece)
        assert made.digest() == sha256(b"".join(pieces)).digest()
    before = threading.active_count()
    with pytest.raises(KeyError), Hashing() as left:
        left.add(b"x")
        raise KeyError
    with Hashing() as failing, pytest.raises(TypeError):
        for _ in range(30):
            failing.add("text")  # type: ignore[arg-type]
        failing.digest()
    assert threading.active_count() == before


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_filter, "_PAGE", 500)


def put(path: Path, grains: list[bytes]) -> None:
    with og.open(path) as store:
        store.put_many(grains)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("codec", CODECS)
def test_an_export_is_the_file_of_its_blobs(tmp_path: Path, codec: Codec) -> None:
    grains = [blob(n, note="x" * (n % 700)) for n in range(4000)]
    put(tmp_path / "store", grains)
    container.write(tmp_path / "wanted.mg", grains, codec=codec)
    with og.open(tmp_path / "store") as store:
        store.export_mg(tmp_path / "found.mg", codec=codec)
    found, wanted = (tmp_path / "found.mg").read_bytes(), (tmp_path / "wanted.mg").read_bytes()
    assert found == wanted


@pytest.mark.usefixtures("small_pages")
def test_states_and_removed_grains_among_many(tmp_path: Path) -> None:
    grains = [blob(n) for n in range(300)]
    put(tmp_path / "store", grains)
    with og.open(tmp_path / "store") as store:
        store.trust.set_verification(address(grains[7]), "contested")
        store.delete(address(grains[5]))
        store.export_mg(tmp_path / "found.mg")
        with container.read(tmp_path / "found.mg") as found:
            assert list(found) == grains[:5] + grains[6:]
            assert found.manifest == {address(grains[7]): {"verification_status": "contested"}}
            assert found.verify().ok


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("at", [1, 150, 300])
def test_a_damaged_blob_does_not_leave(tmp_path: Path, at: int) -> None:
    put(tmp_path / "store", [blob(n) for n in range(300)])
    with lmdb.open(str(tmp_path / "store"), max_dbs=64) as env, env.begin(write=True) as txn:
        table, key = env.open_db(b"blobs-0", txn), at.to_bytes(8, "big")
        row = txn.get(key, b"", table)
        txn.put(key, row[:-1] + bytes([row[-1] ^ 1]), db=table)
    with og.open(tmp_path / "store") as store, pytest.raises(errors.IntegrityError) as caught:
        store.export_mg(tmp_path / "found.mg")
    assert f"number {at} " in caught.value.message
    assert not (tmp_path / "found.mg").exists()
