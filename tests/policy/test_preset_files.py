# SPDX-License-Identifier: Apache-2.0
"""Files of rules: our own, changed, and broken ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omsgrain
from omsgrain.errors import FormatError, NotFoundError, OmsError, SchemaError, StoreError
from omsgrain.grain import Grain
from omsgrain.privacy import load
from support.regulated_grains import BELIEF, BOOKS, CONSENT_GRAIN, CREATED, PERSON, delete, grain

OWN = """
name = "own"
title = "Our own rules"

[[require]]
id = "room"
when = { namespaces = ["house", "house:*"], types = ["observation"] }
fields = ["x:room"]
reason = "We want to know where it was seen."
source = "our handbook"

[[expire]]
id = "events"
when = { types = ["event"] }
unless = { tags = ["keep"] }
days = 30
reason = "Nobody reads what happened a month ago."
source = "our handbook"

[[keep]]
id = "reports"
when = { tags = ["report:*"] }
years = 2
reason = "Reports are asked for again."
source = "our handbook"
"""


def written(tmp_path: Path, text: str | bytes, name: str = "own.toml") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def seen(namespace: str | None, **fields: Any) -> Grain:
    base = {"type": "observation", "observer_id": "cam", "observer_type": "camera"}
    return grain(base | {"created_at": CREATED, "namespace": namespace}, **fields)


@pytest.mark.parametrize("which", [7, b"gdpr", [7], [b"gdpr"]])
def test_unknown_presets(which: Any) -> None:
    with pytest.raises(SchemaError):
        load(which)


def test_a_file_of_our_own(tmp_path: Path) -> None:
    path = written(tmp_path, OWN)
    for which in (path, str(path), [path], ["gdpr", str(path)]):
        preset = load(which)
        assert "own.room" in [rule.id for rule in preset.rules]
    preset = load(path)
    for namespace, about in (("house", True), ("house:attic", True), ("household", False)):
        refused = [error.rule for error in preset.put_refusals(seen(namespace))]
        assert refused == (["own.room"] if about else [])
    assert preset.check_put(seen("house", x__room="attic")) == ()
    assert preset.check_put(seen(None)) == ()
    assert preset.check_put(grain(BELIEF, namespace="house")) == ()


def test_expired_grains(tmp_path: Path) -> None:
    preset = load(written(tmp_path, OWN))
    event = {"type": "event", "content": "left the dock", "created_at": CREATED}
    month = CREATED + 30 * 86_400_000
    assert preset.due(grain(event), month - 1) == ()
    assert preset.due(grain(event), month) == ("own.events",)
    for kept in (["keep"], ["report:may"]):
        assert preset.due(grain(event, structural_tags=kept), month) == ()
    assert preset.due(grain(BELIEF), month) == ()
    text = OWN.replace('types = ["event"]', "sensitivity = 'pii'")
    everything = load(written(tmp_path, text.replace('unless = { tags = ["keep"] }', "")))
    assert everything.due(grain(PERSON), month) == ("own.events",)
    assert everything.due(grain(CONSENT_GRAIN, structural_tags=["pii:name"]), month) == ()


def test_a_changed_copy_of_a_preset(tmp_path: Path) -> None:
    source = Path(omsgrain.__file__).parent / "privacy" / "presets" / "sox.toml"
    text = source.read_text("utf-8").replace("years = 7", "years = 9")
    changed = load(written(tmp_path, text))
    assert delete(BOOKS, 7).refusals(load("sox")) == []
    assert [error.rule for error in delete(BOOKS, 7).refusals(changed)] == ["sox.audit-records"]
    with pytest.raises(SchemaError):
        load(["sox", tmp_path / "own.toml"])


REQUIRE = OWN.split("[[expire]]")[0]

#: what is put in the place of what, and the field that is named
BROKEN: list[tuple[str, str, str | None]] = [
    ('name = "own"', 'name = "Own"', "/name"),
    ('name = "own"', "", "/name"),
    ('title = "Our own rules"', "title = 3", "/title"),
    ("[[require]]", "[[requires]]", "/requires"),
    ("[[require]]", "[require]", "/require"),
    ('id = "room"', 'id = "the room"', "/require/0/id"),
    ('id = "room"', 'id = "room"\nnote = "x"', "/require/0/note"),
    ('id = "room"', 'id = "room"\n"a/b~" = "x"', "/require/0/a~1b~0"),
    ('source = "our handbook"', "", "/require/0/source"),
    ('reason = "We want to know where it was seen."', 'reason = ""', "/require/0/reason"),
    ('reason = "We want to know where it was seen."', 'reason = "a\\nb"', "/require/0/reason"),
    ('fields = ["x:room"]', "", "/require/0"),
    ('fields = ["x:room"]', "fields = []", "/require/0/fields"),
    ('fields = ["x:room"]', 'fields = "x:room"', "/require/0/fields"),
    ('fields = ["x:room"]', 'fields = ["rooom"]', "/require/0/fields"),
    ('fields = ["x:room"]', 'fields = ["hc:rooom"]', "/require/0/fields"),
    ('fields = ["x:room"]', 'fields = ["verification_status"]', "/require/0/fields"),
    ('fields = ["x:room"]', "values = { license = [] }", "/require/0/values"),
    ('fields = ["x:room"]', "values = { license = [1.5] }", "/require/0/values"),
    ('fields = ["x:room"]', "values = {}", "/require/0/values"),
    ("when = {", "when = 3 #", "/require/0/when"),
    ("when = {", "when = {} #", "/require/0/when"),
    ("when = {", "when = [] #", "/require/0/when"),
    ("when = {", "when = [3] #", "/require/0/when/0"),
    ('types = ["observation"]', 'types = ["fact"]', "/require/0/when/types"),
    ('types = ["observation"]', 'kinds = ["x"]', "/require/0/when/kinds"),
    ('types = ["observation"]', "sensitivity = 2", "/require/0/when/sensitivity"),
    ('types = ["observation"]', 'sensitivity = "public"', "/require/0/when/sensitivity"),
    ('types = ["observation"]', 'regulations = ["SOX"]', "/require/0/when/regulations"),
    ('"house:*"', '"house*"', "/require/0/when/namespaces"),
    ('"house:*"', '"*:house"', "/require/0/when/namespaces"),
]

KINDS: list[tuple[str, str]] = [
    ("encrypt", 'fields = ["license"]'),
    ("forbid", ""),
    ("keep", ""),
    ("keep", "years = 0"),
    ("keep", "years = 101"),
    ("keep", "years = true"),
    ("keep", 'years = 5\nyears_field = "fin:retention_years"'),
    ("keep", 'years_field = "nothing/here"'),
    ("expire", ""),
    ("expire", "days = 0"),
    ("expire", 'days = "30"'),
    ("export", ""),
    ("export", "deny = false"),
    ("export", "deny = true\nencrypted = true"),
    ("export", 'deny = true\nfields = ["license"]'),
    ("export", 'deny = true\npurposes = ["fun"]'),
    ("export", "deny = 1"),
    ("review", 'on = ["read"]'),
    ("review", "on = []"),
    ("review", 'fields = ["license"]'),
]


@pytest.mark.parametrize(("old", "new", "place"), BROKEN)
def test_a_broken_file(tmp_path: Path, old: str, new: str, place: str | None) -> None:
    assert old in REQUIRE
    path = written(tmp_path, REQUIRE.replace(old, new, 1))
    with pytest.raises(FormatError) as refused:
        load(path)
    assert refused.value.field == place
    assert str(path) in refused.value.message


LINED = """# Rules of ours
name = "own"
title = "x"

