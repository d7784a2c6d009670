# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD, level 2 and 3: times, provenance, embeddings, citations, documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import GONE, edited
from omsgrain.conformance.rule import Table, Tried
from omsgrain.conformance.rules.documents import Case, case, spelled
from omsgrain.conformance.rules.memories import CITATION, LATER, LEAST, MEMORY, PERSON
from omsgrain.conformance.rules.mif_ld import judge, rule_of
from omsgrain.formats import times
from omsgrain.formats.mif_ld import temporal

_2: Final = Table("mif-ld", 2)
_3: Final = Table("mif-ld", 3)

_T = "/temporal"
_C = "/citations/0"
_D = "/documents/0"
_times = rule_of(_2, MEMORY)
_full = rule_of(_3, MEMORY)
_later = rule_of(_3, LATER)
_told = rule_of(_3, MEMORY, mode="extra")
_citation = rule_of(_3, CITATION, kind="citation")

# fmt: off
# temporal
for _name in ("validFrom", "validUntil"):
    _times(f"temporal.{_name.lower()}", "Temporal", f"{_name} is a date-time or null",
           case(f"{_T}/{_name}", None), case(f"{_T}/{_name}", "2026-04-01T00:00:00+02:00"),
           case(f"{_T}/{_name}", "2026-03-01", "MIF-DATE"), case(f"{_T}/{_name}", 5, "MIF-VALUE"))
for _name in ("recordedAt", "lastAccessed"):
    _times(f"temporal.{_name.lower()}", "Temporal", f"{_name} is a date-time, and not null",
           case(f"{_T}/{_name}", GONE), case(f"{_T}/{_name}", None, "MIF-VALUE"),
           case(f"{_T}/{_name}", "now", "MIF-DATE"))
_full("temporal.ttl", "Temporal", "ttl is an ISO 8601 duration",
      case(f"{_T}/ttl", "P2W"), case(f"{_T}/ttl", "PT1H30M"), case(f"{_T}/ttl", "90D",
                                                                   "MIF-DURATION"),
      case(f"{_T}/ttl", 90, "MIF-VALUE"))
_told("temporal.ttl.form", "Temporal", "A duration that only begins like one is told",
      *(case(f"{_T}/ttl", text, "~MIF-DURATION") for text in ("Pfoo", "P", "P1DT", "P0.5Y2D")),
      must=False)
_full("temporal.decay.model", "Temporal", "decay.model is none, linear, exponential or step",
      *(case(f"{_T}/decay/model", word) for word in ("none", "linear", "exponential", "step")),
      case(f"{_T}/decay/model", "slow", "MIF-WORD"))
_full("temporal.decay.half-life", "Temporal", "decay.halfLife is an ISO 8601 duration",
      *(case(f"{_T}/decay/halfLife", text) for text in ("P7D", "P14D", "P30D")),
      case(f"{_T}/decay/halfLife", "7 days", "MIF-DURATION"))
_full("temporal.decay.strength", "Temporal", "decay.currentStrength is a number from 0 to 1",
      case(f"{_T}/decay/currentStrength", 0), case(f"{_T}/decay/currentStrength", 1),
      case(f"{_T}/decay/currentStrength", 2, "MIF-RANGE"))
_full("temporal.decay.object", "Temporal", "decay is an object", case(f"{_T}/decay", None,
                                                                      "MIF-VALUE"),
      case(f"{_T}/decay", GONE), Case({f"{_T}/decay/curve": 1}, f"MIF-KEY {_T}/decay"))
_full("temporal.access-count", "Temporal", "accessCount is an integer from 0",
      case(f"{_T}/accessCount", 0), case(f"{_T}/accessCount", 5.0),
      case(f"{_T}/accessCount", -1, "MIF-RANGE"), case(f"{_T}/accessCount", 1.5, "MIF-VALUE"),
      case(f"{_T}/accessCount", True, "MIF-VALUE"))
_times("temporal.closed", "Temporal", "temporal is an object without other members",
       case(_T, [], "MIF-VALUE"), Case({f"{_T}/valid_from": "x"}, f"MIF-KEY {_T}"),
       case(f"{_T}/@type", "Temporal", "MIF-CLASS"), case(_T, {}))
