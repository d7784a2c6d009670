# SPDX-License-Identifier: Apache-2.0
"""The grains of the token's tenant: put, get, delete, query, search, verify, changes.

A request for another tenant's grain gets the same response as for a missing grain. A new grain may
derive from, or withdraw, only the tenant's grains: other tenants could otherwise not delete
theirs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from io import BytesIO
from itertools import islice
from typing import IO, Any, Final

from starlette.responses import Response

import omsgrain as og
from omsgrain import _core
from omsgrain.errors import (
    KeyMissingError,
    NotFoundError,
    OmsError,
    RangeError,
    SchemaError,
    TrustError,
    UnsupportedError,
)
from omsgrain.formats.aimem.document import validate
from omsgrain.formats.aimem.fields import AimemLimits
from omsgrain.formats.json_text import bounded, parse
from omsgrain.formats.problems import DocumentError
from omsgrain.grain import Grain, make, plain
from omsgrain.header import ENVELOPE_BYTE
from omsgrain.json_values import revive
from omsgrain.memory import removal
from omsgrain.query.envelope import envelope
from omsgrain.query.query import Page, page_of
from omsgrain.server.errors import HttpRefusal, refusal_of
from omsgrain.server.request import BLOB, BUNDLE, JSON, RequestContext, as_json, weights
from omsgrain.server.service import Flag

_DEPTH = 64
_MOST = 1_000  # problems in a response


def theirs(store: og.GrainStore, address: str, tenant: str) -> og.Grain:
    """Return the grain at an address, if it is the tenant's."""
    try:
        grain = store.get(address)
    except TrustError:  # without its key its tenant is unknown
        raise NotFoundError("no such grain") from None
    if grain.get("user_id") != tenant:
        raise NotFoundError("no such grain")
    return grain


async def get(call: RequestContext) -> Response:
    """Return a grain as JSON, or its blob."""
    store, tenant, address = call.service.stores.main, call.tenant, call.path["address"]

    def work(_: Flag) -> Response:
        grain = theirs(store, address, tenant)
        etag = {"etag": f'"{address}"'}
        asked = weights(call.headers, "accept")
        if asked.get(BLOB, 0) > asked.get(JSON, 0):
            return Response(grain.blob, headers=etag, media_type=BLOB)
        value = {
            "content_address": grain.address,
            "grain": plain(grain.to_dict()),
            "state": plain(asdict(store.status(address))),
        }
        return as_json(value, headers=etag)

    return await call.do(work)


async def delete(call: RequestContext) -> Response:
    store, tenant = call.service.stores.of(call.actor), call.tenant
    address = call.path["address"]

    def work(_: Flag) -> Response:
        theirs(store, address, tenant)
        removal.delete(store, address, reason="a request of the HTTP API")
        return as_json({"deleted": address})

    return await call.do(work)


async def put(call: RequestContext) -> Response:
    store, tenant = call.service.stores.of(call.actor), call.tenant
    file = await call.body(call.service.options.document)
    with file:

        def work(flag: Flag) -> Response:
            items, made, foreign = _items(file, call, flag)
            flag.check()
            _check_references(store, made, tenant, foreign)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they are meant for authors of code
                report = store.put_many(items)
            names = ("addresses", "stored", "duplicates")
            return as_json({name: getattr(report, name) for name in names})

        return await call.do(work, file)


def _items(
    file: IO[bytes], call: RequestContext, flag: Flag
) -> tuple[Sequence[bytes | og.Grain], list[og.Grain], set[str]]:
    """Return the items to put, the same as grains, and the addresses of adapted blobs.

    An adapted blob is kept inside its new grain; no store has it.
    """
    tenant, adapt = call.tenant, call.given["adapt"]
    if adapt and call.media != BLOB:
        raise HttpRefusal("invalid_parameter", "adapt: needs a blob as application/octet-stream")
    if call.media == BLOB:
        data = given = file.read()
        try:
            if adapt and data[:1] != ENVELOPE_BYTE:
                data = og.Grain.adapt(data).blob
            grain = og.decode(_core.envelope_blob(data) if data[:1] == ENVELOPE_BYTE else data)
        except KeyMissingError as error:
            detail = "a sealed grain does not show its tenant"
            raise HttpRefusal("invalid_grain", detail, code=error.code) from None
        except OmsError as error:
            raise refusal_of(error) from None
        if grain.get("user_id") != tenant:
            raise HttpRefusal("other_tenant", "a blob must have the tenant as its user_id")
        return [data], [grain], set() if data == given else {og.address(given)}
    found: list[og.Grain] = []
    bad: list[tuple[int, OmsError]] = []
    for i, fields in enumerate(_dicts(file, call, flag)):
        flag.check()
        try:
            found.append(_made(fields, tenant, i))
        except OmsError as error:
            bad.append((i, error))
            if len(bad) == _MOST:
                break
    if bad:
        raise _refused(bad)
    return found, found, set()


