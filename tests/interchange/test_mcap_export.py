# SPDX-License-Identifier: Apache-2.0
"""Grains out as MCAP: what other libraries read, what an import takes, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcap.reader import make_reader
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

import omsgrain as og
from omsgrain.crypto import KeyRing, sign
from omsgrain.crypto.detached import sign_file, signature_path
from omsgrain.errors import FormatError, TooLargeError, UnsupportedError
from omsgrain.interchange import mcap_export
from omsgrain.interchange.bag_import import import_bag
from omsgrain.interchange.mcap_export import export_mcap
from omsgrain.interchange.mcap_grains import import_mcap, verify_mcap
from omsgrain.interchange.verify import VerifyOptions, verify_file
from support.bag_files import write_mcap
from support.minimal_grains import minimal
from support.paths import ROOT
from support.signers import ALICE, BOB

TYPES = get_typestore(Stores.ROS2_HUMBLE)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """The grains of all types, one of them superseded."""
    with og.open(tmp_path / "m.omsg") as store:
        lines = (ROOT / "examples/mission.jsonl").read_text().splitlines()
        store.put_many([json.loads(line) for line in lines])
        old = store.put(minimal("belief", subject="dock"))
        store.supersede(old, minimal("belief", subject="dock", object="taken"))
        yield store


def messages(path: Path) -> list[tuple[str, int, bytes]]:
    """All messages as the library `mcap` reads them, with checksums."""
    with path.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        return [
            (channel.topic, message.log_time, message.data)
            for _, channel, message in reader.iter_messages(log_time_order=False)
        ]


def test_the_library_reads_each_grain(store: Any, tmp_path: Path) -> None:
    written = export_mcap(store, path := tmp_path / "a.mcap")
    assert (written.grains, written.messages, written.encrypted) == (24, 24, 0)
    assert written.bytes == path.stat().st_size and written.path == path
    found = messages(path)
    for topic, time, data in found:
        said = json.loads(data)
        grain = store.get(said.pop("address"))
        assert topic == f"/omsgrain/{grain.type}" and time == grain["created_at"] * 1_000_000
        states = {name: said.pop(name, None) for name in ("superseded_by", "system_valid_to")}
        status = store.status(grain.address)
        assert states["superseded_by"] == status.superseded_by
        assert said == json.loads(grain.to_json())
    assert len(found) == len({grain.address for grain in store}) == 24


def test_messages_fit_their_schemas(store: Any, tmp_path: Path) -> None:
    export_mcap(store, path := tmp_path / "a.mcap")
    forms: dict[int, Any] = {}
    with path.open("rb") as stream:
        for schema, channel, message in make_reader(stream).iter_messages():
            assert schema is not None and schema.encoding == "jsonschema"
            assert channel.message_encoding == "json"
            if schema.id not in forms:
                form = json.loads(schema.data)
                assert form["type"] == "object" and form["properties"]["created_at"]
                jsonschema.Draft202012Validator.check_schema(form)
                forms[schema.id] = jsonschema.Draft202012Validator(form)
            forms[schema.id].validate(json.loads(message.data))


def test_an_import_gives_the_same_grains(store: Any, tmp_path: Path) -> None:
    export_mcap(store, path := tmp_path / "a.mcap")
    (report,) = verify_mcap(path)
    assert report.ok and report.verified == 24
    with og.open(tmp_path / "other.omsg") as other:
        assert import_mcap(other, path).stored == 24
        assert {one.address for one in other} == {one.address for one in store}
        for grain in store:
            assert (
                other.status(grain.address).superseded_by
                == store.status(grain.address).superseded_by
            )
        assert import_mcap(other, path).duplicates == 24


def test_filters_and_withheld_grains(store: Any, tmp_path: Path) -> None:
    beliefs = list(store.iter_query(type="belief", current=None))
    written = export_mcap(store, tmp_path / "a.mcap", type="belief")
    assert written.grains == len(beliefs)
    assert {topic for topic, _, _ in messages(tmp_path / "a.mcap")} == {"/omsgrain/belief"}
    store.privacy.restrict(beliefs[0].address, reason_code="dispute")
    assert export_mcap(store, tmp_path / "b.mcap", type="belief").withheld == {"restricted": 1}
    assert export_mcap(store, tmp_path / "c.mcap", subject="absent").grains == 0
    assert messages(tmp_path / "c.mcap") == []


@pytest.mark.parametrize("merge", [False, True])
def test_rosbags_reads_what_we_wrote(store: Any, tmp_path: Path, merge: bool) -> None:
    """Each grain is a text of ROS 2 with its JSON, beside all messages of the recording."""
    bag = write_mcap(tmp_path / "drive.mcap")
    path = tmp_path / "a.mcap"
    export_mcap(store, path, ros2=True, merge=_ros_only(bag) if merge else None)
    found: dict[str, list[bytes]] = {}
    with Reader(path) as reader:
        for connection, _, data in reader.messages():
            found.setdefault(connection.topic, []).append(bytes(data))
            if connection.topic.startswith("/omsgrain/"):
                assert connection.msgtype == "std_msgs/msg/String"
                text = getattr(TYPES.deserialize_cdr(data, connection.msgtype), "data")  # noqa: B009
                grain = store.get(json.loads(text)["address"])
                assert connection.topic == f"/omsgrain/{grain.type}"
    assert sum(len(all) for topic, all in found.items() if topic.startswith("/omsgrain/")) == 24
    assert len(found.get("/scan", [])) == (20 if merge else 0)


def _ros_only(bag: Path) -> Path:
    """The recording without the channels that rosbags refuses: it reads those of ROS 2 alone."""
    from mcap.writer import Writer

    path = bag.with_name("ros.mcap")
    with bag.open("rb") as source, path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2")
        numbers: dict[int, int] = {}
        for schema, channel, message in make_reader(source).iter_messages():
            if schema is None or schema.encoding != "ros2msg":
                continue
            if channel.id not in numbers:
                number = writer.register_schema(schema.name, schema.encoding, schema.data)
                numbers[channel.id] = writer.register_channel(channel.topic, "cdr", number)
            writer.add_message(numbers[channel.id], message.log_time, message.data,
                               message.publish_time, message.sequence)  # fmt: skip
        writer.finish()  # type: ignore[no-untyped-call]
    return path


def test_a_merged_recording_is_whole(store: Any, tmp_path: Path) -> None:
    bag = write_mcap(tmp_path / "drive.mcap")
    before = bag.read_bytes()
    written = export_mcap(store, path := tmp_path / "a.mcap", merge=bag)
    assert (written.merged, bag.read_bytes()) == (60, before)
    found = messages(path)
    assert [one for one in found if not one[0].startswith("/omsgrain/")] == messages(bag)
    with path.open("rb") as stream:
        reader = make_reader(stream)
        assert reader.get_header().profile == "ros2"
        files = {one.name: one for one in reader.iter_attachments()}
        assert sorted(files) == ["calibration.yaml", "grains.mg"]
        assert files["calibration.yaml"].data == b"k: 1\n"
        records = {one.name: one.metadata for one in reader.iter_metadata()}
        assert records["robot"] == {"name": "robot-7"} and "sha256" in records["omsgrain"]
        summary = reader.get_summary()
        assert summary is not None and summary.statistics is not None
        assert summary.statistics.message_count == len(found) == 84
    with og.open(tmp_path / "other.omsg") as other:
        assert import_mcap(other, path).stored == 24
        steps = list(import_bag(other, path))
        assert sum(step.stored for step in steps) == 40


def test_a_black_box_is_one_signed_file(store: Any, tmp_path: Path) -> None:
    """The signature covers the recording and the grains; a changed byte of either shows."""
    bag = write_mcap(tmp_path / "drive.mcap")
    export_mcap(store, path := tmp_path / "box.mcap", merge=bag)
    signature_path(path).write_bytes(sign_file(path, ALICE))
    good = verify_file(path, VerifyOptions())
    assert (good.verified, good.failures) == (24, [])
    assert [one.signer for one in good.signed] == [ALICE.did]
    data = path.read_bytes()
    for at in (200, len(data) // 2, len(data) - 400):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        assert "ERR_SIGNATURE" in {
            one.error.code for one in verify_file(path, VerifyOptions()).failures
        }
    path.write_bytes(data)
    export_mcap(store, path)  # the signature of the replaced file goes
    assert not signature_path(path).exists()


def test_a_damaged_attachment_is_found(store: Any, tmp_path: Path) -> None:
    export_mcap(store, path := tmp_path / "a.mcap")
    data = path.read_bytes()
    for at in range(20, len(data), 401):
        changed = bytearray(data)
        changed[at] ^= 4
        path.write_bytes(changed)
        found = verify_file(path, VerifyOptions())
        assert found.failures or found.verified == 24
    path.write_bytes(data[:-200])
    with og.open(tmp_path / "other.omsg") as other:
        with pytest.raises(FormatError):
            import_mcap(other, path)
        with pytest.raises(FormatError):
            import_mcap(other, write_mcap(tmp_path / "drive.mcap"))
        assert len(other) == 0
    plain = verify_file(tmp_path / "drive.mcap", VerifyOptions())
    assert (plain.verified, plain.failures) == (1, [])


def test_encrypted_and_signed_grains(tmp_path: Path) -> None:
    keys = KeyRing.create(tmp_path / "people.keys", master=os.urandom(32))
    with og.open(tmp_path / "m.omsg", keys=keys) as store:
        store.put(minimal("belief", user_id="u-9f3b77"))
        signed = sign(og.Event(content="seen", created_at=1_768_471_200_000), ALICE)
        address = store.put(signed)
        assert store.sign(address, BOB) == address
        written = export_mcap(store, path := tmp_path / "a.mcap")
    assert (written.messages, written.encrypted) == (1, 1)
    ((_, _, data),) = messages(path)
    assert json.loads(data)["address"] == address
    assert b"u-9f3b77" not in path.read_bytes()
    with og.open(tmp_path / "other.omsg") as other:
        import_mcap(other, path)
        assert len(other) == 2
        assert {one.signer for one in other.trust.signatures(address)} == {ALICE.did, BOB.did}


def test_refused_exports(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, bag = tmp_path / "a.mcap", write_mcap(tmp_path / "drive.mcap")
    (other := tmp_path / "bag.db3").write_bytes(b"SQLite format 3\0")
    with pytest.raises(UnsupportedError):
        export_mcap(store, path, merge=other)
    with pytest.raises(UnsupportedError):
        export_mcap(store, bag, merge=bag)
    export_mcap(store, first := tmp_path / "first.mcap")
    with pytest.raises(UnsupportedError):  # it has grains already
        export_mcap(store, path, merge=first)
    bag.write_bytes(bag.read_bytes()[:-100])
    with pytest.raises(FormatError):
        export_mcap(store, path, merge=bag)
    monkeypatch.setattr(mcap_export, "ATTACHED", 100)
    with pytest.raises(TooLargeError):
        export_mcap(store, path)
    names = {one.name for one in tmp_path.iterdir()}
    assert names == {"m.omsg", "drive.mcap", "bag.db3", "first.mcap"}
