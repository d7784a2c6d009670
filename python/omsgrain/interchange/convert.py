# SPDX-License-Identifier: Apache-2.0
"""Convert a file of one format into another, through grains. A format is a row of ``FORMATS``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omsgrain import container, formats
from omsgrain.container.read import address as address_of
from omsgrain.counts import counted
from omsgrain.durable import NewFiles, refuse_existing
from omsgrain.errors import OmsError, SchemaError
from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem.fields import ARRAYS, LIMITS
from omsgrain.formats.convert.convert import is_foreign
from omsgrain.formats.convert.returning import taken_back
from omsgrain.formats.document import Added, Import, Loss, parted
from omsgrain.formats.mif1.check import EXTENSIONS
from omsgrain.formats.mif1.check import LIMITS as MIF_LIMITS
from omsgrain.formats.mif1.envelope import is_sealed
from omsgrain.formats.mif_ld import corpus, markdown
from omsgrain.formats.mif_ld import document as layouts
from omsgrain.formats.mif_ld.finding import shape_of
from omsgrain.formats.mif_ld.format import MIF_LD
from omsgrain.formats.mif_ld.forms import LIMITS as LD_LIMITS
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.source import Source
from omsgrain.formats.table import CONTAINER, Sniffed, sniff_file, version
from omsgrain.grain import Grain
from omsgrain.header import ENVELOPE_BYTE

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.formats.mif_ld.validate import Mode

_AS_JSON: Final = {"markdown": "document", "lines": "corpus"}
"""How memories stand in a file that is called as one of JSON, where they came in none."""


@dataclass(frozen=True, slots=True)
class Converted:
    """What was converted.

    Attributes:
        source: the format that was read.
        target: the one that was written.
        grains: through how many grains it went.
        losses: what the target cannot hold.
        added: what it needs and the source does not say.
        warnings: what was read of the source although it looks wrong.
    """

    source: str
    target: str
    grains: int
    losses: list[Loss] = field(default_factory=list)
    warnings: tuple[Problem, ...] = ()
    added: list[Added] = field(default_factory=list)

    __repr__ = counted

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-ready values."""
        lost, added = ([asdict(one) for one in told] for told in (self.losses, self.added))
        warned = [one.to_dict() for one in self.warnings]
        return {"from": self.source, "to": self.target, "grains": self.grains, "losses": lost,
                "added": added, "warnings": warned}  # fmt: skip


class ParsedFile(NamedTuple):
    """What was read of a file, and what could not be."""

    read: Import
    losses: list[Loss]


class Handler(NamedTuple):
    """How files of a format are read and written.

    Attributes:
        suffixes: how they are called.
        read: makes grains of a file; the second argument says whether it comes by lines, the last
            one what opens it, or how it is judged.
        write: writes a file, and says what it cannot hold.
    """

    suffixes: tuple[str, ...]
    read: Callable[[Path, bool, dict[str, Any]], ParsedFile]
    write: Callable[[Import, Path, bool, dict[str, Any]], list[Loss]]


def convert(
    source: Path,
    target: Path,
    *,
    format: str | None = None,
    replace: bool = False,
    passphrase: str | None = None,
    encrypt: bool = False,
    mode: str | None = None,
    resolver: Resolver | None = None,
    **options: Any,
) -> Converted:
    """Convert a file; the whole of it is in memory."""
    to = format or format_of_name(target)
    if to is None and (source.is_dir() or options.get("layout") is not None):
        to = "mif-ld"
    if to not in FORMATS:
        raise SchemaError("which format is to be written", field="/format",
                          expected=", ".join(FORMATS))  # fmt: skip
    if not (to == "mif-ld" and target.is_dir()):
        refuse_existing(target, replace)
    found = Sniffed("mif-ld", False) if source.is_dir() else sniff_file(source)
    if format is None and to == "mif2" and found.format == "mif1":
        to = "mif1"  # another layout of the same
    for name in ("layout", "shape") if to != "mif-ld" else ():
        if options.pop(name, None) is not None:
            raise SchemaError(f"only MIF in JSON-LD is asked for its {name}", field=f"/{name}")
    if encrypt and (to != "mif1" or passphrase is None):
        raise SchemaError("only MIF 1.0 is encrypted, and with a passphrase", field="/encrypt")
    if mode is not None and found.format != "mif-ld":
        raise SchemaError("only MIF in JSON-LD is judged by a mode", field="/mode")
    secret: dict[str, Any] = {} if passphrase is None else {"passphrase": passphrase}
    # What encrypts the target opens the source too, if that is encrypted.
    opens = secret if _is_sealed(source, found.format) or not encrypt else {}
    if mode is not None:
        opens = {"mode": mode}
    if found.format == CONTAINER:
        opens = {"resolver": resolver}
    read, losses = FORMATS[found.format].read(source, found.lines, opens)
    losses += FORMATS[to].write(read, target, replace, options | (secret if encrypt else {}))
    losses, added = parted(losses)
    return Converted(found.format, to, len(read.grains), losses, read.warnings, added)


