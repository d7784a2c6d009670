# SPDX-License-Identifier: Apache-2.0
"""The demo's part about bundles: in, out again as they were, signed, and a tenant erased."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omsgrain.cli.story import Story, since

if TYPE_CHECKING:
    from omsgrain import GrainStore

BUNDLE = "robot-7.aimem.json"
PUMP = "urn:aimem:robot-7:chunk-4"
MODEL = "toy-3"


def tell(story: Story, data: Path, beside: Path) -> None:
    """Tell it, with the bundle in a directory; what is made on the way goes beside."""
    import omsgrain as og
    from omsgrain.formats.aimem import document as bundle

    story.step(f"An AIMEM bundle: the memory of one tenant, {data / BUNDLE}")
    given = (data / BUNDLE).read_bytes()
    document = json.loads(given)
    read = bundle.read_bundle(given)
    story.say(f"{sum(map(len, read.records.values()))} records, {document['checksum'][:23]}...")
    _without_store(story, given, document)
    with og.open(beside / "brain.omsg", actor="demo") as store:
        _import(story, store, read, document)
        _sign(story, store, read, document["tenant_id"])
        _erase(story, store, read, document["tenant_id"])


def _without_store(story: Story, given: bytes, document: dict[str, Any]) -> None:
    from omsgrain import formats
    from omsgrain.formats.problems import DocumentError

    back = formats.dump(formats.load(given), format="aimem", embeddings=True)
    same = json.loads(back.data) == document
    story.check("made into grains and back it is the same, its checksum too", same)
    changed = given.replace(b"24 beds", b"25 beds").replace(b'"fact"', b'"opinion"')
    try:
        formats.load(changed)
        rules: list[str] = []
    except DocumentError as error:
        rules = [problem.rule for problem in error.problems]
    story.say(f"With two words changed: {', '.join(rules)}.")
    story.check(
        "a changed one is refused, with all that is wrong",
        {*rules} == {"checksum_mismatch", "hash_mismatch", "invalid_memory_type"},
    )


def _import(story: Story, store: GrainStore, read: Any, document: dict[str, Any]) -> None:
    from omsgrain.formats.aimem.document import Bundle
    from omsgrain.interchange.aimem_export import export_bundle
    from omsgrain.interchange.aimem_import import import_bundle

    tenant = document["tenant_id"]
    start = time.perf_counter()
    summary = import_bundle(store, read)
    count = len(document["chunks"])
    story.say(f"{summary.count('chunk', 'inserted')} chunks taken in {since(start)}.")
    again = import_bundle(store, read)
    story.check("taken in again, nothing changes", again.count("chunk", "unchanged") == count)
    found = store.query(origin=PUMP, user_id=tenant).results
    says = [hit.grain["object"] for hit in found]
    story.check("a chunk is found by its URN", says == [document["chunks"][3]["content"]])
    (out,) = export_bundle(
        store, tenant, producer="robot-7", include_embeddings=True, embedding_model=MODEL
    )
    told = out.to_dict()
    same = all(_sorted(told[name]) == _sorted(document[name]) for name in ("chunks", "edges"))
    story.check("it leaves as it came, to the last sign and the last float", same)
    newer = [
        chunk | {"content": "Otherwise.", "created_at": "2026-07-01T00:00:00Z"}
        for chunk in document["chunks"][3:7:3]  # a pitfall and an episode
    ]
    for chunk in newer:
        del chunk["content_hash"]
    later = import_bundle(store, Bundle(read.envelope, {"chunk": newer}))
    reasons = [one.decision.reason for one in later.conflicts]
    story.check(
        "a newer episode supersedes the old one, a newer pitfall does not",
        later.count("chunk", "updated") == 1 and reasons == ["dna_conflict"],
    )


def _sign(story: Story, store: GrainStore, read: Any, tenant: str) -> None:
    from omsgrain.crypto.signers import Ed25519Signer, dumps_public, loads_public
    from omsgrain.crypto.trust import Trust, check
    from omsgrain.errors import SignatureError
    from omsgrain.formats.aimem import document as bundle
    from omsgrain.formats.aimem import signature
    from omsgrain.interchange.aimem_export import export_bundle

    robot = Ed25519Signer.generate()
    text = signature.canonical(bundle.write_bundle(export_bundle(store, tenant)[0]))
    made = signature.sign_bundle(text, robot)
    known = Trust(tuple(loads_public(dumps_public(robot.public_key))))
    proof = check(made, text, known)
    story.check("its signature holds", proof is not None and proof.signer == robot.did)
    try:
        check(made, text.replace(b"Ada", b"Eve"), known)
        rule = None
    except SignatureError as error:
        rule = error.rule
    story.check("and not for another bundle: signature_invalid", rule == "signature_invalid")


def _erase(story: Story, store: GrainStore, read: Any, tenant: str) -> None:
    from omsgrain.interchange.aimem_erase import erase_tenant
    from omsgrain.interchange.aimem_export import export_bundle
    from omsgrain.interchange.aimem_import import import_bundle

    report = erase_tenant(store, tenant, reason_code="gdpr17")
    story.say(f"The tenant erased: {report.erased} grains removed.")
    (out,) = export_bundle(store, tenant)
    empty = not any(out.records.values())
    story.check("nothing of the tenant is left to export", empty and report.complete)
    back = import_bundle(store, read)
    kept_out = back.total_conflicts == sum(map(len, read.records.values()))
    reasons = {one.decision.reason for one in back.conflicts}
    story.check("no bundle brings it back by itself: erased", kept_out and reasons == {"erased"})


def _sorted(records: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(record, sort_keys=True) for record in records)
