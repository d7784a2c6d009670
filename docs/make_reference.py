# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/*.md from signatures, docstrings and the examples of make_reference.toml.

The TOML file has a table for each page, in it a table for each section, and in it the names with
their examples. Types that a signature or a field names follow on the page that needs them first.
``--check`` writes nothing and exits 1 if a page is out of date.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from make_reference_adapters import adapters, missing_adapters
from make_reference_text import HEADER, WIDTH, escaped, indented, prose, quoted

import omsgrain

if sys.version_info >= (3, 11):
    import tomllib as toml
else:
    import tomli as toml

HERE = Path(__file__).parent
FOLDER, DATA = HERE / "reference", HERE / "make_reference.toml"
#: Modules that have a page or a section, and what a name on it begins with.
MODULES = ("container", "crypto", "crypto.did", "errors", "formats", "registry", "sync")
#: The parts of a store: what a user writes, and the class behind it.
PARTS = {
    "store": "omsgrain.store.store.GrainStore",
    "store.audit": "omsgrain.storage.audit.trail.AuditLog",
    "store.consumers": "omsgrain.store.read.Consumers",
    "store.graph": "omsgrain.store.graph.GrainGraph",
    "store.holds": "omsgrain.store.holds.Holds",
    "store.maintenance": "omsgrain.store.maintenance.Maintenance",
    "store.paths": "omsgrain.store.paths.Paths",
    "store.parquet": "omsgrain.store.parquet.Parquet",
    "store.privacy": "omsgrain.store.privacy.privacy.Privacy",
    "store.reviews": "omsgrain.store.reviews.Reviews",
    "store.trust": "omsgrain.store.trust.GrainTrust",
    "store.vectors": "omsgrain.store.vectors.Vectors",
}
#: Classes whose methods need no examples: contracts between modules, and twins of other classes.
CONTRACTS = {"AsyncMemory", "HttpPeer", "LocalPeer", "Peer"}
#: Methods that one module of the package calls on another.
INNER = {
    *("BackupRepository.add", "BackupRepository.restore"),
    *("Certificate.of_report", "Certificate.signed", "Certificate.signed_bytes"),
    *("Checkpoint.signed_bytes", "Container.together", "Identities.search", "LocalPeer.narrowed"),
    *("Model.key", "Page.going_on", "Reported.as_bytes", "Reported.consent", "StoreUrl.parse"),
}
#: Classes that users make themselves, other than by a dataclass of their own.
MADE = {"BackupRepository", "Grain", "HttpPeer", "Identities", "KeySigner", "LocalPeer"}
#: Types that a signature names and a user never makes or reads.
INSIDE = {
    "DocumentFindings",
    "Format",
    "GrainStore",
    "StoreUrl",
    *(path.rpartition(".")[2] for path in PARTS.values()),
}
INDEX = """\
Every public name, with a link to its signature, its errors and an example that runs as a test.
`import omsgrain as og` loads only the core; a module is loaded when you first use a name of it.
"""


# --- names ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """A public name: how a user writes it, what it is, and the module that defines it.

    Attributes:
        title: how a user writes it.
        value: the function, the class, or for an alias its definition in the source.
        module: the module in which its annotations are read.
    """

    title: str
    value: Any
    module: str

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from a type of another module with the same name."""
        return (self.module, self.title)

    @property
    def heading(self) -> str:
        """The heading of its entry; that of a class says so, for an anchor of its own."""
        if inspect.isclass(self.value):
            return f"class {self.title}"
        alias = isinstance(self.value, Alias) and "." not in self.title
        return f"type {self.title}" if alias else self.title

    @property
    def anchor(self) -> str:
        """The anchor of its heading."""
        return re.sub(r"[^\w\- ]", "", self.heading.lower()).replace(" ", "-")


@dataclass(frozen=True)
class Alias:
    """A type with a name: its definition, and what the source says of it."""

    text: str
    doc: str


@cache
def source(module: str) -> ast.Module:
    """Return the parsed source of a module."""
    return ast.parse(inspect.getsource(import_module(module)))


