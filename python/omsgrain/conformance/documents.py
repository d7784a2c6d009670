# SPDX-License-Identifier: Apache-2.0
"""Rules about MIF documents: changes, round trips, layouts, encryption, decay, ontologies."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from omsgrain import formats
from omsgrain.conformance.bench import NOW, Bench, MissingError
from omsgrain.conformance.rule import (
    Entry,
    Tried,
    documents,
    edited,
    refuses,
    shown,
    spec_of,
    spelled,
    value_of,
)
from omsgrain.errors import packages_of
from omsgrain.formats import ontology, times
from omsgrain.formats.mif import Mif
from omsgrain.formats.mif1 import envelope
from omsgrain.formats.mif2 import check
from omsgrain.formats.mif_ld import temporal, validate
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document


def validated(spec: str, data: bytes) -> list[str]:
    """Return the rules and pointers of a document's errors, and of its warnings after ``~``."""
    form = formats.FORMATS[spec]
    assert isinstance(form, Mif)
    found = form.validate(data, None)
    said = [_said(one) for one in (*found.faults, *found.problems)]
    return said + [f"~{_said(one)}" for one in found.warnings]


def judged(data: bytes, **options: Any) -> list[str]:
    """Return the same for a JSON-LD node of any kind."""
    verdict = validate.judge(json.loads(data), **options)
    said = [_said(one) for one in verdict.findings]
    return said + [f"~{_said(one)}" for one in verdict.warnings]


def _said(one: Any) -> str:
    return f"{one.rule} {one.pointer}".strip()


def case_of(entry: Entry, case: Entry) -> Any:
    """Return the document named by a case or its rule, with the case's change."""
    name = case.get("document", entry.get("document"))
    return edited(documents(spec_of(entry))[name], case)


