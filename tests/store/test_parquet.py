# SPDX-License-Identifier: Apache-2.0
"""Grains to Parquet files and back to the same addresses; what is damaged brings nothing back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from stat import S_IMODE
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omsgrain as og
from omsgrain.errors import IntegrityError, OmsError, UnsupportedError
from omsgrain.store import parquet
from omsgrain.store.context import Settings
from support.invented_people import KINDS, belief, opened
from support.random_grains import random_grain
from support.shell import Shell, exit_code
from support.signed_stores import signed
from support.signers import ALICE, BOB


@pytest.fixture
def source(tmp_path: Path) -> Iterator[og.GrainStore]:
    with og.open(tmp_path / "from.omsg") as store:
        yield store


@pytest.fixture
def target(tmp_path: Path) -> Iterator[og.GrainStore]:
    with og.open(tmp_path / "to.omsg") as store:
        yield store


def addresses(store: og.GrainStore) -> list[str]:
    return [grain.address for grain in store]


def test_to_a_file_and_back_to_the_same_addresses(
    source: og.GrainStore, target: og.GrainStore, tmp_path: Path, long: bool
) -> None:
    rng = Random(4)
    many = 1_000_000 if long else 3_000
    kinds = [g for g in (random_grain(rng) for _ in range(300)) if "profile:" not in str(g)]
    source.put_many(kinds, errors="collect")
    rest = ({**belief(str(n)), "created_at": n} for n in range(many - len(source)))
    source.put_many(rest, errors="collect", batch_size=10_000)
    written = source.parquet.write(tmp_path / "all.parquet")
    assert written.grains == len(source) == many
    assert written.bytes == (tmp_path / "all.parquet").stat().st_size
    report = target.parquet.read(tmp_path / "all.parquet")
    assert (report.stored, report.duplicates, report.errors) == (many, 0, [])
    assert addresses(target) == addresses(source)
    assert target.parquet.read(tmp_path / "all.parquet").duplicates == many


def test_signatures_and_states_go_along(
    source: og.GrainStore, target: og.GrainStore, tmp_path: Path
) -> None:
    source.put_many(signed(belief("signed"), ALICE, BOB))
    chain = [source.put(belief("0"))]
    for n in range(1, 4):
        chain.append(source.supersede(chain[-1], belief(str(n), created_at=n)))
    source.retract(source.put(belief("wrong")))
    source.parquet.write(tmp_path / "all.parquet")
    report = target.parquet.read(tmp_path / "all.parquet")
    assert (report.stored, report.claims, report.merged) == (6, 4, 4)
    assert {g.address for g in target} == {g.address for g in source}
    for grain in source:
        assert target.status(grain.address) == source.status(grain.address)
        assert target.trust.signatures(grain.address) == source.trust.signatures(grain.address)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("sealed")])
def test_sealed_grains_stay_sealed(kind: str, target: og.GrainStore, tmp_path: Path) -> None:
    file = tmp_path / "all.parquet"
    with opened(kind, tmp_path, Settings()) as source:
        source.put(belief("an open word", subject="stove"))
        source.put_many(signed(belief("a secret word", user_id="ann-17"), ALICE))
        source.put(belief("a secret word", user_id="ben-3"))
        source.parquet.write(file, purpose="move")
        found = pq.read_table(file).to_pylist()
        assert not any("secret" in str(row) or b"secret" in row["blob"] for row in found)
        assert target.parquet.read(file).stored == 3
        assert {g.address for g in target} == {g.address for g in source}
        source.parquet.write(file, purpose="move", unsealed=True)
        objects = pq.read_table(file, columns=["object"])["object"].to_pylist()
        assert objects.count("a secret word") == 2
        again = og.open(tmp_path / "again.omsg")
        assert again.parquet.read(file).stored == 3
        assert addresses(again) == addresses(target)
        again.close()


def test_withheld_grains_are_not_exported(source: og.GrainStore, tmp_path: Path) -> None:
    file = tmp_path / "all.parquet"
    kept = source.put(belief("kept"))
    source.privacy.restrict(kept, reason_code="disputed")
    source.put(belief("free"))
    assert source.parquet.write(file).grains == 1
    assert source.parquet.write(file, purpose="access").grains == 2
    told = [entry.details for entry in source.audit.entries(operation="export")]
    shared = {"grains": 1, "purpose": "transfer", "withheld": 1}
    assert told == [shared, {"grains": 2, "purpose": "access"}]
    before = file.read_bytes()
    source.put(
        belief("sold", structural_tags=["profile:consumer"], **{"con:ccpa_opted_out": True})
    )
    with pytest.raises(UnsupportedError):
        source.parquet.write(file, purpose="sale")
    with pytest.raises(OmsError):
        source.parquet.write(file, purpose="fun")  # type: ignore[arg-type]
    assert file.read_bytes() == before
    assert "access_count" not in pq.read_schema(file).names


def test_a_file_appears_whole_or_not_at_all(
    source: og.GrainStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.put_many([belief(str(n)) for n in range(50)])
    monkeypatch.setattr("omsgrain.store.arrow.ROWS", 10)
    monkeypatch.setattr(parquet, "GROUP_ROWS", 20)
    file = tmp_path / "all.parquet"
    file.touch(0o600)
    source.parquet.write(file)
    assert S_IMODE(file.stat().st_mode) == 0o600
    assert pq.ParquetFile(file).metadata.num_row_groups == 3
    before = file.read_bytes()
    columns = pq.read_schema(file).names
    some = list(source.to_arrow(columns=columns))[:3]

    def broken(*_: Any) -> Iterator[Any]:
        yield from some
        raise IntegrityError("the stored bytes are damaged")

    monkeypatch.setattr("omsgrain.store.parquet.batches", broken)
    with pytest.raises(IntegrityError):
        source.parquet.write(file, columns=columns)
    assert file.read_bytes() == before
    assert {one.name for one in tmp_path.glob(".*")} == set()


@pytest.fixture
def table(source: og.GrainStore) -> pa.Table:
    source.put_many([belief(str(n)) for n in range(20)])
    return source.to_arrow().read_all()


def changed(table: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    """The table with one value changed."""
    values = table[name].to_pylist()
    values[row] = value
    place = table.schema.get_field_index(name)
    return table.set_column(place, name, pa.array(values, table[name].type))


def test_every_blob_is_compared_with_its_address(
    table: pa.Table, target: og.GrainStore, tmp_path: Path
) -> None:
    file = tmp_path / "changed.parquet"
    other = og.encode(belief("another"))
    pq.write_table(changed(table, "blob", 7, other), file)
    with pytest.raises(IntegrityError):
        target.parquet.read(file)
    assert len(target) == 0
    report = target.parquet.read(file, errors="collect")
    assert (report.stored, [e.index for e in report.errors]) == (19, [7])
    pq.write_table(changed(table, "object", 7, "something else"), file)  # no grain is made of it
    assert target.parquet.read(file).stored == 1
    assert len(target) == 20


@pytest.mark.parametrize(
    ("name", "value"),
    [("superseded_by", "nobody"), ("verification_status", "sure"), ("envelopes", [b"\xd2\x84"])],
)
def test_states_and_envelopes_that_are_none(
    table: pa.Table, target: og.GrainStore, tmp_path: Path, name: str, value: Any
) -> None:
    pq.write_table(changed(table, name, 3, value), tmp_path / "x.parquet")
    with pytest.raises(OmsError):
        target.parquet.read(tmp_path / "x.parquet")
    assert len(target) == 0


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("envelopes", pa.int64(), "ERR_SCHEMA"),
        ("superseded_by", pa.timestamp("us"), "ERR_FORMAT"),
        ("superseded_by", pa.timestamp("ns"), "ERR_FORMAT"),
    ],
)
def test_columns_of_another_kind(
    table: pa.Table, target: og.GrainStore, tmp_path: Path, name: str, kind: Any, code: str
) -> None:
    place = table.schema.get_field_index(name)
    values = pa.array([2**62 + 1] * len(table), kind)
    pq.write_table(table.set_column(place, name, values), tmp_path / "x.parquet")
    with pytest.raises(OmsError) as refused:
        target.parquet.read(tmp_path / "x.parquet")
    assert refused.value.code == code and str(2**62 + 1) not in str(refused.value)


def test_a_damaged_file_stores_none(
    table: pa.Table, target: og.GrainStore, tmp_path: Path
) -> None:
    file = tmp_path / "all.parquet"
    parquet.write_file(file, table.schema, table.to_batches())
    whole = file.read_bytes()
    rng = Random(6)
    for _ in range(25):
        at = rng.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        try:
            target.parquet.read(file)
        except OmsError:
            assert len(target) == 0
        else:  # a column that no grain is made of
            assert {g.address for g in target} == set(table["address"].to_pylist())
            target.delete_many([grain.address for grain in target])
    for end in (0, 3, 4, 100, len(whole) - 1):
        file.write_bytes(whole[:end])
        with pytest.raises(OmsError):
            target.parquet.read(file)


def test_on_the_command_line(shell: Shell, tmp_path: Path) -> None:
    with og.open("m.omsg") as store:
        store.put_many([belief(str(n), subject=f"s{n % 2}") for n in range(10)])
    told = shell.json("export", "m.omsg", "half.parquet", "--subject", "s1")
    assert (told["grains"], told["paths"]) == (5, ["half.parquet"])
    assert shell("export", "m.omsg", "half.parquet") == 1  # it is there
    assert shell("export", "m.omsg", "all.table", "--parquet", "--columns", "subject, object") == 0
    assert pq.read_schema("all.table").names == ["subject", "object"]
    assert shell("import", "n.omsg", "all.table") == exit_code("ERR_SCHEMA")
    assert not Path("n.omsg").exists()
    assert shell.json("import", "n.omsg", "half.parquet")["stored"] == 5
    assert shell("export", "m.omsg", "x.mg", "--columns", "subject") == 2
    assert shell("export", "m.omsg", "x.parquet", "--codec", "zstd") == 2
    assert shell("export", "m.omsg", "x.parquet", "--parquet", "--format", "mg") == 2
    assert shell("import", "n.omsg", "half.parquet", "--tenant", "t") == 2
    Path("no.parquet").write_bytes(b"PAR1 and no more")
    assert shell.error("import", "n.omsg", "no.parquet")[0] == exit_code("ERR_FORMAT")


def test_in_the_hands_of_others(table: pa.Table, target: og.GrainStore, tmp_path: Path) -> None:
    """A table rewritten by DuckDB or Polars gives the same grains."""
    import duckdb
    import polars

    first, second, third = (tmp_path / f"{n}.parquet" for n in range(3))
    parquet.write_file(first, table.schema, table.to_batches())
    duckdb.sql(f"COPY (SELECT * FROM '{first}' WHERE object < '15') TO '{second}'")
    polars.read_parquet(first).filter(polars.col("object") >= "15").write_parquet(third)
    stored = [target.parquet.read(file).stored for file in (second, third)]
    assert sum(stored) == 20
    assert {g.address for g in target} == set(table["address"].to_pylist())


def test_json_columns_are_json(table: pa.Table, source: og.GrainStore) -> None:
    source.put({**belief("x"), "object": {"rain_mm": 0.2}})
    last = source.to_arrow(columns=["object", "object_json"]).read_all().to_pylist()[-1]
    assert last["object"] is None
    assert json.loads(last["object_json"]) == {"rain_mm": 0.2}
