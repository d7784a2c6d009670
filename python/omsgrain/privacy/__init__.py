# SPDX-License-Identifier: Apache-2.0
"""Rules about personal and regulated data, as presets.

conditions    which grains a rule is about
rules         the kinds of rules, and what each refuses
reading       files of rules
presets       rules that are in force together, and the checks over them
presets/      the files: gdpr, hipaa, ccpa, sox, and what is always in force
"""

from omsgrain.privacy.presets import BUILT_IN, Explained, Preset, explain, load
from omsgrain.privacy.rules import PURPOSES, Purpose, Rule

__all__ = [
    "BUILT_IN",
    "PURPOSES",
    "Explained",
    "Preset",
    "Purpose",
    "Rule",
    "explain",
    "load",
]
