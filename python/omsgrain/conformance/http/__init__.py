# SPDX-License-Identifier: Apache-2.0
"""Does a server speak the AIMEM HTTP profile? Asked from outside, over HTTP alone.

sample      a bundle to start from, and how it is changed
faults      what must be refused, as data
requests    single requests and their answers, as data
flows       what takes several requests: `again` and `exports`, made with `story`
probe       sends, and reads answers
runner      all of them, one after the other
"""

from omsgrain.conformance.http.probe import TenantTokens
from omsgrain.conformance.http.runner import CaseOutcome, HttpCase, cases, run

__all__ = ["CaseOutcome", "HttpCase", "TenantTokens", "cases", "run"]
