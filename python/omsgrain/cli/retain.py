# SPDX-License-Identifier: Apache-2.0
"""``omsgrain retain``: remove the oldest grains; and its options, which services have too."""

from __future__ import annotations

from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypedDict

import click

from omsgrain.cli import output
from omsgrain.cli.command import F, Size, SpanParam, command, flag, options, pairs, store_argument
from omsgrain.cli.open import actor_option, keys_option, open_store, policy_option, writable
from omsgrain.errors import InvalidationDeniedError, OmsError
from omsgrain.json_values import parsed
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.query.filters import Filters

RETAIN = """
Keep a week, and the maps for ever; first see what would go:
    omsgrain retain memory.omsg --keep 7d --keep-where namespace=maps --dry-run
    omsgrain retain memory.omsg --keep 7d --keep-where namespace=maps
Keep what fits into a file of 512 MB:
    omsgrain retain memory.omsg --max-bytes 512MB
"""
_AS_TEXT: Final = ("type", "text", "value", "time", "status", "words")


class LimitArguments(TypedDict, total=False):
    """The arguments of ``omsgrain.open`` that bound the history; none if nothing bounds it."""

    keep: str | None
    max_bytes: int | None
    keep_where: Filters | None
    keep_cited: bool


def _filters_of(texts: tuple[str, ...]) -> Filters | None:
    from omsgrain.query.filters import FILTERS, conditions

    given: dict[str, Any] = dict(pairs(texts, "FILTER=VALUE"))
    for name, text in given.items():
        kind = FILTERS[name].kind if name in FILTERS else "text"
        if kind == "type" and text.isascii() and text.isdigit():
            given[name] = int(text)
        elif kind == "current" and text == "all":
            given[name] = None
        elif kind not in _AS_TEXT:
            try:
                given[name] = parsed(text)
            except (ValueError, RecursionError):
                raise click.BadParameter(f"the value of {name} is not JSON") from None
    try:
        conditions(given)
    except OmsError as error:
        said = f"{error.message}: {(error.field or '')[1:]}"
        raise click.BadParameter(f"{said}; expected {error.expected}") from None
    return given or None  # type: ignore[return-value]  # conditions has checked them


def _checked(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    _filters_of(texts)
    return texts


_options = options(
    flag("--keep-cited", help="Keep grains that a grain which stays refers to."),
    click.option(
        "--keep-where",
        multiple=True,
        metavar="FILTER=VALUE",
        callback=_checked,
        help="Keep grains that match this filter of a query, such as namespace=maps. Repeated, "
        "all of the filters must match.",
    ),
    click.option(
        "--max-bytes",
        type=Size(),
        metavar="SIZE",
        help="Remove the oldest grains until the data file has room: 512MB, 2GiB.",
    ),
    click.option(
        "--keep",
        type=SpanParam(),
        metavar="AGE",
        help="Remove grains that are older: 90m, 36h, 7d. Count created_at.",
    ),
)


def history_options(command: F) -> F:
    """``--keep``, ``--max-bytes``, ``--keep-where`` and ``--keep-cited``, checked.

    The command gets them as ``limits``, empty if nothing bounds the history.
    """

    @wraps(command)
    def bounded(
        *,
        store: Where | None,
        keep: str | None,
        max_bytes: int | None,
        keep_where: tuple[str, ...],
        keep_cited: bool,
        **given: Any,
    ) -> Any:
        limits: LimitArguments = {}
        if keep is not None or max_bytes is not None:
            limits = {
                "keep": keep,
                "max_bytes": max_bytes,
                "keep_where": _filters_of(keep_where),
                "keep_cited": keep_cited,
            }
            _check(store, limits)
        elif keep_where or keep_cited:
            raise click.UsageError("--keep-where and --keep-cited go with --keep or --max-bytes")
        return command(store=store, limits=limits, **given)

    return _options(bounded)  # type: ignore[return-value]  # of the same arguments but for these


def _check(store: Where | None, limits: LimitArguments) -> None:
    """Refuse limits before a store is opened: each worker of a server opens it."""
    from omsgrain.storage.location import DirectoryLocation, location_of
    from omsgrain.store.history_limits import HistoryLimits, must_have_file

    made = HistoryLimits.of(
        limits["keep"], limits["max_bytes"], limits["keep_where"], limits["keep_cited"]
    )
    if made is not None and store is not None:
        must_have_file(made, isinstance(location_of(store), DirectoryLocation))


@command(
    "Remove the oldest grains, by age or by size.",
    RETAIN,
    exits={41: "The store is larger than --max-bytes: rules keep all that is left."},
)
@store_argument()
@history_options
@flag("--dry-run", help="Count what would go, and change nothing.")
@policy_option
@actor_option
@keys_option
@output.json_option
def retain(
    store: Where,
    limits: LimitArguments,
    dry_run: bool,
    policy: str | None,
    actor: str | None,
    as_json: bool,
) -> int:
    """Remove the oldest grains of STORE.

    Held grains, consents, and grains that a policy or --policy keeps stay. Removed grains can be
    stored again. serve, bridge and mcp have the same options, and bound the store while they run.
    """
    if not limits:
        raise click.UsageError("give --keep or --max-bytes")
    if dry_run:
        with open_store(store, readonly=True, policy=policy) as grains:
            report = grains.maintenance.retain(**limits, dry_run=True)
    else:
        with writable(store, actor, policy=policy) as grains:
            report = grains.maintenance.retain(**limits)
    if as_json:
        output.emit(asdict(report))
    else:
        verb = "would go" if dry_run else "removed"
        kept = ", ".join(f"{count} by {rule}" for rule, count in report.kept)
        click.echo(
            output.safe(f"{output.plural(report.removed, 'grain')} {verb}; kept: {kept or 0}")
        )
        if report.file_bytes:
            click.echo(f"file: {report.file_bytes} bytes, {report.free_bytes} of them free")
    return 0 if report.complete else InvalidationDeniedError.exit_code
