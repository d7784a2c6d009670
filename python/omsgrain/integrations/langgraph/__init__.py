# SPDX-License-Identifier: Apache-2.0
"""LangGraph's long-term store and checkpointer, kept in a store of grains.

>>> import omsgrain as og
>>> from omsgrain.integrations.langgraph import LangGraphStore
>>> with og.open(":memory:") as grains:
...     store = LangGraphStore(grains)
...     store.put(("users", "ada"), "drink", {"likes": "tea"})
...     store.get(("users", "ada"), "drink").value
{'likes': 'tea'}

The extra ``langgraph`` installs what they need. With ``user=`` their grains belong to a user, so a
store with keys encrypts them.
"""

from omsgrain.integrations.entries import framework

framework("langgraph.store.base", "langgraph-checkpoint")

from omsgrain.integrations.langgraph.saver import LangGraphSaver  # noqa: E402
from omsgrain.integrations.langgraph.store import LangGraphStore  # noqa: E402

__all__ = ["LangGraphSaver", "LangGraphStore"]
