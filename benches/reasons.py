# SPDX-License-Identifier: Apache-2.0
"""Why rows miss their goals, by a profile. RESULTS.md shows these sentences beside the figures.

A key is a row, or a row and its set of grains. A reason is ignored when its row reaches the goal,
so keep it through one lucky run and remove it once the row stays won.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

REASONS: dict[str, str] = {
    "A1": (
        "perf: two fifths of the time are Python's lists of rows from py-lmdb, a third is the "
        "core, which reads the columns, and a sixth copies memory."
    ),
    "C1": (
        "perf: four fifths of the time are the curve arithmetic in the core, one signature at a "
        "time; a tenth is Python."
    ),
    "C2": (
        "An encrypted grain takes 28.6 us of processor time, a plain one 9.4. Before the blind "
        "rows moved to sorted runs it took 37.1. cProfile: most of the rest computes normalized "
        "texts and blind tokens in the core; then come plain-0, whose rows lie at random "
        "places, and Python. The cipher takes 2 %."
    ),
    "C3": (
        "Both sides remove one key from the key file and sync it. The number of the person's "
        "grains does not matter; the difference is the time of a sync."
    ),
    "E1": (
        "Both sides hash. perf: most of our remaining time is Python's own work: it walks "
        "dicts, returns strings as UTF-8 and copies them (PyDict_Next, AsUTF8AndSize, memmove)."
    ),
    "E1 events": (
        "perf, for texts of 2 KB: two fifths of the time are SHA-256, as for the peer. A third "
        "checks that the text is NFC, which the peer does not do. The rest copies text. The "
        "check tests 32 bytes at once with instructions that every x86-64 processor has."
    ),
    "E2": (
        "The core hashes one message without help from others, and hashing is half of the "
        "peer's time. The peer does not check fields and returns no Grain."
    ),
    "E2 events": ("SHA-256 of 2 KB is no faster than OpenSSL's. The NFC check comes on top."),
    "E3 events": "Hashing and the NFC check come on top of parsing JSON.",
    "E3 sensors": (
        "A short line is all keys and numbers, which orjson parses as fast. Hashing comes on top."
    ),
    "E3-threads": (
        "The two processors of this machine are threads of one core. Hashing fills the core's "
        "vector units, so the second thread gains little."
    ),
    "E4": (
        "Both sides spend most of the time on Python objects. We also prove that the bytes are "
        "canonical and valid, use full field names and return a Grain."
    ),
    "E4 events": (
        "perf: two fifths of the time make Python's text of 2 KB from UTF-8, through UTF-16, "
        "the fastest of the tried ways. A seventh checks UTF-8 and NFC; the peer checks UTF-8 "
        "only."
    ),
    "E4-ipld": "The same reason as for E4.",
    "E4-ipld events": "The same reason as for E4 events.",
    "E4-dict": (
        "The fields of a grain are shared and read-only, so to_dict builds a second dict and "
        "copies its lists. Nearly all of the difference is memory: allocating it, filling it, "
        "and tracking it in the garbage collector. A copy in Rust took as long as the one in "
        "Python."
    ),
    "E5": (
        "Grains of 230 bytes have four or five blocks, so messages that are hashed side by side "
        "end at different times. Their bytes also lie in many objects all over the memory."
    ),
    "E5 events": (
        "With SHA instructions, hashing several texts of 2 KB side by side is no faster than "
        "one at a time, and OpenSSL uses the same instructions. We save only Python's calls."
    ),
    "E6": (
        "With SHA instructions, both sides hash equally fast. We also prove that the bytes are "
        "canonical and valid, and the second thread has to make up for it."
    ),
    "E6 events": (
        "perf: nearly half of the time is SHA-256, as for the peer. A third checks NFC, a "
        "twelfth UTF-8. The second thread has to make up for both."
    ),
    "E7": (
        "perf: three fifths of the time are the core, which hashes and writes, a quarter is "
        "Python's own walk over dicts and strings, and the rest copies. The peer's encoder is "
        "in C too."
    ),
    "E7 events": "We hash long texts and check NFC; cbor2 only copies them.",
    "F1": (
        "Python builds the fields of each grain and the rest of its record; for MIF-LD it also "
        "separates counters from each memory. A sixth of the time is the garbage collector, "
        "which looks for cycles in trees without any. orjson.loads only parses."
    ),
    "S1": (
        "A quarter of the time are commits and their syncs. The rest is spread over dicts, "
        "index rows and LMDB's tree. The peer is twice as fast here as it was when the goal was "
        "set."
    ),
    "S1-lmdb": (
        "The same reason as for S1. The peer reads no dict, hashes nothing and has no other index."
    ),
    "S1-sqlite": (
        "The same reason as for S1. The peer gets blobs and addresses that are computed already."
    ),
    "S10": (
        "cProfile: a third of the time makes each grain's index rows again and compares their "
        "sum with the tables; a third reads blobs row by row in Python; the rest hashes and "
        "verifies each blob."
    ),
    "S11": (
        "cProfile: a third of the time removes index rows, addresses and blobs from LMDB, with "
        "one call each; a fifth makes the index rows again to find them; a fifth reads and "
        "decodes the grains; a tenth applies the rules to each. The peer appends in sorted "
        "runs."
    ),
    "S11-erased": (
        "A user's grain leaves two tombstones, one for its address and one for its name in "
        "documents, so that no import and no sync brings it back. Each is an HMAC of 32 bytes "
        "with a time, a reason and a hint of the namespace. Sync compares whole HMACs."
    ),
    "S2": (
        "A commit waits for the disk twice, and so does the peer's. It writes seven pages, the "
        "peer three; with five pages it took as long. The rest is Python: 56 us of processor "
        "time with warm caches, three times that after a wait for the disk. A fifth of it runs "
        "before the transaction, two fifths in it, two fifths after the commit."
    ),
    "S2-sqlite": (
        "strace: a put makes one fdatasync and one synchronous write of LMDB's root; the peer's "
        "insert makes one fdatasync of its log. A put that waits for the disk takes 240 to 330 "
        "us of processor time, mostly Python with cold caches; the insert takes 130."
    ),
    "S2-threads": (
        "Nearly eight waiting puts share each commit. The rest is Python, which runs one thread "
        "at a time."
    ),
    "S3": "The same reason as for S1; Python's start comes on top.",
    "S4": (
        "Decoding the fields takes a third of the time. Of the rest, by processor time, a fifth "
        "writes read counts, because a round reads more grains than are counted in memory. A "
        "tenth is a system call that detects a replaced file. A third is two look-ups by py- "
        "lmdb, the hash, and the transaction's begin and end. The remainder is Python calls."
    ),
    "S4-many": (
        "By processor time a fifth, 1.2 us a grain, writes read counts: a third of that reads "
        "the old rows, two fifths make and write the new ones, the rest is the commit. Decoding "
        "takes a quarter. The remainder is py-lmdb's look-ups, hashing and creating grains."
    ),
    "S4-git": ("The peer hashes no blob, counts no reads and starts one process for all blobs."),
    "S5": (
        "By processor time a third counts reads and writes the counts, for ten grains a page; "
        "without it a page takes 34 us instead of 52. A quarter is one call of the core, mostly "
        "py-lmdb's look-ups of eleven blobs. A fifth decodes the grains. The rest is Python: "
        "the conditions, the hits and the page."
    ),
    "S5-sqlite": (
        "The same reason as for S5; a third of the time decodes ten grains. The peer counts no "
        "reads."
    ),
    "S6": (
        "cProfile: nearly a third of the time makes the snippet, and more than a quarter finds "
        "the word in SQLite and checks that the index is up to date. The rest is Python: the "
        "query, the snapshots, the check of the match and the page. The peer makes no snippet."
    ),
    "S6-common": (
        "cProfile: four tenths of the time make the ten snippets; a sixth of that folds and "
        "stems the shown words. Nearly a quarter are SQLite's statements. Before the index had "
        "stems, the row took 685 us."
    ),
    "S7": (
        "At two million grains, a grain takes 573 bytes: 274 for the blob, 270 for terms, about "
        "16 for its address (74 before format 6). A page holds 15 standard blobs and leaves a "
        "sixteenth of itself empty. At 100,000 grains, about 86 bytes a grain are free pages of "
        "the last run."
    ),
    "S8": (
        "The first 100,000 grains take 8.1 us each, the last million of ten 13.6; with format 3 "
        "they took 19.7 and 44.6. New addresses gather in a small table and move to the large "
        "one key by key. Shorter runs share fewer pages of terms."
    ),
    "S8-query": (
        "The median is 53 us at ten million grains and 38 at 100,000. Beyond a million, the "
        "grains of a result lie on file pages that are not in memory: at p95, a get of a random "
        "grain takes 9 ms, as long as the disk."
    ),
    "S9-export": (
        "perf: a fifth of the time hashes the file. A quarter is the system: the grains go to a "
        "spool first and then to the file, because the index precedes them, and the file is "
        "synced. A seventh is the core, which verifies each blob by its address. A fifth copies "
        "memory and walks LMDB. The rest is Python, for which py-lmdb makes rows one by one."
    ),
    "S9-import-put": (
        "Encoding a dict takes 0.55 us of about 10, verifying a blob 0.64, half of it the hash. "
        "Verifying once instead of twice gained nothing measurable. Both sides spend the rest "
        "on index rows and commits."
    ),
    "S9-import": (
        "We verify every grain and make all its index rows; the peer reads and hashes. "
        "cProfile: a quarter verifies, a quarter makes rows, a quarter are commits."
    ),
    "S9-verify": (
        "Python takes 4 % of the time. cProfile: the rest is one call of the core for each "
        "thousand grains. It hashes each grain and proves that it is canonical and valid, while "
        "a second thread hashes the file, as the peer does. The two processors of this machine "
        "are threads of one core, so both hashes share one unit."
    ),
    "S9-write": (
        "We prove that each grain is canonical before we write it. Hashing and the sync come on "
        "top."
    ),
    "M2": (
        "The search takes a third of the time. The rest reads ten grains and their records, and "
        "makes their snippets, in Python. The peer has no users and makes no snippets."
    ),
    "M2-embedder": (
        "By the clock a third ranks the words. A fifth compares the vectors, which takes 0.13 "
        "ms, and checks the nearest. A quarter joins the ranks, reads ten grains and makes "
        "their snippets. A tenth makes the memories. The peer makes no snippets."
    ),
    "U1-import": (
        "Most of the time is for modules of Python's own library that the first import needs. "
        "The core loads in a few ms."
    ),
}

NOT_BUILT: dict[str, str] = {}

WAITING: dict[str, str] = {
    "S8": "growth to 10 million grains. `python -m benches.scale` measures it in a quarter of an "
    "hour and writes results/growth.json.",
}


def of(row: str, set: str) -> str | None:
    """Return why a row misses its goal on a set; None if the reason is not known yet."""
    return REASONS.get(f"{row} {set}") or REASONS.get(row)


def not_built(measured: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Rows of the plan that are not in a run, with what they are about."""
    there = set(measured)
    for name, work in (NOT_BUILT | WAITING).items():
        if name not in there:
            yield name, work
