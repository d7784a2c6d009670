# SPDX-License-Identifier: Apache-2.0
"""Rules of AIMEM and MIF that are broken on purpose, and those that must notice."""

from __future__ import annotations

from typing import Final

from support.mutants import Mutant, always, deaf, drop, forget_schemas, schema, strip

__all__ = ["MUTANTS"]

_AIMEM = "omsgrain.formats.aimem."
_HEARD = f"{_AIMEM}check.AimemChecker._wrong"
_SHAPED = "omsgrain.formats.schema.DocumentChecker._wrong"
_WARNED = "omsgrain.formats.schema.DocumentChecker._warn"
_LOADED = ("omsgrain.formats.mif_ld.schema.load",)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # AIMEM
    Mutant(
        "tenants",
        (f"{_AIMEM}fields.is_tenant",),
        always(True),
        "aimem.envelope",
        "aimem.envelope.tenant",
    ),
    Mutant(
        "checksums",
        (f"{_AIMEM}document.is_other",),
        always(False),
        "aimem.checksum aimem.order",
        "aimem.checksum.verified aimem.order",
    ),
    Mutant(
        "canonical numbers",
        ("omsgrain._core.canonical_json",),
        lambda real: lambda text, *rest: real(text, *rest).replace(b"1e-7", b"1e-07"),
        "aimem.checksum",
        "aimem.checksum.made aimem.checksum.canonical",
    ),
    Mutant(
        "weights",
        (_HEARD,),
        deaf("edge_weight_out_of_range"),
        "aimem.edge",
        "aimem.edge.weight",
    ),
    Mutant(
        "contents",
        (_HEARD,),
        deaf("hash_mismatch"),
        "aimem.chunk",
        "aimem.chunk.hash.verified",
    ),
    Mutant(
        "times in UTC",
        (_HEARD,),
        deaf("invalid_timestamp"),
        "aimem.envelope aimem.chunk aimem.edge aimem.entity",
        "aimem.envelope.exported aimem.envelope.since aimem.chunk.created aimem.edge.created "
        "aimem.entity.members",
    ),
    Mutant(
        "the DNA class",
        ("omsgrain.interchange.aimem_import.is_protected",),
        always(False),
        "aimem.dna",
        "aimem.dna.preference aimem.dna.decision aimem.dna.identity aimem.dna.pitfall "
        "aimem.dna.procedure aimem.dna.pinned",
    ),
    Mutant(
        "trust",
        ("omsgrain.crypto.trust._holds",),
        always(True),
        "aimem.signature",
        "aimem.signature.refused",
    ),
    # MIF 2.0 and 1.0
    Mutant(
        "required members",
        (_SHAPED,),
        deaf("missing_field"),
        "mif2.memory mif2.document",
        "mif2.document.version mif2.document.memories mif2.document.generator mif2.memory.id "
        "mif2.memory.content mif2.memory.created_at",
    ),
    Mutant(
        "ranges of MIF",
        (_SHAPED,),
        deaf("out_of_range"),
        "mif2.memory mif2.entity-ref mif2.embedding mif2.graph mif1.importance mif1.consent.kinds",
        "mif2.memory.version.least mif2.entity-ref.confidence mif2.embedding.kinds "
        "mif2.graph.relationship.confidence mif1.importance.range mif1.consent.kinds",
    ),
    Mutant(
        "versions of MIF 2",
        (_SHAPED,),
        deaf("unsupported_version"),
        "mif2.version mif2.document",
        "mif2.version.other",
    ),
    Mutant(
        "versions of MIF 1",
        ("omsgrain.formats.mif1.check.is_version",),
        always(True),
        "mif1.version",
        "mif1.version.checked mif1.version.major",
    ),
    Mutant(
        "warnings",
        (_WARNED,),
        deaf("unknown_value"),
        "mif1.todo mif1.type mif1.graph",
        "mif1.type.unknown mif1.todo.statuses mif1.todo.priorities mif1.graph.types.unknown",
    ),
    Mutant(
        "redaction",
        ("omsgrain.privacy.redact.marker",),
        always("***"),
        "mif1.redact mif2.export.redacted",
        "mif2.export.redacted mif1.redact.api_key mif1.redact.email mif1.redact.phone "
        "mif1.redact.credit_card mif1.redact.ssn mif1.redact.password",
    ),
    # MIF in JSON-LD
    Mutant(
        "namespaces",
        _LOADED,
        schema("common.json", lambda s: strip(s, "namespace", "pattern")),
        "mif-ld.namespace",
        "mif-ld.namespace",
        forget_schemas,
    ),
    Mutant(
        "summaries",
        _LOADED,
        schema("common.json", lambda s: strip(s, "summary", "maxLength")),
        "mif-ld.summary mif-ld.citation.note",
        "mif-ld.summary",
        forget_schemas,
    ),
    Mutant(
        "relationship types",
        _LOADED,
        schema(
            "memory-0.1.json",
            lambda s: s["$defs"]["relationship"]["properties"]["relationshipType"]["anyOf"][0][
                "enum"
            ].append("Likes"),
        ),
        "mif-ld.relationship",
        "mif-ld.relationship.types.others",
        forget_schemas,
    ),
    Mutant(
        "open relationships",
        _LOADED,
        schema("memory-0.1.json", drop("$defs", "relationship", "additionalProperties")),
        "mif-ld.relationship",
        "mif-ld.relationship.metadata",
        forget_schemas,
    ),
    Mutant(
        "decay",
        ("omsgrain.formats.mif_ld.temporal._duration",),
        lambda real: lambda since, text: 2 * real(since, text),
        "mif-ld.decay",
        "mif-ld.decay",
    ),
)
