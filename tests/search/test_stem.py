# SPDX-License-Identifier: Apache-2.0
"""Searches find other forms of a word: which, in which order, and in which stores."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain._core import Stemmer
from omsgrain.crypto import KeyRing
from omsgrain.search import rank, stem
from omsgrain.search.feed import columns
from omsgrain.search.snippet import show
from omsgrain.search.text import LONGEST, MOST_STEMS, read_query
from omsgrain.storage.base import TEXT_FILE
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from support.paths import ROOT
from support.store_kinds import POSTGRES, SEALED_POSTGRES, url_of
from support.text_stores import Opened, remove, say, seqs, texts_in

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

USER = "ada"


@pytest.fixture(params=["lmdb", "sealed", "in memory", POSTGRES, SEALED_POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    kind = request.param
    where: Path | str = tmp_path / "a.omsg"
    if kind == "in memory":
        where = ":memory:"
    elif "postgres" in kind:
        where = url_of(tmp_path)
    if "sealed" not in kind:
        with og.open(where) as store:
            yield store
        return
    with (
        KeyRing.create(tmp_path / "keys.omsk", master=bytes(range(32))) as keys,
        og.open(where, keys=keys) as store,
    ):
        yield store


def put(store: og.GrainStore, *texts: str) -> list[str]:
    return [
        store.put({"type": "event", "content": text, "user_id": USER, "created_at": 10**12 + n})
        for n, text in enumerate(texts)
    ]


def found(store: og.GrainStore, query: str) -> list[str]:
    return [hit.grain["content"] for hit in store.search(query, user_id=USER)]


FORMS = [
    ("Caroline painted a sunrise", "When did she paint sunrises?"),
    ("Melanie has a cat.", "cats"),
    ("The children were running to their schools", "run school child"),
    ("Caroline's brother bakes", "Caroline baking"),
    ("Wir haben die alten Häuser gesehen", "Haus"),
    ("Ich wandere gern im Gebirge", "Gebirges"),
    ("Elle a mangé des pommes vertes", "manger"),
    ("J'aime les chevaux de l'école", "aimer ecoles"),
    ("Ayer compró las canciones en la tienda", "canción"),
    ("Los niños están cantando", "cantar"),
    ("Ho comprato due libri di storia", "libro"),
    ("Comprei os livros na cidade", "livro"),
    ("De honden lopen in het park", "hond"),
    ("Jag läser böckerna om hästar", "hästarna"),
    ("Она купила новые книги вчера", "книга"),
    ("Αγόρασε τα βιβλία χθες", "βιβλίου"),
]


@pytest.mark.parametrize(("text", "query"), FORMS, ids=[query for _, query in FORMS])
def test_other_forms_of_a_word_are_found(store: og.GrainStore, text: str, query: str) -> None:
    put(store, "Zebra quiz 北京", text, "Xylophon jazz")
    (hit,) = store.search(query, user_id=USER)
    assert hit.grain["content"] == text
    assert hit.score == 1
    assert hit.matched_fields[0] == "content"
    assert hit.snippet is not None and "[" in hit.snippet


def test_an_exact_word_ranks_above_another_form(store: og.GrainStore) -> None:
    put(store, "they like cats", "they like cat", *(f"they like cats {n}" for n in range(9)))
    assert found(store, "cat")[0] == "they like cat"
    put(store, "we saw dogs", "we saw dog", *(f"we saw dog {n}" for n in range(9)))
    assert found(store, "dogs")[0] == "we saw dogs"


@pytest.mark.parametrize(
    "query", ['"paint"', "+paint", '"a paint"', "sunrises -painted", "pain-t"]
)
def test_quotes_and_signs_ask_for_exact_words(store: og.GrainStore, query: str) -> None:
    put(store, "Caroline painted a sunrise")
    assert found(store, query) == []
    assert found(store, "paint -sunrises") == ["Caroline painted a sunrise"]
    assert found(store, "paint*") == ["Caroline painted a sunrise"]
    assert found(store, '"painted a" +sunrise') == ["Caroline painted a sunrise"]


def test_stop_words_find_but_do_not_rank(store: og.GrainStore) -> None:
    put(store, "What did she do when it was cold?", "Ada wrote a poem", "to be or not to be")
    page = store.search("What did Ada write?", user_id=USER)
    assert [(hit.grain["content"], hit.score) for hit in page] == [
        ("Ada wrote a poem", 1.0),
        ("What did she do when it was cold?", 0.0),
    ]
    assert [hit.score for hit in store.search("what zebra", user_id=USER)] == [0.0]
    assert found(store, "to be or not")[0] == "to be or not to be"
    assert found(store, "+what the") == ["What did she do when it was cold?"]


def test_what_is_marked_stands_as_it_is() -> None:
    def marked(text: str, query: str) -> str | None:
        snippet = show({"content": text}, read_query(query)).snippet
        return None if snippet is None else snippet.marked()

    assert marked("Cats, a cat; CAT's", "cats") == "[Cats], a [cat]; [CAT]'s"
    assert marked("Die Häuser am Fluss", "Haus flüsse") == "Die [Häuser] am [Fluss]"
    assert marked("un café, des cafés", "cafe") == "un [café], des [cafés]"
    assert marked("painted", '"paint"') is None


def test_a_language_is_guessed_by_words_and_letters() -> None:
    def guessed(text: str) -> str:
        return stem.LANGUAGES[stem.language(set(text.split()))]

    assert guessed("when did she paint") == "english"
    assert guessed("ada mag grünen tee") == "german"
    assert guessed("elle est partie hier") == "french"
    assert guessed("robot shelf") == "english"  # nothing tells
    assert stem.stop_words({"die", "sonne"}) == {"die"}
    assert stem.stop_words({"my", "son"}) == set()  # English or Spanish: in doubt a word counts
    assert stem.stop_words({"она", "дома"}) == {"она"}


STEMS = [
    ("arabic", "الكتابات والمدارس يكتبون", "كتاب والمدارس يكتب"),
    ("danish", "hestene løbende venlighederne", "hest løb venlighed"),
    ("dutch", "huizen lopende vriendelijkheden", "huis loop vriendelijk"),
    ("english", "painted sunrises generously", "paint sunris generous"),
    ("finnish", "taloissammekin kirjoja hevosista", "talo kirj hevos"),
    ("french", "mangeaient chevaux continuellement", "mang cheval continuel"),
    ("german", "häuser gebirges aufeinanderfolgenden", "haus gebirg aufeinanderfolg"),
    ("greek", "βιβλίου αγοράζουν θάλασσες", "βιβλ αγοραζ θαλασσ"),
    ("hindi", "लड़कियों किताबें जाएगा", "लड़क किताब ज"),
    ("hungarian", "házakban könyveket barátságos", "ház könyv barátságos"),
    ("italian", "comprando libri felicemente", "compr libr felic"),
    ("norwegian", "hestene skrivende vennligheten", "hest skriv venn"),
    ("portuguese", "cantando livros felizmente", "cant livr feliz"),
    ("romanian", "cărților cântând frumoasele", "cărț cânt frumoas"),
    ("russian", "книгами читающий красивейшая", "книг чита красив"),
    ("spanish", "cantando canciones felizmente", "cant cancion feliz"),
    ("swedish", "hästarna springande vänligheten", "häst spring vän"),
    ("turkish", "evlerimizdeki kitaplar çocuklardan", "ev kitap çocuk"),
]
"""Words and their stems by PyStemmer 3.1.0."""


@pytest.mark.parametrize(("language", "words", "expected"), STEMS)
def test_stems_are_those_of_snowball(language: str, words: str, expected: str) -> None:
    assert " ".join(map(Stemmer(language).stem, words.split())) == expected


def test_each_language_has_a_stemmer() -> None:
    assert sorted({*stem.LANGUAGES, "russian", "greek", "arabic", "hindi"}) == sorted(
        language for language, _, _ in STEMS
    )
    with pytest.raises(og.errors.SchemaError):
        Stemmer("klingon")


@given(st.sampled_from([language for language, _, _ in STEMS]), st.text(max_size=40))
def test_any_text_has_a_stem(language: str, word: str) -> None:
    assert len(Stemmer(language).stem(word)) <= 2 * len(word) + 2


def test_an_index_knows_which_stemmers_made_it() -> None:
    """A new version of the crate may give other stems, so the index must be made again."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text("utf-8"))["package"]
    (version,) = (one["version"] for one in locked if one["name"] == "frostem")
    assert f"frostem {version}" == stem.STEMMERS


