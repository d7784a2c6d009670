# SPDX-License-Identifier: Apache-2.0
"""Bundles in and out, and the end of a tenant. Spec: AIMEM §3.1, §3.2, §5.2."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Final

from starlette.responses import Response

from omsgrain.crypto.seal import spool
from omsgrain.crypto.signers import Pieces
from omsgrain.crypto.trust import Checked
from omsgrain.errors import KeyMissingError, OmsError, SchemaError, UnsupportedError
from omsgrain.formats.aimem import document, signature
from omsgrain.formats.aimem import document as bundles
from omsgrain.formats.aimem.check import RULES as AIMEM
from omsgrain.formats.aimem.document import TAG
from omsgrain.formats.aimem.fields import ARRAYS, AimemLimits, Kind
from omsgrain.formats.aimem.records import FORMAT
from omsgrain.interchange import aimem_export
from omsgrain.interchange.aimem import erase_tenant
from omsgrain.interchange.aimem_export import export_stream
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.report import AimemExportReport
from omsgrain.server import auth
from omsgrain.server.bodies import BUNDLE, LINES, weights
from omsgrain.server.errors import HttpRefusal, refusal_of
from omsgrain.server.options import ServerOptions
from omsgrain.server.request import RequestContext, as_json, is_gone
from omsgrain.server.service import Flag, Stopped
from omsgrain.server.streaming import PIECE, Stream, gathered
from omsgrain.store.context import context_of
from omsgrain.store.import_batch import note_import

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

PRODUCERS: Final = "aimem-producers"
"""The header that names the producers of what an export holds."""
WITHHELD: Final = "aimem-withheld"
"""The header that counts what the store keeps back, by reason."""
LOST: Final = "aimem-lost"
"""The header that counts what the format cannot hold, by field."""
ADDED: Final = "aimem-added"
"""The header that counts the values that the server made up, by field."""
_TOLD = 100
_FIELDS = 20  # that a header names; the others are counted together
_FIELD = re.compile(r"[A-Za-z0-9_.:/$-]{1,64}")  # a person may have chosen the name
_OTHER = "other"
_IN_MEMORY = 1 << 20
_NAMES: Final = {kind: name for name, kind in ARRAYS.items()}
_STARTS: Final = {
    kind: json.dumps({TAG: kind}, separators=(",", ":")).encode()[:-1] + b"," for kind in _NAMES
}


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """What an export shall hold.

    Attributes:
        scope: FULL, DNA_ONLY or SINCE.
        since: with SINCE, the least created_at.
        include_embeddings: with vectors.
        embedding_model: of which model.
        embedding_dim: of how many floats; refused if they have others.
        producer: only what this one has named.
    """

    scope: str
    since: str | None
    include_embeddings: bool
    embedding_model: str | None
    embedding_dim: int | None
    producer: str | None


def wanted(given: Mapping[str, Any]) -> BundleRequest:
    """Look at the parameters of an export together."""
    asked = BundleRequest(**given)
    if asked.scope != "SINCE":
        asked = replace(asked, since=None)
    aimem_export.wanted(asked.scope, asked.since)
    if asked.embedding_model is not None and not asked.include_embeddings:
        raise HttpRefusal("invalid_parameter", "embedding_model goes with include_embeddings=true")
    return asked


def lines_of(
    store: GrainStore,
    tenant: str,
    actor: str,
    asked: BundleRequest,
    options: ServerOptions,
    flag: Flag,
) -> tuple[Iterator[bytes], dict[str, str]]:
    """An export by lines, and the headers that tell of it.

    Who asks for no producer gets all there is, in one bundle; a header names who has named it.
    """
    report = AimemExportReport()
    try:
        pieces = export_stream(
            store,
            tenant,
            actor=actor,
            report=report,
            alive=flag.check,
            scope=asked.scope,
            since=asked.since,
            producer=options.producer,
            only_producer=asked.producer,
            together=asked.producer is None,
            include_embeddings=asked.include_embeddings,
            embedding_model=asked.embedding_model,
            purpose=options.purpose,
        )
    except (UnsupportedError, SchemaError, KeyMissingError) as error:
        if error.field == "/embedding_model":
            one = f"embedding_model: expected one of {error.found}"
            raise HttpRefusal("invalid_parameter", one, code=error.code) from None
        if error.rule is None or error.rule in AIMEM:
            raise
        kept = f"the rule {error.rule} keeps memory here"
        raise HttpRefusal("refused_by_policy", kept, code=error.code) from None
    if asked.embedding_dim is not None:
        first = next(pieces)
        found = json.loads(first.partition(b"\n")[0]).get("embedding_dim")
        if found not in (None, asked.embedding_dim):
            raise HttpRefusal("invalid_parameter", f"embedding_dim: expected {found}")
        pieces = chain((first,), pieces)
    headers = {PRODUCERS: ", ".join((report.named or report.producers)[:_TOLD])}
    if report.withheld:
        headers[WITHHELD] = "; ".join(f"{n}, {reason}" for reason, n in report.withheld.items())
    headers |= _counts(LOST, report.lost_fields) | _counts(ADDED, report.added_fields)
    return pieces, headers


def _counts(name: str, fields: Counter[str]) -> dict[str, str]:
    """A header with the commonest fields and how often each occurs; none without fields."""
    shown = {
        field: count for field, count in fields.most_common(_FIELDS) if _FIELD.fullmatch(field)
    }
    if others := fields.total() - sum(shown.values()):
        shown[_OTHER] = shown.get(_OTHER, 0) + others
    return {name: "; ".join(f"{n}, {field}" for field, n in shown.items())} if shown else {}


def watched(pieces: Iterator[bytes], flag: Flag) -> Generator[bytes, None, None]:
    """The same pieces, until one must stop."""
    for piece in pieces:
        flag.check()
        yield piece


def as_document(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """A bundle by lines as one document; its checksum is the same.

    All chunks come first, then edges, entities and links, as `stream.write` gives them.
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
    """Write parts to a file without a name; it stands at its beginning."""
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