[[require]]
id = "one"
reason = "x"
source = "x"
when = [
    { types = ["event"] },  # a list of several lines
    { tags = ["y"] },
]
fields = ["license"]

[[ "require" ]]
id = "two"
reason = '''x'''
source = "x"
fields = ["license"]
[[require.unless]]
types = ["event"]
[[require.unless]]
types = ["belief"]

[[expire]]
id = "three"
reason = "x"
source = "x"
when.types = ["event"]
days = 3
"""


@pytest.mark.parametrize(
    ("old", "new", "place", "line", "words"),
    [
        ('name = "own"\n', "", "/name", None, ["'name'"]),
        ('name = "own"', 'nmae = "own"', "/name", None, ["'name'", "nmae"]),
        ("[[expire]]", "[[expires]]", "/expires", 25, ["'expires'", "'expire'", "require"]),
        ("days = 3", "", "/expire/0/days", 25, ["'days'", "1 to"]),
        ("days = 3", "days = 0", "/expire/0/days", 30, ["'days'"]),
        ("days = 3", "days = 3\ndayz = 4", "/expire/0/dayz", 31, ["'dayz'", "'days'", "unless"]),
        ("when.types", "when.tpyes", "/expire/0/when/tpyes", 29, ["'tpyes'", "'types'", "tags"]),
        ("belief", "fact", "/require/1/unless/1/types", 23, ["'types'"]),
        ('types = ["belief"]', "", "/require/1/unless/1", 22, []),
        ('{ tags = ["y"] }', "{ togs = [] }", "/require/0/when/1/togs", 9, ["'togs'", "'tags'"]),
        ('id = "two"\n', "", "/require/1/id", 15, ["'id'"]),
        ('id = "two"\n', 'id = "one"\n', "/require/1/id", 16, ["own.one"]),
        ("\n", "\r\n", None, None, []),
        ("'''x'''", '"""x \\\n[[require]]"""\nq = 1', "/require/1/q", 19, ["'q'"]),
    ],
)
def test_an_error_names_the_line_and_the_keys(
    tmp_path: Path, old: str, new: str, place: str | None, line: int | None, words: list[str]
) -> None:
    load(written(tmp_path, LINED))
    assert old in LINED
    path = written(tmp_path, LINED.replace(old, new))
    if place is None:
        load(path)
        return
    with pytest.raises(FormatError) as refused:
        omsgrain.open(tmp_path / "store", policy=path)
    assert (refused.value.field, refused.value.line) == (place, line)
    assert [word for word in words if word not in str(refused.value)] == []


def test_a_large_file_has_an_end(tmp_path: Path) -> None:
    rules = "tags = [\n" + ('["' + "x" * 200 + '"],\n') * 3_000 + "]\n"
    with pytest.raises(FormatError) as refused:
        load(written(tmp_path, REQUIRE.replace("fields =", rules + "fields =")))
    assert (refused.value.field, refused.value.line) == ("/require/0/tags", 5)


@pytest.mark.parametrize(("kind", "rest"), KINDS)
def test_a_broken_rule(tmp_path: Path, kind: str, rest: str) -> None:
    text = f'name = "own"\ntitle = "x"\n[[{kind}]]\nid = "x"\nreason = "x"\nsource = "x"\n{rest}\n'
    with pytest.raises(FormatError) as refused:
        load(written(tmp_path, text))
    assert (refused.value.field or "").startswith(f"/{kind}/0")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name = ", None),
        ('name = "own"\ntitle == 3\n', 2),
        (b"\xff\xfe", None),
        ("x = " + "[" * 5_000, None),
        (OWN + REQUIRE.split("\n\n", 1)[1], 27),
        ("#" * ((1 << 20) + 1), None),
    ],
    ids=["cut", "not TOML", "not UTF-8", "deep", "an id twice", "long"],
)
def test_a_file_of_something_else(tmp_path: Path, text: str | bytes, line: int | None) -> None:
    with pytest.raises(FormatError) as refused:
        load(written(tmp_path, text))
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("which", "error"),
    [
        ("lgpd", SchemaError),
        ("", SchemaError),
        (["gdpr", "gdpr"], SchemaError),
        ("oms", SchemaError),
        ("./nothing.toml", NotFoundError),
        ("nothing.toml", NotFoundError),
        (Path("nothing"), NotFoundError),
        ("./", StoreError),
        ("\0.toml", SchemaError),
    ],
)
def test_invalid_presets(which: Any, error: type[OmsError]) -> None:
    with pytest.raises(error):
        load(which)


def test_the_name_oms_is_reserved(tmp_path: Path) -> None:
    with pytest.raises(SchemaError):
        load(written(tmp_path, OWN.replace('"own"', '"oms"')))
