# SPDX-License-Identifier: Apache-2.0
"""Speed against peers: `python -m benches`, or `make bench`, which installs the peers first.

data       the grains that are measured
measure    what a row is, and how samples are taken
codec, bulk, store, startup    the rows, one function each
areev_peer the other store of memory grains, as the rows use it
rows       all of them by name
child      runs one row; each runs in a process of its own
report, plot    the table, the bars and the curves
reasons         why rows are lost
agree           whether several runs say the same
scale, growth   one store that grows to millions of grains (rows S8)
small           a small machine
sampler, opened, page   what these two share
"""
