# SPDX-License-Identifier: Apache-2.0
"""The three sets of grains. The same count gives the same grains, always."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from omsgrain import registry

Fields = dict[str, Any]

START = 1_768_471_200_000
DID = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"


def standard(count: int, first: int = 0) -> list[Fields]:
    """Beliefs of a warehouse robot, about 230 bytes as blobs, from number ``first`` on."""
    return [
        {
            "type": "belief",
            "subject": f"robot-{i % 500}",
            "relation": "mg:perceives",
            "object": f"shelf {i} has {i % 17} boxes",
            "confidence": 0.93,
            "source_type": "sensor",
            "created_at": START + i,
            "namespace": "warehouse:zone-3",
            "author_did": DID,
            "importance": 0.5,
            "structural_tags": ["inventory", "shelf"],
            "user_id": f"u{i % 100}",
        }
        for i in range(first, first + count)
    ]


def sensors(count: int) -> list[Fields]:
    """Beliefs of small sensors, in the fields of the lightweight profile, under 120 bytes."""
    rng = random.Random(3)
    return [
        {
            "type": "belief",
            "subject": f"probe-{i % 64}",
            "relation": "mg:perceives",
            "object": f"{rng.gauss(21, 4):.1f} C",
            "confidence": rng.choice((0.5, 0.9, 0.97)),
            "created_at": START + 250 * i,
            "namespace": "lab",
        }
        for i in range(count)
    ]


# One letter of a word each; the first alphabet is in half of the events.
_ALPHABETS = (
    "eeeeaaaiiioonnrrttsslldduukmpbgvfhzwyäéèñöøçßğş",
    "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфё",
    "αεοιητσνρκπλμυδγχθφβξζψωάέήίόύώ",
    "אבגדהוזחטיכלמנסעפצקרשת",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "अआइईउएकखगघचजटडतथदनपफबभमयरलवशसह",
    "กขคงจชดตถทนบปผพมยรลวสหอ",
    "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会",
    "あいうえおかきくけこさしすせそたちつてとなにぬねのアイウエオカキクケコ",
    "가나다라마바사아자차카타파하고노도로모보소오조초코토포호",
)
_DENSE = 7  # from here on the words are short
_WORDS = 600
_EMOJI = ("🙂", "👍🏽", "🤖", "🎉", "👩‍🔬", "☕")


def _vocabulary(rng: random.Random) -> list[list[str]]:
    return [
        [
            "".join(
                rng.choices(letters, k=rng.randint(1, 3) if i >= _DENSE else rng.randint(2, 9))
            )
            for _ in range(_WORDS)
        ]
        for i, letters in enumerate(_ALPHABETS)
    ]


def events(count: int) -> list[Fields]:
    """Turns of conversations in many scripts, 200 to 4000 characters. Words follow Zipf's law."""
    rng = random.Random(2)
    words = _vocabulary(rng)
    weights = list(accumulate(1 / (rank + 1) for rank in range(_WORDS)))

    def text() -> str:
        length = int(200 * 20 ** rng.random())
        main = words[0] if rng.random() < 0.5 else rng.choice(words[1:])
        parts: list[str] = []
        while sum(map(len, parts)) + len(parts) < length:
            source = main if rng.random() < 0.9 else rng.choice(words)
            parts += rng.choices(source, cum_weights=weights, k=12)
            parts.append(rng.choice(_EMOJI) if rng.random() < 0.1 else "\n")
        # In NFC, so that a peer that does not compose writes the same bytes.
        return unicodedata.normalize("NFC", " ".join(parts))[:length]

    return [
        {
            "type": "event",
            "content": text(),
            "role": ("user", "assistant")[i % 2],
            "session_id": f"session-{i // 20}",
            "created_at": START + 1000 * i,
            "namespace": "shared",
            "user_id": f"u{i % 100}",
        }
        for i in range(count)
    ]


SETS: dict[str, Callable[[int], list[Fields]]] = {
    "standard": standard,
    "events": events,
    "sensors": sensors,
}
COUNTS = {"standard": 20_000, "events": 2_000, "sensors": 20_000}
"""How many grains a batch has, unless a row says otherwise."""


def compacted(grains: list[Fields]) -> list[Fields]:
    """The same with short keys, as they stand in a payload: what a plain packer is given."""
    keys = {name: registry.short_key(name, g["type"]) for g in grains[:1] for name in g}
    return [{keys[name]: value for name, value in grain.items()} for grain in grains]