def _is_sealed(source: Path, format: str) -> bool:
    if format != "mif1":
        return False
    with source.open("rb") as file:
        return is_sealed(file.read(MIF_LIMITS.document))


def format_of_name(path: Path) -> str | None:
    """The format that a file is called by, if its name says so."""
    named = (name for name, one in FORMATS.items() if path.name.endswith(one.suffixes))
    return next(named, None)


# -- .mg ------------------------------------------------------------------------------------------


def _read_mg(path: Path, _: bool, options: dict[str, Any]) -> ParsedFile:
    container.verify(path)
    grains: list[Grain] = []
    losses: list[Loss] = []
    with container.read(path) as source:
        states = source.manifest
        for data in source:
            address = address_of(data)
            if "superseded_by" in states.get(address, {}):
                losses.append(Loss(address, "grain", "it was superseded"))
                continue
            try:
                grains.append(_opened(data, options["resolver"]))
            except OmsError as error:
                losses.append(Loss(address, "grain", f"it cannot be read: {error.code}"))
                continue
            if data[:1] == ENVELOPE_BYTE:
                losses.append(Loss(address, "signature", "a record has no place for it"))
    return ParsedFile(Import(CONTAINER, grains), losses)


def _opened(data: bytes, resolver: Resolver | None) -> Grain:
    if data[:1] != ENVELOPE_BYTE:
        return Grain(data)
    from omsgrain.crypto.cose import open_signed

    return open_signed(data, resolver=resolver).grain


def _write_mg(read: Import, path: Path, _: bool, options: dict[str, Any]) -> list[Loss]:
    container.write(path, read.grains, dedupe=True)
    return [Loss(grain.address, "embedding", "a .mg file holds no vectors")
            for grain in read.grains
            if grain.address in read.vectors and not _has_its_own(grain)]  # fmt: skip


def _has_its_own(grain: Grain) -> bool:
    """Whether an embedding stands in the grain: those of MIF do, those of bundles do not."""
    source = Source.of(grain)
    return source is not None and source.format in ("mif1", "mif2")


# -- AIMEM ----------------------------------------------------------------------------------------


def _read_aimem(path: Path, lines: bool, _: dict[str, Any]) -> ParsedFile:
    with path.open("rb") as source:
        data = source.read(LIMITS.document + 1)
        if lines:
            if len(data) > LIMITS.document:
                most = f"at most {LIMITS.document} bytes; a larger one can be imported"
                raise DocumentError([bundle.problem("too_large", "", most)])
            source.seek(0)
            envelope = bundle.scan(source).envelope
            records: dict[Any, list[dict[str, Any]]] = {kind: [] for kind in ARRAYS.values()}
            source.seek(0)
            for kind, record in bundle.records(source):
                records[kind].append(record)
            data = bundle.write_bundle(bundle.Bundle(envelope, records))
    return ParsedFile(formats.load(data, format="aimem"), [])


def _write_aimem(read: Import, path: Path, replace: bool, options: dict[str, Any]) -> list[Loss]:
    user = options.pop("user_id", None)
    wanted = {name: value for name, value in options.items() if value is not None}
    dumped = formats.dump(read, format="aimem", tenant_id=user, **wanted)
    pieces: Iterable[bytes] = [dumped.data]
    if path.name.endswith(".ndjson"):
        pieces = _by_lines(json.loads(dumped.data))
    with NewFiles(replace=replace) as files:
        files.add(path, pieces)
    return [*dumped.losses, *dumped.added]


def _by_lines(document: dict[str, Any]) -> Iterator[bytes]:
    envelope = {name: value for name, value in document.items() if name not in ARRAYS}
    arrays = {kind: document.get(name, ()) for name, kind in ARRAYS.items()}
    return bundle.write_lines(envelope, arrays.__getitem__)


# -- MIF ------------------------------------------------------------------------------------------


def _mif(format: str) -> tuple[Callable[..., ParsedFile], Callable[..., list[Loss]]]:
    """How files of one of the two versions are read and written."""

    def read(path: Path, _: bool, secret: dict[str, Any]) -> ParsedFile:
        most = MIF_LIMITS.document + 1  # one more, so that it is refused
        with path.open("rb") as source:
            data = source.read(most)
        opens = secret if format == "mif1" else {}
        found = formats.load(data, format=format, **opens)
        return ParsedFile(found, _left_out(found, format))

    def write(read: Import, path: Path, replace: bool, options: dict[str, Any]) -> list[Loss]:
        wanted = {name: value for name, value in options.items() if value is not None}
        wanted.pop("producer", None)
        if format == "mif1":
            wanted["layout"] = _layout(path)
        dumped = formats.dump(read, format=format, **wanted)
        with NewFiles(replace=replace) as files:
            files.add(path, [dumped.data])
        return [*dumped.losses, *dumped.added]

    return read, write


