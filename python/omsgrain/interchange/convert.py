# SPDX-License-Identifier: Apache-2.0
"""Convert a file of one format into another, through grains."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omsgrain import container, formats
from omsgrain.container.read import address as address_of
from omsgrain.counts import counted
from omsgrain.crypto.detached import signature_path
from omsgrain.durable import refuse_existing
from omsgrain.errors import OmsError, SchemaError
from omsgrain.formats.base import Format
from omsgrain.formats.convert.build import holds_embedding
from omsgrain.formats.document import Added, Import, Loss, parted
from omsgrain.formats.problems import Problem
from omsgrain.formats.table import (
    CONTAINER,
    FORMATS,
    OF_DIRECTORIES,
    only_read,
    sniff_directory,
    sniff_file,
)
from omsgrain.grain import Grain
from omsgrain.header import ENVELOPE_BYTE

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver

_SUFFIX: Final = ".mg"


@dataclass(frozen=True, slots=True)
class Converted:
    source: str  # the format that was read
    target: str  # the one that was written
    grains: int  # through how many grains it went
    losses: list[Loss] = field(default_factory=list)  # what the target cannot hold
    warnings: tuple[Problem, ...] = ()  # what was read of the source although it looks wrong
    added: list[Added] = field(default_factory=list)  # what it needs and the source does not say

    __repr__ = counted

    def to_dict(self) -> dict[str, Any]:
        lost, added = ([asdict(one) for one in told] for told in (self.losses, self.added))
        warned = [one.to_dict() for one in self.warnings]
        return {"from": self.source, "to": self.target, "grains": self.grains, "losses": lost,
                "added": added, "warnings": warned}  # fmt: skip


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
    name = format or format_of_name(target)
    if name is None and (source.is_dir() or options.get("layout") is not None):
        name = OF_DIRECTORIES.name
    if name != CONTAINER and name not in FORMATS:
        expected = ", ".join((CONTAINER, *FORMATS))
        raise SchemaError("which format is to be written", field="/format", expected=expected)
    to = FORMATS.get(name)
    if to is None or not (to.reads_directories and target.is_dir()):
        refuse_existing(target, replace)
    told = sniff_directory(source) if source.is_dir() else sniff_file(source)
    came = FORMATS.get(told)
    if format is None and came is not None and target.name.endswith(came.suffixes):
        to = came  # another layout of the same
    if to is not None and not (to.writes or to.writes_directories):
        raise only_read(to)
    asked = frozenset() if to is None else to.options - to.named_options
    for option in ("layout", "shape"):
        if option not in asked and options.pop(option, None) is not None:
            says = f"only {OF_DIRECTORIES.title} is asked for its {option}"
            raise SchemaError(says, field=f"/{option}")
    if encrypt and (to is None or "passphrase" not in to.options or passphrase is None):
        raise SchemaError("only MIF 1.0 is encrypted, and with a passphrase", field="/encrypt")
    if mode is not None and (came is None or "mode" not in came.load_options):
        raise SchemaError("only MIF in JSON-LD is judged by a mode", field="/mode")
    secret: dict[str, Any] = {} if passphrase is None else {"passphrase": passphrase}
    if came is None:
        read, losses = _read_mg(source, resolver)
    else:
        # The keys that encrypt the target also open an encrypted source.
        opens = {} if encrypt and not came.is_sealed(source) else dict(secret)
        opens |= {} if mode is None else {"mode": mode}
        read, losses = _read(came, source, opens)
    if to is None:
        container.write(target, read.grains, dedupe=True)
        why = "a .mg file holds no vectors"
        losses += [
            Loss(grain.address, "embedding", why)
            for grain in read.grains
            if grain.address in read.vectors and not holds_embedding(grain)
        ]
    else:
        given = options | (secret if encrypt else {})
        losses += to.write_file(read, target, given, replace=replace)
    if not target.is_dir():
        signature_path(target).unlink(missing_ok=True)  # of a file that this one replaced
    losses, added = parted(losses)
    written = CONTAINER if to is None else to.name
    return Converted(told, written, len(read.grains), losses, read.warnings, added)


def format_of_name(path: Path) -> str | None:
    """The format by the name of a file; None if it says none."""
    if path.name.endswith(_SUFFIX):
        return CONTAINER
    named = (name for name, one in FORMATS.items() if path.name.endswith(one.suffixes))
    return next(named, None)


def _read(of: Format, path: Path, given: dict[str, Any]) -> tuple[Import, list[Loss]]:
    """Read a document, or the documents in the files of a directory."""
    opens = {name: value for name, value in given.items() if name in of.load_options}
    if path.is_dir():
        found = formats.load(path, format=of.name, **opens)
    elif of.opens_files:
        found = of.load_file(path)
    else:
        data = of.read_bytes(path)
        found = formats.load(data, format=of.name, **of.options_of_file(path.name, data), **opens)
    return found, of.left_out(found)


# -- .mg ------------------------------------------------------------------------------------------


def _read_mg(path: Path, resolver: Resolver | None) -> tuple[Import, list[Loss]]:
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
                grains.append(_opened(data, resolver))
            except OmsError as error:
                losses.append(Loss(address, "grain", f"it cannot be read: {error.code}"))
                continue
            if data[:1] == ENVELOPE_BYTE:
                losses.append(Loss(address, "signature", "a record has no place for it"))
    return Import(CONTAINER, grains), losses


def _opened(data: bytes, resolver: Resolver | None) -> Grain:
    if data[:1] != ENVELOPE_BYTE:
        return Grain(data)
    from omsgrain.crypto.cose import open_signed

    return open_signed(data, resolver=resolver).grain
