# SPDX-License-Identifier: Apache-2.0
"""What came before a grain, what came of it, and what says the same.

    supersession   the versions of a statement: `chain`, `heads`
    derivation     what a grain was made from, and what was made from it
    conversation   the messages of a session, and where they branch
    goals          what a goal depends on
    same           one statement made several times

All are functions of a snapshot and change nothing. Walks take each grain once and end at a limit,
whatever the grains name. A grain that was removed is missing: it has no history of its own, and
joins no others.
"""

from omsgrain.index.history.conversation import Branch, branches, thread
from omsgrain.index.history.derivation import Graph, Link, Node, descendants, provenance
from omsgrain.index.history.goals import Goal, GoalLink, GoalTree, goal_tree
from omsgrain.index.history.grains import LINKS, naming
from omsgrain.index.history.same import Same, duplicates, find_same
from omsgrain.index.history.supersession import chain, heads

__all__ = [
    "LINKS",
    "Branch",
    "Goal",
    "GoalLink",
    "GoalTree",
    "Graph",
    "Link",
    "Node",
    "Same",
    "branches",
    "chain",
    "descendants",
    "duplicates",
    "find_same",
    "goal_tree",
    "heads",
    "naming",
    "provenance",
    "thread",
]
