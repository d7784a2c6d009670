# SPDX-License-Identifier: Apache-2.0
"""The demo's last part: sealed for two people, signed, shown in part, and one of them erased."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from omsgrain.cli.story import Story, since

if TYPE_CHECKING:
    from omsgrain import Grain, GrainStore
    from omsgrain.crypto.keyring.keyring import KeyRing

#: Both are invented, and so is what they note; the readings that they keep are NOAA's.
MIRA, JONAS = "mira.quill@example.org", "jonas.tarn@example.org"
NOTE = "the spare key hangs behind the rain barrel"
READINGS = 600
GAUGE = "gauge g2"


def tell(story: Story, directory: Path, beside: Path) -> None:
    """Tell it, with readings and beliefs of the store in a directory; all else goes beside."""
    import omsgrain as og
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.ops import rings

    people, keys, master = beside / "people.omsg", beside / "people.keys", beside / "master.key"
    story.step("A key file for people, under a master key")
    rings.make_master(master)
    with og.open(directory, readonly=True) as source:
        readings = source.query(subject="Seattle", order="oldest", limit=READINGS).results
        belief = source.query(type="belief", subject=GAUGE, limit=1).results[0].grain
    with KeyRing.create(keys, master=master) as ring:
        with og.open(people, keys=ring, actor="demo") as store:
            mine = _seal(story, store, [hit.grain for hit in readings])
            _observe(story, people, beside)
            _sign(story, store, belief)
            _erase(story, store, ring, mine, beside)


def _seal(story: Story, store: GrainStore, readings: list[Grain]) -> dict[str, list[str]]:
    """Seal readings for both, and a note of one; gives the addresses of each."""
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
        f"{sealed} grains of two people sealed, each under the key of its own {since(start)}."
    )
    page = store.query(user_id=MIRA, limit=10 * READINGS)
    found = {hit.content_address for hit in page.results}
    story.check("with the keys, a query by the person finds exactly hers", found == {*mine[MIRA]})
    hits = store.query(user_id=MIRA, words="barrel rain").results
    story.check("and one by words the note", [hit.grain["object"] for hit in hits] == [NOTE])
    return mine


def _observe(story: Story, people: Path, beside: Path) -> None:
    import omsgrain as og

    story.step("What is seen without the keys")
    with og.open(people, readonly=True) as store:
        grains = list(store)
        found = store.query(user_id=MIRA).results
    story.say(f"{len(grains)} addresses, types and lengths, such as {grains[0]!r}.")
    story.check(
        "no grain shows more than its header", all(g.sealed and not len(g) for g in grains)
    )
    story.check("nothing is found by a name", not found)
    story.check(
        "no file holds a name or a word of the note", not _found(beside, MIRA, JONAS, NOTE)
    )


def _sign(story: Story, store: GrainStore, belief: Grain) -> None:
    import omsgrain as og
    from omsgrain import crypto
    from omsgrain.crypto.disclosure import check_disclosure, disclose

    story.step("Sign a belief, and show it without its author")
    robot = crypto.Ed25519Signer.generate()
    address = store.sign(store.put(belief.blob), robot)
    envelope = store.envelope(address)
    grain = crypto.verify_signed(envelope)
    (signature,) = store.signatures(address)
    story.say(f"Signed by {signature.signer}.")
    story.check(
        "its signature holds, and names the signer",
        signature.proven and signature.signer == robot.did and grain.address == address,
    )
    flipped = envelope[:-1] + bytes([envelope[-1] ^ 1])
    try:
        crypto.verify_signed(flipped)
        code = "nothing"
    except og.errors.OmsError as error:
        code = error.code
    story.check("one bit of it flipped: ERR_SIGNATURE", code == "ERR_SIGNATURE")
    view = disclose(grain, ["author_did", "derived_from"])
    shown = check_disclosure(view.blob, envelope=envelope)
    story.say(f"Shown: {', '.join(view)}.")
    story.check(
        "the view hides both, and the envelope proves it",
        "author_did" not in view and shown.verified and shown.proof is not None,
    )


def _erase(
    story: Story, store: GrainStore, ring: KeyRing, mine: dict[str, list[str]], beside: Path
) -> None:
    import omsgrain as og
    from omsgrain import crypto

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
    report = store.erase_subject([MIRA, did], reason_code="gdpr17", scrub="now")
    story.say(
        f"{report.keys} key destroyed, {report.sealed} sealed grains that nobody can read any "
        f"more, {report.erased} in the clear removed, the files written anew {since(start)}."
    )
    whole = report.complete and report.sealed == len(mine[MIRA]) and report.erased == 1
    story.check("all of it is done", whole and ring.of_user(MIRA) is None)
    gone = not _found(beside, MIRA, did, NOTE, "wet steps in the yard")
    story.check("what stood in the clear was in the files, and is in none now", there and gone)
    story.check("her grains cannot be read", _refused(lambda: store.get(mine[MIRA][0])))
    after = {address: store.get(address).blob for address in mine[JONAS]}
    story.check(f"all {len(after)} grains of the other are what they were", before == after)
    story.check(
        "what was erased does not come back: ERR_ERASED",
        _refused(lambda: store.put(hers)) and _refused(lambda: store.put(clear)),
    )
    story.check("and the store is whole", store.check().ok)


def _refused(act: Callable[[], object]) -> bool:
    import omsgrain as og

    try:
        act()
    except og.errors.OmsError as error:
        return error.code == "ERR_ERASED"
    return False


def _found(beside: Path, *texts: str) -> bool:
    """Whether a text stands in a file of the store, or in the key file."""
    files = [beside / "people.keys", *(beside / "people.omsg").rglob("*")]
    data = [path.read_bytes() for path in files if path.is_file()]
    return any(text.encode() in one for text in texts for one in data)