def _dicts(file: IO[bytes], call: RequestContext, flag: Flag) -> Iterable[Any]:
    """Yield the objects of a JSON document, or of lines."""
    data, options = file.read(), call.service.options
    known: dict[str, Any] = {
        "most": len(data),
        "depth": _DEPTH,
        "values": options.values,
        "alive": flag.check,
    }
    if call.media == JSON:
        value = parse(data, **known)
        return value if isinstance(value, list) else [value]
    bounded(data, len(data), options.values)
    return _by_lines(data, known)


def _by_lines(data: bytes, known: dict[str, Any]) -> Iterator[Any]:
    lines = (line for line in BytesIO(data) if line.strip())
    for i, line in enumerate(lines):
        try:
            yield parse(line, **known)
        except DocumentError as error:
            found = refusal_of(error)
            found.pointer, found.more = f"/{i}{found.pointer or ''}", {}
            raise found from None


def _made(fields: Any, tenant: str, i: int) -> og.Grain:
    if not isinstance(fields, dict):
        raise HttpRefusal("invalid_grain", "expected a JSON object for a grain", pointer=f"/{i}")
    try:
        fields = revive(fields)
    except ValueError:
        detail = "$bytes is not base64, or $float is not a float"
        raise HttpRefusal("invalid_grain", detail, pointer=f"/{i}") from None
    grain = make(fields)
    if "user_id" not in grain:
        grain = make({**fields, "user_id": tenant})
    if grain.get("user_id") != tenant:
        raise HttpRefusal("other_tenant", pointer=f"/{i}/user_id")
    return grain


def _check_references(
    store: og.GrainStore, grains: Sequence[og.Grain], tenant: str, inside: set[str]
) -> None:
    """Refuse grains that derive from, or withdraw, other tenants' grains."""
    ours = {grain.address for grain in grains} | inside
    for i, grain in enumerate(grains):
        for name in ("derived_from", "prior_consent"):
            named = grain.get(name)
            for address in named if isinstance(named, list) else [named]:
                if not isinstance(address, str) or address in ours:
                    continue
                try:
                    theirs(store, address, tenant)
                except (NotFoundError, KeyMissingError):
                    raise HttpRefusal("unknown_reference", pointer=f"/{i}/{name}") from None


def _refused(bad: Sequence[tuple[int, OmsError]]) -> HttpRefusal:
    """Make the refusal of a list: the first error, and all problems."""
    first = refusal_of(bad[0][1])
    if first.status >= 500:
        return first
    problems = []
    for i, error in bad[:_MOST]:
        one = error.to_dict()
        pointer = f"/{i}{error.field or ''}"
        problems.append({"code": one["code"], "rule": error.rule, "pointer": pointer})
    first.pointer = problems[0]["pointer"]
    first.more = {"problems": problems, "total": len(bad)}
    return first


_CURRENT = {"true": True, "false": False, "all": None}
_BYTES: Final = 8 << 20  # bytes of grains, after which a page ends: each may have 1 MiB
_QUESTION: Final = 4 << 10  # bytes of a body with an address
_TOGETHER: Final = 100  # grains that are read before their bytes are counted


async def query(call: RequestContext) -> Response:
    """Return a page of grains that match all filters; fewer than the limit if they are large."""
    given: dict[str, Any] = dict(call.given) | {"current": _CURRENT[call.given["current"]]}
    per = given.pop("latest_per")

    def work(flag: Flag) -> Response:
        try:
            found = _page(call, given, flag) if per is None else _latest(call, given, per)
            return as_json(found)
        except OmsError as error:
            raise _query_refused(error) from None

    return await call.do(work)


def _page(call: RequestContext, given: dict[str, Any], flag: Flag) -> dict[str, Any]:
    store, tenant, left, size = call.service.stores.main, call.tenant, given["limit"], 0
    found: dict[str, Any] = {"results": [], "total": None}
    while True:
        page = store.query(**given | {"limit": min(left, _TOGETHER)}, user_id=tenant)
        found["results"] += _values(page)["results"]
        found["total"] = found["total"] if page.total is None else page.total
        size += sum(len(hit.grain.blob) for hit in page.results)
        left -= len(page.results)
        given |= {"cursor": page.next_cursor, "count": False}
        if page.next_cursor is None or not left or size >= _BYTES:
            return found | {"next_cursor": page.next_cursor}
        flag.check()


