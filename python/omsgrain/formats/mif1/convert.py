# SPDX-License-Identifier: Apache-2.0
"""A document as grains, and grains as a document, without a store."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from omsgrain.errors import SchemaError
from omsgrain.formats import source, times
from omsgrain.formats.checksums import of_bytes
from omsgrain.formats.document import (
    CHANGED,
    Dump,
    Import,
    Loss,
    Manifest,
    Vector,
    gathered,
    manifest,
    owner_of,
    the_one,
    vector_of,
)
from omsgrain.formats.json_text import COMPACT, Style, style_of
from omsgrain.formats.json_text import spell as spell_json
from omsgrain.formats.mif1 import document as documents
from omsgrain.formats.mif1 import document as layouts
from omsgrain.formats.mif1 import envelope
from omsgrain.formats.mif1.check import FORMAT, LIMITS, WARNINGS, Layout, Mif1Limits
from omsgrain.formats.mif1.checksum import current
from omsgrain.formats.mif1.document import Mif1Document
from omsgrain.formats.mif1.records import TABLE
from omsgrain.formats.problems import Problem
from omsgrain.formats.source import same
from omsgrain.grain import Grain


def load(
    data: bytes,
    *,
    user_id: str | None = None,
    limits: Mif1Limits = LIMITS,
    exact: bool = False,
    layout: Layout | None = None,
    passphrase: str | None = None,
    key: bytes | None = None,
) -> Import:
    """Make grains of a document; a bad record is left out, and told in ``problems``."""
    if passphrase is not None or key is not None:
        if not envelope.is_sealed(data):
            raise SchemaError("the document is not encrypted", field="/passphrase")
        data = envelope.open_document(data, passphrase, key=key, limits=limits)
    found = documents.read(data, limits, layout=layout)
    said, warnings = found.envelope.get("export"), found.warnings
    export = said if isinstance(said, dict) else {}
    owner, unnamed = owner_of(export.get("user_id"), user_id)
    if unnamed:
        says, where = WARNINGS["owner_not_kept"].says, "/export/user_id"
        warnings = (*warnings, Problem("owner_not_kept", where, says))
    style = _style(data, found, limits) if exact else None
    made = gathered(
        TABLE, found.records, owner, lambda item: vector_of(item.value.get("embedding"))
    )
    when, known = export.get("created_at"), export.get("id")
    instant = times.parse(when, floating=True) if isinstance(when, str) else None
    whole = Manifest(
        FORMAT,
        known if isinstance(known, str) and known else of_bytes(data),
        found.envelope,
        made.arrays,
        style,
        layout=found.layout,
    )
    text = data if exact and style is None else None
    more = manifest(whole, created_at=times.of_grain(instant), user_id=owner, text=text)
    return Import(FORMAT, [*made.grains.values(), *more], made.vectors, warnings, found.problems)


def dump(
    grains: Iterable[Grain],
    vectors: Mapping[str, Vector] | None = None,
    *,
    layout: Layout | None = None,
    embeddings: bool = True,
    exact: bool = False,
    passphrase: str | None = None,
    key: bytes | None = None,
) -> Dump:
    """Make a document of grains that were one; it comes back as it was."""
    by_address = {grain.address: grain for grain in grains}
    get = source.getter(by_address)
    found = the_one(by_address.values(), FORMAT, get)
    if layout is not None and layout not in get_args(Layout):
        raise SchemaError("no such layout", expected=", ".join(get_args(Layout)))
    kept = _layout(found)
    changed = layout is not None and layout != kept
    if exact and (changed or (found.style is None and not found.text)):
        raise SchemaError("how the document was spelled was not kept when it was loaded")
    losses: list[Loss] = []

    def record(address: str) -> Any:
        born = TABLE.from_grain(get(address), get)
        if born is None:
            raise SchemaError("a record of the document is none", field=f"/{address}")
        value = born[1]
        if "embedding" in value and not embeddings:
            losses.append(Loss(value["id"], "embedding", "embeddings were not asked for"))
            return {name: one for name, one in value.items() if name != "embedding"}
        return value

    arrays = {name: [record(one) for one in listed] for name, listed in found.arrays.items()}
    document = current(documents.together(found.envelope, arrays))
    data = (
        layouts.spell(document, layout or kept)
        if changed
        else spelled(found, document, get, exact=exact)
    )
    if passphrase is not None or key is not None:
        data = envelope.seal_document(data, passphrase, key=key)
    return Dump(data, losses)


# -- how a document is spelled --------------------------------------------------------------------


def _style(data: bytes, found: Mif1Document, limits: Mif1Limits) -> Style | None:
    """The style of a text; of YAML and of lines there is only ours."""
    tree = found.to_dict()
    if found.layout == "json":
        return style_of(data, tree)
    return COMPACT if layouts.spell(tree, found.layout) == data else None


_ANY: Final = Mif1Limits(document=sys.maxsize - 1, line=sys.maxsize - 1)
"""What was kept was taken once, however large it is."""


def _layout(found: Manifest) -> Layout:
    for layout in get_args(Layout):
        if layout == found.layout:
            return layout  # type: ignore[no-any-return]
    return "json"


def spelled(
    found: Manifest, document: dict[str, Any], get: source.Get, *, exact: bool = False
) -> bytes:
    """As `omsgrain.formats.document.spelled`, in the layout that the document had."""
    layout = _layout(found)
    if found.text:
        text = source.gather(found.text, get)
        # What was changed since is written as it is now.
        read = layouts.parse(text, layout, _ANY)
        if same(read.document, document):
            return text
        if exact:
            raise SchemaError(CHANGED, field="/exact")
    if layout == "json":
        return spell_json(document, found.style or COMPACT)
    return layouts.spell(document, layout)
