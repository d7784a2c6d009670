# SPDX-License-Identifier: Apache-2.0
"""A wheel and an sdist as a stranger meets them. Run by ``make trial``.

Each is installed into a new environment, and used in a directory that is not this tree. A wheel
meets no compiler there, and what it installs may not grow past CEILINGS. Then each extra is
installed alone: what needs it must be refused without, by its code, and done with it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from release.contents import ROOT, made

STORE, USAGE, UNSUPPORTED = 60, 2, 71
#: What builds from source. Where a wheel is tried, none of them is found.
COMPILERS = (
    "cc", "gcc", "g++", "c++", "clang", "clang++", "cl", "ld", "make", "cmake",
    "cargo", "rustc", "maturin", "zig",
)  # fmt: skip
#: In tags of platforms where not every package that omsgrain needs has a wheel: lmdb has none for
#: musl and armv7; cffi and msgpack have none for armv7.
COMPILED = ("musllinux", "armv7l")
#: Bytes that a wheel and what it needs may add to an environment: files of the wheels, and those
#: with the modules that pip compiles. Other platforms have wheels of other sizes.
CEILINGS = (34_500_000, 48_500_000)
MEASURED = ("Linux", "x86_64")
#: Bytes of the smallest installation: docs/how-to/install.md.
SMALLEST = 31_000_000
#: No server listens there, which is found out only by one who can speak to it.
NOWHERE = "127.0.0.1:1"


class Verb(NamedTuple):
    """What an extra is for.

    Attributes:
        python: what ``python`` is called with.
        code: how it ends with the extra.
        without: how it ends where nothing is installed but omsgrain.
    """

    python: tuple[str, ...]
    code: int = 0
    without: int = UNSUPPORTED


def _verb(*words: str, code: int = 0) -> Verb:
    return Verb(("-m", "omsgrain", *words), code)


def _text(text: str, code: int = 0) -> Verb:
    """For what has no command that ends by itself; Python ends with 1 where it cannot import."""
    return Verb(("-c", text), code, 1)


EXTRAS: Mapping[str, tuple[Verb, ...]] = {
    "openai-agents": (_text("import omsgrain.integrations.openai_agents"),),
    "autogen": (_text("import omsgrain.integrations.autogen"),),
    "llama-index": (_text("import omsgrain.integrations.llama_index"),),
    "google-adk": (_text("import omsgrain.integrations.google_adk"),),
    "anthropic": (_text("import omsgrain.integrations.anthropic"),),
    "crewai": (_text("import omsgrain.integrations.crewai"),),
    "strands": (_text("import omsgrain.integrations.strands"),),
    "arrow": (_verb("export", "m.omsg", "m.parquet"),),
    "cli": (_text("import omsgrain.cli, rich.table"),),
    "formats": (
        _verb("ontology", "check", "examples/garden-notes.yaml"),
        _text("import argon2, jsonschema_rs, re2"),
    ),
    "langgraph": (_text("import omsgrain.integrations.langgraph"),),
    "mcap": (_verb("export", "m.omsg", "m.mcap"),),
    "mcp": (_verb("mcp", "m.omsg", "--user", "ada"),),
    "mqtt": (_text("import omsgrain.bridge.mqtt"),),
    "nats": (_text("import omsgrain.bridge.nats"),),
    "objects": (
        _text(
            "from obstore.store import MemoryStore; import omsgrain as og;"
            "og.open('m.omsg').maintenance.backup_to(MemoryStore())"
        ),
    ),
    "postgres": (_verb("stats", f"postgresql://nobody@{NOWHERE}/none", code=STORE),),
    "privacy": (
        _text("from omsgrain.privacy.redact import redact_text as r; r('+1 202-555-0143')"),
    ),
    "protobuf": (
        _text(
            "from omsgrain.errors import library as l; "
            "l('protobuf', 'google.protobuf.message', 'messages')"
        ),
    ),
    "rosbags": (
        _text("from omsgrain.formats.bag.rosbag2 import standard_definition as d; d('a/msg/A')"),
    ),
    "search": (_text("from omsgrain.search import ann as graph; assert graph.library()"),),
    "server": (_text("import omsgrain.server.app"),),
    "web": (_verb("sync", "m.omsg", f"http://{NOWHERE}", code=STORE),),
}
#: With nothing but omsgrain. The first prints its version, which is that of the file.
ALONE: tuple[tuple[str, ...], ...] = (
    ("-m", "omsgrain", "--version"),
    ("examples/demo",),
    ("-m", "omsgrain", "ingest", "m.omsg", "examples/mission.jsonl"),
    ("-m", "omsgrain", "verify", "m.omsg"),
    (
        "-c",
        "from importlib.resources import files; assert (files('omsgrain') / 'py.typed').is_file()",
    ),
)


def without_compilers(folder: Path) -> str:
    """Return a PATH on which no compiler is found, though this machine may have one.

    Raises:
        SystemExit: a compiler is found all the same.
    """
    empty = folder / "path"
    empty.mkdir()
    system = os.environ.get("SystemRoot")  # Windows: Python loads libraries from there
    path = os.pathsep.join([str(empty), *([str(Path(system, "System32"))] if system else [])])
    if found := [name for name in COMPILERS if shutil.which(name, path=path)]:
        sys.exit(f"{path}: expected no compiler, found {' '.join(found)}")
    return path


def taken(folder: Path) -> tuple[int, int]:
    """Return the bytes of the files below a directory, without and with compiled modules."""
    plain = compiled = 0
    for path in folder.rglob("*"):
        if path.is_file():
            if path.suffix == ".pyc":
                compiled += path.stat().st_size
            else:
                plain += path.stat().st_size
    return plain, plain + compiled


class Place:
    """A new environment, and a directory to work in.

    Args:
        folder: an empty directory.
        has_compilers: whether programs of this machine are found, compilers among them.
        has_pyc: whether Python keeps the modules that it compiles.
    """

    def __init__(self, folder: Path, has_compilers: bool, has_pyc: bool = True) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        shutil.copytree(ROOT / "examples", self.work / "examples")
        venv.create(folder / "venv", with_pip=True)
        scripts = "Scripts" if os.name == "nt" else "bin"
        self.prefix = folder / "venv"
        self._python = self.prefix / scripts / "python"
        # Nothing of the tree that this runs in may help.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
        }
        if not has_pyc:
            self._environment["PYTHONDONTWRITEBYTECODE"] = "1"
        if not has_compilers:
            self._environment["PATH"] = without_compilers(folder)

    def call(self, *words: str) -> tuple[int, str]:
        """Run Python. Returns how it ended, and what it said."""
        done = subprocess.run(
            [str(self._python), *words],
            cwd=self.work,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        return done.returncode, done.stdout

    def expect(self, code: int, *words: str) -> None:
        """Run Python, and see that it ends so."""
        found, said = self.call(*words)
        if found != code:
            sys.exit(f"{' '.join(words)}: ended with {found} and not {code}\n{said}")

    def install(self, what: str, *options: str) -> None:
        """Install a file with what it needs, and see that all of it fits together."""
        self.expect(0, "-m", "pip", "install", "-q", "--disable-pip-version-check", *options, what)
        self.expect(0, "-m", "pip", "check")


def try_alone(path: Path) -> str:
    """Install a wheel or an sdist by itself and use it; what needs an extra is refused.

    Returns:
        What was shown.
    """
    is_wheel = path.suffix == ".whl"
    has_compilers = not is_wheel or any(part in path.name for part in COMPILED)
    with tempfile.TemporaryDirectory(prefix="omsgrain-trial-") as folder:
        place = Place(Path(folder), has_compilers)
        before = taken(place.prefix)
        place.install(str(path))
        sizes = [after - had for after, had in zip(taken(place.prefix), before, strict=True)]
        for words in ALONE:
            place.expect(0, *words)
        version = place.call(*ALONE[0])[1].split()[-1]
        if f"omsgrain-{version}" not in path.name:
            sys.exit(f"{path.name}: it says that it is {version}")
        for verbs in EXTRAS.values():
            for verb in verbs:
                place.expect(verb.without, *verb.python)
    if has_compilers:
        return f"{path.name}: installed alone, and used"
    if grown := too_large(sizes):
        sys.exit(f"{path.name}: {grown}")
    plain, compiled = (f"{size / 1e6:.1f} MB" for size in sizes)
    sizes_said = f"{plain}, with compiled modules {compiled}"
    return f"{path.name}: installed alone without a compiler ({sizes_said}), and used"


def try_smallest(wheel: Path) -> str:
    """Install a wheel without compiled modules and debug symbols, and use it.

    Returns:
        What was shown.
    """
    strip = shutil.which("strip")
    if (platform.system(), platform.machine()) != MEASURED or strip is None:
        return f"{wheel.name}: NOT TRIED without debug symbols: that needs strip and {MEASURED}"
    with tempfile.TemporaryDirectory(prefix="omsgrain-trial-") as folder:
        place = Place(Path(folder), has_compilers=False, has_pyc=False)
        before, _ = taken(place.prefix)
        place.install(str(wheel), "--no-compile")
        libraries = map(str, place.prefix.rglob("*.so"))
        subprocess.run([strip, "--strip-unneeded", *libraries], check=True)
        size = taken(place.prefix)[0] - before
        for words in ALONE:
            place.expect(0, *words)
    if grown := too_large([size], [SMALLEST]):
        sys.exit(f"{wheel.name}: {grown}")
    return f"{wheel.name}: installed without debug symbols ({size / 1e6:.1f} MB), and used"


def too_large(sizes: Sequence[int], ceilings: Sequence[int] = CEILINGS) -> str:
    """Say which sizes are above a ceiling; the empty string if none is, or they are not known."""
    if (platform.system(), platform.machine()) != MEASURED:
        return ""
    return ", ".join(
        f"expected at most {ceiling} bytes, found {size}"
        for size, ceiling in zip(sizes, ceilings, strict=True)
        if size > ceiling
    )


def try_extra(wheel: Path, extra: str) -> None:
    """Install a wheel with one extra, without a compiler, and do what that is for."""
    with tempfile.TemporaryDirectory(prefix="omsgrain-trial-") as folder:
        place = Place(Path(folder), has_compilers=False)
        place.install(f"{wheel}[{extra}]")
        place.expect(0, "-m", "omsgrain", "ingest", "m.omsg", "examples/mission.jsonl")
        for verb in EXTRAS[extra]:
            place.expect(verb.code, *verb.python)


def main(dist: Path, *extras: str) -> None:
    """Try all that is in a directory, or a few extras; of a file, only that alone."""
    if dist.is_file():
        print(try_alone(dist.resolve()))
        return
    paths = [path.resolve() for path in made(dist)]
    if not extras:
        for path in paths:
            print(try_alone(path), flush=True)
        print(try_smallest(paths[0]), flush=True)
    for extra in extras or EXTRAS:
        try_extra(paths[0], extra)
        print(f"{paths[0].name}[{extra}]: installed alone, and used")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
