# SPDX-License-Identifier: Apache-2.0
"""The C header names the functions of the library, and the codes of `omsgrain.errors`."""

from __future__ import annotations

import re

from omsgrain import errors
from support.paths import ROOT

NOSTD = ROOT / "rust" / "nostd"
HEADER = re.sub(r"//.*", "", (NOSTD / "omsgrain.h").read_text())
LIBRARY = (NOSTD / "src" / "lib.rs").read_text()
CORE = (ROOT / "rust" / "core" / "src" / "codec" / "mod.rs").read_text()


def names(parameters: str) -> list[str]:
    """The parameters by name, without their types: C has the name last, Rust first."""
    parts = [part.strip() for part in parameters.split(",") if part.strip() not in ("", "void")]
    return [
        part.split(":")[0] if ":" in part else re.findall(r"\w+", re.sub(r"\[.*", "", part))[-1]
        for part in parts
    ]


def rust_fields(body: str) -> list[str]:
    """The fields of a struct; in place of a struct inside it, the fields of that."""
    found: list[str] = []
    for name, kind in re.findall(r"pub (\w+): ([^,\n]+)", body):
        inner = re.search(rf"pub struct {kind} {{(.*?)}}", LIBRARY, re.DOTALL)
        found += rust_fields(inner[1]) if inner and kind.endswith("Fields") else [name]
    return found


def test_the_codes_are_the_exit_codes_of_python() -> None:
    declared = {
        name: int(code) for name, code in re.findall(r"OMSGRAIN_(ERR_\w+) = (\d+)", HEADER)
    }
    assert len(declared) == 12
    assert declared == {name: errors.BY_CODE[name].exit_code for name in declared}
    returned = re.findall(r'\((\d+), Code::\w+, c"(\w+)"\)', LIBRARY)
    assert {name: int(code) for code, name in returned} == declared


def test_header_and_library_have_the_same_functions() -> None:
    declared = {
        name: names(parameters)
        for name, parameters in re.findall(r"\b(omsgrain_\w+)\(([^)]*)\);", HEADER)
    }
    defined = {
        name: names(parameters)
        for name, parameters in re.findall(
            r'pub (?:unsafe )?extern "C" fn (\w+)\(([^)]*)\)', LIBRARY
        )
    }
    assert len(declared) == 6
    assert declared == defined


def test_header_and_library_have_the_same_fields() -> None:
    structs = {
        "text": "Text",
        "observation": "ObservationFields",
        "belief": "BeliefFields",
        "blob": "Blob",
    }
    for in_c, in_rust in structs.items():
        body = re.search(rf"struct omsgrain_{in_c} {{(.*?)}};", HEADER, re.DOTALL)
        own = re.search(rf"pub struct {in_rust} {{(.*?)}}", LIBRARY, re.DOTALL)
        assert body is not None and own is not None
        fields = re.findall(r"(\w+);", body[1])
        assert [name.rstrip("_") for name in fields] == rust_fields(own[1])


def test_the_largest_grain_is_that_of_the_profile() -> None:
    size = re.search(r"OMSGRAIN_MAX_GRAIN (\d+)", HEADER)
    profile = re.search(r"LIGHTWEIGHT: Profile = Profile \{ max_size: (\d+)", CORE)
    assert size is not None and profile is not None
    assert size[1] == profile[1]
