# SPDX-License-Identifier: Apache-2.0
"""Files of memories as grains, and grains as a file, without a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats.checksums import of_bytes
from omsgrain.formats.document import (
    CHANGED,
    Dump,
    Import,
    Loss,
    Manifest,
    Vector,
    bare,
    manifest,
    spelled,
    the_one,
)
from omsgrain.formats.json_text import style_of
from omsgrain.formats.mif_ld import document
from omsgrain.formats.mif_ld.document import (
    STAYS,
    Layout,
    ParsedDocuments,
    apart,
    in_order,
    reshaped,
    taken,
    together,
)
from omsgrain.formats.mif_ld.finding import Shape
from omsgrain.formats.mif_ld.forms import LIMITS, MifLdLimits
from omsgrain.formats.mif_ld.records import FORMAT, LOCAL, TABLE, is_memory
from omsgrain.formats.mif_ld.validate import Mode, judge
from omsgrain.formats.problems import MOST, DocumentError, Problem
from omsgrain.formats.records import newest
from omsgrain.formats.source import Get, checking, getter
from omsgrain.grain import Grain

ARRAY: Final = "/memories"
"""The one array of a manifest: all documents, file after file."""
_FILES: Final = "files"
_COUNTERS: Final = "volatile"


def load(
    data: bytes,
    *,
    mode: Mode = "schema",
    user_id: str | None = None,
    layout: Layout | None = None,
    shape: Shape | None = None,
    exact: bool = False,
    strict_published: bool = False,
    limits: MifLdLimits = LIMITS,
) -> Import:
    """Make grains of a file of memories, of either shape.

    Of an array, of lines or of a corpus a bad document is left out, and told in ``problems``.
    """
    sheet = document.read_file(data, layout, limits, shape)
    found = taken(sheet, mode=mode, strict_published=strict_published)
    if found.problems and sheet.entry["layout"] in ("document", "markdown"):
        total = judge(sheet.values[0], mode=mode, strict_published=strict_published).total
        raise DocumentError(list(found.problems), total)
    if mode == "extra":
        found = found._replace(warnings=(*found.warnings, *in_order([found])))
    text = style = None
    if exact and found.entry["layout"] == "lines":
        if not found.problems:  # else lines are left out, and it cannot come back as it was
            found.entry["text"] = data.decode()
    elif exact and sheet.tree is not None:
        style = style_of(data, sheet.tree)
        text = data if style is None else None
    known = of_bytes(data)
    whole = Manifest(FORMAT, known, {}, {}, style, layout=found.entry["layout"])
    return imported([found], whole, user_id=user_id, text=text)


def dump(
    grains: Iterable[Grain],
    vectors: Mapping[str, Vector] | None = None,
    *,
    embeddings: bool = True,
    exact: bool = False,
    layout: Layout | None = None,
    shape: Shape | None = None,
    local: bool = False,
) -> Dump:
    """Make a file of grains that were one; it comes back as it was."""
    found, get = own(grains)
    with checking():
        return _dump(found, get, embeddings, exact, layout, shape, local)


def _dump(
    found: ManifestDocuments,
    get: Get,
    embeddings: bool,
    exact: bool,
    layout: Layout | None,
    shape: Shape | None,
    local: bool,
) -> Dump:
    losses: list[Loss] = []
    if not embeddings:
        found = _without_embeddings(found, losses)
    files = list(files_of(found, local, losses))
    values = [value for file in files for value in file.values]
    values = in_shape(values, shape, losses)
    alone = len(files) == 1 and files[0].entry["layout"] in ("document", "markdown")
    if alone and not values:
        raise SchemaError(STAYS, field="/local", expected="local=True")
    entry = files[0].entry if len(files) == 1 else document.corpus(values)
    if layout in ("document", "markdown") and len(values) != 1:
        raise SchemaError("one memory in a file", field="/layout", found=f"{len(values)} of them")
    if layout is not None and layout != entry["layout"]:
        entry = document.entry(layout, values)
    elif exact and found.manifest.style is None and not _is_kept(found.manifest, entry):
        raise SchemaError("how the file was spelled was not kept when it was loaded")
    if entry["layout"] in ("lines", "markdown"):
        data, lost = document.write_file(entry, values)
        if exact and data != str(entry.get("text", data.decode())).encode():
            raise SchemaError(CHANGED, field="/exact")
        return Dump(data, losses + [Loss(*one) for one in lost])
    whole = document.tree(entry, values)
    if layout is not None and layout != found.manifest.layout:
        return Dump(document.write_file(entry, values)[0], losses)
    return Dump(spelled(found.manifest, whole, get, exact=exact), losses)


def written(
    made: Mapping[str, Any],
    found: Manifest | None,
    layout: Layout | None,
    get: Get,
    *,
    exact: bool = False,
) -> tuple[bytes, list[Loss]]:
    """Write a file that was made of grains of other formats."""
    values, files = made["memories"], made["files"]
    entry = files[0] if len(files) == 1 else document.corpus(values)
    if layout in ("document", "markdown") and len(values) != 1:
        raise SchemaError("one memory in a file", field="/layout", found=f"{len(values)} of them")
    if layout is not None and layout != entry["layout"]:
        entry = document.entry(layout, values)
    elif found is not None and entry["layout"] not in ("lines", "markdown"):
        return spelled(found, document.tree(entry, values), get, exact=exact), []
    data, lost = document.write_file(entry, values)
    return data, [Loss(*one) for one in lost]


# -- grains ---------------------------------------------------------------------------------------


def imported(
    files: Sequence[ParsedDocuments],
    whole: Manifest,
    *,
    user_id: str | None,
    text: bytes | None = None,
) -> Import:
    """Make grains of the documents of files, and of what stands around them."""
    bare, counters = apart(value for file in files for value in file.values)
    given = [("memory", one) if is_memory(one) else ("other", {"value": one}) for one in bare]
    built = TABLE.to_grains(given, owner=user_id)
    grains: dict[str, Grain] = {}
    for one in built:
        grains.update((part.address, part) for part in one.parts)
        grains[one.grain.address] = one.grain
    envelope: dict[str, Any] = {_FILES: [file.entry for file in files]}
    if counters:
        envelope[_COUNTERS] = counters
    whole = replace(whole, envelope=envelope, arrays={ARRAY: [one.grain.address for one in built]})
    made = newest(one.grain for one in built)
    more = manifest(whole, created_at=made, user_id=user_id, text=text)
    warnings = _bounded(one for file in files for one in file.warnings)
    problems = _bounded(one for file in files for one in file.problems)
    dropped = _bounded(one for file in files for one in file.dropped)
    places = tuple(_place(*one) for file in files for one in file.places)
    return Import(FORMAT, [*grains.values(), *more], {}, warnings, problems, dropped, places)


def _place(pointer: str, line: int | None) -> str:
    """Where a document stands; of lines it is the number from 0, as of an array."""
    return pointer if line is None or not pointer else f"{pointer}/{line - 1}"


def _bounded(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The first thousand, and how many there are besides."""
    found = list(problems)
    if len(found) <= MOST:
        return tuple(found)
    rest = Problem("more", "", "there are more of them", found=f"{len(found) - MOST} more")
    return (*found[:MOST], rest)


