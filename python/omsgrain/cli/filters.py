# SPDX-License-Identifier: Apache-2.0
"""The filters of a query as options, shared by all commands that choose grains."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from omsgrain.cli.command import Asked, flag, options
from omsgrain.json_values import parsed
from omsgrain.storage.records import Verification

if TYPE_CHECKING:
    from omsgrain.query.filters import Filters

STATUSES = get_args(Verification)
_CURRENT = {"only_current": True, "only_past": False, "all_grains": None}
_BYTE = re.compile("[0-9]{1,3}")


def _type(_: click.Context, __: click.Parameter, text: str | None) -> str | int | None:
    return int(text) if text is not None and _BYTE.fullmatch(text) else text


def _json(_: click.Context, __: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    try:
        value = parsed(text)
    except (ValueError, RecursionError):
        raise click.BadParameter("not JSON") from None
    if value is None:
        raise click.BadParameter("null is not a value; no filter finds absent fields")
    return value


def _types(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    from omsgrain.registry import TYPES

    return sorted(one.name for one in TYPES if one.name.startswith(begun))


filter_options = options(*reversed((
    click.option("--type", metavar="NAME", callback=_type, shell_complete=_types,
                 help="Grain type: a name such as belief, or its byte from 1 to 255."),
    click.option("--namespace", metavar="TEXT",
                 help="The whole namespace; 'robots:*' for all that begin with 'robots:'."),
    click.option("--subject", metavar="TEXT", help="The subject."),
    click.option("--relation", metavar="TEXT", help="The relation."),
    click.option("--object", metavar="TEXT", help="The object, if it is a text."),
    click.option("--object-json", metavar="JSON", callback=_json,
                 help='The object, if it is not a text: \'{"rain_mm": 0.2}\'. All of it must be '
                     'equal; 1 and 1.0 differ.'),
    click.option("--user", "user_id", metavar="ID", help="The user."),
    click.option("--session", "session_id", metavar="ID", help="The session."),
    click.option("--run", "run_id", metavar="ID", help="The run."),
    click.option("--tag", metavar="TAG", help="One of the structural tags."),
    click.option("--origin", metavar="ID",
                 help="The id in a document of another format, such as a URN."),
    click.option("--after", "created_after", metavar="TIME", type=Asked(),
                 help="Created at this time or later: 2026-01-15T10:00:00Z, a date, an age "
                     "such as 1h or 7d, ms since 1970, or seconds as @1768471200."),
    click.option("--before", "created_before", metavar="TIME", type=Asked(),
                 help="Created before this time."),
    click.option("--valid-at", metavar="TIME", type=Asked(),
                 help="Valid at this time, by valid_from and valid_to."),
    click.option("--known-at", metavar="TIME", type=Asked(),
                 help="Current in the store at this time."),
    click.option("--status", "verification_status", type=click.Choice(STATUSES),
                 help="The verification status."),
    click.option("--min-confidence", type=float, metavar="X",
                 help="At least this confidence, 0 to 1."),
    click.option("--words", metavar="TEXT",
                 help="All of these words occur in its texts, in any case and order."),
    click.option("--observer-id", metavar="ID", help="The observer."),
    click.option("--observer-type", metavar="KIND", help="The kind of observer, such as lidar."),
    click.option("--goal-state", metavar="STATE", help="The state of the goal."),
    click.option("--tool-name", metavar="NAME", help="The tool of the action."),
    click.option("--author-did", metavar="DID", help="The DID of the author."),
    click.option("--entity-id", metavar="ID", help="The external id of the entity."),
    click.option("--role", metavar="ROLE", help="The speaker of the message, such as user."),
    click.option("--is-error/--no-error", default=None, help="Whether the action failed."),
    click.option("--where", metavar="JSON", callback=_json,
                 help='What fields, and values inside object and context, must be: '
                     '\'{"object.celsius": {"gt": 2.5}}\'.'),
    flag("--bookkeeping",
         help="Include the grains that keep the rest of documents beside their records."),
    flag("--no-sealed", help="Leave out encrypted grains; then any filter can be used."),
    flag("--current", "only_current",
         help="Only grains that are not superseded, retracted or restricted."),
    flag("--past", "only_past", help="Only superseded, retracted or restricted grains."),
    flag("--all", "all_grains", help="Current and past grains."),
)))  # fmt: skip
"""All filters; the command passes their values to ``taken``."""


def taken(given: Mapping[str, Any]) -> Filters:
    filters = {name: value for name, value in given.items() if value is not None}
    chosen = [value for name, value in _CURRENT.items() if filters.pop(name, False)]
    if len(chosen) > 1:
        raise click.UsageError("--current, --past and --all exclude each other")
    if chosen:
        filters["current"] = chosen[0]
    if filters.pop("no_sealed", False):
        filters["sealed"] = False
    if not filters.get("bookkeeping"):
        filters.pop("bookkeeping", None)
    if "object_json" in filters:
        if "object" in filters:
            raise click.UsageError("--object and --object-json exclude each other")
        filters["object"] = filters.pop("object_json")
    return cast("Filters", filters)
