# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD: memories, citations and ontologies of the shapes 0.1 and 1.x."""
