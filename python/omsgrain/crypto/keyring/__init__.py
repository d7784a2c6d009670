# SPDX-License-Identifier: Apache-2.0
"""The keys of users, in a file outside the store, where they can be destroyed. Spec: OMS §20.

keyring   the class `KeyRing`
ring      the file as a process has it open; how it follows other processes; rewriting it
file      the layout, and writing it so that a cut leaves it as it was or as it was to be
"""

from omsgrain.crypto.keyring.keyring import KeyRing, KeyStats
from omsgrain.crypto.master_key import LocalMaster, Master, MasterKey
from omsgrain.crypto.seal import UserKeys

__all__ = ["KeyRing", "KeyStats", "LocalMaster", "Master", "MasterKey", "UserKeys"]
