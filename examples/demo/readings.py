# SPDX-License-Identifier: Apache-2.0
"""Ingest readings and a mission, read them back, explain a grain, verify, and flip a bit."""

from __future__ import annotations

import time
from pathlib import Path

from story import Story, since
from weather import observations

import omsgrain as og
from omsgrain import Grain, GrainStore
from omsgrain.cli.show import dump, print_explanation
from omsgrain.inspect.explain import explain
from omsgrain.interchange.ingest import ingest

WEATHER, MISSION = "seattle-weather.csv", "mission.jsonl"
PLACE = b"Seattle"  # is in each reading; a bit of its first letter is flipped


def tell_readings(story: Story, directory: Path, data: Path) -> None:
    """Fill the store in a directory from the files of another one."""
    with og.open(directory) as store:
        count = _ingest(story, store, data)
        reading = _read_back(story, store, count)
    _explain(story, reading)
    _verify(story, directory, count)
    _tamper(story, reading)


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
