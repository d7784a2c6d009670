# SPDX-License-Identifier: Apache-2.0
"""Stories of exports, and of bundles by lines."""

from __future__ import annotations

import json
from typing import Any, Final

from omsgrain.conformance.edits import edited
from omsgrain.conformance.http.probe import (
    BUNDLE,
    EXPORT,
    LINES,
    STREAM,
    Probe,
    ProbeResponse,
    expect,
    fail,
    must,
)
from omsgrain.conformance.http.sample import bundle, sealed, spelled
from omsgrain.conformance.http.story import Document, Flow, Gathering, chunks_of, kept_of
from omsgrain.formats.aimem import checksum
from omsgrain.formats.aimem.fields import ARRAYS, DNA, ENVELOPE

_flow: Final = Gathering()
FLOWS: Final[list[Flow]] = _flow.flows

# -- exports ------------------------------------------------------------------------------------


@_flow("an export is a bundle, and its checksum right", "2.1")
def _export(probe: Probe) -> None:
    probe.taken(probe.fresh(bundle()))
    document = probe.exported()
    for field in ENVELOPE:
        must(not field.required or field.name in document, f"a member {field.name}", "none")
    for name in ARRAYS:
        must(isinstance(document.get(name), list), f"an array {name}", "none")
    must(document["format"] == "aimem-bundle", "aimem-bundle", str(document["format"]))
    own = checksum.of_document(spelled(document))
    must(document["checksum"] == own, "the checksum of the bundle", "another")


@_flow("an export imported again is a no-op", "4")
def _round(probe: Probe) -> None:
    document = probe.fresh(bundle())
    probe.taken(document)
    before = probe.send("GET", EXPORT)
    expect(before, 200)
    whole = before.json()
    expect(probe.send("POST", "/v1/brain/import", body=before.body, media=BUNDLE), 200)
    after = probe.exported()
    for name in ARRAYS:
        must(after.get(name) == whole.get(name), f"the same {name} as before", "others")


@_flow("embeddings stay unless they are asked for", "5.5", "recommendation")
def _embeddings(probe: Probe) -> None:
    document = probe.fresh(bundle())
    probe.taken(document)
    kept = kept_of(probe, document)
    must(bool(kept), "the chunks", "none")
    shown = [one for one in kept.values() if one.get("embedding") is not None]
    must(not shown, "no embedding", str(len(shown)))


@_flow("DNA_ONLY has memory of the DNA class and pinned memory alone", "2.1")
def _dna_only(probe: Probe) -> None:
    document = probe.fresh(bundle())
    probe.taken(document)
    whole = probe.exported(scope="DNA_ONLY")
    must(whole.get("scope") == "DNA_ONLY", "the scope DNA_ONLY", str(whole.get("scope")))
    odd = [
        c for c in chunks_of(whole) if c.get("memory_type") not in DNA and not c.get("is_pinned")
    ]
    must(not odd, "no other chunk", f"{len(odd)} others")
    kept = kept_of(probe, document, scope="DNA_ONLY")
    must(len(kept) == 1, "one chunk of the bundle", str(len(kept)))


@_flow("SINCE has what was made then or later", "2.1")
def _since(probe: Probe) -> None:
    later = {"/chunks/2/created_at": "2026-05-01T00:00:00Z"}
    document = edited(probe.fresh(bundle()), later)
    document = edited(document, {"/chunks/1/created_at": "2026-05-02T00:00:00Z"})
    probe.taken(document)
    query = {"scope": "SINCE", "since": "2026-05-01T00:00:00Z"}
    must(probe.exported(**query).get("since") is not None, "a member since", "none")
    kept = kept_of(probe, document, **query)
    must(len(kept) == 2, "two chunks of the bundle", str(len(kept)))


# -- by lines -----------------------------------------------------------------------------------


def _lines(answer: ProbeResponse) -> tuple[Document, dict[str, list[Document]]]:
    expect(answer, 200)
    must(answer.media == LINES, LINES, answer.media)
    try:
        envelope, *rest = [json.loads(line) for line in answer.body.splitlines() if line.strip()]
    except ValueError:
        fail("a JSON document a line", "something else")
    must(isinstance(envelope, dict) and not set(ARRAYS) & set(envelope), "an envelope", "arrays")
    arrays: dict[str, list[Document]] = {name: [] for name in ARRAYS}
    names: dict[Any, str] = {kind: name for name, kind in ARRAYS.items()}
    for record in rest:
        kind = record.pop("_kind", None) if isinstance(record, dict) else None
        must(kind in names, "a _kind that is known", "another, or none")
        arrays[names[kind]].append(record)
    return envelope, arrays


@_flow("the stream is an envelope, then a record a line", "3.1")
def _stream(probe: Probe) -> None:
    probe.taken(probe.fresh(bundle()))
    envelope, arrays = _lines(probe.send("GET", STREAM))
    own = checksum.of_document(spelled(envelope | arrays))
    must(envelope.get("checksum") == own, "the checksum of the whole", "another")


def _by_lines(document: Document) -> bytes:
    whole = sealed(document)
    envelope = {name: value for name, value in whole.items() if name not in ARRAYS}
    records = [{"_kind": kind} | one for name, kind in ARRAYS.items() for one in whole[name]]
    return b"".join(spelled(one) + b"\n" for one in [envelope, *records])


@_flow("a bundle by lines is imported", "3.1", "recommendation")
def _import_lines(probe: Probe) -> None:
    document = probe.fresh(bundle())
    answer = probe.send("POST", "/v1/brain/import", body=_by_lines(document), media=LINES)
    expect(answer, 200)
    must(len(kept_of(probe, document)) == 3, "three chunks", "others")


@_flow("a bundle by lines that was cut is refused", "2.8", "recommendation")
def _cut(probe: Probe) -> None:
    document = probe.fresh(bundle())
    text = _by_lines(document)
    for end in (text.rindex(b"\n", 0, -1) + 1, len(text) - 9):
        expect(probe.send("POST", "/v1/brain/import", body=text[:end], media=LINES), 409)
    must(not kept_of(probe, document), "nothing of it", "some")