def test_words_without_a_stem() -> None:
    by_word = stem.stems(0)
    assert by_word["painted"] == "¬paint"
    assert [by_word[word] for word in ("the", "ab", "x17b", "a" * 101, "北京")] == [""] * 5
    assert by_word["книги"] == stem.stems(1)["книги"] == "¬книг"
    texts, number = columns({"content": "a b12 the", "subject": "Roses"})
    assert (texts, number) == (("a b12 the", "Roses ¶ ¬rose", ""), 0)


def test_no_more_stems_are_kept_than_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stem, "_KEPT", 5)
    by_word = stem.Stems("english")
    assert [by_word[f"{'x' * n}ing"] for n in range(2, 20)]
    assert len(by_word) == 5


def test_a_query_of_many_words_in_many_languages(tmp_path: Path) -> None:
    with closing(MemoryStorage()) as store, texts_in("sqlite", tmp_path) as index:
        said = ("der die das", "le la les très", "el los ella muy", "het een niet", "and the was")
        say(store, *(f"{words} kitchens" for words in said), "needle")
        words = " ".join(f"{chr(97 + n // 16)}{chr(97 + n % 16)}dings" for n in range(255))
        query = read_query(f"{words} kitchen")
        assert len(query.with_stems(-1).optional) == 256 + MOST_STEMS
        assert {1, 5} <= set(seqs(index.search(store.read, "kitchen")))
        assert seqs(index.search(store.read, f"{words} needle")) == [6]
        assert len(words) < LONGEST