class ManifestDocuments(NamedTuple):
    """A manifest, and the documents that it lists, with their counters."""

    manifest: Manifest
    values: list[Any]


def own(grains: Iterable[Grain]) -> tuple[ManifestDocuments, Get]:
    """The one file, or directory, that is among grains."""
    by_address = {grain.address: grain for grain in grains}
    get = getter(by_address)
    found = the_one(by_address.values(), FORMAT, get)
    values = []
    for address in found.arrays.get(ARRAY, ()):
        born = TABLE.from_grain(get(address), get)
        if born is None:
            raise SchemaError("a record of the document is none", field=f"/{address}")
        values.append(bare(*born))
    counters = found.envelope.get(_COUNTERS) or {}
    if not isinstance(counters, dict):
        raise FormatError("counters that are none", rule="manifest")
    return ManifestDocuments(found, list(together(values, counters))), get


def files_of(
    found: ManifestDocuments, local: bool, losses: list[Loss]
) -> Iterator[ParsedDocuments]:
    """The files of a manifest, each with its documents."""
    at = 0
    for entry in found.manifest.envelope.get(_FILES, ()):
        values = found.values[at : at + entry["count"]]
        at += entry["count"]
        stays = [not local and is_local(value) for value in values]
        if any(stays):
            losses += [Loss(str(value.get("@id")), "memory", STAYS)
                       for value, one in zip(values, stays, strict=True) if one]  # fmt: skip
            entry = document.shrunk(entry, [not one for one in stays])
            values = [value for value, one in zip(values, stays, strict=True) if not one]
        yield ParsedDocuments(entry, values)
    if at != len(found.values):
        raise SchemaError("a manifest is not of these documents", found=f"{at} of them")


def in_shape(values: Iterable[Any], shape: Shape | None, losses: list[Loss]) -> list[Any]:
    """Documents whose memories have a shape."""
    if shape is None:
        return list(values)
    made = []
    for value in values:
        if is_memory(value):
            value, lost = reshaped(value, shape)
            losses += [Loss(*one) for one in lost]
        made.append(value)
    return made


def is_local(value: Any) -> bool:
    """Whether a memory is of the namespace that does not leave."""
    namespace = value.get("namespace") if isinstance(value, dict) else None
    return isinstance(namespace, str) and (namespace == LOCAL or namespace.startswith(f"{LOCAL}/"))


def _without_embeddings(found: ManifestDocuments, losses: list[Loss]) -> ManifestDocuments:
    values = []
    for value in found.values:
        if is_memory(value) and "embedding" in value:
            losses.append(Loss(value["@id"], "embedding", "embeddings were not asked for"))
            value = {key: one for key, one in value.items() if key != "embedding"}
        values.append(value)
    return found._replace(values=values)


def _is_kept(whole: Manifest, entry: Mapping[str, Any]) -> bool:
    return bool(whole.text) or "text" in entry or entry["layout"] == "markdown"
