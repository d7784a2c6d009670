# SPDX-License-Identifier: Apache-2.0
"""Tests an AIMEM server from outside: cases of one request or several, and their outcomes.

``rules/aimem.json`` has the requests, the bundles and the flows, which are cases of several
requests. A flow checks an import by an export: the stored records count, not only the response.
"""

from __future__ import annotations

import gzip
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from omsgrain.conformance import aimem
from omsgrain.conformance.aimem import (
    FAULTS,
    GOODS,
    TEXTS,
    Basis,
    Document,
    by_lines,
    chunk,
    replaced,
    resealed,
    sample,
    sealed,
)
from omsgrain.conformance.probe import (
    BUNDLE,
    EXPORT,
    IMPORT,
    LINES,
    STREAM,
    Mismatch,
    Probe,
    ProbeResponse,
    TenantTokens,
    as_kind,
    expect,
    fail,
    must,
)
from omsgrain.conformance.rule import Entry, Tried, edited, spelled, table
from omsgrain.errors import SchemaError, library
from omsgrain.formats.aimem.document import checksum_of
from omsgrain.formats.aimem.fields import ARRAYS, DNA, ENVELOPE

if TYPE_CHECKING:
    import httpx

    from omsgrain.conformance.bench import Bench

_AS_ASKED: Final = "as expected"
_BRAIN: Final = "/v1/brain"
_USUAL: Final[Entry] = {
    "basis": "draft", "token": "full", "query": {}, "body": "none", "media": None, "headers": {},
}  # fmt: skip
REQUESTS: Final[list[Entry]] = [{**_USUAL, **row} for row in table("aimem")["requests"]]
"""Single requests."""


class HttpCase(NamedTuple):
    name: str  # a short, unique name
    section: str
    basis: Basis  # ``draft``, or ``recommendation`` for a choice that the draft leaves open
    needs: tuple[str, ...]  # the names of the tokens that it needs
    run: Callable[[Probe], None]  # sends the requests; raises a `Mismatch` on a wrong response


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    name: str
    section: str
    basis: Basis  # ``draft`` or ``recommendation``
    passed: bool | None  # whether it passed; None if it was skipped
    expected: str | None = None  # the expected result of a failed case
    found: str | None = None  # the actual result; for a skipped case, the reason


def cases(*, draft_only: bool = False, erase: bool = False) -> list[HttpCase]:
    """Return all cases, in order."""
    found = [_request_case(one) for one in REQUESTS]
    for words, group, run in (
        ("takes", GOODS, _good),
        ("refuses", FAULTS, _bad),
        ("refuses", TEXTS, _text),
        ("names the rule:", FAULTS, _rule),
    ):
        for one in group:
            basis: Basis = "recommendation" if run is _rule else one["basis"]
            name = f"{words} {one['name']}"
            found.append(HttpCase(name, one["section"], basis, (), partial(run, one)))
    found += FLOWS
    if erase:
        name = "erased data does not return"
        found.append(HttpCase(name, "5.2", "recommendation", ("admin",), erased))
    return [case for case in found if case.basis == "draft" or not draft_only]


