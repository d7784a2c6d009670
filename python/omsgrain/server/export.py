# SPDX-License-Identifier: Apache-2.0
"""Exports of a tenant's memory as bundles. Spec: AIMEM §3.1.

Threads make a response piece by piece, as fast as the client reads it. If the client disconnects,
reads nothing for too long, or something fails, the response is cut short: its last chunk is
missing, and the access log has the code of the error.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import IO, Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omsgrain.crypto.seal import spool
from omsgrain.errors import KeyMissingError, OmsError, SchemaError, UnsupportedError
from omsgrain.formats.aimem import signature
from omsgrain.formats.aimem.check import RULES as AIMEM
from omsgrain.formats.aimem.document import TAG
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from omsgrain.interchange import aimem_export
from omsgrain.interchange.aimem_export import export_stream
from omsgrain.interchange.export import AimemExportReport
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.request import BUNDLE, CODE, LINES, Gone, RequestContext, until_gone, weights
from omsgrain.server.service import Flag, Stopped

PRODUCERS: Final = "aimem-producers"
"""Header: the producers in an export."""
WITHHELD: Final = "aimem-withheld"
"""Header: the number of withheld grains, by reason."""
LOST: Final = "aimem-lost"
"""Header: the number of values that the format cannot represent, by field."""
ADDED: Final = "aimem-added"
"""Header: the number of values that the server added, by field."""
LEFT_OUT: Final = {"aimem-signature-omitted": "too-large"}
"""Header: the response is too large to be signed."""
_TOLD = 100
_FIELDS = 20  # fields in a header; the others are counted together
_FIELD = re.compile(r"[A-Za-z0-9_.:/$-]{1,64}")  # excludes names that a person may have chosen
_OTHER = "other"
_IN_MEMORY = 1 << 20
_NAMES: Final = {kind: name for name, kind in ARRAYS.items()}
_STARTS: Final = {
    kind: json.dumps({TAG: kind}, separators=(",", ":")).encode()[:-1] + b"," for kind in _NAMES
}
_DIGEST = "content-digest"
_LIMIT = "aimem-document-limit"
_IGNORED = "aimem-ignored"
_GZIP = 31  # for zlib: a gzip header
PIECE = 256 << 10
"""Bytes that a thread makes in one step."""


async def export(call: RequestContext) -> Response:
    """Return the tenant's memory as one bundle."""
    return await until_gone(call.receive, _export(call, BUNDLE))


async def export_lines(call: RequestContext) -> Response:
    """Return the same by lines, of any length, in bounded memory."""
    return await until_gone(call.receive, _export(call, LINES))


async def _export(call: RequestContext, media: str) -> Response:
    asked = wanted(call.given)
    if call.head:
        return _head(media)
    service, options, check = call.service, call.service.options, await _unerased(call)
    async with AsyncExitStack() as held:
        async with AsyncExitStack() as work:
            flag = await work.enter_async_context(call.working())
            lines, headers = await service.step(flag, partial(lines_of, call, asked, flag))
            work.push_async_callback(service.step, flag, lines.close)
            making = partial(spooled, as_document(lines))
            if media == LINES:
                most = PIECE if options.signer is None else options.signed
                making = partial(spooled, lines, most)
            file, size, whole = await service.step(flag, making)
            held.callback(file.close)
            if not whole:  # the work continues while the client reads
                held.push_async_callback(work.pop_all().aclose)
                headers |= LEFT_OUT if options.signer is not None else {}
                pieces = _pieces(call, file, (flag, lines))
                if _packs(call):
                    headers["content-encoding"], pieces = "gzip", _packed(call, pieces)
                return await _stream(call, media, headers, held, check, pieces)
            sent, known = await service.step(flag, partial(_sent, file, _packs(call), flag))
            held.callback(sent.close)
        headers |= known | await _signed(call, size, partial(_text, file, media))
        if media == BUNDLE and size > options.document:
            headers[_LIMIT] = str(options.document)
        return await _stream(call, media, headers, held, check, _pieces(call, sent))


