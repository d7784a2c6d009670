# SPDX-License-Identifier: Apache-2.0
"""Does this build, or another's server, do what the formats ask for?

rule     what a rule is, and what comes of trying it
rules    the rules of OMS 1.2, AIMEM, MIF 2.0, MIF 1.0 and MIF in JSON-LD, as tables
runner   which of them are asked for, and all of these tried
bench    what they are tried with; within: a server in this process
report   what came of it, in Markdown and JSON
edits    documents with something else in some places
http     a server of AIMEM, asked from outside

It stands beside the command line and above all else, since it tries what users reach.
"""