def ask(
    url: str,
    tokens: TenantTokens,
    *,
    draft_only: bool = False,
    erase: bool = False,
    timeout: float = 30.0,
    ca: Path | None = None,
) -> Iterator[CaseOutcome]:
    """Run every case against the server at a URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SchemaError("the URL is not an HTTP URL", expected="http://... or https://...")
    if erase and tokens.admin is None:
        raise SchemaError("erasing needs an admin token")
    httpx = library("web", "httpx", "httpx is not installed")
    verify = ssl.create_default_context()
    if ca is not None:
        verify.load_verify_locations(ca)
    # No redirects or proxies, so that only this server is tested.
    with httpx.Client(
        base_url=url.rstrip("/"), timeout=timeout, verify=verify, trust_env=False
    ) as client:
        yield from run(client, tokens, cases(draft_only=draft_only, erase=erase))


def run(
    client: httpx.Client, tokens: TenantTokens, chosen: Iterable[HttpCase] | None = None
) -> Iterator[CaseOutcome]:
    """Run cases, and yield their outcomes."""
    import httpx

    probe = Probe(client, tokens)
    try:
        probe.send("GET", EXPORT, token="")
    except httpx.HTTPError as error:
        raise ConnectionError(f"no answer from {client.base_url}: {_why(error)}") from None
    for case in cases() if chosen is None else chosen:
        own = (case.name, case.section, case.basis)
        if missing := [name for name in case.needs if getattr(tokens, name) is None]:
            yield CaseOutcome(*own, None, found=f"no token: {', '.join(missing)}")
            continue
        try:
            case.run(probe)
        except Mismatch as error:
            yield CaseOutcome(*own, False, error.expected, error.found)
        except httpx.HTTPError as error:
            yield CaseOutcome(*own, False, "an answer", _why(error))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A flow expects well-formed responses; this response is malformed.
            yield CaseOutcome(*own, False, "members of the right kinds", type(error).__name__)
        else:
            yield CaseOutcome(*own, True)


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _request_case(request: Entry) -> HttpCase:
    token = request["token"]
    needs = (token,) if token in ("export_only", "import_only") else ()
    name = f"{request['method']} {request['name']}"
    return HttpCase(name, request["section"], request["basis"], needs, partial(_ask, request))


def _ask(request: Entry, probe: Probe) -> None:
    """Send a request with a token by its name, or with a whole header in its place."""
    headers, token = dict(request["headers"]), request["token"]
    if token in ("full", "export_only", "import_only"):
        token = str(getattr(probe.tokens, token))
    elif token:
        headers["authorization"], token = token, ""
    answer = probe.send(
        request["method"],
        request["path"],
        query=request["query"],
        body=_body(request["body"], probe),
        media=request["media"],
        token=token,
        headers=headers,
    )
    expect(answer, *request["statuses"])
    if request["path"] == EXPORT and answer.status == 200:
        must(answer.media == BUNDLE, BUNDLE, answer.media)
    if request["path"] == IMPORT and answer.status == 200:
        must(isinstance(answer.json(), dict), "a summary", as_kind(answer.json()))
    if answer.status == 401:
        must("www-authenticate" in answer.headers, "a header WWW-Authenticate", "none")


def _body(kind: str, probe: Probe) -> bytes | None:
    """Return a new valid bundle in some encoding, or other content."""
    if kind == "none":
        return None
    text = spelled(sealed(probe.fresh(sample())))
    return {
        "bundle": text,
        "empty": b"",
        "array": b"[" + text + b"]",
        "text": b"hello",
        "gzip": gzip.compress(text),
        "not gzip": text,
        "utf-16": text.decode().encode("utf-16"),
        "bom": b"\xef\xbb\xbf" + text,
    }[kind]


def _good(good: Entry, probe: Probe) -> None:
    document = probe.fresh(edited(sample(), good))
    for one in document["chunks"]:
        one["id"] = one["id"].replace("{nonce}", document["producer"])
    answer = probe.put(document)
    expect(answer, 200)
    rejected = answer.json().get("chunks_rejected_conflict", [])
    must(rejected == [], "no chunk rejected", f"{len(rejected)} rejected")


def _broken(fault: Entry, probe: Probe) -> ProbeResponse:
    """Send a new bundle with one defect. Its checksum is right, unless that is the defect."""
    document = probe.fresh(edited(sample(), fault))
    return probe.send("POST", IMPORT, body=spelled(resealed(document, fault)), media=BUNDLE)


def _bad(fault: Entry, probe: Probe) -> None:
    expect(_broken(fault, probe), fault["status"])


def _rule(fault: Entry, probe: Probe) -> None:
    found = _broken(fault, probe).rule()
    must(found == fault["rule"], f"the rule {fault['rule']}", found)


def _text(fault: Entry, probe: Probe) -> None:
    document = sealed(probe.fresh(sample()))
    body = replaced(document, fault)
    must(body != spelled(document), "the text to change", "none")
    expect(probe.send("POST", IMPORT, body=body, media=BUNDLE), 422)


# cases of several requests


class Flow:
    """The steps of a case; each changes a new bundle and imports it.

    ``take`` expects the status 200 and a summary, ``put`` one of some statuses, and members of the
    problem. ``keep`` exports the chunks under a name, ``kept`` compares them. Others expect of the
    chunks in an export: ``count`` their number, ``chunk`` the members of the only one, ``same``
    some members as they were imported, ``none`` no such member. ``export`` expects members of the
    bundle, of any value if they are null.
    """

    def __init__(self, probe: Probe, row: Mapping[str, Any]) -> None:
        whole = aimem.one_chunk(**row["chunk"]) if "chunk" in row else sample()
        self._probe, self._document = probe, probe.fresh(whole)
        self._exports: dict[str, Any] = {}

    def run(self, step: Mapping[str, Any]) -> None:
        if "take" in step:
            self._take(step)
        elif "put" in step:
            self._put(step)
        elif "keep" in step:
            self._exports[step["keep"]] = self._kept()
        elif "kept" in step:
            same = self._kept() == self._exports[step["kept"]]
            must(same, "the same chunks as before", "others")
        elif "count" in step:
            kept = self._kept(**step.get("query", {}))
            must(len(kept) == step["count"], f"{step['count']} chunks", str(len(kept)))
        elif "export" in step:
            found = self._probe.exported(**step["export"])
            for name, value in step["has"].items():
                good = found.get(name) is not None and value in (None, found[name])
                must(good, f"a member {name}", str(found.get(name)))
        elif "chunk" in step:
            self._only_chunk(step["chunk"])
        else:
            self._each_chunk(step.get("same", ()), step.get("none", ()))

    def _kept(self, **query: str) -> dict[str, Document]:
        return kept_of(self._probe, self._document, **query)

    def _take(self, step: Mapping[str, Any]) -> None:
        expected = dict(step.get("summary", {}))
        if expected.get("chunks_rejected_conflict") == ["$id"]:
            expected["chunks_rejected_conflict"] = [self._document["chunks"][0]["id"]]
        summary = self._probe.taken(self._changed(step["take"]), **expected)
        if "conflicts" in step:
            found = [
                {name: one.get(name) for name in wanted}
                for one, wanted in zip(
                    summary.get("conflicts", ()), step["conflicts"], strict=True
                )
            ]
            must(found == step["conflicts"], str(step["conflicts"]), str(found))

    def _put(self, step: Mapping[str, Any]) -> None:
        document = sealed(self._changed(step["put"]))
        if "checksum" in step:
            document["checksum"] = step["checksum"]
        body, media = spelled(document), BUNDLE
        if step.get("lines"):
            body, media = by_lines(document), LINES
        answer = self._probe.send("POST", IMPORT, body=body, media=media)
        expect(answer, *step["status"])
        for name in step.get("problem", ()):
            must(name in answer.problem(), f"a member {name}", "none")

    def _changed(self, change: Mapping[str, Any]) -> Document:
        document = edited(self._document, change)
        if "content" in change:
            new = chunk("c1", change["content"])
            document["chunks"][0] |= {name: new[name] for name in ("content", "content_hash")}
        if change.get("second"):
            first = self._document["chunks"][0]
            document["chunks"].append({**first, "id": first["id"] + "-2"})
        return document

    def _each_chunk(self, same: Iterable[str], none: Iterable[str]) -> None:
        kept = self._kept()
        for one in self._document["chunks"]:
            found = kept[one["id"]]
            for name in same:
                must(found.get(name) == one[name], f"the {name} as it was", "another")
            for name in none:
                must(found.get(name) is None, f"no {name}", "one")

    def _only_chunk(self, members: Mapping[str, Any]) -> None:
        kept = self._kept()
        must(len(kept) == 1, "the chunk in an export", f"{len(kept)} of it")
        (found,) = kept.values()
        for name, value in members.items():
            must(found.get(name) == value, f"the {name} {value}", "another")


def _run_steps(row: Mapping[str, Any], probe: Probe) -> None:
    flow = Flow(probe, row)
    for step in row["steps"]:
        flow.run(step)


def kept_of(probe: Probe, document: Document, **query: str) -> dict[str, Document]:
    """Return the chunks of a document that the server has, by id."""
    ids = {one["id"] for one in document["chunks"]}
    found = {one["id"]: one for one in chunks_of(probe.exported(**query)) if one["id"] in ids}
    if found:
        return found
    # A server can keep producers apart, so request this producer.
    try:
        whole = probe.exported(**query, producer=document["producer"])
    except Mismatch:
        return {}
    return {one["id"]: one for one in chunks_of(whole) if one["id"] in ids}


def chunks_of(document: Document) -> list[Document]:
    """Return the chunks of a document that have an id."""
    chunks = document.get("chunks", [])
    must(isinstance(chunks, list), "an array of chunks", as_kind(chunks))
    return [one for one in chunks if isinstance(one, dict) and isinstance(one.get("id"), str)]


def export(probe: Probe) -> None:
    probe.taken(probe.fresh(sample()))
    document = probe.exported()
    for member in ENVELOPE:
        must(not member.required or member.name in document, f"a member {member.name}", "none")
    for name in ARRAYS:
        must(isinstance(document.get(name), list), f"an array {name}", "none")
    must(document["format"] == "aimem-bundle", "aimem-bundle", str(document["format"]))
    own = checksum_of(spelled(document))
    must(document["checksum"] == own, "the checksum of the bundle", "another")


def again(probe: Probe) -> None:
    document = probe.fresh(sample())
    probe.taken(document)
    before = probe.send("GET", EXPORT)
    expect(before, 200)
    whole = before.json()
    expect(probe.send("POST", IMPORT, body=before.body, media=BUNDLE), 200)
    after = probe.exported()
    for name in ARRAYS:
        must(after.get(name) == whole.get(name), f"the same {name} as before", "others")


def dna_only(probe: Probe) -> None:
    document = probe.fresh(sample())
    probe.taken(document)
    whole = probe.exported(scope="DNA_ONLY")
    must(whole.get("scope") == "DNA_ONLY", "the scope DNA_ONLY", str(whole.get("scope")))
    odd = [
        c for c in chunks_of(whole) if c.get("memory_type") not in DNA and not c.get("is_pinned")
    ]
    must(not odd, "no other chunk", f"{len(odd)} others")
    kept = kept_of(probe, document, scope="DNA_ONLY")
    must(len(kept) == 1, "one chunk of the bundle", str(len(kept)))


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
        must(kind in names, "a known _kind", "another, or none")
        arrays[names[kind]].append(record)
    return envelope, arrays


def stream(probe: Probe) -> None:
    probe.taken(probe.fresh(sample()))
    envelope, arrays = _lines(probe.send("GET", STREAM))
    own = checksum_of(spelled(envelope | arrays))
    must(envelope.get("checksum") == own, "the checksum of the whole", "another")


def cut(probe: Probe) -> None:
    document = probe.fresh(sample())
    text = by_lines(sealed(document))
    for end in (text.rindex(b"\n", 0, -1) + 1, len(text) - 9):
        expect(probe.send("POST", IMPORT, body=text[:end], media=LINES), 409)
    must(not kept_of(probe, document), "nothing of it", "some")


def erased(probe: Probe) -> None:
    """Erase the tenant; check that nothing is exported and nothing returns."""
    document = probe.fresh(sample())
    probe.taken(document)
    expect(probe.send("DELETE", _BRAIN, token=probe.tokens.admin), 200, 202, 204)
    for query in ({}, {"producer": document["producer"]}):
        answer = probe.send("GET", EXPORT, query=query)
        expect(answer, 200)
        left = answer.json().get("chunks", [])
        must(left == [], "no chunk", f"{len(left)} chunks")
    summary = probe.taken(document, chunks_inserted=0)
    reasons = {one.get("reason") for one in summary.get("conflicts", ())}
    must(reasons == {"erased"}, "the reason erased", str(sorted(map(str, reasons))))


_FLOWS_IN_CODE: Final[dict[str, Callable[[Probe], None]]] = {
    "export": export,
    "again": again,
    "dna_only": dna_only,
    "stream": stream,
    "cut": cut,
}
FLOWS: Final = [
    HttpCase(
        row["name"],
        row["section"],
        row.get("basis", "draft"),
        (),
        _FLOWS_IN_CODE[row["run"]] if "run" in row else partial(_run_steps, row),
    )
    for row in table("aimem")["flows"]
]
"""Cases of several requests, in order."""


# the rules


@cache
def _by_name() -> dict[str, HttpCase]:
    return {case.name: case for case in cases(erase=True)}


def ruled(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``http``: test cases against a server of this build."""
    for name in entry["cases"]:
        try:
            _by_name()[name].run(bench.probe)
        except Mismatch as error:
            yield Tried(name, error.expected, error.found)
        else:
            yield Tried(name, _AS_ASKED, _AS_ASKED)
