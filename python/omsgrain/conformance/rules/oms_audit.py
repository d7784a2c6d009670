# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 3: the audit trail, presets of laws, retention, signatures that are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.oms_store import DAY, belief
from omsgrain.conformance.rules.people import ADA, ada
from omsgrain.storage.tables import AUDIT, META

_rule: Final = Table("oms", 3)
RULES: Final = _rule.rules

_ANN: Final[dict[str, Any]] = {"user_id": "ann-17"}


def _lived(bench: Bench) -> og.GrainStore:
    store = bench.store(actor="tester")
    old = store.put(belief())
    store.supersede(old, belief("off", 1))
    store.contest(old)
    store.hold(old, authority="court", reason_code="case-7")
    store.delete(store.put(belief("x")))
    return store


@_rule("audit.entries", "Compliance", "Every write is an entry: who, what, when, in order")
def _entries(bench: Bench) -> Iterator[Tried]:
    entries = list(_lived(bench).audit.entries())
    yield Tried(
        "operations",
        ["put", "supersede", "contest", "hold", "put", "delete"],
        [entry.operation for entry in entries],
    )
    yield Tried("who and when", {("tester", NOW)}, {(e.actor, e.time) for e in entries})


@_rule("audit.chain", "Compliance", "Each entry is bound to all before it: any change is found")
def _chain(bench: Bench) -> Iterator[Tried]:
    store = _lived(bench)
    yield Tried("as it is", True, store.audit.verify().ok)
    for what, number in (("the first", 1), ("one in the middle", 3), ("the last", 6)):
        store = _lived(bench)
        _change(store, number)
        yield Tried(f"{what} changed", False, store.audit.verify().ok)


def _change(store: og.GrainStore, number: int) -> None:
    def work(writer: Any) -> None:
        key = number.to_bytes(8, "big")
        row = writer.row(AUDIT, key)
        writer.set_row(AUDIT, key, row[:-1] + bytes([row[-1] ^ 1]))

    store._store.write(work)


@_rule("audit.tail", "Compliance", "A signed checkpoint kept outside shows that the tail was cut")
def _tail(bench: Bench) -> Iterator[Tried]:
    store = _lived(bench)
    kept = store.audit.checkpoint(ada(), iat=NOW // 1000)
    yield Tried("as it is", True, store.audit.verify(kept, signer=ADA).ok)

    def cut(writer: Any) -> None:
        for number in (5, 6):
            writer.set_row(AUDIT, number.to_bytes(8, "big"), None)
        row = writer.row(AUDIT, (4).to_bytes(8, "big"))
        writer.set_row(META, b"audit.head", (4).to_bytes(8, "big") + row[:32])

    store._store.write(cut)
    yield Tried("two entries cut off", False, store.audit.verify(kept, signer=ADA).ok)
    forged = json.loads(kept.to_json()) | {"number": 4}
    from omsgrain.storage.audit.verify import Checkpoint

    yield refuses(
        "a checkpoint that was changed",
        "ERR_SIGNATURE",
        lambda: store.audit.verify(Checkpoint.from_json(json.dumps(forged)), signer=ADA),
    )


@_rule("audit.addresses", "Compliance", "Entries hold addresses under a key, never in the clear")
def _addresses(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    store.delete(address)
    with store._store.read() as reader:
        raw = b"".join(key + row for key, row in reader.rows(AUDIT))
    yield Tried("in all rows of the trail", False, bytes.fromhex(address) in raw)
    told = list(store.audit.entries(address=address))
    yield Tried("asked for by the address", ["put", "delete"], [e.operation for e in told])


_PERSON: Final = {"structural_tags": ["pii:email"], **_ANN, "processing_basis": "contract"}
_HEALTH: Final = {"structural_tags": ["phi:mrn"], **_ANN, "author_did": ADA,
                  "processing_basis": "treatment"}  # fmt: skip
_BOOKS: Final = {"structural_tags": ["reg:sox"], "author_did": ADA, "source_type": "system"}
_PRESETS: Final = (
    ("gdpr", "personal data has a basis, and is stored encrypted", _PERSON, "processing_basis",
     "gdpr.processing-basis", "gdpr.encryption"),
    ("hipaa", "health data has an author, and is stored encrypted", _HEALTH, "author_did",
     "hipaa.author", "hipaa.encryption"),
    ("ccpa", "personal data says whose it is, and is stored encrypted", _PERSON, "user_id",
     "ccpa.consumer", "ccpa.encryption"),
    ("sox", "records of books have an author", _BOOKS, "author_did", "sox.author", None),
)  # fmt: skip


def _preset(
    name: str, text: str, fields: dict[str, Any], needed: str, rule: str, sealed: str | None
) -> None:
    def check(bench: Bench) -> Iterator[Tried]:
        from omsgrain.policy.presets import load

        preset = load(name)
        store = bench.store(preset=preset, keys=bench.keys())
        yield takes("a grain that keeps its rules", lambda: store.put(belief("a", **fields)))
        left = {key: value for key, value in fields.items() if key != needed}
        yield refuses(f"without {needed}", rule, lambda: store.put(belief("b", **left)))
        if sealed:
            plain = bench.store(preset=preset)
            yield refuses(
                "into a store without keys", sealed, lambda: plain.put(belief("c", **fields))
            )

    _rule.add(f"preset.{name}", "Compliance", f"Preset {name}: {text}", check)


for _row in _PRESETS:
    _preset(*_row)


@_rule(
    "retention.minimum",
    "Compliance",
    "A grain is not deleted before its minimum retention is over",
)
def _retention(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief(retention_policy={"minimum_retention_years": 2}))
    yield refuses("at once", "oms.retention-policy", lambda: store.delete(address))
    bench.clock += 3 * 366 * DAY
    yield takes("after three years", lambda: store.delete(address))


@_rule(
    "signatures.required",
    "9",
    "A store can ask for signatures, and takes nothing without",
    must=False,
)
def _required(bench: Bench) -> Iterator[Tried]:
    store = bench.on_disk(require_signatures=True)
    grain = og.Grain(og.encode(belief()))
    yield refuses("unsigned", "ERR_SIGNATURE", lambda: store.put(grain))
    yield takes("signed", lambda: store.put(og.crypto.sign(grain, ada())))
