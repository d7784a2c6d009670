# SPDX-License-Identifier: Apache-2.0
"""``omsgrain demo``: real sensor readings and a robot's mission, from JSON to a second store."""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import omsgrain as og
from omsgrain.cli import demo_story, output
from omsgrain.cli.command import Manual, NewPath, argument
from omsgrain.cli.demo_story import BUNDLE, Story, since
from omsgrain.cli.show import dump, print_explanation
from omsgrain.errors import FormatError
from omsgrain.inspect.explain import explain
from omsgrain.interchange.ingest import ingest

if TYPE_CHECKING:
    from omsgrain import Grain, GrainStore

WEATHER, MISSION = "seattle-weather.csv", "mission.jsonl"
#: NOAA's daily summaries run from midnight to midnight, local standard time.
STANDARD_TIME = timezone(timedelta(hours=-8))

#: Sensor, its kind, and its columns, each with the unit (UCUM).
SENSORS = (
    ("thermometer", "temperature", (("temp_max", "Cel"), ("temp_min", "Cel"))),
    ("rain-gauge", "noaa:rain_gauge", (("precipitation", "mm"),)),
    ("anemometer", "noaa:anemometer", (("wind", "m/s"),)),
)
PLACE = b"Seattle"  # is in each reading; the demo flips a bit of its first letter


EXAMPLES = """
In a clone; keep the store, to look at it:
    omsgrain demo demo.omsg
"""


@click.command(
    cls=Manual,
    short_help="Run the main features on real data.",
    examples=EXAMPLES,
    exits={0: "Every claim held.", 1: "A claim did not hold."},
)
@argument(
    "directory",
    required=False,
    type=NewPath(dir_okay=True),
    help="Where to keep the store; it must not exist. By default the store is temporary.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default="examples",
    help="The directory examples of a clone. A wheel does not have it.",
)
@output.json_option
def demo(directory: Path | None, data: Path, as_json: bool) -> int:
    """Ingest, explain, tamper, query, export, supersede, search, encrypt, sign, erase, convert.

    Each step makes a claim, and prints whether it holds.
    """
    if directory is not None and directory.exists():
        raise click.UsageError(f"{str(directory)!r} exists; name a new directory")
    if missing := [name for name in (WEATHER, MISSION, BUNDLE) if not (data / name).is_file()]:
        text = "a wheel does not have it; name the directory examples of a clone with --data"
        raise click.UsageError(f"there is no {missing[0]} in {str(data)!r}: {text}")
    story = Story(quiet=as_json)
    with tempfile.TemporaryDirectory(prefix="omsgrain-demo-") as temporary:
        _run_chapters(story, directory or Path(temporary) / "memory.omsg", data, Path(temporary))
    if as_json:
        output.emit({"ok": story.ok, "checks": story.checks})
    return 0 if story.ok else 1


def _run_chapters(story: Story, directory: Path, data: Path, beside: Path) -> None:
    with og.open(directory) as store:
        count = _ingest(story, store, data)
        reading = _read_back(story, store, count)
    _explain(story, reading)
    _verify(story, directory, count)
    _tamper(story, reading)
    demo_story.tell_exchange(story, directory, beside)
    demo_story.tell_life(story, directory)
    demo_story.tell_trust(story, directory, beside)
    demo_story.tell_formats(story, data, beside)
    story.step("Done")
    held = sum(check["held"] for check in story.checks)
    story.say(f"{held} of {len(story.checks)} claims held.")


def _ingest(story: Story, store: GrainStore, data: Path) -> int:
    story.step(f"Ingest: daily weather of Seattle 2012-2015 (NOAA), {data / WEATHER}")
    readings = list(observations(data / WEATHER))
    start = time.perf_counter()
    report = store.put_many(readings)
    story.say(f"{report.stored} observations from Python dicts, durable {since(start)}.")
    story.check("each reading is one grain", report.stored == len(readings))

    story.step(f"Ingest: a small robot's mission, {data / MISSION}")
    stored = duplicates = 0
    for again in (False, True):
        with (data / MISSION).open("rb") as stream:
            for step in ingest(store, stream, name=MISSION):
                stored += step.stored
                duplicates += step.duplicates
        if not again:
            story.say(f"{stored} beliefs, goals, actions, events and others, as JSON lines.")
    story.check(
        f"a second import of the lines stores nothing: {duplicates} duplicates",
        stored == duplicates and stored > 0,
    )
    story.check("the store holds exactly these grains", len(store) == len(readings) + stored)
    return len(readings) + stored