_REASON = "tenant_request"
_DIGEST = "content-digest"
_LIMIT = "aimem-document-limit"
_IGNORED = "aimem-ignored"
_GZIP = 31  # of zlib: a gzip header
_LARGER = "a larger bundle comes by lines, as application/x-ndjson"
_TOO_LARGE = 413
_OURS = 500  # a status from here on is no fault of the bundle


async def export(call: RequestContext) -> Response:
    """The tenant's memory as one bundle."""
    asked = wanted(call.given)
    if call.head:
        return _head(BUNDLE)
    service, check = call.service, await _unerased(call)
    async with AsyncExitStack() as held:
        async with call.working() as flag, _stopping(call, flag):
            file, size, headers = await service.step(flag, partial(_document, call, asked, flag))
            held.callback(file.close)
            sent, known = await service.step(flag, partial(_sent, file, _packs(call), flag))
            held.callback(sent.close)
        headers |= known | await _signed(call, size, partial(_text, file))
        if size > service.options.document:
            headers[_LIMIT] = str(service.options.document)
        return await _stream(call, BUNDLE, headers, held, check, _pieces(call, sent))


async def export_lines(call: RequestContext) -> Response:
    """The same by lines, of any length in bounded memory."""
    asked = wanted(call.given)
    if call.head:
        return _head(LINES)
    service, options, check = call.service, call.service.options, await _unerased(call)
    async with AsyncExitStack() as held:
        async with AsyncExitStack() as work:
            flag = await work.enter_async_context(call.working())
            async with _stopping(call, flag):
                lines, headers = await service.step(flag, partial(_lines, call, asked, flag))
                work.push_async_callback(service.step, flag, lines.close)
                most = PIECE if options.signer is None else options.signed
                making = partial(spooled, lines, most)
                file, size, whole = await service.step(flag, making)
                held.callback(file.close)
                if whole:
                    making_sent = partial(_sent, file, _packs(call), flag)
                    sent, known = await service.step(flag, making_sent)
                    held.callback(sent.close)
            if not whole:  # it goes on working while the client takes what is there
                held.push_async_callback(work.pop_all().aclose)
                headers |= auth.LEFT_OUT if options.signer is not None else {}
                pieces = _pieces(call, file, (flag, lines))
                if _packs(call):
                    headers["content-encoding"], pieces = "gzip", _packed(call, pieces)
                return await _stream(call, LINES, headers, held, check, pieces)
        headers |= known | await _signed(call, size, partial(_text_of_lines, file))
        return await _stream(call, LINES, headers, held, check, _pieces(call, sent))


def _head(media: str) -> Response:
    """The answer to HEAD: nothing is made, so nobody knows how long it would be."""
    response = Response(media_type=media)
    del response.headers["content-length"]
    return response


def _lines(
    call: RequestContext, asked: BundleRequest, flag: Flag
) -> tuple[Generator[bytes, None, None], dict[str, str]]:
    """The lines of an export, and the headers that tell of it."""
    lines, headers = lines_of(
        call.service.stores.main, call.tenant, call.actor, asked, call.service.options, flag
    )
    if call.given["since"] is not None and asked.since is None:
        headers[_IGNORED] = "since"
    return watched(lines, flag), headers


def _document(
    call: RequestContext, asked: BundleRequest, flag: Flag
) -> tuple[IO[bytes], int, dict[str, str]]:
    lines, headers = _lines(call, asked, flag)
    with closing(lines):
        file, size, _ = spooled(as_document(lines))
    return file, size, headers


