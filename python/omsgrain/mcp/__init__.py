# SPDX-License-Identifier: Apache-2.0
"""A store for agents, over MCP: the memory of one user, and of nobody else. Spec: MIF 2.0 §7.

options      how a server behaves         remembering  remember, recall, forget, history
problems     what is refused, as MCP has  exchange     export and import of MIF documents
arguments    arguments of tools, checked  resources    what can be read without a tool
tools        the one table of tools       prompts      what a person can ask for
root         files, below one directory   stdio        lines in, bounded
relay        what came is answered        server       the process
service      what all calls share
"""

from __future__ import annotations
