# SPDX-License-Identifier: Apache-2.0
"""Write the JSON Schemas of the package from the tables of fields.

``--check`` writes nothing and exits 1 if a file is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from omsgrain.formats.mif1 import check as mif1
from omsgrain.formats.mif2 import check as mif2

FORMATS = Path(__file__).parents[1] / "python" / "omsgrain" / "formats"
SCHEMAS = {
    FORMATS / "mif1" / "schema.json": mif1.schema,
    FORMATS / "mif2" / "schema.json": mif2.schema,
}

if __name__ == "__main__":
    stale = []
    for path, schema in SCHEMAS.items():
        text = json.dumps(schema(), indent=2) + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(path)
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
    if "--check" in sys.argv and stale:
        sys.exit("out of date, run docs/make_schemas.py: " + ", ".join(map(str, stale)))
