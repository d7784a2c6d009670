# SPDX-License-Identifier: Apache-2.0
"""The later chapters of the demo: exchange, life of a grain, trust, documents.

Each chapter makes claims; the story records whether each claim holds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omsgrain as og
from omsgrain import container, crypto, formats
from omsgrain.cli import output
from omsgrain.cli.console import Console
from omsgrain.cli.query import plan_text, table
from omsgrain.crypto.disclosure import check_disclosure, disclose
from omsgrain.crypto.keyring.keyring import KeyRing
from omsgrain.crypto.master_key import make_master
from omsgrain.crypto.signers import Ed25519Signer, dumps_public, loads_public
from omsgrain.crypto.trust import Trust, check
from omsgrain.errors import SignatureError
from omsgrain.formats.aimem import document as bundles
from omsgrain.formats.aimem import signature
from omsgrain.formats.aimem.document import Bundle
from omsgrain.formats.problems import DocumentError
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.memory.removal import erase_tenant

if TYPE_CHECKING:
    from omsgrain import Grain, GrainStore

RUN = "mission-7"
LAST_DAYS = 1_451_376_000_000  # 2015-12-29T08:00Z, when a local day begins
PAGE = 5
GAUGE = "gauge g2"
SECRET = "the door code is 4711"
# Both people and their notes are invented; the readings are from NOAA.
MIRA, JONAS = "mira.quill@example.org", "jonas.tarn@example.org"
NOTE = "the spare key hangs behind the rain barrel"
READINGS = 600
BUNDLE = "robot-7.aimem.json"
PUMP = "urn:aimem:robot-7:chunk-4"
MODEL = "toy-3"


class Story:
    """Tells the demo step by step and records whether each claim holds."""

    def __init__(self, quiet: bool) -> None:
        self.checks: list[dict[str, Any]] = []
        self.console = Console()
        self.quiet = quiet

    @property
    def ok(self) -> bool:
        return all(check["held"] for check in self.checks)

    def step(self, title: str) -> None:
        if not self.quiet:
            self.console.print()
            self.console.print(f"── {title}", style="bold")

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(output.safe(text))

    def check(self, claim: str, held: bool) -> None:
        self.checks.append({"claim": claim, "held": held})
        if not self.quiet:
            mark, style = ("✓", "green") if held else ("✗ DOES NOT HOLD:", "red")
            self.console.print(f"{mark} {claim}", style=style)


def refusal(act: Callable[[], object]) -> str:
    """Do what should be refused, and return the error code."""
    try:
        act()
    except og.errors.OmsError as error:
        return error.code
    return "no error"


def since(start: float) -> str:
    return f"in {time.perf_counter() - start:.2f} s"


@dataclass(frozen=True, slots=True)
class Question:
    """A question as text, as filters, and as a test for each grain."""

    words: str
    filters: dict[str, Any]
    holds: Callable[[Grain], bool]


QUESTIONS = (
    Question(
        "What was measured in Seattle in the last three days of 2015?",
        {"subject": "Seattle", "relation": "mg:perceives", "created_after": LAST_DAYS + 1},
        lambda grain: grain.get("subject") == "Seattle" and grain["created_at"] > LAST_DAYS,
    ),
    Question(
        "What does the robot believe of gauge g2?",
        {"type": "belief", "subject": "gauge g2"},
        lambda grain: grain.type == "belief" and grain["subject"] == "gauge g2",
    ),
    Question(
        "What happened on the mission?",
        {"run_id": RUN},
        lambda grain: grain.get("run_id") == RUN,
    ),
)


def tell_exchange(story: Story, directory: Path, beside: Path) -> None:
    """Query, export and import the store in a directory; new files go beside it."""
    file, other = beside / "memory.mg", beside / "other.omsg"
    with og.open(directory, readonly=True) as store:
        _ask(story, store)
        _export(story, store, file)
        _flip(story, file, beside / "flipped.mg", other)
        _import_file(story, store, file, other)
        _upkeep(story, store, beside / "backup.omsg")


def _addresses(store: GrainStore) -> list[str]:
    return [change.address for change in store.changes()]


def _answers(store: GrainStore, **more: Any) -> list[str]:
    """Return the addresses of all results, in their order."""
    pages = [store.query(**q.filters, limit=1_000, **more) for q in QUESTIONS]
    return [hit.address for page in pages for hit in page.results]


def _ask(story: Story, store: GrainStore) -> None:
    story.step("Ask")
    grains = list(store)
    right = []
    for question in QUESTIONS:
        page = store.query(**question.filters, limit=PAGE, count=True, explain=True)
        assert page.plan is not None  # count=True gives a total
        story.say(f"{question.words} {page.total} grains; {plan_text(page.plan)}")
        if not story.quiet:
            story.console.table(table(page))
        right.append(page.total == sum(map(question.holds, grains)))
    story.check("each answer equals a scan of all grains", all(right))

    seen: list[str] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = store.query(run_id=RUN, limit=PAGE, cursor=cursor)
        seen += [hit.address for hit in page.results]
        cursor, pages = page.next_cursor, pages + 1
    mission = [grain for grain in grains if grain.get("run_id") == RUN]
    mission.sort(key=lambda grain: (-grain["created_at"], grain.address))
    story.check(
        f"{pages} pages return each grain of the mission once, newest first",
        seen == [grain.address for grain in mission],
    )


def _export(story: Story, store: GrainStore, file: Path) -> None:
    story.step(f"Export to {file.name}, packed with zstd")
    start = time.perf_counter()
    written = store.export_mg(file, codec="zstd")
    blobs = store.stats().blob_bytes
    story.say(f"{written.grains} grains, {blobs} bytes of blobs: {written.bytes} {since(start)}.")
    story.check("the file holds all grains", written.grains == len(store))
    report = container.verify(file, errors="collect")
    story.check(
        f"every byte of the file is verified, and {report.verified} grains",
        report.ok and report.verified == len(store),
    )


def _flip(story: Story, file: Path, flipped: Path, other: Path) -> None:
    story.step("Flip one bit in the file")
    good = file.read_bytes()
    with container.read(file) as source:
        grains_at = source.header.grains_at
    middle = (grains_at + len(good)) // 2
    for part, at in (("index", grains_at - 4), ("frame", middle), ("footer", len(good) - 1)):
        flipped.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        problems = container.verify(flipped, errors="collect").problems
        story.say(f"Byte {at}: {problems[0] if problems else 'no problem found'}")
        found = bool(problems) and problems[0].part == part
        story.check(f"a bit in the {part}: `verify` finds it and names the {part}", found)
    with og.open(other) as store:
        refused = refusal(lambda: store.import_mg(flipped)) != "no error"
        story.check("the import refuses the file and stores nothing", refused and not len(store))


def _import_file(story: Story, store: GrainStore, file: Path, other: Path) -> None:
    story.step("Import into a second store")
    start = time.perf_counter()
    with og.open(other) as second:
        report = second.import_mg(file)
        story.say(f"{report.stored} grains verified and stored {since(start)}.")
        story.check("both stores hold the same addresses", _addresses(store) == _addresses(second))
        same = all(
            _answers(store, order=order) == _answers(second, order=order)
            for order in ("newest", "oldest")
        )
        story.check("both return the same results in the same order", same)
        again = second.import_mg(file)
        story.check(
            f"importing again stores nothing: {again.duplicates} duplicates",
            again.stored == 0 and again.duplicates == len(store),
        )


def _upkeep(story: Story, store: GrainStore, copy: Path) -> None:
    story.step("Check and back up")
    report = store.maintenance.check()
    story.say(f"{report.grains} grains and {report.rows} index rows checked.")
    story.check("the check finds no problems", report.ok and report.grains == len(store))
    store.maintenance.backup(copy)
    with og.open(copy) as second:
        same = _addresses(store) == _addresses(second) and _answers(store) == _answers(second)
        story.check("the backup has the same grains and returns the same results", same)
        made = second.maintenance.rebuild()
    with og.open(copy, readonly=True) as second:
        report = second.maintenance.check()
    story.check(
        f"its index is rebuilt and checked: {made.rows} rows of {made.grains} grains",
        report.ok and report.rows == made.rows > 0,
    )


def tell_life(story: Story, directory: Path) -> None:
    """Supersede, refuse, search, delete and audit in the store in a directory."""
    with og.open(directory, actor="demo") as store:
        _supersede(story, store)
        _refuse(story, store)
        _search(story, store)
        _delete_and_compact(story, store, directory)
        _audit(story, store)


def _after(grain: Grain, **changed: object) -> dict[str, object]:
    """Return the fields of a grain one minute later, with changes."""
    fields = {name: value for name, value in grain.to_dict().items() if name != "derived_from"}
    return {**fields, "created_at": grain["created_at"] + 60_000, **changed}


def _supersede(story: Story, store: GrainStore) -> None:
    story.step("The robot checks gauge g2 again and changes its belief")
    old = store.query(type="belief", subject=GAUGE, limit=1).results[0].grain
    before = old.blob
    new = store.supersede(old.address, _after(old, confidence=0.99))
    answer = store.query(type="belief", subject=GAUGE)
    current = [hit.address for hit in answer.results]
    story.check(
        "the new belief is current, the old one is not",
        new in current and old.address not in current,
    )
    story.check("no byte of the old one changed", store.get(old.address).blob == before)
    versions = [grain.address for grain in store.history(new)]
    story.check("its history has both", versions[-2:] == [old.address, new])
    then = store.query(type="belief", subject=GAUGE, known_at=old["created_at"])
    story.check(
        "a known_at query returns the old one",
        old.address in {hit.address for hit in then.results},
    )


def _refuse(story: Story, store: GrainStore) -> None:
    story.step("A locked rule")
    rule = og.Belief(
        subject="robot",
        relation="mg:prohibits",
        object="entering the lab at night",
        invalidation_policy={"mode": "locked"},
    )
    address = store.put(rule)
    refused = [
        refusal(lambda: store.supersede(address, _after(rule, object="nothing"))),
        refusal(lambda: store.retract(address)),
        refusal(lambda: store.delete(address)),
    ]
    story.say(f"Superseding, retracting, deleting: {', '.join(refused)}.")
    story.check("all three are refused", refused == ["ERR_INVALIDATION_DENIED"] * 3)


def _search(story: Story, store: GrainStore) -> None:
    story.step("Search by words")
    start = time.perf_counter()
    found = store.search("+lab night", limit=3).results
    for hit in found:
        story.say(f"{hit.score:.2f}  {hit.snippet}")
    story.say(f"All grains indexed and searched {since(start)}.")
    story.check("the rule comes first", found[0].grain["relation"] == "mg:prohibits")


def _delete_and_compact(story: Story, store: GrainStore, directory: Path) -> None:
    story.step("Delete a grain, and compact the store")
    address = store.put(og.Event(content=SECRET))
    there = _found(directory, SECRET)
    store.delete(address, reason="it should not be kept")
    report = store.maintenance.compact()
    story.say(f"{report.before} bytes before, {report.after} after.")
    story.check(
        "its words were in the files, and no file has them now",
        there and not _found(directory, SECRET),
    )


def _audit(story: Story, store: GrainStore) -> None:
    story.step("Audit trail")
    *_, last = store.audit.entries()
    done = [entry.operation for entry in store.audit.entries() if entry.actor == "demo"]
    story.say(f"By the demo: {', '.join(done)}.")
    story.check(
        "the audit trail lists it", done == ["supersede", "put", "put", "delete", "compact"]
    )
    report = store.audit.verify()
    story.check(f"{last.number} entries, chained by their hashes, are verified", report.ok)
    story.check("the store has no problems", store.maintenance.check().ok)


def tell_trust(story: Story, directory: Path, beside: Path) -> None:
    """Encrypt, sign, disclose and erase grains of the store in a directory; files go beside it."""
    people, keys, master = beside / "people.omsg", beside / "people.keys", beside / "master.key"
    story.step("A key file for people, under a master key")
    make_master(master)
    with og.open(directory, readonly=True) as source:
        readings = source.query(subject="Seattle", order="oldest", limit=READINGS).results
        belief = source.query(type="belief", subject=GAUGE, limit=1).results[0].grain
    with KeyRing.create(keys, master=master) as ring:
        with og.open(people, keys=ring, actor="demo") as store:
            mine = _seal(story, store, [hit.grain for hit in readings])
            _observe(story, people, beside)
            _sign_and_disclose(story, store, belief)
            _erase_person(story, store, ring, mine, beside)


def _seal(story: Story, store: GrainStore, readings: list[Grain]) -> dict[str, list[str]]:
    """Encrypt readings of both people and a note of one; return the addresses of each."""
    mine: dict[str, list[str]] = {}
    start = time.perf_counter()
    for n, who in enumerate((MIRA, JONAS)):
        grains = [{**grain.to_dict(), "user_id": who} for grain in readings[n::2]]
        report = store.put_many(grains)
        mine[who] = [address for address in report.addresses if address is not None]
    note = {
        "type": "belief",
        "subject": "garden",
        "relation": "mg:knows",
        "object": NOTE,
        "confidence": 1.0,
        "created_at": readings[0]["created_at"],
        "user_id": MIRA,
    }
    mine[MIRA].append(store.put(note))
    sealed = sum(map(len, mine.values()))
    story.say(
        f"{sealed} grains of two people encrypted, each under the person's key, {since(start)}."
    )
    page = store.query(user_id=MIRA, limit=10 * READINGS)
    found = {hit.address for hit in page.results}
    story.check("with the keys, a query for Mira finds exactly her grains", found == {*mine[MIRA]})
    hits = store.query(user_id=MIRA, words="barrel rain").results
    story.check("a query by words finds the note", [hit.grain["object"] for hit in hits] == [NOTE])
    return mine


def _observe(story: Story, people: Path, beside: Path) -> None:
    story.step("Read the store without the keys")
    with og.open(people, readonly=True) as store:
        grains = list(store)
        found = store.query(user_id=MIRA).results
    story.say(f"{len(grains)} addresses, types and lengths, such as {grains[0]!r}.")
    story.check(
        "no grain shows more than its header", all(g.sealed and not len(g) for g in grains)
    )
    story.check("a query by name finds nothing", not found)
    story.check(
        "no file contains a name or a word of the note", not _found(beside, MIRA, JONAS, NOTE)
    )


def _sign_and_disclose(story: Story, store: GrainStore, belief: Grain) -> None:
    story.step("Sign a belief, and show it without its author")
    robot = crypto.Ed25519Signer.generate()
    address = store.sign(store.put(belief.blob), robot)
    envelope = store.trust.envelope(address)
    grain = crypto.verify_signed(envelope)
    (signature,) = store.trust.signatures(address)
    story.say(f"Signed by {signature.signer}.")
    story.check(
        "its signature is valid and names the signer",
        signature.proven and signature.signer == robot.did and grain.address == address,
    )
    flipped = envelope[:-1] + bytes([envelope[-1] ^ 1])
    code = refusal(lambda: crypto.verify_signed(flipped))
    story.check("one bit of it flipped: ERR_SIGNATURE", code == "ERR_SIGNATURE")
    view = disclose(grain, ["author_did", "derived_from"])
    shown = check_disclosure(view.blob, envelope=envelope)
    story.say(f"Shown: {', '.join(view)}.")
    story.check(
        "the view hides both, and the envelope proves it",
        "author_did" not in view and shown.verified and shown.proof is not None,
    )


def _erase_person(
    story: Story, store: GrainStore, ring: KeyRing, mine: dict[str, list[str]], beside: Path
) -> None:
    story.step("Erase a person")
    did = crypto.Ed25519Signer.generate().did
    clear = og.Belief(
        subject="Seattle", relation="has", object="wet steps in the yard", author_did=did
    )
    store.put(clear)
    before = {address: store.get(address).blob for address in mine[JONAS]}
    hers = store.get(mine[MIRA][0]).blob
    there = _found(beside, did)
    start = time.perf_counter()
    report = store.privacy.erase([MIRA, did], reason_code="gdpr17", scrub="now")
    story.say(
        f"{report.keys} key destroyed, {report.sealed} encrypted grains made "
        f"unreadable, {report.erased} unencrypted grain removed, "
        f"the files rewritten {since(start)}."
    )
    whole = report.complete and report.sealed == len(mine[MIRA]) and report.erased == 1
    story.check("the erasure is complete", whole and ring.of_user(MIRA) is None)
    gone = not _found(beside, MIRA, did, NOTE, "wet steps in the yard")
    story.check("the unencrypted text was in the files, and no file has it now", there and gone)
    story.check(
        "her grains cannot be read", refusal(lambda: store.get(mine[MIRA][0])) == "ERR_ERASED"
    )
    after = {address: store.get(address).blob for address in mine[JONAS]}
    story.check(f"all {len(after)} grains of the other person are unchanged", before == after)
    story.check(
        "an import of erased grains is refused: ERR_ERASED",
        {refusal(lambda: store.put(hers)), refusal(lambda: store.put(clear))} == {"ERR_ERASED"},
    )
    story.check("the store has no problems after it", store.maintenance.check().ok)


def _found(directory: Path, *texts: str) -> bool:
    """Whether a file below a directory contains one of the texts."""
    data = [path.read_bytes() for path in directory.rglob("*") if path.is_file()]
    return any(text.encode() in one for text in texts for one in data)


def tell_formats(story: Story, data: Path, beside: Path) -> None:
    """Import, export, sign and erase the bundle in a directory; new files go beside it."""
    story.step(f"An AIMEM bundle: the memory of one tenant, {data / BUNDLE}")
    given = (data / BUNDLE).read_bytes()
    document = json.loads(given)
    read = bundles.read_bundle(given)
    story.say(f"{sum(map(len, read.records.values()))} records, {document['checksum'][:23]}...")
    _without_store(story, given, document)
    with og.open(beside / "brain.omsg", actor="demo") as store:
        _import_bundle(story, store, read, document)
        _sign_bundle(story, store, document["tenant_id"])
        _erase_tenant(story, store, read, document["tenant_id"])


def _without_store(story: Story, given: bytes, document: dict[str, Any]) -> None:
    back = formats.dump(formats.load(given), format="aimem", embeddings=True)
    same = json.loads(back.data) == document
    story.check("a round trip through grains keeps the bundle and its checksum", same)
    changed = given.replace(b"24 beds", b"25 beds").replace(b'"fact"', b'"opinion"')
    try:
        formats.load(changed)
        rules: list[str] = []
    except DocumentError as error:
        rules = [problem.rule for problem in error.problems]
    story.say(f"With two words changed: {', '.join(rules)}.")
    story.check(
        "a changed bundle is refused, with all its problems",
        {*rules} == {"checksum_mismatch", "hash_mismatch", "invalid_memory_type"},
    )


def _import_bundle(story: Story, store: GrainStore, read: Any, document: dict[str, Any]) -> None:
    tenant = document["tenant_id"]
    start = time.perf_counter()
    summary = import_bundle(store, read)
    count = len(document["chunks"])
    story.say(f"{summary.count('chunk', 'inserted')} chunks imported {since(start)}.")
    again = import_bundle(store, read)
    story.check("a second import changes nothing", again.count("chunk", "unchanged") == count)
    found = store.query(origin=PUMP, user_id=tenant).results
    says = [hit.grain["object"] for hit in found]
    story.check("a chunk is found by its URN", says == [document["chunks"][3]["content"]])
    (out,) = export_bundle(
        store, tenant, producer="robot-7", include_embeddings=True, embedding_model=MODEL
    )
    exported = out.to_dict()
    same = all(_sorted(exported[name]) == _sorted(document[name]) for name in ("chunks", "edges"))
    story.check("the export equals the import, character by character and float by float", same)
    newer = [
        chunk | {"content": "Otherwise.", "created_at": "2026-07-01T00:00:00Z"}
        for chunk in document["chunks"][3:7:3]  # a pitfall and an episode
    ]
    for chunk in newer:
        del chunk["content_hash"]
    later = import_bundle(store, Bundle(read.envelope, {"chunk": newer}))
    reasons = [one.decision.reason for one in later.conflicts]
    story.check(
        "a newer episode supersedes the old one, a newer pitfall does not",
        later.count("chunk", "updated") == 1 and reasons == ["dna_conflict"],
    )


def _sign_bundle(story: Story, store: GrainStore, tenant: str) -> None:
    robot = Ed25519Signer.generate()
    text = signature.canonical(bundles.write_bundle(export_bundle(store, tenant)[0]))
    made = signature.sign_bundle(text, robot)
    known = Trust(tuple(loads_public(dumps_public(robot.public_key))))
    proof = check(made, text, known)
    story.check("its signature is valid", proof is not None and proof.signer == robot.did)
    try:
        check(made, text.replace(b"Ada", b"Eve"), known)
        rule = None
    except SignatureError as error:
        rule = error.rule
    story.check(
        "it is not valid for another bundle: signature_invalid", rule == "signature_invalid"
    )


def _erase_tenant(story: Story, store: GrainStore, read: Any, tenant: str) -> None:
    report = erase_tenant(store, tenant, reason_code="gdpr17")
    story.say(f"The tenant erased: {report.erased} grains removed.")
    (out,) = export_bundle(store, tenant)
    empty = not any(out.records.values())
    story.check("the export of the tenant is empty", empty and report.complete)
    back = import_bundle(store, read)
    kept_out = back.total_conflicts == sum(map(len, read.records.values()))
    reasons = {one.decision.reason for one in back.conflicts}
    story.check("a later import skips erased records: erased", kept_out and reasons == {"erased"})


def _sorted(records: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(record, sort_keys=True) for record in records)
