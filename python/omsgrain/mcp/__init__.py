# SPDX-License-Identifier: Apache-2.0
"""A store for agents over MCP: the memory of one user. Spec: MIF 2.0 §7.

server      the process over stdin and stdout
transport   lines as messages, with a limit, and a response to every request before the end
sdk         the official package, of 1.x or 2.x
methods     the methods of the protocol, for stdio and for ``omsgrain serve``
tools, arguments, documents, resources   what they offer
service     shared by calls: options, rules, files below a root, threads
clients     the configuration files of the programs that start a server
"""

from __future__ import annotations