@cache
def imports(module: str) -> dict[str, tuple[str, str]]:
    """Return the names that a module imports from omsgrain, also for type checkers alone."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(source(module))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omsgrain")
        for alias in node.names
        if node.module is not None
    }


def defined(module: str, name: str) -> Named | None:
    """Return the class or alias behind a name in the annotations of a module."""
    value = vars(import_module(module)).get(name)
    found = imports(module).get(name)
    if found is not None and found[0] != module and not inspect.isclass(value):
        return defined(*found)
    if inspect.isclass(value):
        own = value.__module__.startswith("omsgrain")
        return Named(name, value, value.__module__) if own else None
    alias = _alias(module, name)
    return None if alias is None else Named(name, alias, module)


def named_by(one: Named, word: str) -> Named | None:
    """Return the type behind a word of an entry; methods of a class may be of another module."""
    modules = [one.module]
    if inspect.isclass(one.value):
        members = (inspect.unwrap(getattr(one.value, name)) for name in own_methods(one.value))
        modules += sorted({member.__module__ for member in members})
    return next(filter(None, (defined(module, word) for module in modules)), None)


def _alias(module: str, name: str) -> Alias | None:
    """Find a definition, with the text below it or the comment above it."""
    lines = inspect.getsource(import_module(module)).splitlines()
    body = source(module).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            kind = ast.unparse(node.annotation)
            text = f"{name}: {kind}"
            if kind == "TypeAlias" and node.value is not None:
                text = f"{name} = {ast.unparse(node.value)}"
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            text = f"{name} = {ast.unparse(node.value)}"
        else:
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return Alias(quoted(text), str(after.value.value))
        above = node.lineno - 2
        while above >= 0 and lines[above].startswith("#: "):
            above -= 1
        return Alias(
            quoted(text), " ".join(line[3:] for line in lines[above + 1 : node.lineno - 1])
        )
    return None


@cache
def named(name: str) -> Named:
    """Return what a name of the TOML file is: a verb of a store, a method, a function, a type."""
    place, _, last = name.rpartition(".")
    if place in PARTS:
        owner = named(PARTS[place]).value
        return Named(name, inspect.getattr_static(owner, last), owner.__module__)
    at: Any = omsgrain
    module, parents = "omsgrain", []
    for part in name.split(".")[1:]:
        parents.append(at)
        if inspect.ismodule(at) and not hasattr(at, part):
            import_module(f"{at.__name__}.{part}")
        at = getattr(at, part)
    if inspect.isclass(parents[-1] if parents else None):
        owner = parents[-1]
        member = inspect.getattr_static(owner, last)
        home = getattr(getattr(member, "__func__", member), "__module__", owner.__module__)
        return Named(f"{owner.__name__}.{last}", member, home)
    module = getattr(at, "__module__", place)
    if inspect.isclass(at):
        return Named(at.__name__, at, module)
    if inspect.isroutine(at):
        return Named(name, inspect.unwrap(at), module)
    found = defined(place, last)
    return Named(name, found.value if found else Alias(name, ""), found.module if found else place)


def own_methods(cls: type) -> list[str]:
    """Return the methods that users call, in the order of the source."""
    members = {
        name: (member, base.__name__)
        for base in reversed(cls.__mro__)
        if base.__module__.startswith("omsgrain")
        for name, member in vars(base).items()
    }
    return [
        name
        for name, (member, owner) in members.items()
        if name[0] != "_" and is_verb(member) and f"{owner}.{name}" not in INNER
    ]


def shown_methods(cls: type) -> list[str]:
    """Return the methods in the stub of a class that have no entries of their own."""
    return own_methods(cls) if cls.__name__ in CONTRACTS else []


def is_verb(value: object) -> bool:
    """Tell whether a name is called."""
    return inspect.isfunction(getattr(value, "__func__", value))


# --- signatures ----------------------------------------------------------------------------------


def signature(name: str, value: Any, *, method: bool = False) -> str:
    """Return a function as a stub, without ``self``."""
    found = inspect.signature(getattr(value, "__func__", value))
    given = list(found.parameters.values())
    if method and not isinstance(value, staticmethod):
        given = given[1:]
    parts, star = [], False
    for one in given:
        if one.kind is one.KEYWORD_ONLY and not star:
            parts.append("*")
        star |= one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        mark = "*" * (one.kind is one.VAR_POSITIONAL) + "**" * (one.kind is one.VAR_KEYWORD)
        said = f"{mark}{one.name}"
        if one.annotation is not one.empty:
            said += f": {annotation(one.annotation)}"
        if one.default is not one.empty:
            shown = getattr(one.default, "__name__", repr(one.default))
            said += f" = {quoted(shown)}" if one.annotation is not one.empty else f"={shown}"
        parts.append(said)
    end = ""
    if found.return_annotation is not found.empty:
        end = f" -> {annotation(found.return_annotation)}"
    line = f"def {name}({', '.join(parts)}){end}: ..."
    if len(line) > WIDTH:
        line = f"def {name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}: ..."
    kind = type(value).__name__
    return f"@{kind}\n{line}" if kind in ("classmethod", "staticmethod") else line


def annotation(given: object) -> str:
    """Return an annotation as the source has it."""
    if hasattr(given, "__forward_arg__"):
        given = given.__forward_arg__
    return quoted(given if isinstance(given, str) else inspect.formatannotation(given))


def stub(title: str, cls: type) -> str:
    """Return a class as a stub: how it is made, its fields and its properties."""
    bases = [base.__name__ for base in cls.__bases__ if base is not object]
    lines = [f"    {name}: {kind}" for name, kind in fields(cls).items()]
    shown = [base for base in bases if base in ("Protocol", "NamedTuple")]
    if issubclass(cls, Exception):
        shown = bases
        lines = [f"    {n} = {v!r}" for n, v in vars(cls).items() if n in ("code", "exit_code")]
        lines = [quoted(line) for line in lines]
    elif hasattr(cls, "__total__"):
        shown = ["TypedDict", "total=False"] if not cls.__total__ else ["TypedDict"]
    if cls.__name__ in MADE:
        made = signature("__init__", vars(cls)["__init__"])
        lines.append(indented(made))
    for name in shown_methods(cls):
        lines.append(indented(signature(name, inspect.getattr_static(cls, name), method=True)))
    head = f"class {title}({', '.join(shown)}):" if shown else f"class {title}:"
    return "\n".join([head, *lines]) if lines else f"{head} ..."


def fields(cls: type) -> dict[str, str]:
    """Return the public fields and properties of a class, with their types."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("omsgrain"):
            continue
        for name, kind in inspect.get_annotations(base).items():
            if not name.startswith("_"):
                found[name] = annotation(kind)
        for name, member in vars(base).items():
            getter = member.fget if isinstance(member, property) else None
            if getter is not None and not name.startswith("_"):
                found[name] = annotation(inspect.signature(getter).return_annotation)
    return found


