# SPDX-License-Identifier: Apache-2.0
"""What an export is made of: lines in one snapshot of the store, or a document made of them.

A document is made whole before its first byte goes out, in a file without a name: so a slow client
keeps no snapshot open, its length is known, and it can be signed.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Final

from omsgrain.crypto.spool import spool
from omsgrain.errors import KeyMissingError, SchemaError, UnsupportedError
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from omsgrain.formats.aimem.rules import RULES as AIMEM
from omsgrain.formats.aimem.stream import TAG
from omsgrain.gateways.aimem import scopes
from omsgrain.gateways.aimem.asking import ExportReport
from omsgrain.gateways.aimem.streaming import export_stream
from omsgrain.services.http.options import Options
from omsgrain.services.http.problems import Refusal
from omsgrain.services.http.work import Flag

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore

__all__ = [
    "PRODUCERS",
    "WITHHELD",
    "Wanted",
    "as_document",
    "lines_of",
    "spooled",
    "wanted",
    "watched",
]

PRODUCERS: Final = "aimem-producers"
"""The header that names the producers of what an export holds."""
WITHHELD: Final = "aimem-withheld"
"""The header that counts what the store keeps back, by reason."""
_TOLD = 100
_IN_MEMORY = 1 << 20
_NAMES: Final = {kind: name for name, kind in ARRAYS.items()}
_STARTS: Final = {
    kind: json.dumps({TAG: kind}, separators=(",", ":")).encode()[:-1] + b"," for kind in _NAMES
}


@dataclass(frozen=True, slots=True)
class Wanted:
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


def wanted(given: Mapping[str, Any]) -> Wanted:
    """Look at the parameters of an export together.

    Raises:
        Refusal, SchemaError: they do not fit.
    """
    asked = Wanted(**given)
    if asked.scope != "SINCE":
        asked = replace(asked, since=None)
    scopes.wanted(asked.scope, asked.since)
    if asked.embedding_model is not None and not asked.include_embeddings:
        raise Refusal("invalid_parameter", "embedding_model goes with include_embeddings=true")
    return asked


def lines_of(
    store: GrainStore, tenant: str, actor: str, asked: Wanted, options: Options, flag: Flag
) -> tuple[Iterator[bytes], dict[str, str]]:
    """An export by lines, and the headers that tell of it.

    Who asks for no producer gets all there is, in one bundle; a header names who has named it.

    Raises:
        Refusal: a rule of a preset or a profile keeps it here.
        Stopped: one must.
        OmsError: as ``export_stream``.
    """
    report = ExportReport()
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
            raise Refusal("invalid_parameter", one, code=error.code) from None
        if error.rule is None or error.rule in AIMEM:
            raise
        kept = f"the rule {error.rule} keeps memory here"
        raise Refusal("refused_by_policy", kept, code=error.code) from None
    if asked.embedding_dim is not None:
        first = next(pieces)
        found = json.loads(first.partition(b"\n")[0]).get("embedding_dim")
        if found not in (None, asked.embedding_dim):
            raise Refusal("invalid_parameter", f"embedding_dim: expected {found}")
        pieces = chain((first,), pieces)
    headers = {PRODUCERS: ", ".join((report.named or report.producers)[:_TOLD])}
    if report.withheld:
        headers[WITHHELD] = "; ".join(f"{n}, {reason}" for reason, n in report.withheld.items())
    return pieces, headers


def watched(pieces: Iterator[bytes], flag: Flag) -> Generator[bytes, None, None]:
    """The same pieces, until one must stop."""
    for piece in pieces:
        flag.check()
        yield piece


def as_document(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """A bundle by lines as one document; its checksum is the same.

    All chunks come first, then edges, entities and links, as `stream.write` gives them.

    Args:
        pieces: of whole lines.
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
    """Write parts to a file without a name; it stands at its beginning.

    Args:
        parts: are written until they end.
        most: stop once so many bytes are there.

    Returns:
        The file, its size, and whether the parts have ended.
    """
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
