# SPDX-License-Identifier: Apache-2.0
"""A person's rights: a report of all data about the person, and an erasure.

    python examples/person.py town.omsg

omsgrain encrypts a user's grains under a key of that user. The report decrypts them for the
person, as JSON and as a .mg file. An erasure destroys the key. From then on no copy of the store
gives the grains back; the example tries it with a backup from before the erasure. Grains under a
hold stay, restricted, and the report lists them. The audit trail names the actor, not the person.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain.crypto import KeyRing

TIME = 1_768_471_200_000  # ms since 1970
MIRA = ["mira-17", "mira@example.org"]


def said(n: int, **fields: Any) -> dict[str, Any]:
    """A grain that the town has about somebody."""
    belief = {"type": "belief", "confidence": 0.9, "created_at": TIME + n}
    return belief | fields


def fill(store: og.GrainStore) -> str:
    """Store what is known; the address of what a court wants to be kept."""
    store.put(said(1, subject="Mira", relation="prefers", object="green tea", user_id="mira-17"))
    store.put(said(2, subject="Jonas", relation="knows", object="mira-17", user_id="jonas-3"))
    seen = said(3, subject="Mira", relation="was_at", object="the depot", user_id="mira-17")
    return store.put(seen)


def main(arguments: list[str]) -> int:
    """Report, hold, erase, release, erase again; the exit code is 1 if anything is left."""
    path = Path(arguments[0])
    with (
        KeyRing.create(path.with_suffix(".keys"), master=os.urandom(32)) as ring,
        og.open(path, keys=ring, actor="did:web:town.example:registry") as store,
    ):
        evidence = fill(store)
        report = store.privacy.report(MIRA)
        with path.with_suffix(".json").open("x", encoding="utf-8") as file:
            report.write_json(file)
        report.write_mg(path.with_suffix(".mg"))
        print(f"report: {report.own} grains of hers, {report.named} that name her")

        backup = path.with_name("before.omsg")
        store.maintenance.backup(backup)
        store.holds.add(evidence, authority="court 7", reason_code="litigation")
        first = store.privacy.erase(MIRA, reason_code="gdpr17")
        print(f"erased: {first.sealed} sealed, {first.erased} removed, {len(first.kept)} kept")

        store.holds.release(evidence, authority="court 7", reason_code="closed")
        last = store.privacy.erase(MIRA, reason_code="gdpr17")
        left = store.query(user_id="mira-17", current=None).results
        print(f"after the release: complete {last.complete}, {len(left)} found")

        with og.open(backup, keys=ring, readonly=True) as old:
            opened = [grain for grain in old if not grain.sealed]
            print(f"in the backup from before: {len(opened)} of {len(old)} grains can be read")
        proof = store.audit.verify()
        trail = json.dumps([entry.operation for entry in store.audit.entries()])
        print(f"audit trail {'holds' if proof.ok else 'is broken'}: {trail}")
        named = any(name in trail for name in MIRA)
    return int(not last.complete or bool(left) or not proof.ok or named)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
