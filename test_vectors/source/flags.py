# SPDX-License-Identifier: Apache-2.0
"""Each bit of the flags byte."""

from __future__ import annotations

from typing import Any

import oracle
from source.forms import Vector, encoded, expand, read, refused_read
from source.frames import CBOR, COMPRESSED, blob, msgpack, raw_frame, sizeless_frame
from source.types import AT, HASH

_BASE: dict[str, Any] = {
    "type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 0.5,
    "created_at": AT,
}  # fmt: skip
_CONTENT = {"content_refs": [{
    "uri": "cas://sha256:" + HASH, "modality": "image", "mime_type": "image/png", "size_bytes": 70,
    "checksum": "sha256:" + HASH, "metadata": {"uri": "kept"}}]}  # fmt: skip
_EMBEDDING = {"embedding_refs": [{
    "vector_id": "v-1", "model": "m", "dimensions": 384, "distance_metric": "cosine",
    "modality_source": "text", "x_own": 1}]}  # fmt: skip

# What zstd 1.5.7 at level 3 makes of the 231 payload bytes of an event that says "tick " 40 times.
_REAL_FRAME = bytes.fromhex(
    "28b52ffd20e7650100440283a26361cf0000019bc1190100a7636f6e74656e74d9c87469636b20a174a56576656e"
    "74010000411527"
)
# The same without the content size: by python-zstandard 0.25.0.
_STREAMED_FRAME = bytes.fromhex(
    "28b52ffd0000650100440283a26361cf0000019bc1190100a7636f6e74656e74d9c87469636b20a174a56576656e"
    "74010000411527"
)
_TICKS = {"type": "event", "content": "tick " * 40, "created_at": AT}

_ENCODED: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("001-none", "no bit", {}, {}),
    ("002-content-refs", "bit 3: content_refs is there and not empty", _CONTENT, {}),
    ("003-content-refs-empty", "an empty content_refs sets no bit", {"content_refs": []}, {}),
    ("004-embedding-refs", "bit 4: embedding_refs is there and not empty", _EMBEDDING, {}),
    ("005-embedding-refs-empty", "an empty embedding_refs sets no bit", {"embedding_refs": []},
     {}),
    ("006-cbor", "bit 5", {}, {"encoding": "cbor"}),
    ("007-both-refs-cbor", "bits 3, 4 and 5", _CONTENT | _EMBEDDING, {"encoding": "cbor"}),
    ("008-reg", "bits 6-7: a reg: tag asks for internal", {"structural_tags": ["reg:gdpr"]}, {}),
    ("009-pii", "a pii: tag asks for pii", {"structural_tags": ["pii:email"]}, {}),
    ("010-sec", "a sec: tag asks for pii", {"structural_tags": ["sec:token"]}, {}),
    ("011-legal", "a legal: tag asks for pii", {"structural_tags": ["legal:brief"]}, {}),
    ("012-phi", "a phi: tag asks for phi", {"structural_tags": ["phi:mrn"]}, {}),
    ("013-highest", "the highest of the tags counts",
     {"structural_tags": ["reg:x", "phi:mrn", "pii:email", "shelf"]}, {}),
    ("014-other-tags", "a prefix counts only at the start, in lower case and with its colon",
     {"structural_tags": ["PII:email", "my-phi:mrn", "pii", "regular"]}, {}),
    ("015-raised", "the writer may ask for more than the tags do",
     {"structural_tags": ["reg:x"]}, {"sensitivity": "pii"}),
    ("016-not-lowered", "the writer cannot ask for less", {"structural_tags": ["phi:mrn"]},
     {"sensitivity": "internal"}),
    ("017-internal", "1 by its name", {}, {"sensitivity": "internal"}),
    ("018-phi-number", "3 by its number", {}, {"sensitivity": 3}),
    ("019-namespace", "no bit, but the two bytes of the namespace", {"namespace": "shared"}, {}),
    ("020-namespace-nfc", "the hash is of the namespace in NFC", {"namespace": "cafe\u0301"}, {}),
)  # fmt: skip


def vectors() -> list[Vector]:
    """Written bits, then bits that are only read or refused."""
    out = [
        encoded(f"flags/{name}", text, _BASE | fields, options)
        for name, text, fields, options in _ENCODED
    ]
    simple = oracle.stages(_BASE)
    shown = expand(simple["compact"])
    in_cbor = oracle.stages(_BASE, "cbor")["payload"]
    ticks = oracle.stages(_TICKS)
    out += [
        read(
            "flags/030-compressed-raw",
            "bit 2: a frame of one raw block; the address is over the compressed bytes",
            blob(raw_frame(simple["payload"]), COMPRESSED),
            shown,
        ),
        read(
            "flags/031-compressed-zstd",
            "bit 2: a frame of zstd 1.5.7 at level 3",
            blob(_REAL_FRAME, COMPRESSED, kind=2),
            expand(ticks["compact"]),
        ),
        read(
            "flags/032-compressed-cbor",
            "bits 2 and 5",
            blob(raw_frame(in_cbor), COMPRESSED | CBOR),
            shown,
        ),
        read("flags/033-raised-unasked", "a reader takes more than the tags ask",
             msgpack(flags=0xC0), expand(oracle.compact(_BASE | {"subject": "s", "relation": "r",
             "object": "o"}))),
        read("flags/034-ns-hash-of-empty",
        "no namespace: also read with SHA-256 of the empty text",
             blob(simple["payload"], ns=b"\xe3\xb0"), shown),
        read("flags/035-ns-hash-of-shared", "no namespace: also read with SHA-256 of 'shared'",
             blob(simple["payload"], ns=b"\xa4\xd2"), shown),
        refused_read("flags/040-signed", "ERR_SIGNED_MISMATCH", "bit 0 without an envelope",
                     msgpack(flags=1)),
        refused_read("flags/041-encrypted", "ERR_KEY", "bit 1, and no key given",
                     blob(bytes(range(48)), flags=2)),
        read("flags/042-compressed-raw-no-size", "a frame that does not state its content size",
             blob(sizeless_frame(simple["payload"]), COMPRESSED), shown),
        read("flags/043-compressed-zstd-no-size",
             "the same, as zstd 1.5.7 writes it when it does not know the size",
             blob(_STREAMED_FRAME, COMPRESSED, kind=2), expand(ticks["compact"])),
    ]  # fmt: skip
    return out
