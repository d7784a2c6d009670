# SPDX-License-Identifier: Apache-2.0
"""Speed against peers: `python -m benches`, or `make bench`, which installs the peers first.

data       the grains that are measured
measure    what a row is, and how samples are taken
codec, bulk, store, read, search, memory, growth, startup, trust, formats    the rows
peer       packages and programs that may be missing
areev_peer, sqlite_peer, git_peer, bm25_peer    others, as the rows use them
rows       all of them by name
child      runs one row; each runs in a process of its own
report, plot    the table, the bars and the curves
reasons         why rows are lost
agree           whether several runs say the same
scale, growth   one store that grows to millions of grains (rows S8)
small           a small machine
sampler, opened, page   what these two share
"""
