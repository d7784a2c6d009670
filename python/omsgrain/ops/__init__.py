# SPDX-License-Identifier: Apache-2.0
"""The verbs, each written once: no printing, no sockets, no environment.

The command line calls them now; the HTTP and MCP services are to call the same. Those about keys
(``keys``, ``rings``), views (``disclose``) and people (``rights``) are asked for by their modules.
"""

from omsgrain.grain import plain
from omsgrain.json_values import parsed, revive, time_text
from omsgrain.ops.audit import audit_checkpoint, audit_entries, audit_verify, entry_values
from omsgrain.ops.change import (
    JSON_LIMIT,
    delete,
    fields_of,
    hold,
    mark,
    release,
    reviewed,
    reviews,
    state,
    supersede,
)
from omsgrain.ops.exchange import export_mg, import_mg
from omsgrain.ops.explain import Explanation, explain
from omsgrain.ops.history import duplicates, graph_values, history, provenance
from omsgrain.ops.ingest import EncodeOptions, IngestStep, ingest
from omsgrain.ops.lookup import envelope_of, get, one_grain, read_blob, signatures, stats
from omsgrain.ops.opening import open_store, using
from omsgrain.ops.policy import Violation, policy_check, policy_rules
from omsgrain.ops.query import QueryAnswer, envelope, gist, query, standing
from omsgrain.ops.search import marked, search
from omsgrain.ops.signed import SignedBy
from omsgrain.ops.sync import open_peer, sync
from omsgrain.ops.upkeep import backup, check, compact, rebuild, restore
from omsgrain.ops.vectors import VectorOutcome, run_vector, run_vectors
from omsgrain.ops.verify import Failure, Verified, verify

__all__ = [
    "JSON_LIMIT",
    "EncodeOptions",
    "Explanation",
    "Failure",
    "IngestStep",
    "QueryAnswer",
    "SignedBy",
    "VectorOutcome",
    "Verified",
    "Violation",
    "audit_checkpoint",
    "audit_entries",
    "audit_verify",
    "backup",
    "check",
    "compact",
    "delete",
    "duplicates",
    "entry_values",
    "envelope",
    "envelope_of",
    "explain",
    "export_mg",
    "fields_of",
    "get",
    "gist",
    "graph_values",
    "history",
    "hold",
    "import_mg",
    "ingest",
    "mark",
    "marked",
    "one_grain",
    "open_peer",
    "open_store",
    "parsed",
    "plain",
    "policy_check",
    "policy_rules",
    "provenance",
    "query",
    "read_blob",
    "rebuild",
    "release",
    "restore",
    "reviewed",
    "reviews",
    "revive",
    "run_vector",
    "run_vectors",
    "search",
    "signatures",
    "standing",
    "state",
    "stats",
    "supersede",
    "sync",
    "time_text",
    "using",
    "verify",
]
