# SPDX-License-Identifier: Apache-2.0
"""Tests whether this build, or another server, follows the formats.

rules         the rules of OMS 1.2, AIMEM, MIF 2.0, MIF 1.0 and MIF in JSON-LD, as JSON
rule          rules, loaded, chosen and tested; changes of documents, results of calls
report        results in Markdown and JSON
bench         directories, stores, signers and a server for checks
steps         rules written as operations on a store
oms, aimem, documents    rules of OMS, AIMEM and MIF that need code
vectors       runs test vectors
http          tests an AIMEM server over HTTP, by cases of one request or several
probe         sends requests and reads responses

It imports everything but the command line, because it tests the public surface.
"""
