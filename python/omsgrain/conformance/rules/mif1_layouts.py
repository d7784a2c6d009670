# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0: its layouts, and documents under a passphrase."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from omsgrain import formats
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import GONE, edited
from omsgrain.conformance.rule import Table, Tried, refuses
from omsgrain.conformance.rules.documents import MIF1, spelled
from omsgrain.conformance.rules.mif1 import judge
from omsgrain.formats.mif1 import envelope

_rule: Final = Table("mif1")
RULES: Final = _rule.rules

M = "/memories/0"


@_rule("layouts", "1", "The same document in JSON, YAML and JSON lines, each read and written")
def _layouts(_: Bench) -> Iterator[Tried]:
    found = formats.load(spelled(MIF1))
    for layout in ("json", "yaml", "jsonl"):
        written = formats.dump(found, format="mif1", layout=layout).data
        again = formats.dump(formats.load(written), format="mif1", layout="json").data
        yield Tried(layout, MIF1, json.loads(again))


@_rule("layout.yaml", "1", "YAML by hand is read: words such as no and times are texts there")
def _yaml(_: Bench) -> Iterator[Tried]:
    text = (b"mif_version: '1.0'\nexport:\n  id: exp_a1\n"
            b"  created_at: 2026-02-03T10:45:00Z\n  user_id: no\n"
            b"memories:\n- id: mem_a1\n  content: yes\n  type: Learning\n"
            b"  created_at: 2026-02-02T14:30:00Z\n")  # fmt: skip
    again = formats.dump(formats.load(text, format="mif1"), format="mif1", layout="json").data
    found = json.loads(again)
    yield Tried("user_id: no", "no", found["export"]["user_id"])
    yield Tried("content: yes", "yes", found["memories"][0]["content"])
    yield Tried("a time", "2026-02-02T14:30:00Z", found["memories"][0]["created_at"])


@_rule("layout.yaml.bombs", "1", "YAML with aliases that multiply is refused", must=False)
def _bomb(_: Bench) -> Iterator[Tried]:
    lines = ["mif_version: '1.0'", "a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    found = judge("\n".join(lines).encode())
    yield Tried("nine to the twelfth texts", True, bool(found) and not found[0].startswith("~"))


@_rule("layout.lines", "1", "JSON lines: a header, records, a footer whose absence tells of a cut")
def _lines(_: Bench) -> Iterator[Tried]:
    written = formats.dump(formats.load(spelled(MIF1)), format="mif1", layout="jsonl").data
    lines = written.splitlines(keepends=True)
    kinds = [json.loads(line)["type"] for line in lines]
    yield Tried("the first and the last line", ("header", "footer"), (kinds[0], kinds[-1]))
    yield Tried(
        "without the last",
        ["no_footer"],
        [said.split()[0] for said in judge(b"".join(lines[:-1]))][:1],
    )
    left = b"".join([*lines[:1], *lines[2:]])
    yield Tried(
        "a record left out",
        True,
        judge(left)[0].split()[0] in ("count_mismatch", "checksum_mismatch"),
    )


@_rule("round", "2", "A document comes back from its grains equal, with the order of its keys")
def _round(_: Bench) -> Iterator[Tried]:
    for what, whole in (
        ("all that the SEP draws", MIF1),
        (
            "unknown members and nulls",
            edited(MIF1, {"/x_new": [None, 1.0, {}], f"{M}/x_new": "e\u0301"}),
        ),
    ):
        again = formats.dump(formats.load(spelled(whole)), format="mif1").data
        yield Tried(what, json.dumps(whole), json.dumps(json.loads(again)))


# §6.2

_CHEAP: Final = envelope.Kdf(bytes(range(16)), memory_kib=64, iterations=1, parallelism=1)


def _sealed(**edits: Any) -> bytes:
    made = envelope.seal_document(spelled(MIF1), "a garden at dusk", kdf=_CHEAP)
    return spelled(edited(json.loads(made), {f"/encryption/{n}": v for n, v in edits.items()}))


@_rule("encryption.members", "6.2", "AES-256-GCM with Argon2id: payload, iv and tag in base64")
def _members(_: Bench) -> Iterator[Tried]:
    found = json.loads(_sealed())["encryption"]
    yield Tried("algorithm", "aes-256-gcm", found["algorithm"])
    yield Tried("key_derivation", "argon2id", found["key_derivation"])
    sizes = tuple(len(base64.b64decode(found[name])) for name in ("iv", "auth_tag"))
    yield Tried("bytes of iv and auth_tag", (12, 16), sizes)
    yield Tried(
        "bytes of the payload",
        len(spelled(MIF1)),
        len(base64.b64decode(found["encrypted_payload"])),
    )


@_rule("encryption.key", "6.2", "A document under a key is opened by AES-256-GCM of others")
def _by_others(_: Bench) -> Iterator[Tried]:
    whole = json.loads(envelope.seal_document(spelled(MIF1), key=bytes(32)))
    part = {
        name: base64.b64decode(whole["encryption"].pop(name))
        for name in ("encrypted_payload", "auth_tag")
    }
    aad = json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()
    plain = AESGCM(bytes(32)).decrypt(
        base64.b64decode(whole["encryption"]["iv"]), b"".join(part.values()), aad
    )
    yield Tried("opened with the envelope as additional data", spelled(MIF1), plain)


@_rule("encryption.opened", "6.2", "The right passphrase opens it, and no other")
def _passphrase(_: Bench) -> Iterator[Tried]:
    sealed = _sealed()
    yield Tried("the right one", spelled(MIF1), envelope.open_document(sealed, "a garden at dusk"))
    yield refuses("another", "ERR_KEY", lambda: envelope.open_document(sealed, "a garden at dawn"))
    yield Tried(
        "none: it is told to be sealed",
        ["encrypted"],
        [said.split()[0] for said in judge(sealed)][:1],
    )


@_rule("encryption.changed", "6.2", "What was changed does not open")
def _changed(_: Bench) -> Iterator[Tried]:
    zeros = base64.b64encode(bytes(16)).decode()
    for what, edits, by in (
        ("another tag", {"auth_tag": zeros}, "ERR_KEY"),
        ("another algorithm", {"algorithm": "aes-128-gcm"}, "unknown_algorithm"),
        ("an iv of 16 bytes", {"iv": zeros}, "invalid_encryption"),
        ("no payload", {"encrypted_payload": GONE}, "invalid_encryption"),
        ("no parameters", {"kdf_params": GONE}, "kdf_missing"),
        ("64 GiB of memory asked for", {"kdf_params/memory_kib": 64 << 20}, "kdf_too_costly"),
    ):
        yield refuses(
            what,
            by,
            envelope.open_document,
            _sealed(**edits),
            "a garden at dusk",
        )