def _sent(file: IO[bytes], packs: bool, flag: Flag) -> tuple[IO[bytes], dict[str, str]]:
    """The bytes that go over the wire, and the headers with their coding, length and hash.

    The hash is that of the coded bytes. Spec: RFC 9530 §2, RFC 9110 §6.4
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
    """Whether the client asks for gzip."""
    asked = weights(call.headers, "accept-encoding")
    return asked.get("gzip", asked.get("*", 0)) > 0


async def _signed(call: RequestContext, size: int, text: Callable[[], bytes]) -> dict[str, str]:
    options = call.service.options
    if options.signer is None:
        return {}
    if size > options.signed:
        return dict(auth.LEFT_OUT)
    # Not within the place of the export: who waits for a second place can wait for himself.
    async with call.working(large=size > options.large) as flag:
        return await call.service.step(flag, partial(auth.signed, text, options))


def _text(file: IO[bytes]) -> bytes:
    file.seek(0)
    return signature.canonical(file.read())


def _text_of_lines(file: IO[bytes]) -> bytes:
    file.seek(0)
    return signature.canonical_of_lines(file)


async def _stream(
    call: RequestContext,
    media: str,
    headers: dict[str, str],
    held: AsyncExitStack,
    check: Callable[[], Awaitable[None]],
    pieces: AsyncIterator[bytes],
) -> Response:
    """Send what was made; it takes over what is held."""
    try:
        await check()
    except Stopped:  # later it can only be cut short
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
    """A check that the tenant was not erased since: then nothing more may go out."""
    service, tenant = call.service, call.tenant
    before = await service.erasures(tenant)

    async def check() -> None:
        if await service.erasures(tenant) != before:
            raise Stopped

    return check


@asynccontextmanager
async def _stopping(call: RequestContext, flag: Flag) -> AsyncIterator[None]:
    """Stop the work of the block when the client goes away."""

    async def watch() -> None:
        await is_gone(call.receive)
        flag.set()

    watching = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def import_(call: RequestContext) -> Response:
    """Take a bundle in."""
    options = call.service.options
    lines = call.media == LINES
    try:
        file = await call.body(options.lines if lines else options.document)
    except HttpRefusal as refusal:
        raise refusal if lines else _to_lines(refusal) from None
    with file:
        size = file.seek(0, 2)
        file.seek(0)
        work = partial(_import_lines if lines else _import_document, call, file)
        return await call.do(partial(_audited, call, work), size=0 if lines else size)


def _audited(call: RequestContext, work: Callable[[Flag], Response], flag: Flag) -> Response:
    """Take a bundle in; that it was refused stands in the audit trail too, with the rule."""
    try:
        return work(flag)
    except (HttpRefusal, OmsError) as error:
        refusal = error if isinstance(error, HttpRefusal) else refusal_of(error)
        if refusal.status < _OURS:  # else the store could not tell it either
            told: dict[str, int | str] = {"refused": refusal.rule, "status": refusal.status}
            note_import(context_of(call.service.stores.main), FORMAT, told, actor=call.actor)
        if call.media != LINES and refusal.status == _TOO_LARGE:
            raise _to_lines(refusal) from None
        raise


def _to_lines(refusal: HttpRefusal) -> HttpRefusal:
    """A refusal of a document that is too large says what is taken instead."""
    if refusal.status == _TOO_LARGE:
        refusal.detail = "; ".join(filter(None, (refusal.detail, _LARGER)))
    return refusal


def _import_document(call: RequestContext, file: IO[bytes], flag: Flag) -> Response:
    data = file.read()
    options = call.service.options
    limits = AimemLimits(document=options.document, values=options.values)
    bundle = bundles.read_bundle(data, limits, alive=flag.check)
    done = _checked(call, partial(signature.canonical, data))
    return _taken(call, bundle, done, flag)


def _import_lines(call: RequestContext, file: IO[bytes], flag: Flag) -> Response:
    source: Any = _Watched(file, flag)
    if call.service.options.require_signature or signature.HEADER in call.headers:
        document.scan(source)  # only of a bundle that is good a canonical text can be made
        source.seek(0)
    with ExitStack() as opened:

        def text() -> Pieces:
            pieces = opened.enter_context(signature.pieces_of_lines(source))
            return lambda: _while_alive(pieces(), flag)

        done = _checked(call, text)
    source.seek(0)
    return _taken(call, source, done, flag)


def _checked(call: RequestContext, text: Callable[[], bytes | Pieces]) -> Checked:
    """See who signed; the audit trail of the import tells what was done about it."""
    return auth.checked(call.headers, text, call.service.options)


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


def _while_alive(pieces: Iterable[bytes], flag: Flag) -> Iterator[bytes]:
    for piece in pieces:
        flag.check()
        yield piece


class _Watched:
    """A file that stops being read when the work must stop."""

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
        """Read a line."""
        self._flag.check()
        return self._file.readline(size)

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        self._flag.check()
        return self._file.read(size)


async def erase(call: RequestContext) -> Response:
    """Erase the tenant's memory."""

    def work(_: Flag) -> Response:
        store = call.service.stores.of(call.actor)
        report = erase_tenant(store, call.tenant, reason_code=_REASON)
        # Not the addresses in it: one of them can be a grain of somebody else.
        told = report.to_dict()
        names = ("complete", "erased", "sealed", "keys", "scrubbed", "scrub_due", "incomplete")
        more = {"kept": len(report.kept), "tokens": call.service.tokens.count([call.tenant])}
        return as_json({name: told[name] for name in names} | more)

    return await call.do(work)