_told("temporal.order", "Temporal", "Ends before beginnings, and reads before recording, are told",
      case(f"{_T}/validUntil", "2026-02-01T00:00:00Z", "~MIF-ORDER"),
      case(f"{_T}/lastAccessed", "2026-02-01T00:00:00Z", "~MIF-ORDER"), must=False)
_later("temporal.reinforced", "Temporal", "A reinforcement has a timestamp and an event",
       Case({f"{_T}/reinforcementHistory/0/event": GONE},
            f"MIF-MISSING {_T}/reinforcementHistory/0"),
       Case({f"{_T}/reinforcementHistory/0/timestamp": GONE},
            f"MIF-MISSING {_T}/reinforcementHistory/0"),
       case(f"{_T}/reinforcementHistory/0/strengthDelta", "1", "MIF-VALUE"),
       case(f"{_T}/reinforcementHistory/0/strengthDelta", -7),
       Case({f"{_T}/reinforcementHistory/0/by": "x"}, f"MIF-KEY {_T}/reinforcementHistory/0"))
# fmt: on


@_3(
    "temporal.published",
    "Temporal",
    "The schema as it was published has no reinforcements, and an open decay",
)
def _published(_: Bench) -> Iterator[Tried]:
    given = edited(LEAST, {"/temporal": {"reinforcementHistory": []}})
    yield Tried(
        "reinforcementHistory", [f"MIF-KEY {_T}"], judge(spelled(given), strict_published=True)
    )
    loose = edited(LEAST, {"/temporal": {"decay": {"curve": [1]}}})
    yield Tried("decay.curve", [], judge(spelled(loose), strict_published=True))


def _at(text: str) -> times.Instant:
    found = times.parse(text, floating=True)
    assert found is not None
    return found


def _aged(decay: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"created": "2026-01-01T00:00:00Z", "temporal": {"decay": decay, **more}}


@_3("decay", "Temporal", "After a half-life half is left; linear and step end with ttl")
def _decay(_: Bench) -> Iterator[Tried]:
    week = _aged({"model": "exponential", "halfLife": "P7D"})
    line, step = (_aged({"model": model}, ttl="P10D") for model in ("linear", "step"))
    for what, memory, day, expected in (
        ("exponential, at once", week, "2026-01-01", 1.0),
        ("one half-life", week, "2026-01-08", 0.5),
        ("two", week, "2026-01-15", 0.25),
        ("linear, half of ttl", line, "2026-01-06", 0.5),
        ("linear, after ttl", line, "2026-02-01", 0.0),
        ("step, before ttl", step, "2026-01-10", 1.0),
        ("step, after ttl", step, "2026-01-11", 0.0),
        ("none", _aged({"model": "none"}), "2036-01-01", 1.0),
    ):
        found = temporal.strength(memory, _at(f"{day}T00:00:00Z"))
        yield Tried(what, expected, None if found is None else float(found))


# fmt: off
# provenance and embeddings
_full("provenance.source-type", "Provenance", "sourceType is one of five",
      *(case("/provenance/sourceType", word) for word in
        "user_explicit user_implicit agent_inferred external_import system_generated".split()),
      case("/provenance/sourceType", "user", "MIF-WORD"))
_full("provenance.confidence", "Provenance", "confidence is a number from 0 to 1",
      case("/provenance/confidence", 0), case("/provenance/confidence", 1),
      case("/provenance/confidence", 1.5, "MIF-RANGE"), case("/provenance/confidence", "x",
                                                             "MIF-VALUE"))
_full("provenance.trust", "Provenance", "trustLevel is one of six",
      *(case("/provenance/trustLevel", word) for word in
        "verified user_stated high_confidence moderate_confidence low_confidence "
        "uncertain".split()),
      case("/provenance/trustLevel", "high", "MIF-WORD"))
_full("provenance.open", "Provenance", "provenance may have members of PROV, and needs none",
      case("/provenance/prov:wasGeneratedBy", {"@id": "urn:x"}), case("/provenance", {}),
      case("/provenance/@type", [], "MIF-VALUE"))
