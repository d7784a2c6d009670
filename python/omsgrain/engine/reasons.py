# SPDX-License-Identifier: Apache-2.0
"""What may stand as the reason of an act that the law asks one for."""

from __future__ import annotations

from omsgrain.errors import SchemaError

__all__ = ["check_reason"]

_LONGEST = 256  # letters


def check_reason(reason_code: object) -> None:
    """See that a reason can stand in the audit trail, where it stays: a word, and no sentence.

    It is asked whether or not there is an audit trail: the reason of a hold, or of an erasure that
    waits, stands in the store, too.

    Raises:
        SchemaError: it is no word.
    """
    if (
        not isinstance(reason_code, str)
        or not 0 < len(reason_code) <= _LONGEST
        or reason_code.split() != [reason_code]
        or not reason_code.isprintable()
    ):
        raise SchemaError(
            "not a reason for the audit trail",
            field="/reason_code",
            expected="a word of 1 to 256 letters, without white space",
        )
