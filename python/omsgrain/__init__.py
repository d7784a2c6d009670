# SPDX-License-Identifier: Apache-2.0
"""git objects for agent memory: memory grains (OMS 1.2), canonical, addressed, stored.

The rooms, in the order of the flow:

    grain, constructors, batch     dicts and JSON lines to grains, and back
    text                           words, and the fields that have them
    crypto                         identities, signatures, keys, sealing
    container                      grains in .mg files and streams
    store                          blobs by sequence number and address, in LMDB
    index                          terms, queries, policies, history
    search                         words and vectors
    privacy                        presets of rules
    engine                         GrainStore, the one object that users hold
    ops                            each verb, written once
    cli                            the command line

Beside them: errors (the one tree), registry (all fields), header.
"""

from __future__ import annotations

from omsgrain import _core
from omsgrain._core import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from omsgrain import container, crypto, errors, registry
    from omsgrain.batch import (
        DecodeBatch,
        GrainBatch,
        ItemError,
        ItemWarning,
        VerifyReport,
        address_many,
        decode_many,
        encode_jsonl,
        encode_many,
        verify_many,
    )
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
    from omsgrain.errors import OmsError, OmsWarning
    from omsgrain.grain import Grain, address, decode, encode, verify
    from omsgrain.header import Header, read_header
    from omsgrain.lenient import adapt
    from omsgrain.store import GrainStore, open, restore

if _core.DEBUG:
    import warnings

    text = "omsgrain's core was built for debugging and is slow"
    warnings.warn(text, RuntimeWarning, stacklevel=2)

__all__ = [
    "Action",
    "Belief",
    "Consensus",
    "Consent",
    "DecodeBatch",
    "Event",
    "Goal",
    "Grain",
    "GrainBatch",
    "GrainStore",
    "Header",
    "ItemError",
    "ItemWarning",
    "Observation",
    "OmsError",
    "OmsWarning",
    "Reasoning",
    "State",
    "VerifyReport",
    "Workflow",
    "__version__",
    "adapt",
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
    "open",
    "read_header",
    "registry",
    "restore",
    "verify",
    "verify_many",
]

_HOMES = {
    "batch": (
        "DecodeBatch",
        "GrainBatch",
        "ItemError",
        "ItemWarning",
        "VerifyReport",
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
    "store": ("GrainStore", "open", "restore"),
    "errors": ("OmsError", "OmsWarning"),
    "grain": ("Grain", "address", "decode", "encode", "verify"),
    "header": ("Header", "read_header"),
    "lenient": ("adapt",),
}
_ROOMS = ("batch", "constructors", "container", "crypto", "errors", "grain", "header", "registry")


def __getattr__(name: str) -> object:
    """Load what is asked for: a command that only wants the version need not wait for the rest."""
    if name in _ROOMS:
        return _room(name)
    for home, names in _HOMES.items():
        if name in names:
            found: object = getattr(_room(home), name)
            globals()[name] = found  # the next time nobody asks here
            return found
    raise AttributeError(f"module 'omsgrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _room(name: str) -> ModuleType:
    from importlib import import_module

    return import_module(f"omsgrain.{name}")
