# SPDX-License-Identifier: Apache-2.0
"""git objects for agent memory: memory grains (OMS 1.2), canonical, addressed, stored.

The packages, from the ground up:

    grain, constructors, batch     dicts and JSON lines to grains, and back
    crypto                         identities, signatures, keys, sealing
    container                      grains in .mg files and streams
    formats                        MIF 2.0, MIF 1.0, AIMEM, MIF in JSON-LD
    storage                        blobs, states and index rows, in LMDB or PostgreSQL
    policy, privacy                who may change what; rules of presets, personal data
    query, search                  filters, history; words and vectors
    store                          GrainStore, the object that users hold
    interchange, sync              documents in and out of a store; sync of two stores
    memory                         remember, recall, forget
    cli, server, mcp, bridge       the command line, HTTP, agents, brokers

Beside them: errors (one tree), registry (all fields), header.
"""

from __future__ import annotations

from omsgrain import _core
from omsgrain._core import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from omsgrain import batch as batch
    from omsgrain import container, crypto, errors, formats, registry, sync
    from omsgrain import header as header
    from omsgrain.batch import address_many, decode_many, encode_jsonl, encode_many, verify_many
    from omsgrain.constructors import (
        Action,
        Belief,
        Consensus,
        Consent,
        Event,
        Goal,
        Observation,
        Reasoning,
        State,
        Workflow,
    )
    from omsgrain.crypto import disclose
    from omsgrain.grain import Grain, address, decode, encode, verify
    from omsgrain.header import read_header
    from omsgrain.interchange.field_map import Mapping
    from omsgrain.memory.async_memory import AsyncMemory
    from omsgrain.memory.memory import Memory
    from omsgrain.storage.backup.repository import BackupRepository
    from omsgrain.store import GrainStore, open, restore

if _core.DEBUG:
    import warnings

    text = "omsgrain's core is a debug build, and slow"
    warnings.warn(text, RuntimeWarning, stacklevel=2)

__all__ = [
    "Action",
    "AsyncMemory",
    "BackupRepository",
    "Belief",
    "Consensus",
    "Consent",
    "Event",
    "Goal",
    "Grain",
    "GrainStore",
    "Mapping",
    "Memory",
    "Observation",
    "Reasoning",
    "State",
    "Workflow",
    "__version__",
    "address",
    "address_many",
    "container",
    "crypto",
    "decode",
    "decode_many",
    "disclose",
    "encode",
    "encode_jsonl",
    "encode_many",
    "errors",
    "formats",
    "open",
    "read_header",
    "registry",
    "restore",
    "sync",
    "verify",
    "verify_many",
]

_HOMES = {
    "batch": (
        "address_many",
        "decode_many",
        "encode_jsonl",
        "encode_many",
        "verify_many",
    ),
    "constructors": (
        "Action",
        "Belief",
        "Consensus",
        "Consent",
        "Event",
        "Goal",
        "Observation",
        "Reasoning",
        "State",
        "Workflow",
    ),
    "crypto": ("disclose",),
    "interchange.field_map": ("Mapping",),
    "memory.async_memory": ("AsyncMemory",),
    "memory.memory": ("Memory",),
    "storage.backup.repository": ("BackupRepository",),
    "store": ("GrainStore", "open", "restore"),
    "grain": ("Grain", "address", "decode", "encode", "verify"),
    "header": ("read_header",),
}
_ROOMS = (
    "batch",
    "constructors",
    "container",
    "crypto",
    "errors",
    "formats",
    "grain",
    "header",
    "registry",
    "sync",
)


def __getattr__(name: str) -> object:
    """Import a module when its name is first used, so that `--version` starts fast."""
    if name in _ROOMS:
        return _room(name)
    for home, names in _HOMES.items():
        if name in names:
            found: object = getattr(_room(home), name)
            globals()[name] = found  # later uses skip this function
            return found
    raise AttributeError(f"module 'omsgrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _room(name: str) -> ModuleType:
    from importlib import import_module

    return import_module(f"omsgrain.{name}")
