# SPDX-License-Identifier: Apache-2.0
"""Query a store of weather readings, in SQL (DuckDB) and with Polars.

python examples/demo weather.omsg   # four years of readings from Seattle, among others
python examples/questions.py weather.omsg
"""

from __future__ import annotations

import sys
from typing import Any

import duckdb
import polars as pl

import omsgrain as og

COLUMNS = ["observer_id", "valid_from", "object_json"]

WETTEST = """
    SELECT year, arg_max(month, rain) AS month, max(rain) AS rain
    FROM (
        SELECT year(valid_from) AS year, month(valid_from) AS month,
               round(sum((object_json->>'$.precipitation.value')::DOUBLE), 1) AS rain
        FROM readings
        WHERE observer_id = 'seattle/rain-gauge'
        GROUP BY ALL
    )
    GROUP BY year ORDER BY year
"""
COUNTED = "SELECT observer_id, count(*) FROM readings GROUP BY ALL ORDER BY observer_id"


def readings(store: og.GrainStore) -> Any:
    """What the instruments measured, as an Arrow table of the columns that the questions need."""
    return store.to_arrow(columns=COLUMNS, type="observation", namespace="weather:*").read_all()


def by_sql(store: og.GrainStore) -> list[list[Any]]:
    """The wettest month of each year, and how many readings each instrument made: in SQL."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("readings", readings(store))
        return [db.execute(question).fetchall() for question in (WETTEST, COUNTED)]


def by_frame(store: og.GrainStore) -> list[list[Any]]:
    """The same with Polars."""
    frame = pl.from_arrow(readings(store))
    assert isinstance(frame, pl.DataFrame)
    time, text = pl.col("valid_from").dt, pl.col("object_json").str
    wettest = (
        frame.filter(pl.col("observer_id") == "seattle/rain-gauge")
        .group_by(time.year().cast(int).alias("year"), time.month().cast(int).alias("month"))
        .agg(
            text.json_path_match("$.precipitation.value").cast(float).sum().round(1).alias("rain")
        )
        .sort("rain")
        .group_by("year")
        .last()
        .sort("year")
    )
    counted = frame.group_by("observer_id").len().sort("observer_id")
    return [wettest.rows(), counted.rows()]


if __name__ == "__main__":
    with og.open(sys.argv[1], readonly=True) as opened:
        for answer in by_sql(opened):
            print(*answer, sep="\n")
