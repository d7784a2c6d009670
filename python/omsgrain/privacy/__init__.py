# SPDX-License-Identifier: Apache-2.0
"""Rules about personal and regulated data, as presets; what is found of it, and taken out.

conditions    which grains a rule is about
rules         the kinds of rules, and what each refuses
reading       files of rules
presets       rules that are in force together, and the checks over them
presets/      the files: gdpr, hipaa, ccpa, sox, and what is always in force
detectors/    what finds secrets and personal data in a text
detect        what all of them find, without overlaps
redact        texts and trees of JSON with markers in the place of it
paths         places of a tree that are left as they are
records       records as exports need them
"""

from omsgrain.policy.presets import (
    BUILT_IN,
    Explained,
    Preset,
    explain,
    load,
)
from omsgrain.policy.rules import PURPOSES, PolicyRule, Purpose

__all__ = [
    "BUILT_IN",
    "PURPOSES",
    "Explained",
    "PolicyRule",
    "Preset",
    "Purpose",
    "explain",
    "load",
]
