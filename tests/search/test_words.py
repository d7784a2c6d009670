# SPDX-License-Identifier: Apache-2.0
"""Words in any script, the language of searches, and the pieces of text that are shown."""

from __future__ import annotations

import unicodedata
from random import Random

import pytest

from omsgrain import registry
from omsgrain.errors import OmsError, RangeError, SchemaError
from omsgrain.search import words
from omsgrain.search import words as fields
from omsgrain.search.feed import columns
from omsgrain.search.snippet import WIDTH, show
from omsgrain.search.text import LONGEST, MOST_PHRASES, Query, read_query
from support.random_values import random_text

# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  !?… --- ", ""),
        ("Robot-17 saw shelf_3", "robot 17 saw shelf 3"),
        ("mg:perceives a/b@c.de", "mg perceives a b c de"),
        ("don't don\u2019t don\u02bct", "don t don t don t"),
        ("12.5 °C, 1\x00\n2", "12 5 c 1 2"),
        ("Straße STRASSE ẞ", "strasse strasse ss"),
        ("Café CAFE\u0301 Ångström", "cafe cafe angstrom"),
        ("İstanbul ﬁne x² ½ \uff15㎏ Ⅳ", "istanbul fine x2 1 2 5kg iv"),
        ("Ёлка ёлка ПРИВЕТ", "елка елка привет"),
        ("ΨΥΧΉ ψυχή λόγος ΛΌΓΟΣ", "ψυχη ψυχη λογοσ λογοσ"),
        ("שָׁלוֹם שלום", "שלום שלום"),
        ("مُحَمَّد محمــد ٤٢", "محمد محمد 42"),
        ("أحمد احمد", "احمد احمد"),
        ("می‌خواهم", "میخواهم"),
        ("हिन्दी में १२", "हिन्दी में 12"),
        ("தமிழ் বাংলা", "தமிழ் বাংলা"),
        ("北京大学。第3回", "北 京 大 学 第 3 回"),
        ("ひらがなカタカナー々", "ひ ら が な カ タ カ ナ ー 々"),
        ("ｶﾞｷﾞ ガギ", "ガ ギ ガ ギ"),
        ("ไทย ไก่123๓", "ไ ท ย ไ ก ่ 1233"),
        ("ລາວ ខ្មែរ", "ລ າ ວ ខ ្ ម ែ រ"),
        ("မြန်မာ", "မ ြ န ် မ ာ"),
        ("로봇이 간다", "로 봇 이 간 다"),
        ("\u1112\u1161\u11ab", "한"),
        ("a👍🏽b ☕️ 👩\u200d🔬 🇩🇪", "a 👍 b ☕ 👩 🔬 🇩 🇪"),
        ("3️⃣ © ™ → ─", "3 tm"),
        ("soft\u00adhyphen left\u200eright zero\u200bwidth", "softhyphen leftright zero width"),
        ("\ud800 \u0378 \ue000", "\u0378 \ue000"),
        ("¶ a¶b", "a b"),
    ],
)  # fmt: skip
def test_words(text: str, expected: str) -> None:
    assert words.split(text) == expected.split()
    assert words.split(unicodedata.normalize("NFD", text)) == expected.split()
    assert words.split(f"xy {text}. ") == ["xy", *expected.split()]


def test_prepared_text_has_words_spaces_and_hyphens_only() -> None:
    """So the engine's own splitting adds nothing, and no text is an expression of its language."""
    rng = Random(1)
    for _ in range(3_000):
        prepared = words.prepare(
            random_text(rng) + chr(rng.choice((rng.randrange(0x3000), 0x2028)))
        )
        assert all(c in " -" or (c.isalnum() and c == c.lower()) for c in prepared if c.isascii())
        assert words.split(prepared) == prepared.replace("-", " ").split()
        assert not {words.GAP.strip(), words._JOINER} & set(prepared)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Robot 17 - ok", "Robot 17 - ok"),
        ("Robot-17", "Robot-17 Robot·17"),
        ("a-b_c d, e.f", "a-b_c d, e.f a·b b·c ¶ e·f"),
        ("(x)--y z\ty", "(x)--y z\ty"),
        ("say “Don\u2019t” 北-京", "say -don-t-  北 - 京  don·t"),
        ("21°C Café_3", "21-c cafe-3 21·c ¶ cafe·3"),
        ("½", "1-2 1·2"),
    ],
)
def test_pairs_are_words_too(text: str, expected: str) -> None:
    given = words.for_index(text)
    assert given.split() == expected.split()


