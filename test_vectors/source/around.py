# SPDX-License-Identifier: Apache-2.0
"""What stands around grains: .mg files, streams, signatures, encrypted grains, disclosed views.

The bytes lie in tests/data, made by the oracles in tests/ or by other programs, and frozen there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from source.forms import Vector

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"


def _load(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


def _vector(path: str, kind: str, description: str, made_by: str, **more: Any) -> Vector:
    told = {"kind": kind, "id": path, "description": description, "made_by": made_by}
    return told | {"checked_by": "omsgrain"} | more


def vectors() -> list[Vector]:
    """Files, streams, envelopes, detached signatures, sealed grains, views."""
    out: list[Vector] = []
    for path in sorted(DATA.glob("containers/*.json")):
        one = json.loads(path.read_text("utf-8"))
        name, made_by = one.pop("name"), one.pop("made_by")
        said = name.partition("-")[2].replace("-", " ")
        file = {"file_hex": one.pop("file")}
        out.append(_vector(f"containers/{name}", "container", said, made_by, **file, **one))
        if name in ("good-one", "good-all-kinds", "good-empty"):
            grains = [bytes.fromhex(grain) for grain in one["grains"]]
            data = b"".join(len(grain).to_bytes(4, "big") + grain for grain in grains) + bytes(4)
            more = {"stream_hex": data.hex(), "grains": one["grains"]}
            out.append(_vector(f"streams/{name[5:]}", "stream", said, made_by, **more))
    for number, one in enumerate(_load("cose_sign1")["vectors"], 1):
        name = f"{number:03}-{one['name'].replace(', ', '-').replace(' ', '-').lower()}"
        common = {"signer": one["signer"]}
        if "detached" in one:
            common |= {
                "signature_hex": one["cose"],
                "data_hex": one["detached"].encode().hex(),
                "aad_hex": one["aad"].encode().hex(),
            }
            kind = "detached"
        else:
            common |= {
                "envelope_hex": one["cose"], "iat": one["iat"], "address": one["address"],
            }  # fmt: skip
            kind = "envelope"
        out.append(_vector(f"signatures/{name}", kind, one["name"], one["made_by"], **common))
    whole = _load("sealed")
    for grain in whole["grains"]:
        for number, one in enumerate(grain["sealed"], 1):
            said = f"{grain['name']}, {'the whole blob' if one['whole'] else 'its payload'}"
            more = {
                "sealed_hex": one["sealed"],
                "key_hex": whole["key"],
                "blob_hex": grain["plain"],
                "address": one["address"],
            }
            name = f"sealed/{grain['name'].replace(' ', '-')}-{number}"
            out.append(_vector(name, "sealed", said, whole["made_by"], **more))
    for one in _load("disclosure"):
        names = ("original_hex", "hide", "elided", "view_hex", "address")
        more = {name: one[name] for name in names if name in one}
        if "expect_error" in one:
            more["wrong"] = {"code": one["expect_error"]}
        path = f"disclosures/{one['id']}"
        out.append(_vector(path, "disclosure", one["description"], one["made_by"], **more))
    return out
