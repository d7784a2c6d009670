# SPDX-License-Identifier: Apache-2.0
"""Makers of one field's value, each a function of the random source."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

from support.known_grains import DID
from support.random_values import random_int, random_text, random_value

Make = Callable[[Random], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_MS = 2**32 * 1000 - 1


def text(rng: Random) -> str:
    return random_text(rng, shortest=1)


def address(rng: Random) -> str:
    return f"{rng.getrandbits(256):064x}"


def time(rng: Random, low: int = -(2**40), high: int = _LAST_MS) -> int | str | datetime:
    """A time as ms, as an aware datetime, or as RFC 3339 text with a fraction and an offset."""
    ms = rng.randint(low, high)
    if (form := rng.random()) < 0.6:
        return ms
    zone = timezone(timedelta(minutes=rng.randint(-1439, 1439)))
    moment = (_EPOCH + timedelta(milliseconds=ms, microseconds=rng.randrange(1000))).astimezone(
        zone
    )
    return moment if form < 0.8 else moment.isoformat(sep=rng.choice("Tt "))


def created_at(rng: Random) -> int | str | datetime:
    return time(rng, low=0)


def one_of(*options: Any) -> Make:
    return lambda rng: rng.choice(options)


def array(make: Make, shortest: int = 0) -> Make:
    return lambda rng: [make(rng) for _ in range(rng.choice((0, 1, 1, 2, 4)) or shortest)]


def whole(low: int = -(2**63), high: int = 2**63 - 1) -> Make:
    return lambda rng: random_int(rng, low, high)


def fraction(rng: Random) -> float | int:
    return rng.choice((0, 1, 0.0, -0.0, 1.0, 0.5, 0.9, rng.random()))


def number(rng: Random) -> float | int:
    return rng.choice((rng.uniform(0, 1e9), rng.getrandbits(60), 0.25))


def did(rng: Random) -> str:
    return rng.choice((DID, "did:web:example.com", f"did:example:agent-{rng.randrange(99)}"))


def flag(rng: Random) -> bool:
    return rng.random() < 0.5


def entry(**makes: Make) -> Make:
    """A map with these entries, a null and an entry of its own now and then."""

    def make(rng: Random) -> dict[str, Any]:
        extra = {"x_extra": random_value(rng, 1)} if rng.random() < 0.3 else {}
        return {name: make(rng) for name, make in makes.items()} | extra

    return make
