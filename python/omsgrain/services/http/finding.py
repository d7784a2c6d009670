# SPDX-License-Identifier: Apache-2.0
"""Asking for grains, of the token's tenant and of nobody else."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from starlette.responses import Response

import omsgrain as og
from omsgrain import _core
from omsgrain.errors import NotFoundError, OmsError, UnsupportedError
from omsgrain.formats.aimem.bundle import validate
from omsgrain.formats.aimem.limits import Limits
from omsgrain.formats.reading import parse
from omsgrain.index.hits import Page
from omsgrain.ops.query import envelope
from omsgrain.services.http.call import Call, as_json
from omsgrain.services.http.grains import theirs
from omsgrain.services.http.media import BLOB, BUNDLE
from omsgrain.services.http.problems import Refusal, refusal_of
from omsgrain.services.http.work import Flag

__all__ = ["changes", "query", "search", "verify"]

_CURRENT = {"true": True, "false": False, "all": None}
_BYTES: Final = 8 << 20  # of the grains of a page, after which it ends: each can have 1 MiB
_QUESTION: Final = 4 << 10  # bytes of one that has an address in it
_TOGETHER: Final = 100  # grains that are read before these are counted


async def query(call: Call) -> Response:
    """A page of grains that match all filters; of large grains fewer than were asked for."""
    given: dict[str, Any] = dict(call.given) | {"current": _CURRENT[call.given["current"]]}

    def work(flag: Flag) -> Response:
        try:
            return as_json(_page(call, given, flag))
        except OmsError as error:
            raise _refused(error) from None

    return await call.do(work)


def _page(call: Call, given: dict[str, Any], flag: Flag) -> dict[str, Any]:
    store, tenant, left, size = call.service.stores.main, call.tenant, given["limit"], 0
    told: dict[str, Any] = {"results": [], "total": None}
    while True:
        page = store.query(**given | {"limit": min(left, _TOGETHER)}, user_id=tenant)
        told["results"] += _told(page)["results"]
        told["total"] = told["total"] if page.total is None else page.total
        size += sum(len(hit.grain.blob) for hit in page.results)
        left -= len(page.results)
        given |= {"cursor": page.next_cursor, "count": False}
        if page.next_cursor is None or not left or size >= _BYTES:
            return told | {"next_cursor": page.next_cursor}
        flag.check()


async def search(call: Call) -> Response:
    """The grains that best match words; where sealed ones cannot be ranked, all that match.

    Of large grains it gives fewer than were asked for, and says so: no cursor goes on from there.
    """
    store, tenant = call.service.stores.main, call.tenant
    filters = {name: call.given[name] for name in ("type", "namespace")}
    text, limit = call.given["text"], call.given["limit"]

    def found(flag: Flag) -> dict[str, Any]:
        asked: dict[str, Any] = {"limit": limit, **filters}
        try:
            page = store.search(text, user_id=tenant, most_bytes=_BYTES, **asked)
        except UnsupportedError:
            told = _page(call, asked | {"words": text}, flag)
            cut = told["next_cursor"] is not None and len(told["results"]) < limit
            return told | {"ranked": False, "incomplete": "bytes" if cut else None}
        return _told(page) | {"ranked": True, "incomplete": page.incomplete}

    def work(flag: Flag) -> Response:
        try:
            return as_json(found(flag))
        except OmsError as error:
            raise _refused(error) from None

    return await call.do(work)


def _refused(error: OmsError) -> Exception:
    """What is wrong with a question is wrong with a parameter."""
    found = refusal_of(error)
    if found.rule != "invalid_grain":
        return error
    detail, pointer = found.detail, found.pointer
    return Refusal("invalid_parameter", detail, pointer=pointer, code=error.code)


def _told(page: Page) -> dict[str, Any]:
    """A page without scores: they are made of how common words are in the whole store."""
    told = envelope(page)
    for row in told["results"]:
        del row["score"]
    return {name: told[name] for name in ("results", "total", "next_cursor")}


async def verify(call: Call) -> Response:
    """Say what is wrong with a blob, a bundle, or a stored grain."""
    options, store, tenant = call.service.options, call.service.stores.main, call.tenant

    def work(data: bytes, flag: Flag) -> Response:
        if call.media == BUNDLE:
            limits = Limits(document=options.document, values=options.values)
            verdict = validate(data, limits, alive=flag.check)
            problems = [one.to_dict() for one in verdict.problems]
            warned = [one.to_dict() for one in verdict.warnings]
            good = not verdict.total
            return as_json(
                {"ok": good, "problems": problems, "total": verdict.total, "warnings": warned}
            )
        if call.media == BLOB:
            try:
                og.verify(data)
            except OmsError as error:
                return as_json({"ok": False, "problems": [_problem(error)], "total": 1})
            return as_json({"ok": True, "content_address": og.address(data), "problems": []})
        address = _asked(data)
        try:
            grain = theirs(store, address, tenant)
            og.verify(grain.blob)
        except NotFoundError:
            raise
        except OmsError as error:
            return as_json({"ok": False, "problems": [_problem(error)], "total": 1})
        return as_json({"ok": True, "content_address": grain.address, "problems": []})

    with await call.body(options.document) as file:
        size = file.seek(0, 2)
        file.seek(0)
        return await call.do(lambda flag: work(file.read(), flag), size=size)


def _asked(data: bytes) -> str:
    """The address in a body."""
    value = parse(data, most=_QUESTION, depth=8)
    if not isinstance(value, dict) or value.keys() != {"address"}:
        raise Refusal("invalid_type", 'expected {"address": ...}', status=422)
    address = value["address"]
    if not isinstance(address, str):
        raise Refusal("invalid_type", "expected a string", pointer="/address", status=422)
    _core.parse_address(address)
    return address


def _problem(error: OmsError) -> dict[str, Any]:
    told = {"code": error.code, "rule": error.rule, "pointer": error.field}
    return told | {"message": error.message}


async def changes(call: Call) -> Response:
    """What happened to the tenant's grains after a number.

    One that is gone is nobody's any more, so its deletion is not told.
    """
    store, tenant, since = call.service.stores.main, call.tenant, call.given["since"]
    most = call.service.options.scanned

    def work(flag: Flag) -> Response:
        found, last, seen = [], since, 0
        for change in islice(store.changes(since), most):
            flag.check()
            seen, last = seen + 1, change.seq
            try:
                theirs(store, change.address, tenant)
            except OmsError:
                continue
            found.append(
                {"seq": change.seq, "kind": change.kind, "content_address": change.address}
            )
        return as_json({"changes": found, "next": last, "more": seen == most})

    return await call.do(work)
