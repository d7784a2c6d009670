# SPDX-License-Identifier: Apache-2.0
"""AIMEM: its HTTP profile, asked of a server of this build; and signatures of bundles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Final

from omsgrain.conformance.bench import Bench
from omsgrain.conformance.http.probe import Mismatch
from omsgrain.conformance.http.runner import HttpCase, cases
from omsgrain.conformance.http.sample import bundle as sample
from omsgrain.conformance.http.sample import sealed, spelled
from omsgrain.conformance.rule import Check, Table, Tried, refuses, takes
from omsgrain.conformance.rules.people import ADA, ada, ben, by_hand
from omsgrain.crypto import signers, trust
from omsgrain.formats.aimem import document, signature
from omsgrain.interchange import aimem as gateway

_producer: Final = Table("aimem", 1)
_rule: Final = Table("aimem", 2)
_both: Final = Table("aimem", 3)

_AS_ASKED: Final = "as it should be"


def _canonical() -> bytes:
    return signature.canonical(spelled(sealed(sample())))


@_rule("signature.payload", "5.3", "A detached COSE_Sign1 over the canonical text of the checksum")
def _payload(_: Bench) -> Iterator[Tried]:
    rest = sample()
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    known = trust.Trust(tuple(signers.loads_public(ADA.encode())))
    by_others = by_hand({1: -8, 4: ADA.encode()}, None, ada(), detached=text)
    proof = trust.check(by_others, _canonical(), known)
    yield Tried("one made by hand", ADA, proof.signer if proof else "nobody")
    made = signature.sign_bundle(_canonical(), ada())
    yield Tried("one of ours", by_others, made)


@_rule(
    "signature.refused", "5.3", "A signature of another bundle, or of nobody trusted, is refused"
)
def _untrusted(_: Bench) -> Iterator[Tried]:
    known = trust.Trust(tuple(signers.loads_public(ADA.encode())))
    made = signature.sign_bundle(_canonical(), ada())
    yield refuses(
        "over another text",
        "signature_invalid",
        lambda: trust.check(made, _canonical() + b" ", known),
    )
    bens = signature.sign_bundle(_canonical(), ben())
    yield refuses(
        "by somebody else",
        "signature_untrusted",
        lambda: trust.check(bens, _canonical(), known),
    )
    yield refuses(
        "none, where one is asked for",
        "signature_missing",
        lambda: trust.check(None, _canonical(), known, required=True),
    )
    yield takes("none, where none is", lambda: trust.check(None, _canonical(), known))


@_rule("signature.header", "5.3", "Over HTTP it stands in the header AIMEM-Signature")
def _header(_: Bench) -> Iterator[Tried]:
    yield Tried("its name", "AIMEM-Signature", signature.HEADER)
    yield Tried("fb ff fe in base64url", "-__-", signature.to_header(b"\xfb\xff\xfe"))
    yield Tried("read again", b"\xfb\xff\xfe", signature.from_header("-__-"))


@_rule("signature.skipped", "5.3", "That a signature was not checked stands in the audit trail")
def _skipped(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    gateway.import_bundle(
        store, document.read_bundle(spelled(sealed(sample()))), signature="skipped"
    )
    told = [e.details.get("signature") for e in store.audit.entries() if e.details]
    yield Tried("the entry of the import", True, "skipped" in told)


@cache
def _cases() -> dict[str, HttpCase]:
    return {case.name: case for case in cases(erase=True)}


def _asked(*names: str) -> Check:
    """Cases of `http`, asked of a server of this build."""
    chosen = [_cases()[name] for name in names]

    def check(bench: Bench) -> Iterator[Tried]:
        for case in chosen:
            try:
                case.run(bench.probe)
            except Mismatch as error:
                yield Tried(case.name, error.expected, error.found)
            else:
                yield Tried(case.name, _AS_ASKED, _AS_ASKED)

    return check


_TOKENS = ("no token", "another scheme", "an empty token", "a token that nobody has")
_HTTP: Final = (
    (_producer, "http.export.401", "3.1", "Without a good token an export is answered 401",
     [f"GET export with {name}" for name in _TOKENS] + ["GET stream without a token"], True),
    (_producer, "http.export.403", "3.1", "Without the scope an export is answered 403",
     ["GET export without the scope", "GET stream without the scope"], True),
    (_producer, "http.export.200", "3.1",
     "An export is a bundle, as application/aimem-bundle+json",
     ["GET export", "an export is a bundle, and its checksum right"], True),
    (_producer, "http.export.scopes", "3.1", "scope and since choose what is exported",
     ["GET export of DNA_ONLY", "GET export of SINCE", "SINCE has what was made then or later",
      "DNA_ONLY has memory of the DNA class and pinned memory alone"], True),
    (_producer, "http.export.422", "3.1", "What cannot be asked for is answered 422",
     ["GET SINCE without since", "GET since is no time", "GET another scope",
      "GET stream: since is no time"], False),
    (_producer, "http.stream", "3.1", "The stream is an envelope, then records with their _kind",
     ["the stream is an envelope, then a record a line"], True),
    (_rule, "http.import.401", "3.2", "Without a good token an import is answered 401",
     [f"POST import with {name}" for name in _TOKENS], True),
    (_rule, "http.import.403", "3.2", "Without the scope an import is answered 403",
     ["POST import without the scope"], False),
    (_rule, "http.import.200", "3.2", "A bundle is answered 200, with a summary",
     ["POST a bundle", "POST a bundle of version=1", "what was imported is exported"], True),
    (_rule, "http.import.summary", "3.2", "The summary counts what is new and what was there",
     ["the summary counts what is new", "importing again is counted as skipped"], False),
    (_rule, "http.import.409", "2.8", "Another checksum is answered 409",
     ["refuses checksum: of something else"], True),
    (_rule, "http.import.422", "3.2", "A malformed bundle is answered 422",
     ["POST an array", "POST no body", "POST no JSON", "POST UTF-16", "refuses version: 2",
      "refuses producer: missing", "refuses chunks/2/id: no URN",
      "refuses edges/0/target_id: unknown"],
     True),
    (_rule, "http.import.nothing", "3.2", "Of a bundle that is refused nothing is kept",
     ["of a bad bundle nothing is kept"], True),
    (_rule, "http.import.again", "2.9", "Importing again over HTTP is a no-op",
     ["importing again is a no-op"], True),
    (_rule, "http.import.conflicts", "2.9", "Conflicts are told inside a 200, chunk by chunk",
     ["another content at the same time is rejected",
      "a conflict does not hold up the other chunks",
      "a conflict is told inside a 200, with its reason", "which fields were in conflict is told"],
     False),
    (_rule, "http.media", "3.2", "Other media types and codings are refused, or told apart",
     ["POST a bundle as application/json", "POST version=2 of the media type",
      "POST another media type", "POST gzip", "POST gzip that is none", "POST a byte order mark"],
     False),
    (_rule, "http.methods", "3.2", "Another method is answered 405", ["PUT another method"],
     False),
    (_rule, "http.lines", "3.1", "A bundle by lines is imported, and one that was cut is not",
     ["a bundle by lines is imported", "a bundle by lines that was cut is refused",
      "POST by lines: no envelope"], False),
    (_rule, "http.problems", "3.2", "Errors are problem details of RFC 7807",
     ["errors are problem details"], False),
    (_both, "http.round", "4", "An export posted back changes nothing",
     ["an export imported again is a no-op"], True),
    (_rule, "http.erase", "5.2", "What was erased over HTTP is gone, and stays gone",
     ["what was erased is gone"], True),
)  # fmt: skip
for _table, _id, _section, _text, _names, _must in _HTTP:
    _table.add(_id, _section, _text, _asked(*_names), must=_must)

RULES: Final = [*_producer.rules, *_rule.rules, *_both.rules]
