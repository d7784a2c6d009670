# SPDX-License-Identifier: Apache-2.0
"""Which fields of a grain are searched, and how much a word in them counts.

Three columns, by weight: matches are told by field from the grain itself, so the index needs no
more, and each column costs bytes in every grain. What no list names is searched too: a field that
somebody added holds what they want to find.

Of a map both keys and values are words, since a key such as ``temperature`` says what was
measured; numbers are not, they are for filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any

from omsgrain.text.words import GAP, for_index

__all__ = ["ABOUT", "COLUMNS", "SAYS", "UNSEARCHED", "WEIGHTS", "columns", "texts"]

COLUMNS = ("says", "about", "more")
WEIGHTS = (2.0, 3.0, 1.0)

SAYS = frozenset(
    {
        "agreed_content",
        "conclusion",
        "content",
        "content_blocks",
        "description",
        "object",
        "tool_description",
    }
)
"""What a grain says."""

ABOUT = frozenset({"entity_id", "observer_id", "structural_tags", "subject", "tool_name"})
"""What it is about, in few words."""

UNSEARCHED = frozenset(
    {
        # what filters find, and who; a person's other fields may name them too, as text
        *("namespace", "origin_namespace", "user_id", "session_id", "run_id"),
        *(
            "author_did",
            "origin_did",
            "observer_did",
            "subject_did",
            "grantee_did",
            "witness_dids",
        ),
        *("delegate_to", "delegate_from", "assigned_agent", "return_to", "invalidation_initiator"),
        # other grains, by address
        *("derived_from", "related_to", "superseded_by", "parent_message_id", "parent_task_id"),
        *("parent_goals", "satisfaction_evidence", "depends_on", "output_grain", "dissent_grains"),
        *("prior_consent", "context_grains", "provenance_chain", "processing_basis"),
        *("_disclosure_of", "_elided"),
        # one of a few values
        *("type", "source_type", "temporal_type", "role", "epistemic_status", "identity_state"),
        *("verification_status", "invalidation_type", "recall_priority", "stop_reason"),
        *("action_phase", "tool_type", "execution_mode", "error_type", "observer_type"),
        *("observation_mode", "observation_scope", "goal_state", "inference_method", "basis"),
        *("scope", "jurisdiction", "license", "allowed_transitions"),
        # for programs
        *("tool_call_id", "call_batch_id", "tool_version", "interpreter_id", "input_schema"),
        *("output_schema", "model_id", "observer_model", "frame_id", "sync_group", "token_usage"),
        *("expiry_policy", "recurrence", "invalidation_policy", "retention_policy"),
        *("supersession_auth", "trusted_timestamp", "authorized_namespaces", "authorized_types"),
        "authorized_tools",
    }
)
"""What is not searched, beside numbers, times and yes or no."""

_PLAIN_KEYS = frozenset({"content_blocks", "content_refs", "embedding_refs"})
"""Maps whose keys are of the format, the same in every grain."""


_WITHOUT = frozenset({str, int, float, bool, NoneType})
"""Values that have no texts inside."""

_COLUMN = {name: None for name in UNSEARCHED} | dict.fromkeys(SAYS, 0) | dict.fromkeys(ABOUT, 1)


def texts(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """All texts of a grain that are searched, each with the name of its field."""
    for name, value in fields.items():
        if name not in UNSEARCHED:
            kind = type(value)
            if kind is str:  # nearly all are
                yield name, value
            if kind in _WITHOUT:
                continue
            for text in _inside(value, name not in _PLAIN_KEYS):
                yield name, text


def columns(fields: Mapping[str, Any]) -> tuple[str, str, str]:
    """What goes into each of ``COLUMNS`` for a grain: its texts, ready for the index."""
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    for name, value in fields.items():
        column = _COLUMN.get(name, 2)
        if column is None:
            continue
        if type(value) is str:
            found[column].append(for_index(value))
        elif type(value) is list or type(value) is dict:
            found[column].extend(map(for_index, _inside(value, name not in _PLAIN_KEYS)))
    says, about, more = map(GAP.join, found)
    return says, about, more


def _inside(value: Any, keys: bool) -> Iterator[str]:
    """The texts inside a value; a grain is at most 32 deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if keys:
                yield key
            yield from _inside(item, keys)
    elif isinstance(value, list):
        for item in value:
            yield from _inside(item, keys)
