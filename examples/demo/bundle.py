# SPDX-License-Identifier: Apache-2.0
"""Import, export, sign and erase the memory of a tenant: an AIMEM bundle."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from story import Story, since

import omsgrain as og
from omsgrain import GrainStore, formats
from omsgrain.crypto.signers import Ed25519Signer, dumps_public, loads_public
from omsgrain.crypto.trust import Trust, check
from omsgrain.errors import SignatureError
from omsgrain.formats.aimem import document as bundles
from omsgrain.formats.aimem import signature
from omsgrain.formats.aimem.document import Bundle
from omsgrain.formats.problems import DocumentError
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.memory.removal import erase_tenant

BUNDLE = "robot-7.aimem.json"
PUMP = "urn:aimem:robot-7:chunk-4"
MODEL = "toy-3"


def tell_bundle(story: Story, data: Path, beside: Path) -> None:
    """Import, export, sign and erase the bundle in a directory; new files go beside it."""
    story.step(f"An AIMEM bundle: the memory of one tenant, {data / BUNDLE}")
    given = (data / BUNDLE).read_bytes()
    document = json.loads(given)
    read = bundles.read_bundle(given)
    story.say(f"{sum(map(len, read.records.values()))} records, {document['checksum'][:23]}...")
    _without_store(story, given, document)
    with og.open(beside / "brain.omsg", actor="demo") as store:
        _import_bundle(story, store, read, document)
        _sign_bundle(story, store, document["tenant_id"])
        _erase_tenant(story, store, read, document["tenant_id"])


def _without_store(story: Story, given: bytes, document: dict[str, Any]) -> None:
    back = formats.dump(formats.load(given), format="aimem", embeddings=True)
    same = json.loads(back.data) == document
    story.check("a round trip through grains keeps the bundle and its checksum", same)
    changed = given.replace(b"24 beds", b"25 beds").replace(b'"fact"', b'"opinion"')
    try:
        formats.load(changed)
        rules: list[str] = []
    except DocumentError as error:
        rules = [problem.rule for problem in error.problems]
    story.say(f"With two words changed: {', '.join(rules)}.")
    story.check(
        "a changed bundle is refused, with all its problems",
        {*rules} == {"checksum_mismatch", "hash_mismatch", "invalid_memory_type"},
    )


def _import_bundle(story: Story, store: GrainStore, read: Any, document: dict[str, Any]) -> None:
    tenant = document["tenant_id"]
    start = time.perf_counter()
    summary = import_bundle(store, read)
    count = len(document["chunks"])
    story.say(f"{summary.count('chunk', 'inserted')} chunks imported {since(start)}.")
    again = import_bundle(store, read)
    story.check("a second import changes nothing", again.count("chunk", "unchanged") == count)
    found = store.query(origin=PUMP, user_id=tenant).results
    says = [hit.grain["object"] for hit in found]
    story.check("a chunk is found by its URN", says == [document["chunks"][3]["content"]])
    (out,) = export_bundle(
        store, tenant, producer="robot-7", include_embeddings=True, embedding_model=MODEL
    )
    exported = out.to_dict()
    same = all(_sorted(exported[name]) == _sorted(document[name]) for name in ("chunks", "edges"))
    story.check("the export equals the import, character by character and float by float", same)
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


def _sign_bundle(story: Story, store: GrainStore, tenant: str) -> None:
    robot = Ed25519Signer.generate()
    text = signature.canonical(bundles.write_bundle(export_bundle(store, tenant)[0]))
    made = signature.sign_bundle(text, robot)
    known = Trust(tuple(loads_public(dumps_public(robot.public_key))))
    proof = check(made, text, known)
    story.check("its signature is valid", proof is not None and proof.signer == robot.did)
    try:
        check(made, text.replace(b"Ada", b"Eve"), known)
        rule = None
    except SignatureError as error:
        rule = error.rule
    story.check(
        "it is not valid for another bundle: signature_invalid", rule == "signature_invalid"
    )


def _erase_tenant(story: Story, store: GrainStore, read: Any, tenant: str) -> None:
    report = erase_tenant(store, tenant, reason_code="gdpr17")
    story.say(f"The tenant erased: {report.erased} grains removed.")
    (out,) = export_bundle(store, tenant)
    empty = not any(out.records.values())
    story.check("the export of the tenant is empty", empty and report.complete)
    back = import_bundle(store, read)
    kept_out = back.total_conflicts == sum(map(len, read.records.values()))
    reasons = {one.decision.reason for one in back.conflicts}
    story.check("a later import skips erased records: erased", kept_out and reasons == {"erased"})


def _sorted(records: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(record, sort_keys=True) for record in records)