def test_not_all_characters_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_KEPT", len(words._FOLDS) + 10)
    text = " ".join(map(chr, range(0x4E00, 0x5200)))
    assert words.split(text) == text.split()
    assert len(words._FOLDS) <= words._KEPT


def test_the_way_back_from_words_to_the_text() -> None:
    rng = Random(2)
    for _ in range(1_000):
        places = words.Places("".join(random_text(rng) for _ in range(3)))
        assert places.spaced == words.prepare(places.text)
        start = 0
        for word in places.spaced.split():
            start = places.spaced.index(word, start)
            low, high = places.back(start, start + len(word))
            assert word in words.prepare(places.text[low:high])
            start += len(word)


# --- fields --------------------------------------------------------------------------------------

SEARCHED = """
    subject relation object context structural_tags content_refs embedding_refs
    supersession_justification owner entity_id invalidation_reason content content_blocks plan
    history steps trigger tool_name input code stdout stderr error tool_description observer_id
    description criteria criteria_structured state_reason rollback_on_failure expected_output
    premises conclusion alternatives_considered thinking_content statistical_context
    software_environment parameter_set participating_observers agreed_content
"""


def test_which_fields_are_searched() -> None:
    """Every field of the registry is decided on; those of these kinds hold no text."""
    silent = ("float64", "int", "uint8", "bool", "datetime", "array[uint8]", "array[address]")
    names = {f.name for f in registry.FIELDS if not f.kind.startswith(silent)}
    assert names - fields.UNSEARCHED == set(SEARCHED.split())
    known = {f.name for f in registry.FIELDS}
    assert fields.UNSEARCHED | fields.SAYS | fields.ABOUT <= known
    assert not fields.UNSEARCHED & (fields.SAYS | fields.ABOUT)


def test_texts_of_a_grain() -> None:
    grain = {
        "type": "observation",
        "subject": "A",
        "namespace": "hidden",
        "user_id": "hidden",
        "object": {"temperature": 21.5, "unit": "C", "parts": [{"name": "fan"}, "rotor", 3, None]},
        "content_blocks": [{"type": "text", "text": "said"}],
        "structural_tags": ["x", "y"],
        "rob:mission_id": "m-7",
        "note": b"bytes",
        "confidence": 0.5,
    }
    assert list(fields.texts(grain)) == [
        ("subject", "A"),
        *(("object", t) for t in ("temperature", "unit", "C", "parts", "name", "fan", "rotor")),
        *(("content_blocks", t) for t in ("text", "said")),
        *(("structural_tags", t) for t in ("x", "y")),
        ("rob:mission_id", "m-7"),
    ]
    assert columns(grain) == (
        (
            "temperature ¶ unit ¶ C ¶ parts ¶ name ¶ fan ¶ rotor ¶ text ¶ said ¶ "
            "¬temperatur ¬unit ¬part ¬name ¬fan ¬rotor ¬text ¬said",
            "A ¶ x ¶ y",
            "m-7 m·7",
        ),
        0,
    )


# --- searches ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("shelf", '"shelf"'),
        ("Shelf BOXES shelf", '"shelf" OR "boxes"'),
        ("robot-17 (ro-bo-t)", '"robot·17" OR "ro·bo bo·t"'),
        ("a--b x-北 a-b*", '"a b" OR "x 北" OR "a·b" *'),
        ('"robot-17"', '("robot 17")'),
        ("北京 ไทย", '"北 京" OR "ไ ท ย"'),
        ('"red box" mem*', '("red box") OR (("red box") AND ("mem" *))'),
        ("+a +b -c -d", '(("a" AND "b")) NOT ("c" OR "d")'),
        ('a -"b c*"', '("a") NOT ("b c" *)'),
        ('+"a b" "c', '("a b" AND "c")'),
        ('"" + - * a', '"a"'),
        ("mem*ory a** -*x y", '("mem·ory" OR "a" * OR "y") NOT ("x")'),
        ("* a! b!*", '"a" OR "b"'),
        ("AND OR NOT NEAR(a, 5)", '"and" OR "or" OR "not" OR "near·a" OR "5"'),
        ('says:x {a b}^2 ; DROP TABLE--', '"says·x" OR "a" OR "b 2" OR "drop" OR "table"'),
        ("don\u2019t \ud800 👍🏽", '"don·t" OR "👍"'),
    ],
)  # fmt: skip
def test_reading_a_search(text: str, expression: str) -> None:
    assert read_query(text).expression() == expression


