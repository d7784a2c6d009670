# SPDX-License-Identifier: Apache-2.0
"""One form for every value: the right one is read, all others are refused.  Spec: OMS §4."""

from __future__ import annotations

import pytest

import omsgrain as og
from support.crafted_blobs import with_value
from support.refusals import CORRUPT, refused

# What is right and what is not in the place of an unknown field's value: (right, wrong ones).
MSGPACK_FORMS: dict[str, tuple[str, list[str]]] = {
    "0": ("00", ["cc00", "cd0000", "ce00000000", "cf0000000000000000", "d000", "d10000"]),
    "127": ("7f", ["cc7f", "cd007f", "ce0000007f", "d07f", "d1007f", "d20000007f"]),
    "128": ("cc80", ["cd0080", "ce00000080", "cf0000000000000080", "d10080", "d200000080"]),
    "255": ("ccff", ["cd00ff", "ce000000ff", "d100ff", "d300000000000000ff"]),
    "256": ("cd0100", ["ce00000100", "cf0000000000000100", "d10100", "d200000100"]),
    "65535": ("cdffff", ["ce0000ffff", "cf000000000000ffff", "d20000ffff"]),
    "2^16": ("ce00010000", ["cf0000000000010000", "d200010000", "d30000000000010000"]),
    "2^32-1": ("ceffffffff", ["cf00000000ffffffff", "d300000000ffffffff"]),
    "2^32": ("cf0000000100000000", ["d30000000100000000"]),
    "2^63-1": ("cf7fffffffffffffff", ["d37fffffffffffffff"]),
    "-1": ("ff", ["d0ff", "d1ffff", "d2ffffffff", "d3ffffffffffffffff"]),
    "-32": ("e0", ["d0e0", "d1ffe0", "d2ffffffe0", "d3ffffffffffffffe0"]),
    "-33": ("d0df", ["d1ffdf", "d2ffffffdf", "d3ffffffffffffffdf"]),
    "-128": ("d080", ["d1ff80", "d2ffffff80", "d3ffffffffffffff80"]),
    "-129": ("d1ff7f", ["d2ffffff7f", "d3ffffffffffffff7f"]),
    "-2^15": ("d18000", ["d2ffff8000", "d3ffffffffffff8000"]),
    "-2^15-1": ("d2ffff7fff", ["d3ffffffffffff7fff"]),
    "-2^31": ("d280000000", ["d3ffffffff80000000"]),
    "str 0": ("a0", ["d900", "da0000", "db00000000"]),
    "str 31": ("bf" + "61" * 31, [h + "61" * 31 for h in ("d91f", "da001f", "db0000001f")]),
    "str 32": ("d920" + "61" * 32, [h + "61" * 32 for h in ("da0020", "db00000020")]),
    "str 256": ("da0100" + "61" * 256, ["db00000100" + "61" * 256]),
    "bin 0": ("c400", ["c50000", "c600000000"]),
    "bin 255": ("c4ff" + "00" * 255, [h + "00" * 255 for h in ("c500ff", "c6000000ff")]),
    "bin 256": ("c50100" + "00" * 256, ["c600000100" + "00" * 256]),
    "array 0": ("90", ["dc0000", "dd00000000"]),
    "array 15": ("9f" + "00" * 15, [h + "00" * 15 for h in ("dc000f", "dd0000000f")]),
    "array 16": ("dc0010" + "00" * 16, ["dd00000010" + "00" * 16]),
    "map 0": ("80", ["de0000", "df00000000"]),
    "map 1": ("81a16100", [h + "a16100" for h in ("de0001", "df00000001")]),
    "key": ("81a16100", ["81d9016100", "81da00016100", "81db000000016100"]),
    "null in an array": ("91c0", ["c0", "81a161c0", "9181a161c0"]),
    "float64": ("cb3ff0000000000000", ["ca3f800000"]),
    "order": ("82a2616100a16200", ["82a16200a2616100", "82a16100a16100", "82a16200a16100"]),
    "string keys": ("81a000", ["810000", "81c000", "81c4016100", "81c200", "819000", "818000"]),
    "NFC": ("a2c3a9", ["a365cc81"]),
    "NFC key": ("81a2c3a900", ["81a365cc8100"]),
    "BOM inside": ("a461efbbbf", ["a3efbbbf", "a4efbbbf61", "81a3efbbbf00", "91a3efbbbf"]),
    "ext": ("00", ["d40000", "d5000000", "d6ff00000000", "d7ff" + "00" * 8, "d800" + "00" * 16]),
    "ext 8, 16, 32": ("00", ["c7000000", "c80000ff", "c90000000000"]),
    "never used": ("00", ["c1", "91c1"]),
    "UTF-8": ("a3e282ac", ["a1ff", "a1c3", "a2c328", "a2c080", "a3eda080", "a4f4908080"]),
    "longer than the rest": ("00", ["dbffffffff", "c6ffffffff", "ddffffffff", "dfffffffff", "a5"]),
}
CBOR_FORMS: dict[str, tuple[str, list[str]]] = {
    "0": ("00", ["1800", "190000", "1a00000000", "1b0000000000000000"]),
    "23": ("17", ["1817", "190017", "1a00000017", "1b0000000000000017"]),
    "24": ("1818", ["190018", "1a00000018", "1b0000000000000018"]),
    "256": ("190100", ["1a00000100", "1b0000000000000100"]),
    "2^16": ("1a00010000", ["1b0000000000010000"]),
    "2^32": ("1b0000000100000000", ["c249010000000000000000"]),
    "-1": ("20", ["3800", "390000", "3a00000000", "3b0000000000000000"]),
    "-25": ("3818", ["390018", "3a00000018", "3b0000000000000018"]),
    "-257": ("390100", ["3a00000100", "3b0000000000000100"]),
    "-2^16-1": ("3a00010000", ["3b0000000000010000"]),
    "bytes 0": ("40", ["5800", "590000", "5a00000000", "5b0000000000000000", "5f4100ff", "5fff"]),
    "bytes 24": ("5818" + "00" * 24, [h + "00" * 24 for h in ("590018", "5a00000018")]),
    "bytes 256": ("590100" + "00" * 256, ["5a00000100" + "00" * 256]),
    "text 0": ("60", ["7800", "790000", "7a00000000", "7b0000000000000000", "7f6161ff", "7fff"]),
    "text 24": ("7818" + "61" * 24, [h + "61" * 24 for h in ("790018", "7a00000018")]),
    "text 256": ("790100" + "61" * 256, ["7a00000100" + "61" * 256]),
    "array 0": ("80", ["9800", "990000", "9a00000000", "9b0000000000000000", "9f00ff", "9fff"]),
    "array 24": ("9818" + "00" * 24, [h + "00" * 24 for h in ("990018", "9a00000018")]),
    "map 0": ("a0", ["b800", "b90000", "ba00000000", "bb0000000000000000", "bfff"]),
    "map 1": ("a1616100", ["b801616100", "b90001616100", "bf616100ff"]),
    "key": ("a1616100", ["a178016100", "a17900016100", "a17f6161ff00"]),
    "float16": ("f93e00", ["fa3fc00000", "fb3ff8000000000000"]),
    "float16 subnormal": ("f90001", ["fa33800000", "fb3e70000000000000"]),
    "float -0": ("f98000", ["fa80000000", "fb8000000000000000"]),
    "float32": ("fa47c35000", ["fb40f86a0000000000"]),
    "float32 subnormal": ("fa00000001", ["fb36a0000000000000"]),
    "float64": ("fb3ff199999999999a", ["c48221196ab3"]),
    "null in an array": ("81f6", ["f6", "a16161f6", "81a16161f6"]),
    "bool": ("f5", ["f814", "f815"]),
    "simple values": ("f4", ["f7", "e0", "f3", "f820", "f8ff", "f818", "fc", "fd", "fe", "ff"]),
    "reserved heads": ("00", ["1c", "1d", "1e", "1f", "3f", "5c", "7e", "9d", "bc", "dc", "df"]),
    "tags": ("00", ["c000", "c11a00000000", "c24100", "c34100", "d81800", "d9d9f700"]),
    "order": ("a261620062616100", ["a262616100616200", "a2616100616100", "a2616200616100"]),
    "string keys": ("a16000", ["a10000", "a1f600", "a1416100", "a1f400", "a18000", "a1a000"]),
    "NFC": ("62c3a9", ["6365cc81"]),
    "NFC key": ("a162c3a900", ["a16365cc8100"]),
    "BOM inside": ("6461efbbbf", ["63efbbbf", "64efbbbf61", "a163efbbbf00", "8163efbbbf"]),
    "UTF-8": ("63e282ac", ["61ff", "61c3", "62c328", "62c080", "63eda080", "64f4908080"]),
    "longer than the rest": ("00", [h + "ff" * 8 for h in ("5b", "7b", "9b", "bb")] + ["65"]),
}


@pytest.mark.parametrize("name", MSGPACK_FORMS)
def test_msgpack_forms(name: str) -> None:
    right, wrong = MSGPACK_FORMS[name]
    og.decode(with_value("msgpack", bytes.fromhex(right)))
    for form in wrong:
        refused(with_value("msgpack", bytes.fromhex(form)), CORRUPT)


@pytest.mark.parametrize("name", CBOR_FORMS)
def test_cbor_forms(name: str) -> None:
    right, wrong = CBOR_FORMS[name]
    og.decode(with_value("cbor", bytes.fromhex(right)))
    for form in wrong:
        refused(with_value("cbor", bytes.fromhex(form)), CORRUPT)
