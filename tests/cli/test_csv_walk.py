# SPDX-License-Identifier: Apache-2.0
"""What somebody with a CSV file does: suggest, ingest, ask twice, write Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.shell import Shell

SEED = 20_261_124
START = datetime(2026, 1, 15, 10, tzinfo=timezone.utc)
SENSORS = 40
HEADER = ["timestamp", "sensor", "celsius", "humidity", "room"]


def readings(count: int) -> Iterator[list[str]]:
    random = Random(SEED)
    for n in range(count):
        at = START + timedelta(milliseconds=125 * n)
        celsius = 20 + random.randrange(500) / 100
        yield [at.isoformat(), f"s-{n % SENSORS:02}", f"{celsius:.2f}", str(40 + n % 20), "lab"]


def expected(rows: list[list[str]], bad: int, sensor: str, above: float) -> tuple[Any, Any]:
    """The last reading of a sensor, and the last above a value, of the rows of a file."""
    good = [row for n, row in enumerate(rows) if n != bad and row[1] == sensor]
    return good[-1], next(row for row in reversed(good) if float(row[2]) > above)


@pytest.mark.parametrize("count", [2_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_table_with_a_bad_line(shell: Shell, tmp_path: Path, count: int) -> None:
    rows, bad = list(readings(count)), count * 2 // 3
    file, store, mapping = (tmp_path / name for name in ("r.csv", "p.omsg", "r.toml"))
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(HEADER)
        writer.writerows([*r[:2], "warm", *r[3:]] if n == bad else r for n, r in enumerate(rows))

    assert shell("ingest", "--suggest", file) == 0
    mapping.write_bytes(shell.out)
    ingest = ("ingest", store, file, "--mapping", mapping)
    code, tally = shell.refused(*ingest, "--errors", "collect")
    assert (code, tally["stored"], tally["rejected"]) == (20, count - 1, 1)
    (reject,) = map(json.loads, Path(f"{file}.rejects.jsonl").read_text().splitlines())
    assert (reject["line"], reject["field"]) == (bad + 2, "/object/celsius")
    assert "'celsius'" in reject["message"] and "warm" not in json.dumps(reject)

    last, high = expected(rows, bad, "s-07", 24.5)
    query = ("query", store, "--subject", "s-07", "--limit", "1")
    above = ("--where", '{"object.celsius": {"gt": 24.5}}')
    for row, asked in ((last, query), (high, (*query, *above))):
        (found,) = shell.json(*asked)["results"]
        grain = found["grain"]
        assert grain["created_at"] == int(datetime.fromisoformat(row[0]).timestamp() * 1000)
        assert grain["object"] == {"celsius": float(row[2]), "humidity": float(row[3])}

    parquet = tmp_path / "r.parquet"
    assert shell("export", store, parquet) == 0
    table = pq.read_table(parquet, columns=["created_at", "subject"])
    assert table.num_rows == count - 1
    code, again = shell.refused(*ingest, "--errors", "collect")
    assert (again["stored"], again["duplicates"]) == (0, count - 1)


def test_a_stopped_ingest_resumes(shell: Shell, tmp_path: Path) -> None:
    rows = list(readings(12_000))
    rows[11_000][2] = "warm"
    (file := tmp_path / "r.csv").write_text(
        "\n".join(map(",".join, [HEADER, *rows])) + "\n", encoding="utf-8"
    )
    assert shell("ingest", "--suggest", file) == 0
    (mapping := tmp_path / "r.toml").write_bytes(shell.out)
    ingest = ("ingest", tmp_path / "p.omsg", file, "--mapping", mapping)
    assert shell(*ingest) == 20
    assert b"10000 stored" in shell.err and b"line 11002" in shell.err
    file.write_text(file.read_text().replace("warm", "20.5"))
    done = shell.json(*ingest)
    assert (done["stored"], done["duplicates"]) == (2_000, 10_000)