def wanted(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check the parameters of an export together; ``since`` counts only with its scope."""
    asked = dict(given)
    if asked["scope"] != "SINCE":
        asked["since"] = None
    aimem_export.BundleOptions(scope=asked["scope"], since=asked["since"])  # checks both
    if asked["embedding_model"] is not None and not asked["include_embeddings"]:
        raise HttpRefusal("invalid_parameter", "embedding_model needs include_embeddings=true")
    return asked


def lines_of(
    call: RequestContext, asked: dict[str, Any], flag: Flag
) -> tuple[Generator[bytes, None, None], dict[str, str]]:
    """Return the lines of an export, and its headers.

    Without a producer the bundle has the grains of all producers; a header names them.
    """
    options, report = call.service.options, AimemExportReport()
    try:
        pieces = export_stream(
            call.service.stores.main,
            call.tenant,
            actor=call.actor,
            report=report,
            alive=flag.check,
            scope=asked["scope"],
            since=asked["since"],
            producer=options.producer,
            only_producer=asked["producer"],
            together=asked["producer"] is None,
            include_embeddings=asked["include_embeddings"],
            embedding_model=asked["embedding_model"],
            purpose=options.purpose,
        )
    except (UnsupportedError, SchemaError, KeyMissingError) as error:
        if error.field == "/embedding_model":
            one = f"embedding_model: expected one of {error.found}"
            raise HttpRefusal("invalid_parameter", one, code=error.code) from None
        if error.rule is None or error.rule in AIMEM:
            raise
        kept = f"the rule {error.rule} forbids the export"
        raise HttpRefusal("refused_by_policy", kept, code=error.code) from None
    if asked["embedding_dim"] is not None:
        first = next(pieces)
        found = json.loads(first.partition(b"\n")[0]).get("embedding_dim")
        if found not in (None, asked["embedding_dim"]):
            raise HttpRefusal("invalid_parameter", f"embedding_dim: expected {found}")
        pieces = chain((first,), pieces)
    headers = {PRODUCERS: ", ".join((report.named or report.producers)[:_TOLD])}
    if report.withheld:
        headers[WITHHELD] = "; ".join(f"{n}, {reason}" for reason, n in report.withheld.items())
    headers |= _counts(LOST, report.lost_fields) | _counts(ADDED, report.added_fields)
    if call.given["since"] is not None and asked["since"] is None:
        headers[_IGNORED] = "since"
    return flag.watched(pieces), headers


def _counts(name: str, fields: Counter[str]) -> dict[str, str]:
    """Return a header with the most frequent fields and their counts; none without fields."""
    shown = {
        field: count for field, count in fields.most_common(_FIELDS) if _FIELD.fullmatch(field)
    }
    if others := fields.total() - sum(shown.values()):
        shown[_OTHER] = shown.get(_OTHER, 0) + others
    return {name: "; ".join(f"{n}, {field}" for field, n in shown.items())} if shown else {}


def as_document(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Turn a bundle by lines into one document with the same checksum.

    The lines are sorted: chunks, edges, entities, links.
    """
    lines = (line for piece in pieces for line in piece.splitlines())
    envelope = next(lines)
    yield envelope[:-1]
    left = list(_NAMES)
    opened: Kind | None = None
    for line in lines:
        kind = next(kind for kind in left if line.startswith(_STARTS[kind]))
        while opened != kind:
            opened = left[0] if opened is None else left[left.index(opened) + 1]
            yield (b"" if opened == left[0] else b"]") + _array(opened)
            first = True
        yield (b"{" if first else b",{") + line[len(_STARTS[kind]) :]
        first = False
    rest = left if opened is None else left[left.index(opened) + 1 :]
    for kind in rest:
        yield (b"" if kind == left[0] else b"]") + _array(kind)
    yield b"]}"


def _array(kind: Kind) -> bytes:
    return b',"' + _NAMES[kind].encode() + b'":['


def spooled(parts: Iterator[bytes], most: int | None = None) -> tuple[IO[bytes], int, bool]:
    """Write parts to an unnamed file; return the file, its size, and whether all fitted."""
    file = spool(_IN_MEMORY)
    size, whole = 0, True
    try:
        for part in parts:
            size += file.write(part)
            if most is not None and size > most:
                whole = False
                break
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file, size, whole


def _head(media: str) -> Response:
    """Respond to HEAD, without a length: no bundle is made."""
    response = Response(media_type=media)
    del response.headers["content-length"]
    return response


def _sent(file: IO[bytes], packs: bool, flag: Flag) -> tuple[IO[bytes], dict[str, str]]:
    """Return the bytes to send, and the headers with their coding, length and hash.

    The hash covers the coded bytes. Spec: RFC 9530 §2, RFC 9110 §6.4
    """
    headers = {}
    if packs:
        packer = zlib.compressobj(wbits=_GZIP)
        packed = chain(
            map(packer.compress, _read(file, flag)), map(packer.flush, (zlib.Z_FINISH,))
        )
        file, _, _ = spooled(packed)
        headers["content-encoding"] = "gzip"
    hashed, size = sha256(), 0
    for piece in _read(file, flag):
        hashed.update(piece)
        size += len(piece)
    digest = base64.b64encode(hashed.digest()).decode()
    return file, headers | {"content-length": str(size), _DIGEST: f"sha-256=:{digest}:"}


def _read(file: IO[bytes], flag: Flag) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE):
        flag.check()
        yield piece


