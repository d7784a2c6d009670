# SPDX-License-Identifier: Apache-2.0
"""Imports of bundles, and the erasure of a tenant. Spec: AIMEM §3.2, §5.2."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import IO, Any

from starlette.responses import Response

from omsgrain.crypto.signers import Pieces
from omsgrain.crypto.trust import Checked, Trust, look, read
from omsgrain.errors import OmsError
from omsgrain.formats.aimem import document, signature
from omsgrain.formats.aimem.fields import AimemLimits
from omsgrain.formats.aimem.records import FORMAT
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.memory.removal import erase_tenant
from omsgrain.server.errors import HttpRefusal, refusal_of
from omsgrain.server.request import LINES, RequestContext, as_json
from omsgrain.server.service import Flag
from omsgrain.store.context import context_of
from omsgrain.store.import_batch import note_import

_REASON = "tenant_request"
_LARGER = "send a larger bundle by lines, as application/x-ndjson"
_TOO_LARGE = 413
_OURS = 500  # statuses from here on are not the bundle's fault


async def import_(call: RequestContext) -> Response:
    options = call.service.options
    lines = call.media == LINES
    try:
        file = await call.body(options.lines if lines else options.document)
    except HttpRefusal as refusal:
        raise refusal if lines else _to_lines(refusal) from None
    with file:
        work = partial(_import_lines if lines else _import_document, call, file)
        return await call.do(partial(_audited, call, work), None if lines else file)


def _audited(call: RequestContext, work: Callable[[Flag], Response], flag: Flag) -> Response:
    """Import a bundle; note a refusal in the audit trail, with its rule."""
    try:
        return work(flag)
    except (HttpRefusal, OmsError) as error:
        refusal = error if isinstance(error, HttpRefusal) else refusal_of(error)
        if refusal.status < _OURS:  # else the store could not write the entry
            details: dict[str, int | str] = {"refused": refusal.rule, "status": refusal.status}
            note_import(context_of(call.service.stores.main), FORMAT, details, actor=call.actor)
        if call.media != LINES and refusal.status == _TOO_LARGE:
            raise _to_lines(refusal) from None
        raise


def _to_lines(refusal: HttpRefusal) -> HttpRefusal:
    """Add to the refusal of a large document the format to send instead."""
    if refusal.status == _TOO_LARGE:
        refusal.detail = "; ".join(filter(None, (refusal.detail, _LARGER)))
    return refusal


def _import_document(call: RequestContext, file: IO[bytes], flag: Flag) -> Response:
    data = file.read()
    options = call.service.options
    limits = AimemLimits(document=options.document, values=options.values)
    bundle = document.read_bundle(data, limits, alive=flag.check)
    done = _check_signature(call, partial(signature.canonical, data))
    return _taken(call, bundle, done, flag)


def _import_lines(call: RequestContext, file: IO[bytes], flag: Flag) -> Response:
    source: Any = _Watched(file, flag)
    if call.service.options.require_signature or signature.HEADER in call.headers:
        document.scan(source)  # only a valid bundle has a canonical text
        source.seek(0)
    with ExitStack() as opened:

        def text() -> Pieces:
            pieces = opened.enter_context(signature.pieces_of_lines(source))
            return lambda: flag.watched(pieces())

        done = _check_signature(call, text)
    source.seek(0)
    return _taken(call, source, done, flag)


def _check_signature(call: RequestContext, text: Callable[[], bytes | Pieces]) -> Checked:
    """Check the signature of a bundle: a malformed or invalid one is always refused."""
    options, given = call.service.options, call.headers.getlist(signature.HEADER)
    if not given and not options.require_signature:
        return "missing"
    if not given:
        raise HttpRefusal("signature_missing")
    if len(given) > 1:
        raise HttpRefusal("signature_invalid", "two headers with a signature")
    try:
        made = signature.from_header(given[0])
        read(made)  # refuse a malformed one before the text is made
        trust = Trust() if options.trust is None else options.trust
        return look(made, text(), trust, required=options.require_signature)
    except OmsError as error:
        raise refusal_of(error) from None


def _taken(call: RequestContext, source: Any, done: Checked, flag: Flag) -> Response:
    summary = import_bundle(
        call.service.stores.main,
        source,
        tenant=call.tenant,
        signature=done,
        actor=call.actor,
        alive=flag.check,
    )
    return as_json(summary.to_dict())


class _Watched:
    """A file that can be read until the work must stop."""

    def __init__(self, file: IO[bytes], flag: Flag) -> None:
        self._file = file
        self._flag = flag

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> _Watched:
        return self

    def __next__(self) -> bytes:
        self._flag.check()
        return next(self._file)

    def readline(self, size: int = -1) -> bytes:
        self._flag.check()
        return self._file.readline(size)

    def read(self, size: int = -1) -> bytes:
        self._flag.check()
        return self._file.read(size)


async def erase(call: RequestContext) -> Response:
    def work(_: Flag) -> Response:
        store = call.service.stores.of(call.actor)
        report = erase_tenant(store, call.tenant, reason_code=_REASON)
        # Without the addresses: one of them may be another tenant's grain.
        counts = report.to_dict()
        names = ("complete", "erased", "sealed", "keys", "scrubbed", "scrub_due", "incomplete")
        more = {"kept": len(report.kept), "tokens": call.service.tokens.count([call.tenant])}
        return as_json({name: counts[name] for name in names} | more)

    return await call.do(work)
