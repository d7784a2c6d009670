# SPDX-License-Identifier: Apache-2.0
"""``omsgrain query`` and ``omsgrain search``: find grains by fields, or by words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import argument, command, flag, store_argument
from omsgrain.cli.console import Console, TableColumn, TextTable, progress
from omsgrain.cli.filters import filter_options, taken
from omsgrain.cli.open import keys_option, open_store, open_to_read
from omsgrain.errors import NotFoundError, UnsupportedError
from omsgrain.json_values import time_text
from omsgrain.query.envelope import envelope, gist, standing
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omsgrain.query.query import Hit, Page, Plan
    from omsgrain.storage.records import GrainStatus
    from omsgrain.store import GrainStore

SHORT = 12  # digits that identify an address on a screen
_MANY = 10_000  # grains: adding them to the text index takes a moment that people notice
WIDEST_TYPE = 20  # the name of an opaque grain may be longer


QUERY = r"""
The latest beliefs about one subject:
    omsgrain query memory.omsg --type belief --subject user
Observations of January, oldest first, as JSON:
    omsgrain query memory.omsg --type observation --order oldest --json \
        --after 2026-01-01T00:00:00Z --before 2026-02-01T00:00:00Z
What the store knew on New Year's Day about the kitchen:
    omsgrain query memory.omsg --known-at 2026-01-01T00:00:00Z --namespace 'home:kitchen:*'
One user's grains with both words, also encrypted ones:
    omsgrain query memory.omsg --user u17 --words 'broken lamp' --keys people.keys \
        --master master.key
The last reading of each sensor in a store with an index of observer_id:
    omsgrain query robot.omsg --type observation --latest-per observer_id
One user's retracted grains:
    omsgrain query memory.omsg --status retracted --user u17
"""
SEARCH = r"""
Any of two words; one required; two together:
    omsgrain search memory.omsg "broken lamp"
    omsgrain search memory.omsg "+lamp kitchen"
    omsgrain search memory.omsg '"emergency stop"' --namespace "robots:*"
"""


@command(
    "Find grains by their fields, owner and time.", QUERY, exits={0: "Done, also without results."}
)
@store_argument()
@filter_options
@click.option(
    "--order",
    type=click.Choice(["newest", "oldest"]),
    default="newest",
    help="By created_at, then by address.",
)
@click.option(
    "--limit",
    type=int,
    default=50,
    metavar="N",
    help="Results on a page, 1 to 10000.",
)
@click.option("--cursor", metavar="C", help="Continue after a page with the same filters.")
@flag("--count", help="Count all matches; this may read them all.")
@flag("--explain", help="Show how the query was answered.")
@flag("--scan", help="Read every grain if no index answers.")
@click.option("--latest-per", metavar="PATH",
              help="Only the newest grain of each value there, such as observer_id.")  # fmt: skip
@flag("--full", help="Show whole addresses.")
@keys_option
@output.json_option
def query(
    store: Where,
    order: Any,
    limit: int,
    cursor: str | None,
    count: bool,
    explain: bool,
    scan: bool,
    latest_per: str | None,
    full: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Find the grains of STORE that match every filter; without filters, all current ones.

    Filters match whole values, except a namespace that ends in ":*". A query finds a grain as soon
    as its put returned. Superseded, retracted and restricted grains are left out, unless --past,
    --all, --known-at or --status includes them; the results then have states. Without --json the
    results are a table on stdout; their number, the next cursor and the plan go to stderr.
    """
    filters = taken(given)
    asked = filters.keys() & {"known_at", "verification_status"}
    states = None  # None if all results are current
    if latest_per is not None and (order != "newest" or cursor or count or explain):
        raise click.UsageError(
            "--latest-per excludes --order oldest, --cursor, --count and --explain"
        )
    with open_store(store, readonly=True) as grains, in_words():
        if latest_per is not None:
            from omsgrain.query.query import page_of

            newest = grains.latest(latest_per, limit=limit, scan=scan, **filters)
            page = page_of(newest)
        else:
            page = grains.query(
                **filters,
                order=order,
                limit=limit,
                cursor=cursor,
                count=count,
                explain=explain,
                scan=scan,
            )
        if asked or filters.get("current", True) is not True:
            states = [_state(grains, hit.address) for hit in page.results]
    if as_json:
        output.emit(envelope(page, states))
        return
    if page.results:
        Console().table(table(page, states, full=full))
    for text in remarks(page):
        click.echo(output.safe(text), err=True)


@contextmanager
def in_words() -> Iterator[None]:
    """Let a refusal name the options of this command."""
    try:
        yield
    except UnsupportedError as error:
        if error.expected is not None:
            options = {"scan=True": "--scan", "store.paths.add": "omsgrain paths --add"}
            for name, option in options.items():
                error.expected = error.expected.replace(name, option)
        raise


