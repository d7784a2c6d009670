# SPDX-License-Identifier: Apache-2.0
"""Queries against a plain-Python model, over whatever can happen to a store in between."""

from __future__ import annotations

import shutil
import tempfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import omsgrain as og
from omsgrain import errors as err
from omsgrain.store.lmdb import LmdbStore
from omsgrain.store.memory import MemoryStore

RUN = 20
TIME = 1_700_000_000_000
TEXTS = [
    "room",
    "room 1",
    "Cafe\u0301",  # NFC makes it shorter
    "Caf\u00e9",
    "\u00dcbergr\u00f6\u00dfe",
    "\u6771\u4eac",
    "x" * 40,
    "x" * 41,
    "x" * 21,
    "y" * 200,
    "e\u0301" * 15,  # 45 bytes, and 30 once it is NFC
    "\u00e9" * 21,
    "n" * 490,
]
OBJECTS: list[Any] = [
    *TEXTS,
    "",
    7,
    7.0,
    -1,
    0.25,
    True,
    {"reading": 7, "unit": "Cafe\u0301"},
    {"reading": 7, "unit": "Caf\u00e9", "list": [1, 2]},
    [1, "e\u0301"],
    {},
]
TIMES = [TIME, TIME, TIME, TIME + 1, TIME + 2, TIME + 1_000, 0, (1 << 32) * 1000 - 1]
FIELDS = ("namespace", "subject", "relation", "user_id", "session_id", "run_id")
KINDS = ("belief", "event", "observation", "goal")
Grains = dict[str, og.Grain]


def nfc(value: Any) -> Any:
    """A value as a grain holds it."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, dict):
        return {nfc(key): nfc(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [nfc(item) for item in value]
    return value


def exact(value: Any) -> str:
    """Text that tells 7 from 7.0 and True from 1, which ``==`` does not."""
    if isinstance(value, dict):
        return repr(sorted((key, exact(item)) for key, item in value.items()))
    return repr([exact(item) for item in value] if isinstance(value, list) else value)


def matches(grain: og.Grain, filters: dict[str, Any]) -> bool:
    for name, value in filters.items():
        if name == "type":
            byte = value if isinstance(value, int) else og.registry.TYPES_BYTE[value]
            if grain.header.type_byte != byte:
                return False
        elif name == "tag":
            if nfc(value) not in grain.get("structural_tags", ()):
                return False
        elif name == "created_after":
            if created(grain) < value:
                return False
        elif name == "created_before":
            if created(grain) >= value:
                return False
        elif name not in grain or exact(grain.to_dict()[name]) != exact(nfc(value)):
            return False
    return True


def created(grain: og.Grain) -> int:
    time = grain.get("created_at", 0)
    return time if isinstance(time, int) else 0


def answer(grains: Grains, filters: dict[str, Any], order: str) -> list[str]:
    found = [grain for grain in grains.values() if matches(grain, filters)]
    found.sort(key=lambda grain: (-created(grain), grain.address))
    addresses = [grain.address for grain in found]
    return addresses if order == "newest" else addresses[::-1]
