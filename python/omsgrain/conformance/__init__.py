# SPDX-License-Identifier: Apache-2.0
"""Does this build, or another server, do what the formats require?

rules         the rules of OMS 1.2, AIMEM, MIF 2.0, MIF 1.0 and MIF in JSON-LD, as JSON
rule          one rule, its file, changes of documents, results of calls
runner        loads the rules, chooses some, tries each
report        the results in Markdown and JSON
bench         directories, stores, signers and a server for checks
local_server  a server of this build, in this process
steps         rules that are operations on a store, one after the other
grains, signatures, containers, stores, policies    rules of OMS that need code
documents, aimem                                    rules of MIF and AIMEM that need code
vectors       runs test vectors, those of the package too
http          tests a server of AIMEM over HTTP

It is below the command line and above all else, since it tries what users reach.
"""
