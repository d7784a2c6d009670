# SPDX-License-Identifier: Apache-2.0
"""Write the container vectors that are not there yet. Those that exist are frozen.

    python tests/data/containers/make.py

They are put together by tests/containers.py, which shares no code with the package.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from containers import address, blob, lz4_frame, make, sealed, signed, zstd_frame  # noqa: E402

GRAINS = [blob(1), signed(blob(2)), blob(3), sealed(4), blob(5)]
TWO = [blob(1), blob(2)]


def state(grain: bytes, entry: bytes) -> bytes:
    return b"\x81\xd9\x40" + address(grain).encode() + entry


FIVE_FIELDS = (
    b"\x85\xa2ac\x03\xa3laa\xcf\x00\x00\x01\x9b\xc1\x19\x01\x00\xa2sb\xd9\x40"
    + address(blob(2)).encode()
    + b"\xa3svt\xcf\x00\x00\x01\x9b\xc1\x19\x04\xe8\xa7vstatus\xa9contested"
)
#: Name -> grains, options of `make`, and what the manifest says.
GOOD: dict[str, tuple[list[bytes], dict[str, Any], dict[str, Any]]] = {
    "empty": ([], {}, {}),
    "empty-zstd": ([], {"codec": 1}, {}),
    "one": ([blob(1)], {}, {}),
    "all-kinds": (GRAINS, {}, {}),
    "all-kinds-zstd": (GRAINS, {"codec": 1}, {}),
    "all-kinds-lz4": (GRAINS, {"codec": 2}, {}),
    "frames-at-grains": (GRAINS, {"codec": 1, "cuts": (len(GRAINS[0]),)}, {}),
    "frames-within-grains": (GRAINS, {"codec": 2, "cuts": (7, 8, 300)}, {}),
    "sorted": (TWO, {"flags": 1}, {}),
    "deduplicated": (TWO, {"flags": 2}, {}),
    "duplicates-without-the-flag": ([*TWO, *TWO], {}, {}),
    "manifest": (
        TWO,
        {"manifest": state(TWO[0], FIVE_FIELDS)},
        {
            address(TWO[0]): {
                "access_count": 3,
                "last_accessed_at": 1_768_471_200_000,
                "superseded_by": address(blob(2)),
                "system_valid_to": 1_768_471_201_000,
                "verification_status": "contested",
            }
        },
    ),
    "manifest-sealed-last": (
        [blob(1), sealed(2)],
        {"manifest": state(sealed(2), b"\x81\xa7vstatus\xa8verified")},
        {address(sealed(2)): {"verification_status": "verified"}},
    ),
    "manifest-sealed-last-zstd": (
        [blob(1), sealed(2)],
        {"codec": 1, "manifest": state(sealed(2), b"\x81\xa2ac\x01")},
        {address(sealed(2)): {"access_count": 1}},
    ),
    "no-size-zstd": (
        GRAINS,
        {"codec": 1, "region": zstd_frame(b"".join(GRAINS), stated=False)},
        {},
    ),
    "no-size-lz4": (GRAINS, {"codec": 2, "region": lz4_frame(b"".join(GRAINS), stated=False)}, {}),
    "manifest-signed-last": (
        [blob(1), signed(blob(2))],
        {"manifest": state(signed(blob(2)), b"\x81\xa2ac\x01")},
        {address(signed(blob(2))): {"access_count": 1}},
    ),
}
#: Name -> file, and part, number and code of the first thing that is wrong.
BASE, SIZE = 24, len(TWO[0])
BAD: dict[str, tuple[bytes, str, int | None, str]] = {
    "magic": (make(TWO, magic=b"MF"), "header", None, "ERR_CORRUPT"),
    "version": (make(TWO, version=2), "header", None, "ERR_VERSION"),
    "field-map": (make(TWO, flags=8), "header", None, "ERR_UNSUPPORTED"),
    "unknown-flag": (make(TWO, flags=64), "header", None, "ERR_UNSUPPORTED"),
    "unknown-codec": (make(TWO, flags=4, codec_byte=9), "header", None, "ERR_UNSUPPORTED"),
    "codec-without-flag": (make(TWO, codec_byte=2), "header", None, "ERR_CORRUPT"),
    "reserved": (make(TWO, reserved=256), "header", None, "ERR_CORRUPT"),
    "manifest-offset-of-none": (make(TWO, manifest_at=60), "header", None, "ERR_CORRUPT"),
    "count": (make(TWO, count=1000), "header", None, "ERR_TOO_SHORT"),
    "offsets-decrease": (make(TWO, offsets=[BASE, 20]), "index", 1, "ERR_CORRUPT"),
    "offset-too-late": (make(TWO, offsets=[BASE, BASE + SIZE + 1]), "index", 1, "ERR_CORRUPT"),
    "frame-cut": (
        make(TWO, codec=1, region=zstd_frame(b"".join(TWO))[:-1]),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "frame-of-another-codec": (
        make(TWO, codec=1, region=lz4_frame(b"".join(TWO))),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "not-sorted": (make(TWO[::-1], flags=1), "grain", 1, "ERR_CORRUPT"),
    "not-deduplicated": (make([*TWO, TWO[1]], flags=2), "grain", 2, "ERR_CORRUPT"),
    "no-grain": (make([blob(1), b"\x01 no grain"]), "grain", 1, "ERR_NOT_MAP"),
    "signed-without-envelope": (
        make([TWO[0], b"\x01\x01" + TWO[1][2:]]),
        "grain",
        1,
        "ERR_SIGNED_MISMATCH",
    ),
    "bytes-behind-the-grains": (
        make(TWO, region=b"".join(TWO) + b"\x80"),
        "grain",
        1,
        "ERR_CORRUPT",
    ),
    "manifest-of-another-grain": (
        make(TWO, manifest=state(blob(3), b"\x81\xa2ac\x01")),
        "manifest",
        None,
        "ERR_CORRUPT",
    ),
    "manifest-with-default": (
        make(TWO, manifest=state(TWO[0], b"\x81\xa2ac\x00")),
        "manifest",
        None,
        "ERR_CORRUPT",
    ),
    "footer": (make(TWO)[:-32] + bytes(32), "footer", None, "ERR_INTEGRITY"),
    "frame-cut-no-size": (
        make(TWO, codec=1, region=zstd_frame(b"".join(TWO), stated=False)[:-1]),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "frame-window": (
        make(TWO, codec=1, region=b"\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00"),
        "frame",
        0,
        "ERR_TOO_LARGE",
    ),
}

#: GRAINS as other programs packed them, by name: the program, the codec, the bytes.
THEIRS: dict[str, tuple[str, int, str]] = json.loads((HERE / "theirs.txt").read_text("utf-8"))


MADE_BY: dict[str, str] = {}


def vectors() -> dict[str, dict[str, Any]]:
    """Every vector, by name."""
    found: dict[str, dict[str, Any]] = {}
    good = dict(GOOD)
    for name, (program, codec, region) in THEIRS.items():
        good[name] = (GRAINS, {"codec": codec, "region": bytes.fromhex(region)}, {})
        MADE_BY[f"good-{name}"] = f"{program}, in a file by tests/containers.py"
    for name, (grains, options, states) in good.items():
        data = make(grains, **options)
        found[f"good-{name}"] = {
            "file": data.hex(),
            "flags": data[3],
            "codec": data[9],
            "grains": [grain.hex() for grain in grains],
            "addresses": [address(grain) for grain in grains],
            "manifest": states,
        }
    for name, (data, part, number, code) in BAD.items():
        wrong = {"part": part, "number": number, "code": code}
        found[f"bad-{name}"] = {"file": data.hex(), "wrong": wrong}
    return found


def main() -> None:
    for name, vector in vectors().items():
        path = HERE / f"{name}.json"
        if not path.exists():
            made_by = MADE_BY.get(name, "tests/containers.py")
            said = {"name": name, "made_by": made_by} | vector
            path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