def _latest(call: RequestContext, given: dict[str, Any], per: str) -> dict[str, Any]:
    """Return the newest grains of each value, up to the bytes of a page."""
    for name in ("order", "cursor", "count"):
        if given.pop(name) not in (None, False, "newest"):
            raise SchemaError("latest_per excludes this parameter", field=f"/{name}")
    if given["limit"] > _TOGETHER:
        expected = f"at most {_TOGETHER} with latest_per"
        raise RangeError("limit out of range", field="/limit", expected=expected)
    kept: list[Grain] = []
    size = 0
    for grain in call.service.stores.main.latest(per, **given, user_id=call.tenant):
        size += len(grain.blob)
        if kept and size > _BYTES:
            break
        kept.append(grain)
    return _values(page_of(kept))


async def search(call: RequestContext) -> Response:
    """Return the grains that best match words; unranked if too many are encrypted.

    If grains are large, it returns fewer than the limit and sets ``incomplete``: a search has no
    cursor. So it does if it did not wait, and the text index lacks grains.
    """
    store, tenant = call.service.stores.main, call.tenant
    filters = {name: call.given[name] for name in ("type", "namespace")}
    text, limit = call.given["text"], call.given["limit"]

    def found(flag: Flag) -> dict[str, Any]:
        asked: dict[str, Any] = {"limit": limit, **filters}
        try:
            wait = call.given["wait"]
            page = store.search(text, user_id=tenant, most_bytes=_BYTES, wait=wait, **asked)
        except UnsupportedError:
            found = _page(call, asked | {"words": text}, flag)
            cut = found["next_cursor"] is not None and len(found["results"]) < limit
            return found | {"ranked": False, "incomplete": "bytes" if cut else None}
        # Not how many: that would count the grains of other tenants.
        behind = "behind" if page.behind else None
        return _values(page) | {"ranked": True, "incomplete": page.incomplete or behind}

    def work(flag: Flag) -> Response:
        try:
            return as_json(found(flag))
        except OmsError as error:
            raise _query_refused(error) from None

    return await call.do(work)


_WORDS: Final = {", or scan=True": "", "store.paths.add": "the operator can add one"}
"""Words of a refusal in Python -> the same for clients of the server, which have no scans."""


def _query_refused(error: OmsError) -> Exception:
    """Make the refusal of a query: it names a parameter, not a grain."""
    if isinstance(error, UnsupportedError) and error.expected is not None:
        for python, words in _WORDS.items():
            error.expected = error.expected.replace(python, words)
    found = refusal_of(error)
    if found.rule != "invalid_grain":
        return error
    detail, pointer = found.detail, found.pointer
    return HttpRefusal("invalid_parameter", detail, pointer=pointer, code=error.code)


def _values(page: Page) -> dict[str, Any]:
    """Return a page without scores: they depend on the words of all tenants."""
    values = envelope(page)
    for row in values["results"]:
        del row["score"]
    return {name: values[name] for name in ("results", "total", "next_cursor")}


async def verify(call: RequestContext) -> Response:
    options, store, tenant = call.service.options, call.service.stores.main, call.tenant

    def work(data: bytes, flag: Flag) -> Response:
        if call.media == BUNDLE:
            limits = AimemLimits(document=options.document, values=options.values)
            verdict = validate(data, limits, alive=flag.check)
            problems = [one.to_dict() for one in verdict.problems]
            warned = [one.to_dict() for one in verdict.warnings]
            good = not verdict.total
            return as_json(
                {"ok": good, "problems": problems, "total": verdict.total, "warnings": warned}
            )
        asked = None if call.media == BLOB else _asked(data)
        try:
            if asked is None:
                og.verify(data)
                address = og.address(data)
            else:
                grain = theirs(store, asked, tenant)
                og.verify(grain.blob)
                address = grain.address
        except NotFoundError:
            raise
        except OmsError as error:
            values = {"code": error.code, "rule": error.rule, "pointer": error.field}
            problem = values | {"message": error.message}
            return as_json({"ok": False, "problems": [problem], "total": 1})
        return as_json({"ok": True, "content_address": address, "problems": []})

    with await call.body(options.document) as file:
        return await call.do(lambda flag: work(file.read(), flag), file)


def _asked(data: bytes) -> str:
    value = parse(data, most=_QUESTION, depth=8)
    if not isinstance(value, dict) or value.keys() != {"address"}:
        raise HttpRefusal("invalid_type", 'expected {"address": ...}')
    address = value["address"]
    if not isinstance(address, str):
        raise HttpRefusal("invalid_type", "expected a string", pointer="/address")
    _core.parse_address(address)
    return address


async def changes(call: RequestContext) -> Response:
    """Return the changes to the tenant's grains after a number.

    A deleted grain has no tenant, so its deletion is not listed.
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
