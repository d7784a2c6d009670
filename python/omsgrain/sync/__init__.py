# SPDX-License-Identifier: Apache-2.0
"""Sync two stores, like git fetch and push.

    with og.open("robot.omsg") as robot, og.open("hub.omsg") as hub:
        report = sync(LocalPeer(robot), LocalPeer(hub))

peer        the contract of a side, and the values that cross
protocol    these values as bytes, and their limits
run         the requests of a sync, in their order
reconcile   what differs: positions in the feed, set reconciliation
local       a store of this process as a peer
http        a store behind a server as a peer
bundle      sync by file
batch       batches out of a store and into one
states      states of grains: sent to others, merged from others
erasures    erase here what other stores erased
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


def __dir__() -> list[str]:
    return __all__
