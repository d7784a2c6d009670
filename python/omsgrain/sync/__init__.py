# SPDX-License-Identifier: Apache-2.0
"""Sync between any two stores, like git fetch and push.

    with og.open("robot.omsg") as robot, og.open("hub.omsg") as hub:
        report = sync(LocalPeer(robot), LocalPeer(hub))

peer        what one side answers, and the values that cross
wire        these values as bytes
local       a store as a peer
running     who says what to whom, and in which order
asking      what does not fit into one batch
comparing   where two stores differ, by digests of ranges
views       the ranges of a store
giving      batches out of a store
taking      a batch into a store
claims      which states are taken over
erasing     following erasures
records     what a store remembers of its syncs
http_peer   a peer over HTTP: http_line, message, parts, urls
bound       a peer within some namespaces
bundle      sync by file: bundle_file
bounds      what a value from outside can be
"""

from omsgrain.sync.bundle import take_bundle, write_bundle
from omsgrain.sync.http import HttpPeer
from omsgrain.sync.local import LocalPeer
from omsgrain.sync.peer import Batch, BatchResult, Greeting, Hello, Peer, Refusal, Right
from omsgrain.sync.run import Passed, Progress, SyncReport, sync

__all__ = [
    "Batch",
    "BatchResult",
    "Greeting",
    "Hello",
    "HttpPeer",
    "LocalPeer",
    "Passed",
    "Peer",
    "Progress",
    "Refusal",
    "Right",
    "SyncReport",
    "sync",
    "take_bundle",
    "write_bundle",
]
