# SPDX-License-Identifier: Apache-2.0
"""Why rows are lost, as a profile shows it; RESULTS.md has these sentences beside the figures.

A key is a row, or a row and a set of grains where the reason is that set's own. A reason for a
row that was won is passed over, so it need not be taken out for one lucky run; take it out when
the row is won to stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

REASONS: dict[str, str] = {
    "A1": (
        "By perf two fifths are Python, whose lists of rows py-lmdb makes, a third is the core, "
        "which reads the columns, and a sixth copies memory."
    ),
    "C1": (
        "By perf four fifths are the arithmetic of the curve in the core, for each signature "
        "alone; a tenth is Python."
    ),
    "C2": (
        "Blind rows are in sorted runs: putmulti and commits took nearly half of the time before, "
        "28.6 us of processor time a grain are left of 37.1, where a plain one takes 9.4. By "
        "cProfile most of the rest are texts and tokens, in the core, then plain-0, whose rows "
        "lie at random places, and Python; the cipher's calls are 2 %."
    ),
    "C3": (
        "Both are a key taken out of the key file, and its syncs; nothing of it depends on how "
        "many grains the person has. What differs is how a sync went."
    ),
    "E1": (
        "Beside hashing, which the peer does too, most of the time is Python's own: walking "
        "dicts, strings as UTF-8, copying them (perf: PyDict_Next, AsUTF8AndSize, memmove "
        "lead)."
    ),
    "E1 events": (
        "Texts of 2 KB: by perf two fifths are SHA-256, as for the peer. A third looks whether "
        "the text is NFC, which the peer does not do; the rest copies text. "
        "Pieces of 32 bytes are tested at once, in the instructions of any x86-64."
    ),
    "E2": (
        "One message alone cannot be hashed side by side, and hashing is half of the peer's "
        "time; the check of fields and the Grain that comes back are what the peer has not."
    ),
    "E2 events": (
        "SHA-256 of 2 KB alone is no faster than OpenSSL's, and the look whether the text is "
        "NFC comes on top of it."
    ),
    "E3 events": "Hashing and the look at NFC come on top of reading JSON.",
    "E3 sensors": (
        "A short line is all keys and numbers, which take orjson as long; hashing is more."
    ),
    "E3-threads": (
        "The two processors of this machine are threads of one core: hashing, which fills its "
        "vector units, gains hardly anything from the second."
    ),
    "E4": (
        "Making Python's objects is most of it, for the peer as well; on top of it come the "
        "proof that the bytes are canonical and good, full names, and a Grain."
    ),
    "E4 events": (
        "By perf two fifths make Python's text of 2 KB from UTF-8, by way of UTF-16, which is the "
        "fastest of the ways that were tried. A seventh looks at UTF-8 and NFC, which the peer "
        "does for UTF-8 alone."
    ),
    "E4-ipld": "As for E4.",
    "E4-ipld events": "As for E4 events.",
    "E4-dict": (
        "The fields of a grain are shared and read-only, so to_dict makes another dict and copies "
        "its lists. Nearly all of the difference is memory: taken, filled, counted by the garbage "
        "collector. Copying in Rust instead of Python took as long."
    ),
    "E5": (
        "Grains of 230 bytes have four or five blocks, so lanes that work side by side end "
        "apart; and their bytes are gathered from objects all over the memory."
    ),
    "E5 events": (
        "With SHA instructions a text of 2 KB takes as long alone as among others, and OpenSSL "
        "uses them too; what is gained is Python's call."
    ),
    "E6": (
        "With SHA instructions each grain is hashed as fast as by the peer; the proof that its "
        "bytes are canonical and good comes on top, and the second thread pays for it."
    ),
    "E6 events": (
        "By perf nearly half is SHA-256, as for the peer. A third looks whether the text is NFC, "
        "a twelfth whether it is UTF-8. The second thread has to pay for both."
    ),
    "E7": (
        "By perf three fifths are the core, which hashes and writes, a quarter is Python's own "
        "walk over dicts and strings, and the rest copies. The peer's encoder is in C too."
    ),
    "E7 events": "Hashing and NFC of long texts; for cbor2 a text is a copy.",
    "F1": (
        "The fields of each grain, and what its record says besides, are told in Python; a memory "
        "of MIF-LD is also parted from its counters. A sixth goes to the garbage collector, which "
        "looks for cycles in trees that have none. orjson.loads only parses."
    ),
    "S1": (
        "A quarter of the time are commits and their syncs, the rest is spread over reading "
        "dicts, index rows and LMDB's tree. The peer is twice as fast here as when the goal was "
        "set."
    ),
    "S1-lmdb": "As for S1: the peer reads no dict, hashes nothing and has no other index.",
    "S1-sqlite": "As for S1. The peer's rows are ready, with their blobs and addresses.",
    "S10": (
        "By cProfile a third is making each grain's index rows again, whose sum is compared with "
        "the tables; a third reads blobs row by row in Python; the rest is the proof of each "
        "blob and its hash."
    ),
    "S11": (
        "By cProfile a third is taking index rows, addresses and blobs out of LMDB, one call for "
        "each; a fifth makes the index rows again, to know which; a fifth reads and decodes the "
        "grains, and a tenth asks the rules of each. The peer appends in sorted runs."
    ),
    "S11-erased": (
        "A user's grain has two tombstones, each an HMAC of 32 bytes with time, reason and a hint "
        "of the namespace, so that no import and no sync brings the grain back: one for its "
        "address, one for its name in documents. Peers of a sync compare whole HMACs."
    ),
    "S2": (
        "A commit waits for the disk twice, as the peer's does. Its seven pages, where the peer's "
        "has three, cost next to nothing: five pages took as long. The rest is Python: 56 us of "
        "processor time where caches are warm, and three times that after a wait: a fifth before "
        "the transaction, two fifths in it, two fifths after the commit."
    ),
    "S2-sqlite": (
        "By strace a put has one fdatasync and one synchronous write of LMDB's root, the peer's "
        "insert one fdatasync of its log. By processor time a put that waits for the disk takes "
        "240 to 330 us, mostly Python with cold caches, and the insert 130."
    ),
    "S2-threads": (
        "All that wait share a commit, of nearly eight puts each; the rest is Python, one thread "
        "at a time."
    ),
    "S3": "As for S1, with the start of Python.",
    "S4": (
        "The fields take a third of the time. By processor time a fifth of the rest writes the "
        "counts of the reads, since a round reads more grains than are counted in memory. A tenth "
        "is a system call that asks whether the file was replaced. A third is two look-ups by "
        "py-lmdb, the hash and the begin and end of a transaction. The rest is Python's calls."
    ),
    "S4-many": (
        "By processor time a fifth, 1.2 us a grain, writes the counts of the reads: a third of "
        "that reads the old rows, two fifths make and write the new ones, the rest is the "
        "commit. The fields take a quarter. What remains is py-lmdb's look-ups, hashing and "
        "making grains."
    ),
    "S4-git": "The peer hashes no blob, counts no read and starts one process for all blobs.",
    "S5": (
        "By processor time a third counts the reads and writes the counts, for ten grains a page; "
        "without it a page takes 34 us instead of 52. A quarter is one "
        "call of the core, mostly py-lmdb's look-ups of eleven blobs. A fifth decodes the grains. "
        "The rest is Python: the conditions, the hits and the page."
    ),
    "S5-sqlite": "As for S5; a third decodes ten grains. The peer counts no reads.",
    "S6": (
        "By cProfile nearly a third is the snippet, and more than a quarter looks the word up "
        "in SQLite, which is also asked whether the index is up to date. The rest is Python: "
        "the query, the snapshots, the test of the match, the page. The peer writes no snippet."
    ),
    "S6-common": (
        "By cProfile four tenths make the ten snippets, of which a sixth folds and stems the "
        "shown words; nearly a quarter are SQLite's statements. Before stems the row took 685 us."
    ),
    "S7": (
        "Of 573 bytes a grain at two million, 274 are blobs and 270 terms; addresses, with 10 "
        "bytes a row, take some 16 (74 before format 6). A page holds 15 standard blobs, and a "
        "sixteenth of it stays empty. At 100,000 some 86 bytes are free pages of the last run."
    ),
    "S8": (
        "The first 100,000 take 8.1 us a grain and the last million of ten 13.6, where "
        "format 3 took 19.7 and 44.6. New addresses gather in a small table "
        "and go on to the large one key by key; shorter runs share fewer pages of terms."
    ),
    "S8-query": (
        "The median is 53 us at ten million and 38 at 100,000. Beyond a million the grains of a "
        "page lie on pages of the file that are not in memory: a get of a random grain takes 9 ms "
        "there at p95, as long as the disk."
    ),
    "S9-export": (
        "By perf a fifth hashes the file, a quarter is the system, which writes the grains to a "
        "spool, then to the file, and syncs it, since the index comes first; a seventh is the "
        "core, which proves each blob by its address; a fifth copies memory and walks LMDB; the "
        "rest is Python, whose rows py-lmdb makes one by one."
    ),
    "S9-import-put": (
        "Encoding a dict takes 0.55 us of some 10, and proving a blob takes 0.64, of which the "
        "hash is half: to prove it once and not twice gained nothing that could be measured. "
        "Index rows and commits are the rest, for both sides."
    ),
    "S9-import": (
        "It proves every grain and makes all its index rows, where the peer reads and hashes: "
        "by cProfile a quarter proves, a quarter makes rows, a quarter are commits."
    ),
    "S9-verify": (
        "Python takes 4 % of the time: by cProfile the rest is one call of the core for each "
        "thousand grains, which hashes each and proves that it is canonical and good, beside a "
        "thread that hashes the file as the peer does. The two processors of this machine are "
        "threads of one core, so the two hashes share one unit."
    ),
    "S9-write": "Each grain is proven canonical before it is written; then hashing, and the sync.",
    "M2": (
        "The search itself is a third of it; the rest reads ten grains, their records and their "
        "snippets, in Python. The peer knows no users, and writes no snippets."
    ),
    "M2-embedder": (
        "By the clock a third ranks the words; a fifth compares the vectors, which takes 0.13 "
        "ms, and tests the nearest; a quarter joins the ranks, reads ten grains and writes "
        "their snippets; a tenth makes the memories. The peer writes no snippets."
    ),
    "U1-import": (
        "Most of it are modules of Python's own library that the first import needs; the core "
        "itself is loaded in a few ms."
    ),
}

NOT_BUILT: dict[str, str] = {}

WAITING: dict[str, str] = {
    "S8": "growth to 10 million grains. `python -m benches.scale` measures it in a quarter of an "
    "hour; its figures stand in results/growth.json once it ran.",
}


def of(row: str, set: str) -> str | None:
    """Why a row is lost on a set; None if nobody has looked."""
    return REASONS.get(f"{row} {set}") or REASONS.get(row)


def not_built(measured: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Rows of the plan that are not in a run, with what they are about."""
    there = set(measured)
    for name, work in (NOT_BUILT | WAITING).items():
        if name not in there:
            yield name, work
