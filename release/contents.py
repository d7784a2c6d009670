# SPDX-License-Identifier: Apache-2.0
"""What is in a wheel and an sdist, and what must not be. Run by ``make dist``.

What has to be in them is taken from the tree, so a new file cannot be forgotten: the wheel has the
package, the sdist has that and the crates. Tests and vectors come with the tree alone.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Beside the package and the crates, what an sdist has.
TOP = {
    ".cargo/config.toml", "Cargo.lock", "Cargo.toml", "LICENSE", "PKG-INFO", "README.md",
    "pyproject.toml",
}  # fmt: skip
#: Bytes of a wheel's files, unpacked. The stripped core has about 4.0 million of them.
CEILING = 9_300_000
CRATES = ("rust/core/", "rust/py/")
PACKAGE = "python/"


def tracked(root: Path) -> set[str]:
    """The files of the tree, as git has them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    return set(filter(None, listed.stdout.split("\0")))


def faults_of_wheel(names: set[str], tree: set[str]) -> Iterator[str]:
    """What is wrong with the names in a wheel."""
    package = {name.removeprefix(PACKAGE) for name in tree if name.startswith(PACKAGE)}
    for name in sorted(package - names):
        yield f"missing: {name}"
    for name in sorted(names - package):
        is_core = name.startswith("omsgrain/_core.") and name.endswith((".so", ".pyd"))
        if not is_core and ".dist-info/" not in name:
            yield f"not of the package: {name}"
    for end in ("/licenses/LICENSE", "/sboms/omsgrain-py.cyclonedx.json", "/entry_points.txt"):
        if not any(name.endswith(f".dist-info{end}") for name in names):
            yield f"missing: *.dist-info{end}"


def faults_of_sdist(names: set[str], tree: set[str]) -> Iterator[str]:
    """What is wrong with the names in an sdist, without the directory that all are in."""
    wanted = {name for name in tree if name.startswith((PACKAGE, *CRATES))}
    for name in sorted((wanted | TOP) - names):
        yield f"missing: {name}"
    for name in sorted(names - wanted - TOP):
        yield f"not needed to build it: {name}"


def look(path: Path, tree: set[str]) -> list[str]:
    """What is wrong with a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            unpacked = sum(one.file_size for one in wheel.infolist())
            names = set(wheel.namelist())
        large = [f"expected at most {CEILING} bytes unpacked, found {unpacked}"]
        return [*faults_of_wheel(names, tree), *large[: unpacked > CEILING]]
    with tarfile.open(path) as sdist:
        files = [member.name for member in sdist.getmembers() if member.isfile()]
    return list(faults_of_sdist({name.partition("/")[2] for name in files}, tree))


def made(dist: Path) -> list[Path]:
    """The wheels and sdists in a directory.

    Raises:
        SystemExit: there is no wheel, or no sdist.
    """
    found = [sorted(dist.glob("*.whl")), sorted(dist.glob("*.tar.gz"))]
    if not all(found):
        sys.exit(f"{dist}: expected a wheel and an sdist")
    return [path for kind in found for path in kind]


def main(dist: Path) -> int:
    """Look at all that is in a directory."""
    tree, wrong = tracked(ROOT), 0
    for path in made(dist):
        faults = look(path, tree)
        wrong += len(faults)
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB", *faults, sep="\n  ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