def test_common_stems_are_counted_not_weighed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "SMALL", 10)
    with closing(MemoryStorage()) as store, texts_in("sqlite", tmp_path) as index:
        say(store, *(f"boxes {n}" for n in range(40)), "box", "rare boxes", "the rest")
        assert seqs(index.search(store.read, "the rare box"))[:2] == [42, 41]
        assert len(seqs(index.search(store.read, "the box", limit=99))) == 43
        assert seqs(index.search(store.read, "the box", limit=99))[-1] == 43


def test_an_index_by_older_rules_is_made_again(tmp_path: Path) -> None:
    with closing(LmdbStorage(tmp_path / "a.omsg", durable=False)) as disk:
        say(disk, "Caroline painted")
        path = disk.path / TEXT_FILE
        older = sqlite3.connect(path)
        older.executescript(
            "CREATE VIRTUAL TABLE words USING fts5(says, about, more, content='', "
            "tokenize='ascii'); CREATE TABLE gone (seq INTEGER PRIMARY KEY); "
            "CREATE TABLE state (last INTEGER, known INTEGER, digest BLOB, grains INTEGER); "
            "INSERT INTO state VALUES (1, 0, x'', 1); INSERT INTO words (rowid, says) "
            "VALUES (1, 'Caroline painted'); PRAGMA application_id = 1869443943; "
            "PRAGMA user_version = 1;"
        )
        older.close()
        opened = Opened()
        try:
            index = opened(path)
            assert seqs(index.search(disk.read, "paints")) == [1]
            assert index.check(disk.read) == ()
        finally:
            opened.close()
        again = sqlite3.connect(path)
        assert again.execute("PRAGMA user_version").fetchone() != (1,)
        again.close()


def test_no_stem_of_an_erased_grain_stays(tmp_path: Path) -> None:
    with closing(LmdbStorage(tmp_path / "a.omsg", durable=False)) as disk:
        (first, _) = say(disk, "quizzically zzyxing", "else")
        opened = Opened()
        try:
            index = opened(disk.path / TEXT_FILE)
            assert seqs(index.search(disk.read, "zzyxed")) == [first]
            assert any(b"zzyx" in file.read_bytes() for file in disk.path.glob("text.db*"))
            remove(disk, first)
            index.scrub(disk.read)
            assert not any(b"zzyx" in file.read_bytes() for file in disk.path.glob("text.db*"))
            assert seqs(index.search(disk.read, "zzyxed")) == []
        finally:
            opened.close()
