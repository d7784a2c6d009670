# SPDX-License-Identifier: Apache-2.0
"""Encrypt the memory of two people, sign and disclose a grain, and erase a person."""

from __future__ import annotations

import time
from pathlib import Path

from life import GAUGE
from story import Story, has_text, refusal, since

import omsgrain as og
from omsgrain import Grain, GrainStore, crypto
from omsgrain.crypto.disclosure import check_disclosure, disclose
from omsgrain.crypto.keyring.keyring import KeyRing
from omsgrain.crypto.master_key import make_master

# Both people and their notes are invented; the readings are from NOAA.
MIRA, JONAS = "mira.quill@example.org", "jonas.tarn@example.org"
NOTE = "the spare key hangs behind the rain barrel"
READINGS = 600


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
        "no file contains a name or a word of the note", not has_text(beside, MIRA, JONAS, NOTE)
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
    there = has_text(beside, did)
    start = time.perf_counter()
    report = store.privacy.erase([MIRA, did], reason_code="gdpr17", scrub="now")
    story.say(
        f"{report.keys} key destroyed, {report.sealed} encrypted grains made "
        f"unreadable, {report.erased} unencrypted grain removed, "
        f"the files rewritten {since(start)}."
    )
    whole = report.complete and report.sealed == len(mine[MIRA]) and report.erased == 1
    story.check("the erasure is complete", whole and ring.of_user(MIRA) is None)
    gone = not has_text(beside, MIRA, did, NOTE, "wet steps in the yard")
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
