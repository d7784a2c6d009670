# SPDX-License-Identifier: Apache-2.0
"""The text index: what it finds, in which order, and how it keeps up with the store."""

from __future__ import annotations

from random import Random

import pytest

import omsgrain as og
from omsgrain.errors import RangeError, SchemaError
from omsgrain.search import feed
from omsgrain.search import text as find
from omsgrain.search.snippet import show
from omsgrain.search.text import TextIndex, TextMatches, read_query
from omsgrain.storage.base import TEXT_FILE
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from support.text_stores import CREATED, Opened, event, put, remove, say, seqs

# --- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found", "missed"),
    [
        ("Shelf 3 has 5 boxes", "SHELF boxes, box 5 sh* 3*", "+box hel* shelf-3"),
        ("Café crème, Straße", "cafe CREME strasse café*", "+caf cafe-creme"),
        ("Привет, ёлка", "привет ЕЛКА при*", "прив"),
        ("λόγος", "ΛΟΓΟΣ λογ* λόγου", "+λογ"),
        ("在北京大学读书", "北京 大学 读 北京大学 京大", "京北 上海 大北"),
        ("カタカナとひらがな", "カタ ひらがな ｶﾀｶﾅ* カナ", "たか か"),
        ("สวัสดีกาแฟ", "กาแฟ สวัสดี", "แฟกา"),
        ("ສະບາຍດີ ជំរាបសួរ မင်္ဂလာပါ", "ບາຍ សួរ လာပါ", "ດີສ ရ"),
        ("로봇이 선반을 본다", "로봇 선반 봇이", "봇로"),
        ("नमस्ते दुनिया", "नमस्ते दुनि*", "नमस"),
        ("אמר שָׁלוֹם", "שלום אמ*", "לום"),
        ("مُحَمَّد رسول", "محمد رس*", "حمد"),
        ("done 👍🏽👩\u200d🔬 🇩🇪", "👍 👩 🔬 👩\u200d🔬 🇩🇪", "🎉 🇪🇩"),
        ("see mg:perceives a_b.c", "mg:perceives mg-perc* a b-c a.b.c mg", "a-c perceives-a"),
        ("e\u0301te\u0301 naïve", "été ETE naive", "et"),
    ],
)  # fmt: skip
def test_words_of_any_script(
    store: MemoryStorage, index: TextIndex, text: str, found: str, missed: str
) -> None:
    say(store, "something else 其他 อื่น 다른", text)
    for query in found.split():
        assert seqs(index.search(store.read, query)) == [2], query
        assert show({"content": text}, read_query(query)).fields == ("content",), query
    for query in missed.split():
        assert seqs(index.search(store.read, query)) == [], query
        assert not show({"content": text}, read_query(query)).fields, query


def test_any_word_is_enough_and_rare_ones_count_more(
    store: MemoryStorage, index: TextIndex
) -> None:
    say(store, *(f"shelf {n}" for n in range(20)), "shelf rare", "rare thing")
    say(store, *(f"none {n}" for n in range(40)))
    found = index.search(store.read, "shelf rare", limit=30)
    assert seqs(found)[:2] == [21, 22]
    assert set(seqs(found)) == set(range(1, 23))
    assert [found.matches[0].score, found.matches[-1].score > 0] == [1.0, True]
    scores = [match.score for match in found.matches]
    assert scores == sorted(scores, reverse=True)


def test_matches_in_the_subject_count_more(store: MemoryStorage, index: TextIndex) -> None:
    fields = {"type": "belief", "relation": "is", "confidence": 1.0, "created_at": CREATED}
    filler = [event(f"other {n}") for n in range(5)]
    put(store, *filler,
        og.encode(fields | {"subject": "a", "object": "b", "relation": "owl"}),
        og.encode(fields | {"subject": "a", "object": "owl"}),
        og.encode(fields | {"subject": "owl", "object": "b"}))  # fmt: skip
    assert seqs(index.search(store.read, "owl")) == [8, 7, 6]


def test_no_phrase_reaches_over_two_texts(store: MemoryStorage, index: TextIndex) -> None:
    put(store, event("a", structural_tags=["red", "box"]), event("red box"))
    assert seqs(index.search(store.read, '"red box"')) == [2]


def test_equal_matches_come_newest_first(store: MemoryStorage, index: TextIndex) -> None:
    say(store, "other", *(f"same {n}" for n in range(5)))
    assert seqs(index.search(store.read, "same")) == [6, 5, 4, 3, 2]


def test_pages(store: MemoryStorage, index: TextIndex) -> None:
    say(store, *(f"word {'more ' * (n % 7)}{n}" for n in range(50)), "else")
    whole = index.search(store.read, "word more", limit=60)
    assert not whole.more
    assert len(whole.matches) == 50
    for limit in (1, 7, 49):
        found = index.search(store.read, "word more", limit=limit)
        assert (found.matches, found.more) == (whole.matches[:limit], True)


@pytest.mark.parametrize("options", [{"limit": 0}, {"most": 0}])
def test_wrong_numbers_are_refused(
    store: MemoryStorage, index: TextIndex, options: dict[str, int]
) -> None:
    with pytest.raises(RangeError):
        index.search(store.read, "word", **options)  # type: ignore[arg-type]


