# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON: the core against the one in plain Python, and what both must refuse."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jcs
from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.formats.aimem.document import checksum_of
from support.aimem_strategies import ANY, documents
from support.scale import Scale


def core(text: str | bytes) -> str:
    return _core.canonical_json(text if isinstance(text, bytes) else text.encode()).decode()


def test_doubles_of_all_sizes(scale: Scale) -> None:
    rng = random.Random(8785)
    doubles = (struct.unpack("<d", rng.randbytes(8))[0] for _ in range(scale.noise))
    values = [value for value in doubles if abs(value) <= 1.7976931348623157e308]
    assert core(json.dumps(values)) == "[" + ",".join(map(jcs.number, values)) + "]"


def test_doubles_near_the_turns() -> None:
    """Where the spelling changes: powers of ten, and the doubles beside them."""
    values = []
    for exponent in range(-30, 31):
        at = float(f"1e{exponent}")
        bits = struct.unpack("<q", struct.pack("<d", at))[0]
        values += [struct.unpack("<d", struct.pack("<q", bits + i))[0] for i in range(-2, 3)]
    values += [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 2.0**53, 2.0**53 + 2]
    assert core(json.dumps(values)) == "[" + ",".join(map(jcs.number, values)) + "]"


@given(st.integers(-(2**80), 2**80))
def test_integers_are_doubles(value: int) -> None:
    assert core(str(value)) == jcs.number(float(value))


@given(ANY, st.booleans())
def test_documents(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=1)
    found = core(text)
    assert found == jcs.canonical(value)
    assert core(found) == found
    assert jcs.canonical(json.loads(found)) == found


@given(documents())
def test_checksums(document: dict[str, Any]) -> None:
    text = json.dumps(document | {"checksum": "sha256:0"}).encode()
    assert checksum_of(text) == jcs.checksum(document)


# RFC 8785, sections 3.2.2 and 3.2.3.
TEXTS = [
    (
        r'{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
        r'"string":"\u20ac$\u000F\u000aA\u0027\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}',
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    ),
    (
        r'{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}',
        '{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}',
    ),
    ("[-0, -0.0, 0e5, 1e-400]", "[0,0,0,0]"),
    ("[1e-05, 1e-06, 1e-07, 1e16, 1e20, 1e21]",
     "[0.00001,0.000001,1e-7,10000000000000000,100000000000000000000,1e+21]"),
    ("[9007199254740993, 18446744073709551616]", "[9007199254740992,18446744073709552000]"),
    (' {"b" : [ ] , "a" : { } } \n', '{"a":{},"b":[]}'),
    ('"\x7f\u2028\ufeff"', '"\x7f\u2028\ufeff"'),
]  # fmt: skip


@pytest.mark.parametrize(("given_text", "expected"), TEXTS)
def test_hard_cases(given_text: str, expected: str) -> None:
    assert core(given_text) == expected
    assert jcs.canonical(json.loads(given_text)) == expected


REFUSED = {
    "nothing": b"",
    "byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": "{}".encode("utf-16"),
    "UTF-32": "{}".encode("utf-32-le"),
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "half a letter": b'"\xc3"',
    "too long a letter": b'"\xc0\xaf"',
    "a lone high surrogate": rb'"\ud800"',
    "a lone low surrogate": rb'"\udc00"',
    "surrogates in the wrong order": rb'"\udc00\ud800"',
    "NaN": b"[NaN]",
    "Infinity": b"[-Infinity]",
    "beyond the doubles": b"[1e400]",
    "an integer beyond the doubles": b"[" + b"9" * 400 + b"]",
    "an integer without an end": b"9" * 1_000_000,
    "a key twice": b'{"a":1,"a":1}',
    "a key twice, spelled otherwise": rb'{"a":1,"\u0061":1}',
    "a control character": b'"\x01"',
    "a leading zero": b"01",
    "a comma too many": b"[1,]",
    "two documents": b"{}{}",
    "a comment": b"{}//",
    "single quotes": b"{'a':1}",
    "nested too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: bytes) -> None:
    with pytest.raises(OmsError) as caught:
        _core.canonical_json(text)
    assert caught.value.code in ("ERR_FORMAT", "ERR_CORRUPT")


@given(st.binary(max_size=60))
def test_any_bytes(noise: bytes) -> None:
    try:
        found = _core.canonical_json(noise)
    except OmsError as error:
        assert error.code in ("ERR_FORMAT", "ERR_CORRUPT")
    else:
        assert jcs.canonical(json.loads(noise)) == found.decode()
