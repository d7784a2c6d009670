# SPDX-License-Identifier: Apache-2.0
"""Write docs/fields.md from ``omsgrain.registry``, the fields of the build.

``--check`` writes nothing and exits 1 if the file is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from omsgrain import registry
from omsgrain.registry import Field, GrainType, NestedField, Phase, Profile

PAGE = Path(__file__).with_name("fields.md")

INTRO = """\
<!-- Made by docs/make_fields.py from the built package; edit rust/core/registry.toml instead. -->

# Fields of a memory grain

Reference: every type and field of OMS 1.2 in this build. Python reads the same table as
`omsgrain.registry`.

You write a grain with full names; the payload has the short keys. omsgrain checks a field in
every grain type, whatever section lists it. Unlisted fields pass unchanged, with a warning if the
name is one edit away from a listed one.

| Kind | Accepted values |
|---|---|
| `string` | text; a required one must not be empty |
| `bool` | true or false; never a number |
| `int` | a whole number, -2^63 to 2^64-1; never a float |
| `int64` | a whole number, -2^63 to 2^63-1 |
| `uint8` | a whole number, 0 to 255 |
| `float64` | a number; integers become floats, NaN and infinities are refused |
| `number` | an integer or a float, kept as it is |
| `datetime` | epoch milliseconds, an aware `datetime`, or RFC 3339 text; kept as milliseconds |
| `address` | a content address, 64 lower-case hex digits |
| `did` | a decentralized identifier, `did:method:id` |
| `bytes` | bytes |
| `map` | a map with text keys |
| `object` | text or a map; anything in an observation |
| `any` | any value |
| `array[x]` | an array of x |
| `map[x]` | a map whose values are x |