def test_a_search_without_words_is_refused(store: MemoryStorage, index: TextIndex) -> None:
    with pytest.raises(SchemaError):
        index.search(store.read, "-word")


# --- filters -------------------------------------------------------------------------------------


def test_only_some_grains(store: MemoryStorage, index: TextIndex) -> None:
    say(store, *(f"word {n}" for n in range(50)))
    found = index.search(store.read, "word", seqs={7, 8, 30, 99})
    assert seqs(found) == [30, 8, 7]
    assert found.read == 3
    assert index.search(store.read, "word", seqs=set()) == TextMatches((), False, 0, True)


def test_a_filter_is_asked_until_there_are_enough(
    store: MemoryStorage, index: TextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "_FIRST_PAGE", 4)
    say(store, *(f"word {n}" for n in range(100)))
    found = index.search(store.read, "word", limit=3, accept=lambda seq: seq % 10 == 0)
    assert seqs(found) == [100, 90, 80]
    assert (found.more, found.read, found.complete) == (True, 31, True)
    asked: list[int] = []

    def refuse(seq: int) -> bool:
        asked.append(seq)
        return False

    found = index.search(store.read, "word", accept=refuse)
    assert found == TextMatches((), False, 100, True)
    assert asked == list(range(100, 0, -1))


def test_a_filter_that_refuses_too_much_ends_the_search(
    store: MemoryStorage, index: TextIndex
) -> None:
    say(store, *(f"word {n}" for n in range(100)))
    found = index.search(store.read, "word", accept=lambda seq: seq in (95, 3), most=50)
    assert seqs(found) == [95]
    assert (found.read, found.complete) == (51, False)


def test_grains_that_come_while_a_filter_is_asked(
    store: MemoryStorage, index: TextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "_FIRST_PAGE", 4)
    say(store, *(f"word {n}" for n in range(60)))

    def accept(seq: int) -> bool:
        say(store, f"word again {seq}")
        index.catch_up(store.read)
        return seq <= 60

    found = seqs(index.search(store.read, "word", limit=100, accept=accept))
    assert len(found) == len(set(found))


# --- keeping up ----------------------------------------------------------------------------------


def test_a_search_sees_what_was_put_and_removed(disk: LmdbStorage, opened: Opened) -> None:
    index = opened(disk.path / TEXT_FILE)
    assert not index.exists
    assert seqs(index.search(disk.read, "owl")) == []
    assert index.exists
    rng = Random(6)
    alive: list[int] = []
    for n in range(60):
        alive += say(disk, f"owl {n}")
        if rng.random() < 0.4:
            remove(disk, alive.pop(rng.randrange(len(alive))))
        if rng.random() < 0.5:
            assert set(seqs(index.search(disk.read, "owl", limit=99))) == set(alive)
        if rng.random() < 0.1:
            index.close()
            index = opened(disk.path / TEXT_FILE)
    assert index.catch_up(disk.read) == disk.stats().last_seq
    assert index.check(disk.read) == ()


def test_one_that_was_removed_and_put_again(store: MemoryStorage, index: TextIndex) -> None:
    (seq,) = say(store, "owl")
    index.catch_up(store.read)
    remove(store, seq)
    (again,) = say(store, "owl")
    assert seqs(index.search(store.read, "owl")) == [again]


def test_pages_of_a_large_catch_up(
    store: MemoryStorage, index: TextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "PAGE", 10)
    monkeypatch.setattr(feed, "_TOGETHER", 3)
    say(store, *(f"owl {n}" for n in range(95)))
    remove(store, *range(1, 40), *range(90, 96))
    (last,) = say(store, "owl")
    assert set(seqs(index.search(store.read, "owl", limit=99))) == {*range(40, 90), last}


def test_sealed_and_damaged_grains_have_no_words(store: MemoryStorage, index: TextIndex) -> None:
    plain = event("owl")
    sealed = bytes([plain[0], plain[1] | 2, *plain[2:]])
    put(store, sealed, plain.replace(b"owl", b"\xff\xfe\xfd"), b"not a grain owl", plain)
    assert seqs(index.search(store.read, "owl")) == [4]
    assert index.check(store.read) == ()


def test_compressed_and_cbor_grains(store: MemoryStorage, index: TextIndex) -> None:
    fields = {"type": "event", "content": "owl " * 50, "created_at": CREATED}
    put(store, og.encode(fields, compress=True), og.encode(fields, encoding="cbor"))
    assert sorted(seqs(index.search(store.read, "owl"))) == [1, 2]


def test_long_words_and_long_texts(store: MemoryStorage, index: TextIndex) -> None:
    say(store, "q" * 200_000, "q" * 40_000 + "é", "word " * 100_000 + "needle", "字" * 50_000)
    assert seqs(index.search(store.read, "needle")) == [3]
    assert seqs(index.search(store.read, "字字字")) == [4]
    assert set(seqs(index.search(store.read, "qqq*"))) == {1, 2}