def _state(grains: GrainStore, address: str) -> GrainStatus | None:
    try:
        return grains.status(address)
    except NotFoundError:  # another process has deleted it
        return None


def table(
    page: Page, states: Sequence[GrainStatus | None] | None = None, *, full: bool = False
) -> TextTable:
    """Make a table with a line for each result; there is at least one."""
    kinds = max(len(hit.grain.type) for hit in page.results)
    widths = {"address": 64 if full else SHORT, "type": min(kinds, WIDEST_TYPE), "created at": 24}
    standings = None if states is None else [standing(state) for state in states]
    if standings is not None:
        widths["state"] = max(map(len, standings))
    fixed = (TableColumn(name, width) for name, width in widths.items())
    rows = TextTable((*fixed, TableColumn("says", cut=True)))
    for number, hit in enumerate(page.results):
        address = hit.address if full else hit.address[:SHORT]
        at = hit.grain.get("created_at")
        time = time_text(at) if isinstance(at, int) else None
        says = " ".join(output.safe(gist(hit.grain)).split())
        state = () if standings is None else (standings[number],)
        rows.rows.append((address, output.safe(hit.grain.type), time or "", *state, says))
    return rows


def remarks(page: Page) -> list[str]:
    """Return what stderr shows about a page: the number of results, the plan, the next cursor."""
    number = f"{len(page.results)} found"
    said = [number if page.total is None else f"{number} of {page.total}"]
    if page.plan is not None:
        said.append(plan_text(page.plan))
    if page.next_cursor is not None:
        said.append(f"more: --cursor {page.next_cursor}")
    return said


def plan_text(plan: Plan) -> str:
    text = f"plan: walked {plan.index!r}, a list of {plan.estimate}; read {plan.rows} of its rows"
    if plan.looked_up:
        text += "; looked each up in " + ", ".join(map(repr, plan.looked_up))
    if plan.tested:
        names = ", ".join(map(repr, plan.tested))
        text += f"; tested each for {names}; read {plan.blobs} grains"
    return text


@command("Find grains by words, best first.", SEARCH, exits={0: "Done, also without results."})
@store_argument()
@argument("text", help='Words, +words, -words, "words together", beginnings*.')
@filter_options
@click.option("--limit", type=int, default=10, metavar="N",
              help="The most results.")  # fmt: skip
@flag("--full", help="Show whole addresses.")
@flag("--no-wait", help="Do not add new grains to the text index first.")
@keys_option
@output.json_option
def search(
    store: Where, text: str, limit: int, full: bool, no_wait: bool, as_json: bool, **given: Any
) -> None:
    """Find the grains of STORE that match the filters and best match the words of TEXT.

    Any word can match, and rare words count more. +word is required, -word is excluded, "two
    words" must be adjacent, and mem* matches any word that begins with mem. In a store with
    --keys, encrypted grains are ranked for one --user at a time; --no-sealed leaves them out.

    Matches are in [brackets]; if they are not in the shown text, their field is named.
    """
    with open_to_read(store, count_access=False) as grains:
        find = partial(grains.search, text, limit=limit, **taken(given))
        page = find(wait=False)
        if page.behind and not no_wait:
            if page.behind >= _MANY and not as_json:
                click.echo(f"adding {page.behind} grains to the text index", err=True)
            with progress(page.behind, "grains", as_json) as advance:
                grains.maintenance.index_text(advance)
            page = find()
    if as_json:
        output.emit(envelope(page))
        return
    for hit in page.results:
        address = hit.address if full else hit.address[:SHORT]
        says = _marked(hit, text)
        click.echo(output.safe(f"{address}  {hit.score:.2f}  {hit.grain.type}  {says}"))
    click.echo(f"{len(page.results)} found", err=True)
    if page.incomplete is not None:
        click.echo("there may be more: the filters excluded too many matches", err=True)
    if page.behind:
        click.echo(f"there may be more: {page.behind} grains are not indexed yet", err=True)


def _marked(hit: Hit, text: str) -> str:
    """Return the gist of a grain on one line, with the words of the search in brackets.

    If they are not in it, the field that contains them follows.
    """
    from omsgrain.search.snippet import piece, show
    from omsgrain.search.text import read_query

    query = read_query(text)
    said = piece(gist(hit.grain), hit.grain.fields, query)
    found = None if said.marks else show(hit.grain.fields, query).snippet
    line = said.marked()
    if found is not None:
        line += f" ({found.field}: {found.marked()})"
    return " ".join(line.split())