def _packs(call: RequestContext) -> bool:
    asked = weights(call.headers, "accept-encoding")
    return asked.get("gzip", asked.get("*", 0)) > 0


async def _signed(call: RequestContext, size: int, text: Callable[[], bytes]) -> dict[str, str]:
    """Return the header with the signature of the server; none without a signer."""
    options = call.service.options
    if options.signer is None:
        return {}
    if size > options.signed:
        return dict(LEFT_OUT)
    signer = options.signer

    def work() -> dict[str, str]:
        made = signature.sign_bundle(text(), signer, iat=int(time.time()))
        return {signature.HEADER.lower(): signature.to_header(made)}

    # Not within the place of the export: a request that waits for a second place can deadlock.
    async with call.working(large=size > options.large) as flag:
        return await call.service.step(flag, work)


def _text(file: IO[bytes], media: str) -> bytes:
    """Return the text that a signature covers."""
    file.seek(0)
    if media == LINES:
        return signature.canonical_of_lines(file)
    return signature.canonical(file.read())


async def _stream(
    call: RequestContext,
    media: str,
    headers: dict[str, str],
    held: AsyncExitStack,
    check: Callable[[], Awaitable[None]],
    pieces: AsyncIterator[bytes],
) -> Response:
    try:
        await check()
    except Stopped:  # later the response can only be cut short
        raise HttpRefusal("erased", "the tenant was erased meanwhile") from None
    timeout = call.service.options.timeout
    headers = headers | {"vary": "accept-encoding"}
    return Stream(
        pieces, held.pop_all(), timeout=timeout, headers=headers, media_type=media, check=check
    )


async def _pieces(
    call: RequestContext, file: IO[bytes], rest: tuple[Flag, Iterator[bytes]] | None = None
) -> AsyncIterator[bytes]:
    service = call.service
    file.seek(0)
    while piece := await service.quick(partial(file.read, PIECE)):
        yield piece
    if rest is not None:
        flag, lines = rest
        while piece := await service.step(flag, partial(gathered, lines)):
            yield piece


async def _packed(call: RequestContext, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(wbits=_GZIP)
    async for piece in pieces:
        if packed := await call.service.quick(partial(packer.compress, piece)):
            yield packed
    yield packer.flush()


async def _unerased(call: RequestContext) -> Callable[[], Awaitable[None]]:
    """Return a check that stops the response if the tenant was erased."""
    service, tenant = call.service, call.tenant
    before = await service.erasures(tenant)

    async def check() -> None:
        if await service.erasures(tenant) != before:
            raise Stopped

    return check


def gathered(parts: Iterator[bytes], size: int = PIECE) -> bytes:
    """Join the next parts up to a size; empty at the end."""
    taken, total = [], 0
    for part in parts:
        taken.append(part)
        total += len(part)
        if total >= size:
            break
    return b"".join(taken)


class Stream(Response):
    """A response in pieces. It ends if the client reads nothing for too long."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        held: AsyncExitStack,
        *,
        timeout: float,
        headers: Mapping[str, str],
        media_type: str,
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)
        self._pieces = pieces
        self._held = held
        self._timeout = timeout
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            try:
                # asyncio's TimeoutError is another class in Python 3.10.
                with suppress(Gone, Stopped, TimeoutError, asyncio.TimeoutError):
                    await until_gone(receive, self._send(send))
            except OmsError as error:
                scope[CODE] = error.code

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async for piece in self._pieces:
            await self._check()
            message = {"type": "http.response.body", "body": piece, "more_body": True}
            await asyncio.wait_for(send(message), self._timeout)
        await self._check()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
