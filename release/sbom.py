# SPDX-License-Identifier: Apache-2.0
"""Lists for machines of what omsgrain is made of, in CycloneDX. Run by ``make sbom``.

    omsgrain-VERSION.crates.cdx.json      what is built into the wheel, as maturin put it there
    omsgrain-VERSION.packages.cdx.json    what is installed with it and all extras, as locked

The first is in the wheel, because it tells of what is inside (PEP 770); the second tells of what
stands beside it, and lies beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "all.txt"


def crates(wheel: Path) -> bytes:
    """The list that is in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (
            name
            for name in archive.namelist()
            if name.endswith(".dist-info/sboms/omsgrain-py.cyclonedx.json")
        )
        return archive.read(name)


def packages(wheel: Path, target: Path) -> None:
    """Install a wheel with all that is locked for it, and write the list of that."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=True)
        subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
        subprocess.run(
            [
                "cyclonedx-py", "environment", "--pyproject", str(ROOT / "pyproject.toml"),
                "--mc-type", "library", "--output-reproducible", "--output-file", str(target),
                str(python),
            ],
            check=True,
        )  # fmt: skip


def main(dist: Path) -> None:
    """Write both lists beside the newest wheel."""
    wheel = max(dist.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    start = "-".join(wheel.name.split("-")[:2])
    (dist / f"{start}.crates.cdx.json").write_bytes(crates(wheel))
    packages(wheel, dist / f"{start}.packages.cdx.json")
    print(*sorted(dist.glob("*.cdx.json")), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