Notes: **index**: in the store, never in a blob. **supersede**: only in a grain that supersedes
another, by `supersede()`. **shown**: selective disclosure cannot hide it.
"""

SCOPES = {
    "core": "Fields of all types",
    "delegation": "Delegation",
    "event": "Event",
    "state": "State",
    "workflow": "Workflow",
    "action": "Action",
    "observation": "Observation",
    "goal": "Goal",
    "reasoning": "Reasoning",
    "consensus": "Consensus",
    "consent": "Consent",
}

NESTED_OF = {"content_ref": "content_refs", "embedding_ref": "embedding_refs"}

LISTS = (
    ("Relation types of `related_to`", "RELATED_TO_RELATION_TYPES", "No others are allowed."),
    ("Relations in `mg:`", "MG_RELATIONS", "Others under `mg:` give a warning."),
    ("Tags in `phi:`", "PHI_TAGS", "Others under `phi:` give a warning."),
    ("Invalidation modes", "INVALIDATION_MODES", "A store treats any other as `locked`."),
    ("Lightweight profile", "LIGHTWEIGHT", "Its grains have no other fields."),
    (
        "Open licences",
        "OPEN_LICENSES",
        "Refused as `license` under the healthcare profile; a final `-` matches any ending.",
    ),
)


def codes(names: Iterable[object], joint: str = ", ") -> str:
    """Format each name as code."""
    return joint.join(f"`{name}`" for name in names)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows as a Markdown table."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def bounds(field: Field | NestedField) -> str:
    """Return the range of a number."""
    if field.minimum is not None and field.maximum is not None:
        return f"{field.minimum}..{field.maximum}"
    return "" if field.minimum is None else f">= {field.minimum}"


def values(field: Field) -> str:
    """Return the values that a field accepts."""
    nested = field.nested and NESTED_OF.get(field.nested, field.nested)
    parts = (
        codes(field.enum),
        field.open_enum and codes(field.open_enum) + ", or others",
        bounds(field),
        nested and f"[entries](#entries-of-{nested})",
        codes(f"{key}: {kind}" for key, kind in field.keys),
    )
    return "; ".join(part for part in parts if part)


def notes(field: Field) -> str:
    """Return the notes on a field."""
    parts = (
        field.required and "required",
        field.index_layer and "index",
        field.supersede_only and "supersede",
        not field.elidable and "shown",
        field.since and f"of OMS {field.since}",
    )
    return ", ".join(part for part in parts if part)


def field_table(fields: Iterable[Field]) -> str:
    """Return the table of the fields of one scope."""
    return table(
        ("Field", "Key", "Kind", "Values", "Notes", "Meaning"),
        (
            (f"`{f.name}`", f"`{f.short}`", f"`{f.kind}`", values(f), notes(f), f.doc)
            for f in fields
        ),
    )


def needs(row: GrainType | Phase) -> str:
    """Return the fields that a type or phase requires."""
    groups = " or ".join(codes(group, " + ") for group in row.required_any)
    parts = (codes(row.required), groups)
    return "; ".join(part for part in parts if part) or "nothing"


def type_rows() -> Iterable[Sequence[str]]:
    """Yield the rows of the ten types."""
    for row in registry.TYPES:
        older = codes(name for name in (*row.legacy, *row.later) if name != row.name)
        required = "by phase, below" if row.name == "action" else needs(row)
        yield f"`{row.name}`", f"0x{row.byte:02X}", older, required, row.doc


def phase_rows() -> Iterable[Sequence[str]]:
    """Yield the rows of the phases of an action."""
    for row in registry.PHASES:
        name = f"`{row.name}`" if row.name else "absent: complete"
        mode = f", `execution_mode` `{row.execution_mode}`" if row.execution_mode else ""
        yield name + mode, needs(row), codes(row.forbidden)


def profile_section(profile: Profile) -> str:
    """Return the section of one domain profile."""
    rules = "".join(f"- {rule}\n" for rule in profile.rules)
    rows = ((f"`{f.name}`", f"`{f.kind}`", values(f), f.doc) for f in profile.fields)
    head = f"### {profile.name}\n\nTag `profile:{profile.name}`, prefix `{profile.prefix}`.\n\n"
    return head + (rules and rules + "\n") + table(("Field", "Kind", "Values", "Meaning"), rows)


def page() -> str:
    """Return the whole page."""
    parts = [INTRO, "## Types\n\nAll need `type` and `created_at`.\n"]
    parts.append(table(("Type", "Byte", "Read also as", "Required besides", "What"), type_rows()))
    parts.append("## Phases of an action\n")
    parts.append(table(("`action_phase`", "Required", "Refused"), phase_rows()))
    for scope, title in SCOPES.items():
        parts.append(f"## {title}\n")
        parts.append(field_table(f for f in registry.FIELDS if f.scope == scope))
    for name, entries in registry.NESTED.items():
        parts.append(f"## Entries of {NESTED_OF.get(name, name)}\n")
        rows = (
            (
                f"`{e.name}`",
                f"`{e.short}`",
                f"`{e.kind}`",
                bounds(e),
                "required" if e.required else "",
                e.doc,
            )
            for e in entries
        )
        parts.append(table(("Field", "Key", "Kind", "Values", "Notes", "Meaning"), rows))
    parts.append("## Names of OMS 1.1\n\nAccepted only in grains with a 1.1 type name.\n")
    parts.append(
        table(
            ("Old names", "Now", "In"),
            (
                (codes(a.old), f"`{a.name}`" + (" (negated)" if a.negate else ""), f"`{a.type}`")
                for a in registry.ALIASES
            ),
        )
    )
    parts.append("## Domain profiles\n\nThey apply if the grain has the profile's tag.\n")
    parts += [profile_section(profile) for profile in registry.PROFILES]
    parts.append("## Lists\n")
    for title, name, rule in LISTS:
        parts.append(f"### {title}\n\n{rule}\n\n{codes(getattr(registry, name))}\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write the page, or compare it with ``--check``."""
    text = page()
    if arguments == ["--check"]:
        if PAGE.is_file() and PAGE.read_text("utf-8") == text:
            return 0
        print("docs/fields.md is out of date: run docs/make_fields.py", file=sys.stderr)
        return 1
    if arguments:
        print("usage: make_fields.py [--check]", file=sys.stderr)
        return 2
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