_later("provenance.prov", "Provenance",
       "1.x: nodes of PROV are texts, or objects with an @id or id",
       case("/provenance/wasGeneratedBy", "x"), case("/provenance/wasGeneratedBy", {"id": "x"}),
       case("/provenance/wasGeneratedBy", 5, "MIF-PROV"), case("/provenance/wasGeneratedBy", {},
                                                               "MIF-PROV"),
       Case({"/provenance/wasDerivedFrom": ["a", 5]}, "MIF-PROV /provenance/wasDerivedFrom/1"))
_full("embedding.kinds", "Embedding",
      "dimensions is an integer from 1, normalized a boolean, texts texts",
      case("/embedding/dimensions", 0, "MIF-RANGE"), case("/embedding/dimensions", "1536",
                                                          "MIF-VALUE"),
      case("/embedding/normalized", "yes", "MIF-VALUE"), case("/embedding/model", None,
                                                              "MIF-VALUE"),
      case("/embedding/modelVersion", 5, "MIF-VALUE"), case("/embedding/sourceText", 5,
                                                            "MIF-VALUE"),
      case("/embedding", {}))
_full("embedding.uri", "Embedding", "vectorUri is a URI", case("/embedding/vectorUri", "v/1",
                                                               "MIF-URI"),
      case("/embedding/vectorUri", "https://example.org/v"))
_full("embedding.closed", "Embedding", "The vector itself is not in the memory",
      Case({"/embedding/vector": [0.1]}, "MIF-KEY /embedding"),
      Case({"/embedding/quantization": "int8"}, "MIF-KEY /embedding"))

# citations
_TYPES = ("article book paper website documentation repository video podcast specification "
          "dataset "
          "tool other").split()
_ROLES = ("supports refutes background methodology contradicts extends derived source example "
          "review").split()
for _name in ("@type", "citationType", "citationRole", "title", "url"):
    _citation(f"citation.required.{_name.strip('@').lower()}", "Citation schema",
              f"{_name} is required",
              Case({f"/{_name}": GONE}, "MIF-MISSING"))
_citation("citation.types", "Citation schema", "citationType is one of twelve, or has a prefix",
          *(case("/citationType", word) for word in (*_TYPES, "acme:memo", "research:lab-notes")),
          case("/citationType", "memo", "MIF-CITATION"), case("/citationType", "my-co:memo",
                                                              "MIF-CITATION"))
_citation("citation.roles", "Citation schema", "citationRole is one of ten, or has a prefix",
          *(case("/citationRole", word) for word in (*_ROLES, "legal:precedent",
                                                     "research:replicates")),
          case("/citationRole", "proves", "MIF-CITATION"))
_citation("citation.title", "Citation schema", "title is not empty", case("/title", "",
                                                                          "MIF-EMPTY"),
          case("/title", 5, "MIF-VALUE"))
_citation("citation.url", "Citation schema", "url is a URI", case("/url", "urn:isbn:0451450523"),
          case("/url", "example.org", "MIF-URI"), case("/url", "https://exa mple.org", "MIF-URI"))
_citation("citation.author", "Citation schema", "author is a reference, an array of them, or text",
          case("/author", "Jane Smith et al."), case("/author", [PERSON]), case("/author", GONE),
          case("/author", 5, "MIF-AUTHOR"), Case({"/author": ["Ada"]}, "MIF-VALUE /author/0"),
          case("/author", [], "MIF-EMPTY"))
_citation("citation.dates", "Citation schema", "date and accessed are dates, YYYY-MM-DD",
          case("/date", "2024-02-29"), case("/date", "2025-06", "MIF-DATE"),
          case("/date", "2025-02-30", "MIF-DATE"),
          case("/accessed", "2026-02-20T00:00:00Z", "MIF-DATE"))
_citation("citation.relevance", "Citation schema", "relevance is a number from 0 to 1",
          case("/relevance", 0), case("/relevance", 1), case("/relevance", 1.2, "MIF-RANGE"),
          case("/relevance", None, "MIF-VALUE"))