def _read_back(story: Story, store: GrainStore, count: int) -> Grain:
    story.step("Read back")
    types: dict[str, int] = {}
    coldest: tuple[float, str] | None = None
    for grain in store:
        types[grain.type] = types.get(grain.type, 0) + 1
        if grain.get("observer_id") == "seattle/thermometer":
            degrees = float(grain["object"]["temp_min"]["value"])
            coldest = min(coldest or (degrees, grain.address), (degrees, grain.address))
    for name, number in sorted(types.items(), key=lambda item: -item[1]):
        story.say(f"{number:>6}  {name}")
    story.check(
        "all grains are read back, of all ten types",
        sum(types.values()) == count and len(types) == 10,
    )
    assert coldest is not None  # the weather file has thermometer readings: ingest succeeded
    story.say(f"The coldest reading, {coldest[0]} °C, is grain {coldest[1]}.")
    return store.get(coldest[1])


def _explain(story: Story, reading: Grain) -> None:
    story.step("Explain its bytes")
    explanation = explain(reading.blob)
    if not story.quiet:
        print_explanation(story.console, explanation)
        story.console.print()
        for line in dump(explanation):
            story.console.print(line)
    covered = sum(part.size for part in explanation.header) + sum(
        field.end - field.offset for field in explanation.fields
    )
    story.check(
        "every byte is explained: 9 of header, 1 of map, the fields",
        covered == len(reading.blob) - 1,
    )


def _verify(story: Story, directory: Path, count: int) -> None:
    story.step("Verify everything: address, canonical form, schema")
    start = time.perf_counter()
    with og.open(directory, readonly=True) as store:
        good = store.verify(errors="collect").verified
    story.say(f"Read from disk and hashed again {since(start)}.")
    story.check(f"{good} of {count} grains verified", good == count)


def _tamper(story: Story, reading: Grain) -> None:
    story.step("Flip one bit of one byte")
    at = reading.blob.index(PLACE)
    flipped = bytearray(reading.blob)
    flipped[at] ^= 1
    was, now = reading.blob[at], flipped[at]
    story.say(f"Byte {at}: {was:02x} becomes {now:02x}; 'Seattle' now reads 'Reattle'.")
    try:
        og.verify(bytes(flipped), reading.address)
        found = "no error"
    except og.errors.OmsError as error:
        story.say(str(error))
        found = error.code
    story.check("verification fails: ERR_INTEGRITY", found == "ERR_INTEGRITY")
    story.check("the grain in memory is unchanged", og.address(reading.blob) == reading.address)


def observations(path: Path) -> Iterator[dict[str, Any]]:
    """Yield three observations for each day of the table.

    Each says what was measured, by which sensor, on which day.
    """
    with path.open(newline="", encoding="utf-8") as file:
        for line, row in enumerate(csv.DictReader(file), 2):
            try:
                yield from _day(row)
            except (KeyError, TypeError, ValueError) as error:
                raise FormatError("not a row of daily weather", line=line) from error


def _day(row: dict[str, str]) -> Iterator[dict[str, Any]]:
    start = datetime.strptime(row["date"], "%Y/%m/%d").replace(tzinfo=STANDARD_TIME)
    end = start + timedelta(days=1)
    for sensor, kind, columns in SENSORS:
        yield {
            "type": "observation",
            "observer_id": f"seattle/{sensor}",
            "observer_type": kind,
            "subject": "Seattle",
            "relation": "mg:perceives",
            "object": {name: {"value": float(row[name]), "unit": unit} for name, unit in columns},
            "confidence": 1.0,
            "source_type": "sensor",
            "observation_mode": "passive",
            "observation_scope": "interval",
            "valid_from": start,
            "valid_to": end,
            "created_at": end,
            "namespace": "weather:seattle",
        }