def words_of(value: Any) -> set[str]:
    """Return the names in the signature, the fields or the definition of an entry."""
    if isinstance(value, Alias):
        text = value.text
    elif inspect.isclass(value):
        text = " ".join(fields(value).values())
        if value.__name__ in MADE:
            text += signature("__init__", vars(value)["__init__"])
        text += "".join(signature(name, getattr(value, name)) for name in shown_methods(value))
    else:
        text = signature("f", value)
    return set(re.findall(r"(?<![\".])\b[A-Z]\w+\b(?!\")", text))


def words(one: Named) -> str:
    """Return the docstring of an entry."""
    if isinstance(one.value, Alias):
        return one.value.doc
    return inspect.getdoc(getattr(one.value, "__func__", one.value)) or ""


# --- pages ---------------------------------------------------------------------------------------


@dataclass
class Reference:
    """All pages.

    Attributes:
        pages: page -> section -> name -> its example.
        places: the module and title of each entry -> its page and anchor.
        types: page -> types that it shows after its sections.
    """

    pages: dict[str, dict[str, Any]]
    places: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    types: dict[str, list[Named]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for page, _, name, _ in self.entries():
            one = named(name)
            self.places[one.key] = (page, one.anchor)
        for page, _, name, _ in self.entries():
            self.types.setdefault(page, [])
            one = named(name)
            self._need(page, one)

    def entries(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield page, section, name and example of each entry."""
        for page, sections in self.pages.items():
            for section, names in sections.items():
                if isinstance(names, dict):
                    for name, example in names.items():
                        if name != "intro":
                            yield page, section, name, example

    def _need(self, page: str, one: Named) -> None:
        """Place the types that an entry names, and those that they name."""
        for word in sorted(words_of(one.value) - {one.title.rpartition(".")[2]}):
            kind = named_by(one, word)
            if kind is None or kind.key in self.places:
                continue
            if kind.title in INSIDE and inspect.isclass(kind.value):
                continue
            self.places[kind.key] = (page, kind.anchor)
            self.types[page].append(kind)
            self._need(page, kind)

    def links(self, page: str, one: Named) -> str:
        """Return links to the types that an entry names."""
        kinds = [named_by(one, word) for word in sorted(words_of(one.value))]
        links = [
            f"[`{kind.title}`]({'' if at == page else at + '.md'}#{anchor})"
            for kind in kinds
            if kind is not None and kind.key != one.key and kind.key in self.places
            for at, anchor in [self.places[kind.key]]
        ]
        return ", ".join(links)

    def page(self, page: str) -> str:
        """Return a page."""
        sections = self.pages[page]
        lines = [HEADER, "", f"# {sections['title']}", "", sections["intro"].strip(), ""]
        for section, names in sections.items():
            if isinstance(names, dict):
                lines += [f"## {section}", ""]
                for name, example in names.items():
                    if name == "intro":
                        lines += [example.strip(), ""]
                    else:
                        lines += self.entry(page, named(name), example)
        if self.types.get(page):
            lines += ["## Types", ""]
            for one in sorted(self.types[page], key=lambda one: one.title):
                lines += self.entry(page, one, "")
        return "\n".join(lines).rstrip("\n") + "\n"

    def index(self) -> str:
        """Return the page with all names, each with a line."""
        lines = [HEADER, "", "# Python API", "", INDEX]
        for page, sections in self.pages.items():
            lines += [f"## {sections['title']}", "", "| name | what it is |", "|---|---|"]
            for at, _, name, _ in self.entries():
                one = named(name)
                if at == page:
                    first = escaped(words(one).partition("\n\n")[0])
                    first = re.sub(r" Spec: OMS §[\d., §]+", "", first)
                    lines.append(f"| [`{one.title}`]({page}.md#{one.anchor}) | {first} |")
            lines.append("")
        return "\n".join(lines)

    def entry(self, page: str, one: Named, example: str) -> Iterator[str]:
        """Yield the lines of one name."""
        yield from (f"### {one.heading}", "")
        value, last = one.value, one.title.rpartition(".")[2]
        if isinstance(value, Alias):
            text = value.text
        elif inspect.isclass(value):
            text = stub(one.title, value)
        else:
            method = one.title.startswith("store.") or one.title[0].isupper()
            text = signature(last, value, method=method and "." in one.title)
        yield from ("```pyi", text, "```", "")
        if links := self.links(page, one):
            yield from (f"Types: {links}.", "")
        yield from prose(words(one))
        if example:
            yield from ("```python", example.strip(), "```", "")


def missing(reference: Reference) -> Iterator[str]:
    """Yield what is wrong: a public name without an entry, a verb without an example or words."""
    for _, _, name, example in reference.entries():
        one = named(name)
        if is_verb(one.value) and not example.strip():
            yield f"{name}: no example"
        if not words(one):
            yield f"{name}: no docstring"
    listed = {name for _, _, name, _ in reference.entries()}
    for part, path in PARTS.items():
        for verb in own_methods(named(path).value):
            if f"{part}.{verb}" not in listed:
                yield f"{part}.{verb}: no entry"
    for name in omsgrain.__all__:
        shown = inspect.ismodule(getattr(omsgrain, name)) or name in ("__version__", "GrainStore")
        if not shown and f"omsgrain.{name}" not in listed:
            yield f"omsgrain.{name}: no entry"
    for module in MODULES:
        for name in import_module(f"omsgrain.{module}").__all__:
            full = f"omsgrain.{module}.{name}"
            value = getattr(import_module(f"omsgrain.{module}"), name)
            if inspect.ismodule(value):
                continue
            kind = None if inspect.isroutine(value) else defined(f"omsgrain.{module}", name)
            if {named(full).key, (kind or named(full)).key}.isdisjoint(reference.places):
                yield f"{full}: no entry"
    yield from missing_adapters()
    titles = {title for _, title in reference.places}
    classes = [named(name) for _, _, name, _ in reference.entries()]
    for one in [*classes, *(one for kinds in reference.types.values() for one in kinds)]:
        if inspect.isclass(one.value) and one.title not in CONTRACTS:
            for verb in own_methods(one.value):
                bases = [base.__name__ for base in one.value.__mro__]
                if not any(f"{base}.{verb}" in titles for base in bases):
                    yield f"{one.title}.{verb}: no entry"


def load() -> Reference:
    """Read the TOML file."""
    return Reference(toml.loads(DATA.read_text("utf-8")))


def written(reference: Reference) -> dict[Path, str]:
    """Return the pages, by their paths."""
    pages = {FOLDER / f"{page}.md": reference.page(page) for page in reference.pages}
    pages[FOLDER / "adapters.md"] = "\n".join(adapters()).rstrip("\n") + "\n"
    return {FOLDER / "python.md": reference.index(), **pages}


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them with ``--check``."""
    if arguments not in ([], ["--check"]):
        print("usage: make_reference.py [--check]", file=sys.stderr)
        return 2
    reference = load()
    wrong = list(missing(reference))
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    if wrong:
        return 1
    pages = written(reference)
    if arguments:
        old = {path: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
        if old != pages:
            print("docs/reference is out of date: run docs/make_reference.py", file=sys.stderr)
        return int(old != pages)
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