_citation("citation.note", "Citation schema", "note has 1,000 characters at most",
          case("/note", "\U0001f600" * 1000), case("/note", "x" * 1001, "MIF-LONG"))
_citation("citation.closed", "Citation schema", "It has no other members", Case({"/pages": "1-2"},
                                                                                "MIF-KEY"))
_full("citations", "Citations", "citations is an array, of which each is judged",
      case("/citations", {}, "MIF-VALUE"), case("/citations", []), case(_C, None, "MIF-VALUE"),
      case(f"{_C}/citationType", "memo", "MIF-CITATION"))
# fmt: on


@_3(
    "citations.lenient",
    "Citations",
    "An importer may leave out what is broken, and mend what is not known",
    must=False,
)
def _lenient(_: Bench) -> Iterator[Tried]:
    from omsgrain.formats.mif_ld import validate

    for what, edits, left, said in (
        ("no title", {f"{_C}/title": GONE}, 1, 0),
        ("no URI", {f"{_C}/url": "x"}, 1, 0),
        ("another type", {f"{_C}/citationType": "memo"}, 0, 1),
        ("another role", {f"{_C}/citationRole": "proves"}, 0, 1),
        ("relevance 1.2", {f"{_C}/relevance": 1.2}, 0, 1),
    ):
        found = validate.judge(edited(MEMORY, edits), mode="lenient")
        yield Tried(
            f"{what}: refused, left out, told",
            (0, left, said),
            (found.total, len(found.dropped), len(found.warnings)),
        )


# fmt: off
# compression, extensions, and what 1.x adds
_full("summary", "Compression", "summary has 500 characters at most",
      case("/summary", "\U0001f600" * 500), case("/summary", "x" * 501, "MIF-LONG"),
      case("/summary", 5, "MIF-VALUE"))
_full("compressed-at", "Compression", "compressedAt is a date-time", case("/compressedAt", "2026",
                                                                          "MIF-DATE"),
      case("/compressedAt", GONE))
_full("extensions", "Extensions", "extensions is an object of anything",
      case("/extensions", {"subcog": {"x": None}, "custom_provider": [1]}),
      case("/extensions", [], "MIF-VALUE"))
_later("properties", "1.x", "properties are texts, numbers, booleans and nulls",
       case("/properties/cans", 2.5), case("/properties/cans", [2], "MIF-VALUE"),
       case("/properties/cans", {}, "MIF-VALUE"))
_later("documents.required", "1.x", "A document has @type, and a url or an id",
       Case({f"{_D}/@type": GONE}, f"MIF-MISSING {_D}"), Case({f"{_D}/url": GONE},
                                                              f"MIF-MISSING {_D}"),
       Case({f"{_D}/url": GONE, f"{_D}/id": "x"}), case(f"{_D}/url", "plan.pdf", "MIF-URI"))
_later("documents.type", "1.x", "documentType is one of a list, or has a prefix",
       *(case(f"{_D}/documentType", word) for word in
         "pdf html markdown text transcript dataset spreadsheet presentation image audio video "
         "email "
         "other acme:x".split()), case(f"{_D}/documentType", "scroll", "MIF-WORD"))
_later("documents.hash", "1.x", "A hash has algorithm and value, and nothing else",
       Case({f"{_D}/hash/value": GONE}, f"MIF-MISSING {_D}/hash"),
       case(f"{_D}/hash/algorithm", "", "MIF-EMPTY"), Case({f"{_D}/hash/x": ""},
                                                           f"MIF-KEY {_D}/hash"))
_later("documents.size", "1.x", "byteLength is an integer from 0", case(f"{_D}/byteLength", 0),
       case(f"{_D}/byteLength", -1, "MIF-RANGE"))
_later("documents.retrieved", "1.x", "retrievedAt is a date-time",
       case(f"{_D}/retrievedAt", "2026-03-01", "MIF-DATE"))
_later("documents.closed", "1.x", "A document has no other members",
       Case({f"{_D}/author": "Ada"}, f"MIF-KEY {_D}"))
# fmt: on

RULES: Final = [*_2.rules, *_3.rules]
