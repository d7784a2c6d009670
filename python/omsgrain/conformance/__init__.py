# SPDX-License-Identifier: Apache-2.0
"""Does this build, or another's server, do what the formats ask for?

rules     the rules of OMS 1.2, AIMEM, MIF 2.0, MIF 1.0 and MIF in JSON-LD, as JSON
rule      one rule, its file, and results of calls
runner    loads the rules, chooses some, tries each
report    the results in Markdown and JSON
bench     stores, directories and a server for checks; within: a server in this process
steps     rules that are operations on a store; operations: these
edits     changes of documents; bundles: the AIMEM bundle that is changed
fields, grains, signatures, sealed, containers, stores, policies   what rules of OMS need in code
documents, mif, aimem                                              the same of the other formats
vectors   runs test vectors; packed_vectors: those of the package
http      a server of AIMEM, asked from outside

It is below the command line and above all else, since it tries what users reach.
"""
