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

import importlib
from typing import TYPE_CHECKING, Any

from omsgrain import _core, errors, registry
from omsgrain._core import __version__
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
from omsgrain.errors import OmsError, OmsWarning
from omsgrain.grain import Grain, address, decode, encode, verify
from omsgrain.header import Header, read_header

if TYPE_CHECKING:
    from omsgrain import container, crypto
    from omsgrain.crypto import disclose
    from omsgrain.engine import GrainStore, open, restore

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


def __getattr__(name: str) -> Any:
    """Load the store, and LMDB with it, containers and keys when they are first asked for."""
    if name in ("GrainStore", "open", "restore"):
        from omsgrain import engine

        return getattr(engine, name)
    if name == "disclose":
        from omsgrain.crypto import disclose

        return disclose
    if name in ("container", "crypto"):
        return importlib.import_module(f"omsgrain.{name}")
    raise AttributeError(f"module 'omsgrain' has no attribute {name!r}")