def changed(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``document``: a good document, and changes with their expected finding."""
    return _changed(entry, partial(validated, spec_of(entry)))


def nodes(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``node``: the same for a JSON-LD node."""
    return _changed(entry, partial(judged, **entry.get("options", {})))


def _changed(entry: Entry, judge: Callable[[bytes], list[str]]) -> Iterator[Tried]:
    yield Tried("a good document", [], judge(spelled(case_of(entry, {}))))
    for case in entry["cases"]:
        found = judge(spelled(case_of(entry, case)))
        expected = case.get("finds", "")
        first = next((said for said in found if said == expected), None)
        yield Tried(shown(case), expected, first or (found[0] if found else ""))


def texts(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``text``: texts that are not documents, with the rule that refuses each."""
    for case in entry["cases"]:
        text = "".join(value_of(part) for part in case["text"])
        found = validated(spec_of(entry), text.encode())
        yield Tried(case.get("try", text), [case["finds"]], [said.split()[0] for said in found])


def returned(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``round``: documents become grains and come back equal, with the order of keys."""
    for case in entry["cases"]:
        whole = case_of(entry, case)
        yield Tried(case["try"], json.dumps(whole), json.dumps(_again(entry, whole)))


def kept(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``kept``: a value in a document that must come back unchanged."""
    for case in entry["cases"]:
        ((pointer, written),) = case["set"].items()
        found: Any = _again(entry, case_of(entry, case))
        for name in pointer.split("/")[1:]:
            found = found[int(name)] if isinstance(found, list) else found[name]
        text = json.dumps(value_of(written))
        yield Tried(f"{pointer}: {text[:40]}", text, json.dumps(found))


def _again(entry: Entry, whole: Any) -> Any:
    form: Any = spec_of(entry)
    return json.loads(formats.dump(formats.load(spelled(whole)), format=form).data)


_USER: Final = "user-42"

# MIF 2.0


def schema(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """An export matches the published schema, also by a JSON Schema validator."""
    store = bench.store()
    store.put({**entry["grain"], "created_at": NOW, "user_id": _USER})
    import_document(store, spelled(case_of(entry, {})))
    dump, _ = export_document(store, _USER, now=NOW, include_embeddings=True)
    found = json.loads(dump.data)
    problems = [said for said in validated("mif2", dump.data) if not said.startswith("~")]
    yield Tried("problems", [], problems)
    try:
        from jsonschema_rs import Draft202012Validator
    except ImportError:
        raise MissingError(f"no jsonschema_rs: needs {packages_of('formats')}") from None
    fits = Draft202012Validator(json.loads(check.text()))
    yield Tried("by a JSON Schema validator", [], [e.message for e in fits.iter_errors(found)])
    for name in ("memories", "mif_version"):
        without = edited(found, {"remove": [f"/{name}"]})
        yield Tried(f"without {name}", False, fits.is_valid(without))


# MIF 1.0: layouts


def _whole() -> Any:
    return documents("mif1")["all"]


def lines(_: Bench, entry: Entry) -> Iterator[Tried]:
    """JSON lines have a header and a footer, and a missing line is detected."""
    written = formats.dump(formats.load(spelled(_whole())), format="mif1", layout="jsonl").data
    whole = written.splitlines(keepends=True)
    kinds = [json.loads(line)["type"] for line in whole]
    yield Tried("the first and the last line", ("header", "footer"), (kinds[0], kinds[-1]))
    cut = _rules(b"".join(whole[:-1]))[:1]
    yield Tried("without the last", ["no_footer"], cut)
    (first, *_rest) = _rules(b"".join([*whole[:1], *whole[2:]]))
    yield Tried("without a record", True, first in ("count_mismatch", "checksum_mismatch"))


def _rules(data: bytes) -> list[str]:
    return [said.split()[0] for said in validated("mif1", data)]


# MIF 1.0: encrypted documents

_CHEAP: Final = envelope.Kdf(bytes(range(16)), memory_kib=64, iterations=1, parallelism=1)
_PHRASE: Final = "a garden at dusk"


def _sealed() -> Any:
    return json.loads(envelope.seal_document(spelled(_whole()), _PHRASE, kdf=_CHEAP))


def encryption_members(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The members of an encrypted document and their sizes."""
    found = _sealed()["encryption"]
    size = {name: len(base64.b64decode(found[name])) for name in entry["base64"]}
    for name, value in entry["values"].items():
        yield Tried(name, value, found[name])
    yield Tried("bytes of iv and auth_tag", (12, 16), (size["iv"], size["auth_tag"]))
    yield Tried("bytes of the payload", len(spelled(_whole())), size["encrypted_payload"])


def encryption_key(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Another AES-256-GCM implementation can decrypt a document."""
    whole = json.loads(envelope.seal_document(spelled(_whole()), key=bytes(32)))
    payload, tag = (
        base64.b64decode(whole["encryption"].pop(name))
        for name in ("encrypted_payload", "auth_tag")
    )
    aad = json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()
    iv = base64.b64decode(whole["encryption"]["iv"])
    plain = AESGCM(bytes(32)).decrypt(iv, payload + tag, aad)
    yield Tried("decrypted with the envelope as additional data", spelled(_whole()), plain)


def encryption_opened(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Only the right passphrase decrypts the document."""
    sealed = spelled(_sealed())
    yield Tried("the right one", spelled(_whole()), envelope.open_document(sealed, _PHRASE))
    yield refuses("another", "ERR_KEY", envelope.open_document, sealed, "a garden at dawn")
    yield Tried("none: the problem", ["encrypted"], _rules(sealed)[:1])


def encryption_changed(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A changed document is refused."""
    for case in entry["cases"]:
        sealed = spelled(edited(_sealed(), case))
        yield refuses(case["try"], case["refused"], envelope.open_document, sealed, _PHRASE)


# MIF 1.0: a store


def redacted(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A redacted export does not contain a memory's secret."""
    store = bench.store()
    change = {"set": {"/memories/0/content": entry["content"]}, "remove": ["/consent"]}
    import_document(store, spelled(edited(_whole(), change)))
    dump, _ = export_document(store, _USER, format="mif1", now=NOW, redact_pii=True)
    found = json.loads(dump.data)
    first = _whole()["memories"][0]["id"]
    one = next(memory for memory in found["memories"] if memory["id"] == first)
    marks = one.get("redactions", ())
    spans = [(m["original_length"], m["position"][1] - m["position"][0]) for m in marks]
    privacy = found["metadata"]["privacy"]
    yield Tried("the secret in the whole export", False, entry["secret"] in json.dumps(found))
    yield Tried("its marker", True, "[REDACTED:" in one["content"])
    yield Tried("the types of its redactions", True, bool(marks))
    yield Tried("length and position agree", True, all(a == b for a, b in spans))
    yield Tried("its privacy report", True, privacy["pii_detected"] or privacy["secrets_detected"])


# MIF in JSON-LD


def errors(_: Bench, entry: Entry) -> Iterator[Tried]:
    """An error has the reference's wording, and a hint for the repair."""
    for case in entry["cases"]:
        (found,) = validate.judge(case_of(entry, case)).findings
        ((pointer, value),) = case["set"].items()
        yield Tried(f"{pointer}: {value}", True, case["says"] in found.message)
        yield Tried("its hint", True, bool(getattr(found, "hint", "")))


def strength(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The strength of a memory after some days."""
    for case in entry["cases"]:
        memory = {"created": "2026-01-01T00:00:00Z", "temporal": case["temporal"]}
        day = times.parse(f"{case['on']}T00:00:00Z", floating=True)
        found = None if day is None else temporal.strength(memory, day)
        yield Tried(case["try"], case["is"], None if found is None else float(found))


def lenient(_: Bench, entry: Entry) -> Iterator[Tried]:
    """An importer skips invalid citations, and replaces unknown words in others."""
    for case in entry["cases"]:
        found = validate.judge(case_of(entry, case), mode="lenient")
        numbers = [found.total, len(found.dropped), len(found.warnings)]
        yield Tried(f"{case['try']}: refused, skipped, warnings", case["is"], numbers)


def _library(bench: Bench, change: Entry) -> Any:
    path = bench.directory() / "garden.json"
    path.write_bytes(spelled(edited(documents("mif-ld")["ontology"], change)))
    return ontology.load([path], strict=False)


def entity(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """An entity is checked by its type in an ontology."""
    library = _library(bench, {})
    typed = edited(documents("mif-ld")["least"], entry)
    for case in entry["cases"]:
        found = ontology.judge_entity(edited(typed, case), library)
        yield Tried(case["try"], case["is"], [one.rule for one in found.problems])


def subtypes(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Parent types must exist, without a cycle, and their requirements apply."""
    for case in entry["cases"]:
        report = _library(bench, case).reports[0]
        yield Tried(case["try"], case["good"], not report.problems)
