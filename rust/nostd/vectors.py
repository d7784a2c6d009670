# SPDX-License-Identifier: Apache-2.0
"""Prints the test vectors that are beliefs of the simplest kind, a line each, for check.c."""

import json
from pathlib import Path

VECTORS = Path(__file__).parents[2] / "test_vectors"
TEXTS = ("subject", "relation", "object")
NEEDED = {"type", *TEXTS, "confidence", "created_at"}

for path in sorted(VECTORS.rglob("*.json")):
    vector = json.loads(path.read_text(encoding="utf-8"))
    fields, options = vector.get("input", {}), vector.get("options") or {}
    if fields.get("type") != "belief" or fields.keys() - {"namespace"} != NEEDED:
        continue
    if options.keys() - {"encoding"} and options != {"profile": "lightweight"}:
        continue
    texts = [fields[name] for name in TEXTS] + [fields.get("namespace", "-")]
    if not all(isinstance(text, str) and len(text) < 100 for text in texts):
        continue
    if type(fields["confidence"]) not in (int, float) or type(fields["created_at"]) is not int:
        continue
    code = vector.get("expect_error")
    expected = [code, "-"] if code else [vector["stages"]["blob_hex"], vector["address"]]
    row = [int(options.get("encoding") == "cbor"), *texts, fields["confidence"]]
    print(*row, fields["created_at"], *expected, sep="\t")

# More than the heap could hold, at once and together.
for texts in (["x" * 20_000, "r", "o", "-"], ["x" * 200, "r" * 200, "o" * 200, "n"]):
    print(0, *texts, 0.5, 0, "ERR_TOO_LARGE", "-", sep="\t")
