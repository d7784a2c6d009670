# SPDX-License-Identifier: Apache-2.0
"""A store for agents over MCP: the memory of one user. Spec: MIF 2.0 §7.

server      the process, and the methods of MCP
tools       the table of tools; resources, the prompt
service     shared by calls: options, rules, files below a root, threads
transport   stdin with a limit, and a response to every request before the end
"""

from __future__ import annotations