@pytest.mark.parametrize(
    "text", ["", "  ", "!?", '""', '" - "', "*", "-a", '-"a b" -c', "+ ¶ \x00"]
)
def test_a_search_without_a_word_is_refused(text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_query(text)
    assert (caught.value.code, caught.value.field) == ("ERR_SCHEMA", "/text")


@pytest.mark.parametrize(
    "text", ["a" * (LONGEST + 1), " ".join(f"w{i}" for i in range(MOST_PHRASES + 1))]
)
def test_a_search_that_is_too_long_is_refused(text: str) -> None:
    with pytest.raises(RangeError):
        read_query(text)


@pytest.mark.parametrize("value", [None, 5, b"a", ["a"]])
def test_a_search_is_text(value: object) -> None:
    with pytest.raises(SchemaError):
        read_query(value)  # type: ignore[arg-type]


def test_any_query_string_is_read_or_refused() -> None:
    rng = Random(3)
    for _ in range(2_000):
        text = "".join(rng.choices((*'"+-* ', random_text(rng), "a", "北"), k=rng.randint(0, 8)))
        try:
            query = read_query(text)
        except OmsError as error:
            assert error.code == "ERR_SCHEMA"
        else:
            assert isinstance(query, Query)
            assert query.pattern


# --- what is shown -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("shelf 3 has 5 boxes", "boxes shelf", "[shelf] 3 has 5 [boxes]"),
        ("shelf 3 has 5 boxes", "box", "shelf 3 has 5 [boxes]"),
        ("shelf 3 has 5 boxes", "+box", None),
        ("shelf 3 has 5 boxes", "box*", "shelf 3 has 5 [boxes]"),
        ("red, box; red box", '"red box"', "[red, box]; [red box]"),
        ("Robot-17, robot 17", "robot-17", "[Robot-17], robot 17"),
        ("Robot-17, robot 17", '"robot-17"', "[Robot-17], [robot 17]"),
        ("a-b-c, a.b, c", "a-b*", "[a-b]-c, [a.b], c"),
        ("kept +lost", "kept -lost", "[kept] +lost"),
        ("im Café, CAFÉ", "cafe", "im [Café], [CAFÉ]"),
        ("ﬁne 5㎏", "fine 5kg", "[ﬁne] [5㎏]"),
        ("在北京大学", "北京", "在[北京]大学"),
        ("สวัสดีกาแฟ", "กาแฟ", "สวัสดี[กาแฟ]"),
        ("그 로봇이", "로봇", "그 [로봇]이"),
        ("אמר שָׁלוֹם לך", "שלום", "אמר [שָׁלוֹם] לך"),
        ("ok 👍🏽 👩\u200d🔬", "👍 👩\u200d🔬", "ok [👍🏽] [👩\u200d🔬]"),
        ("यह हिन्दी है", "हिन्दी", "यह [हिन्दी] है"),
        ("one\ntwo\x1b[31m\u2028three", "two", "one [two] [31m three"),
    ],
)
def test_what_is_marked(text: str, query: str, expected: str | None) -> None:
    shown = show({"content": text}, read_query(query))
    assert (shown.snippet and shown.snippet.marked()) == expected
    assert shown.fields == (("content",) if expected else ())


def test_the_snippet_is_where_most_words_are() -> None:
    filler = "lorem ipsum dolor " * 200
    text = f"{filler}needle {filler}a needle in the hay {filler}hay {filler}"
    shown = show({"subject": "hay", "content": text}, read_query("hay needle"))
    assert shown.fields == ("subject", "content")
    assert shown.snippet is not None
    assert "a [needle] in the [hay]" in shown.snippet.marked()
    assert shown.snippet.field == "content"
    assert shown.snippet.text.startswith("…")
    assert shown.snippet.text.endswith("…")
    assert WIDTH - 40 <= len(shown.snippet.text) <= WIDTH + 2


def test_snippets_are_short_and_marks_are_inside() -> None:
    rng = Random(4)
    for _ in range(200):
        pieces = [random_text(rng, 1) for _ in range(60)]
        words_in_it = words.split(" ".join(pieces))
        text = unicodedata.normalize("NFC", " ".join(pieces) + "x" * rng.choice((0, 0, 900)))
        wanted = " ".join(rng.sample(words_in_it, min(3, len(words_in_it)))) or "x"
        shown = show({"content": text}, read_query(wanted + " x*"))
        if shown.snippet is None:
            continue
        assert len(shown.snippet.text) <= WIDTH + 2
        assert shown.snippet.marks
        ends = [0, *(n for mark in shown.snippet.marks for n in mark)]
        assert ends == sorted(ends)
        assert ends[-1] <= len(shown.snippet.text)
