# SPDX-License-Identifier: Apache-2.0
"""The verbs, each written once: no printing, no sockets, no environment.

The command line calls them now; the HTTP and MCP services are to call the same.
"""

from omsgrain.ops.exchange import export_mg, import_mg
from omsgrain.ops.explain import Explanation, explain
from omsgrain.ops.ingest import EncodeOptions, Step, ingest
from omsgrain.ops.lookup import get, read_blob, stats
from omsgrain.ops.plain import plain, revive, time_text
from omsgrain.ops.query import envelope, gist, query
from omsgrain.ops.upkeep import backup, check, rebuild
from omsgrain.ops.vectors import Outcome, run_vector, run_vectors
from omsgrain.ops.verify import Failure, Verified, verify

__all__ = [
    "EncodeOptions",
    "Explanation",
    "Failure",
    "Outcome",
    "Step",
    "Verified",
    "backup",
    "check",
    "envelope",
    "explain",
    "export_mg",
    "get",
    "gist",
    "import_mg",
    "ingest",
    "plain",
    "query",
    "read_blob",
    "rebuild",
    "revive",
    "run_vector",
    "run_vectors",
    "stats",
    "time_text",
    "verify",
]
