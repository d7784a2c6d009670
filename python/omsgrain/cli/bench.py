# SPDX-License-Identifier: Apache-2.0
"""``omsgrain bench``: how fast it is here, and what to choose."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.numbers import Seconds

if TYPE_CHECKING:
    from omsgrain.ops.bench import BenchReport


EXAMPLES = """
What a commit costs on the card of a robot:
    omsgrain bench .
Better figures of two sizes of batches:
    omsgrain bench . --seconds 60 --batch 100 --batch 1000
"""


@click.command(
    cls=Manual,
    short_help="Measure how fast it is on this machine and disk.",
    examples=EXAMPLES,
)
@argument(
    "directory",
    default=".",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where it measures: the disk that counts. By default here.",
)
@click.option(
    "--seconds",
    type=Seconds(0.01, 3_600),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="How long it takes, about: 0.01 to 3600.",
)
@click.option(
    "--batch",
    "batches",
    type=click.IntRange(1, 60_000),
    multiple=True,
    metavar="N",
    help="Grains of a batch to try, 1 to 60000; repeatable. Without it: 1, 10, 100, 1000, 10000.",
)
@output.json_option
def bench(directory: Path, seconds: float, batches: tuple[int, ...], as_json: bool) -> None:
    """Measure how fast grains are encoded, put and found, with stores in DIRECTORY.

    So that you can choose a durability and a size of batches for the disk that DIRECTORY is on.
    What it writes is its own, and is removed again; stores that are there are left alone.
    """
    from omsgrain.ops import bench as verb

    sizes = batches or verb.BATCHES
    with output.progress(verb.parts(sizes), "measured", as_json) as advance:
        found = verb.bench(directory, seconds=seconds, batches=sizes, progress=advance)
    if as_json:
        output.emit(asdict(found))
    else:
        _show(found)


def _show(found: BenchReport) -> None:
    for name, rate in found.codec.items():
        click.echo(f"{name:<16}{rate:>12,.0f} grains/s")
    click.echo()
    click.echo(f"{'put, grains/s':<16}{'commit':>12}{'relaxed':>12}")
    rates = {(one.durability, one.batch): one.rate for one in found.put}
    for batch in dict.fromkeys(one.batch for one in found.put):
        name = "one by one" if batch is None else f"{batch:,} at once"
        both = (rates["commit", batch], rates["relaxed", batch])
        click.echo(f"{name:<16}" + "".join(f"{rate:>12,.0f}" for rate in both))
    click.echo()
    click.echo(f"{f'of {found.grains:,} grains':<16}{'p50':>12}{'p95':>12}")
    for name, times in found.read.items():
        click.echo(f"{name:<16}{times.p50 * 1e6:>9,.0f} us{times.p95 * 1e6:>9,.0f} us")
    click.echo()
    memory = found.memory_bytes
    for name, text in (
        ("a grain", f"{found.blob_bytes:,.0f} bytes"),
        ("with its index", f"{found.store_bytes:,.0f} bytes"),
        ("memory", "unknown" if memory is None else f"{memory / 1e6:,.1f} MB"),
        ("a sync", f"{found.sync * 1e3:.2f} ms"),
    ):
        click.echo(f"{name:<16}{text:>18}")
    click.echo()
    for line in _advice(found):
        click.echo(line)


def _advice(found: BenchReport) -> list[str]:
    advice = found.advice
    batch = advice.batch["commit"]
    return [
        f"Put {batch:,} grains at once: the least that reaches nine tenths of the best rate.",
        f'durability="relaxed" makes put {advice.relaxed_one:.1f} times as fast, and batches of '
        f"{batch:,} {advice.relaxed_batch:.1f} times;",
        "a power cut can then cost what was put since the last sync, and in the worst case all.",
        f'A sync costs {found.sync * 1e3:.2f} ms here; with "commit" each call waits for it.',
    ]