def _left_out(found: Import, format: str) -> list[Loss]:
    """The records that are bad, each once, whatever is wrong with it besides the first."""
    of = version(format)
    bad: dict[tuple[str, int | None, int | None], Problem] = {}
    for one in found.problems:
        bad.setdefault((*of.place_of(one.pointer), one.line), one)
    return [Loss(one.pointer, "record", f"it was left out: {one.rule}") for one in bad.values()]


def _read_linked(path: Path, _: bool, options: dict[str, Any]) -> ParsedFile:
    mode: Mode = options.get("mode", "schema")
    if path.is_dir():
        found = taken_back(corpus.load_directory(path, mode=mode))
    else:
        with path.open("rb") as source:
            data = source.read(LD_LIMITS.document + 1)  # one more, so that it is refused
        layout, shape = corpus.layout_of_file(path.name, data), corpus.shape_of_name(path.name)
        found = formats.load(data, format="mif-ld", layout=layout, shape=shape, mode=mode)
    lost = [Loss(one.pointer, of, f"it was left out: {one.rule}")
            for of, listed in (("record", found.problems), ("citation", found.dropped))
            for one in listed]  # fmt: skip
    return ParsedFile(found, lost)


def _write_linked(read: Import, path: Path, replace: bool, options: dict[str, Any]) -> list[Loss]:
    """Write a file, or the files of a directory, of any grains."""
    wanted = {name: value for name, value in options.items() if value is not None}
    wanted.pop("producer", None)
    layout = wanted.pop("layout", None) or _layout_of_linked(path)
    as_markdown = layout == "markdown" and not path.name.endswith(".md")
    if layout == corpus.DIRECTORY or as_markdown:
        return _write_directory(read, path, replace, as_markdown, wanted)
    dumped = formats.dump(read, format="mif-ld", layout=layout, **wanted)
    if layout is None and path.name.lower().endswith((".json", ".jsonld")):
        stood = layouts.layout_of(dumped.data)
        if stood in _AS_JSON:
            dumped = formats.dump(read, format="mif-ld", layout=_AS_JSON[stood], **wanted)
    losses: list[Loss] = [*dumped.losses, *dumped.added]
    if layout == "markdown":
        whole = formats.dump(read, format="mif-ld", layout="document", **wanted)
        losses += _misnamed(path.name, dumped.data, json.loads(whole.data))
    with NewFiles(replace=replace) as files:
        files.add(path, [dumped.data])
    return losses


def _misnamed(name: str, data: bytes, memory: dict[str, Any]) -> list[Loss]:
    """That the name of a file says another shape than the memory has, and its text says none."""
    _, shape, _ = markdown.read_bytes(data, shape=corpus.shape_of_name(name))
    if shape == shape_of(memory):
        return []
    end = ".memory.md" if shape == "1.x" else ".md"
    reason = f"a text that is called so is read as one of {shape}; one that is called {end} is not"
    return [Loss(str(memory.get("@id")), "shape", reason)]


def _write_directory(
    read: Import, path: Path, replace: bool, as_markdown: bool, options: dict[str, Any]
) -> list[Loss]:
    """Files of memories below a directory, which appear together."""
    local, losses = bool(options.pop("local", False)), list[Loss]()
    if is_foreign(read.grains, MIF_LD):
        dumped = formats.dump(read, format="mif-ld", layout="array", local=local, **options)
        # As it stands: what goes along in memories stays in them.
        read, losses = MIF_LD.load(dumped.data), [*dumped.losses, *dumped.added]
    shape = options.get("shape")
    with NewFiles(replace=replace) as files:

        def write(name: PurePosixPath, data: bytes) -> None:
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            files.add(file, [data])

        return losses + corpus.write_files(
            read.grains, write, markdown=as_markdown, shape=shape, local=local
        )


def _layout_of_linked(path: Path) -> str | None:
    """How memories stand in a file that is called so; by default as they stood."""
    if path.is_dir() or not path.suffix:
        return corpus.DIRECTORY
    ends = {".memory.json": "document", ".md": "markdown", ".ndjson": "lines"}
    return next((layout for end, layout in ends.items() if path.name.endswith(end)), None)


def _layout(path: Path) -> str:
    named = (name for name, end in EXTENSIONS.items() if path.name.endswith(end))
    return next(named, "json")


FORMATS: dict[str, Handler] = {
    "mg": Handler((".mg",), _read_mg, _write_mg),
    "aimem": Handler((".aimem.json", ".aimem.ndjson"), _read_aimem, _write_aimem),
    "mif2": Handler((EXTENSIONS["json"],), *_mif("mif2")),
    "mif1": Handler((EXTENSIONS["yaml"], EXTENSIONS["jsonl"]), *_mif("mif1")),
    "mif-ld": Handler(MIF_LD.suffixes, _read_linked, _write_linked),
}
"""All of them."""
