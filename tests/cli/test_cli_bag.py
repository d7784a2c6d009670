# SPDX-License-Identifier: Apache-2.0
"""Recordings on the command line: ``ingest``, ``export``, ``import`` and ``verify``."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcap.writer import Writer

import omsgrain as og
from omsgrain import errors
from support.bag_files import write_mcap
from support.shell import USAGE, Shell, belief, count, lines


def test_the_report_names_every_topic(shell: Shell, tmp_path: Path) -> None:
    target, bag = tmp_path / "m.omsg", write_mcap(tmp_path / "drive.mcap")
    assert shell("ingest", target, bag, "--every", "100ms", "--topic", "/p*") == 0
    assert shell.out.decode().splitlines()[:-1] == [
        "/power (Power, json): 20 messages: 10 observed, 10 between samples; "
        "10 nulls without a field",
        "/scan (acme_msgs/msg/Scan, cdr): 20 messages: 20 left out (not among the topics)",
        "/pose (acme.Pose, flatbuffer): 20 messages: 20 left out "
        "(messages in flatbuffer are not decoded)",
        "not stored: 1 attachment: calibration.yaml",
        "not stored: 1 metadata record: robot",
    ]
    got = shell.json("ingest", target, bag, "--sample", 5, "--set", "namespace=robots:7")
    assert (got["stored"], got["duplicates"]) == (8, 0)  # another namespace, other grains
    assert [one["observed"] for one in got["bag"]["topics"]] == [4, 4, 0]
    assert got["bytes"] == bag.stat().st_size
    assert (got["bag"]["attachments"], got["bag"]["metadata"]) == (["calibration.yaml"], ["robot"])
    with og.open(target, readonly=True) as grains:
        assert len(list(grains.iter_query(namespace="robots:7"))) == 8


def test_a_mapping_and_a_directory(shell: Shell, tmp_path: Path) -> None:
    target, bag = tmp_path / "m.omsg", write_mcap(tmp_path / "drive.mcap")
    more = ("--topic", "/power", "--map", "object.v=volts", "--set", "subject=robot-7")
    assert shell.json("ingest", target, bag, bag, *more)["duplicates"] == 20
    folder = tmp_path / "rosbag2"
    folder.mkdir()
    (folder / "metadata.yaml").write_text("")
    bag.rename(folder / "rosbag2_0.mcap")
    got = shell.json("ingest", target, folder, *more)
    assert got["duplicates"] == 20
    assert [one["where"] for one in got["bag"]["differences"]] == ["metadata.yaml"]
    assert shell("ingest", target, folder, *more) == 0 and b"Warning: metadata.yaml" in shell.err
    with og.open(target, readonly=True) as grains:
        assert {grain["subject"] for grain in grains} == {"robot-7"}
        assert next(iter(grains))["object"] == {"v": 24.0}


def test_a_mapping_file_and_encrypted_grains(shell: Shell, tmp_path: Path) -> None:
    target, bag = tmp_path / "m.omsg", write_mcap(tmp_path / "drive.mcap")
    (tmp_path / "map.toml").write_text(
        'type = "observation"\n[map]\n"object.v" = "volts"\n[set]\nuser_id = "u-9f3b77"\n'
    )
    assert shell("keys", "master", tmp_path / "master.key") == 0
    keys = ("--keys", tmp_path / "people.keys", "--master", tmp_path / "master.key")
    assert shell("keys", "create", *keys[1:]) == 0
    more = ("--mapping", tmp_path / "map.toml", "--topic", "/power", *keys)
    assert shell.json("ingest", target, bag, *more)["stored"] == 20
    assert shell.json("ingest", target, bag, *more)["duplicates"] == 20
    got = shell.json("export", target, tmp_path / "box.mcap", *keys)
    assert (got["grains"], got["messages"], got["encrypted"]) == (20, 0, 20)


def test_rejects(shell: Shell, tmp_path: Path) -> None:
    target, bag = tmp_path / "m.omsg", write_mcap(tmp_path / "drive.mcap")
    bag.write_bytes(bag.read_bytes()[: bag.stat().st_size // 2])
    code, error = shell.error("ingest", target, bag)
    assert (code, error["code"]) == (errors.FormatError.exit_code, "ERR_FORMAT")
    assert error["offset"] > 0
    assert shell("ingest", target, bag) == code
    assert b"--errors collect" in shell.err and b"Run it again" not in shell.err
    code, got = shell.refused("ingest", target, bag, "--errors", "collect")
    assert (code, got["rejected"]) == (errors.FormatError.exit_code, 1) and got["stored"] > 0
    assert count(target) == got["stored"]
    assert Path(got["reject_files"][0]).read_text().count("ERR_FORMAT") == 1


@pytest.mark.parametrize("name", ["a.mcap", "a.db3"])
@pytest.mark.parametrize("data", [b"", b"\x89MC", b"no recording\n"])
def test_a_recorder_that_was_killed_early(
    shell: Shell, tmp_path: Path, name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    code, error = shell.error("ingest", tmp_path / "m.omsg", tmp_path / name)
    assert (code, error["code"]) == (errors.FormatError.exit_code, "ERR_FORMAT")
    assert b"JSON" not in shell.err


def test_errors_name_the_file_of_a_directory(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "rosbag2"
    folder.mkdir()
    (folder / "metadata.yaml").write_text("")
    bag = write_mcap(folder / "rosbag2_0.mcap").read_bytes()
    (folder / "rosbag2_1.mcap").write_bytes(bag[: len(bag) // 2])
    _, error = shell.error("ingest", tmp_path / "m.omsg", folder)
    assert error["message"].startswith("rosbag2_1.mcap: ")
    assert shell.refused("ingest", tmp_path / "n.omsg", folder, "--errors", "collect")
    (rejects,) = tmp_path.glob("*.rejects.jsonl")
    assert rejects.read_text().count("rosbag2_1.mcap: ") == 1


def test_warnings_name_the_message(shell: Shell, tmp_path: Path) -> None:
    with (tmp_path / "old.mcap").open("wb") as file:  # its clock was at 1970
        writer = Writer(file)
        writer.start("", "")
        channel = writer.register_channel("/power", "json", 0)
        writer.add_message(channel, 1_000_000_000, b'{"volts": 24}', 1_000_000_000, sequence=7)
        writer.finish()  # type: ignore[no-untyped-call]  # of mcap
    got = shell.json("ingest", tmp_path / "m.omsg", tmp_path / "old.mcap")
    (warning,) = got["first_warnings"]
    assert ": /power, message 7: created_at:" in warning


@pytest.mark.parametrize(
    "words",
    [
        ("--every", "fast"),
        ("--every", "0.1s"),
        ("--sample", "0"),
        ("--every", "1s", "--sample", "2"),
        ("--inline", "much"),
    ],
)
def test_wrong_options(shell: Shell, tmp_path: Path, words: tuple[str, ...]) -> None:
    bag = write_mcap(tmp_path / "drive.mcap")
    assert shell("ingest", tmp_path / "m.omsg", bag, *words) == USAGE
    assert not (tmp_path / "m.omsg").exists()


def test_recordings_apart_from_other_files(shell: Shell, tmp_path: Path) -> None:
    bag = write_mcap(tmp_path / "drive.mcap")
    (file := tmp_path / "a.jsonl").write_bytes(lines(belief(1)))
    for words in ((bag, file), (bag, "-"), (file, "--topic", "/a"), (tmp_path,)):
        assert shell("ingest", tmp_path / "m.omsg", *words) == USAGE
    assert shell("ingest", "--suggest", bag) == USAGE
    code, error = shell.error("ingest", tmp_path / "m.omsg", bag, "--topic", "/none")
    assert (code, error["code"]) == (errors.SchemaError.exit_code, "ERR_SCHEMA")


def test_out_and_in_again(shell: Shell, tmp_path: Path) -> None:
    target, bag = tmp_path / "m.omsg", write_mcap(tmp_path / "drive.mcap")
    assert shell("ingest", target, bag, "--sample", 4) == 0
    box = tmp_path / "box.mcap"
    assert shell("export", target, box, "--merge", bag) == 0
    size = box.stat().st_size
    assert shell.out.decode() == (
        f"10 grains, 10 messages, 60 messages of the recording, {size} bytes: {box}\n"
    )
    got = shell.json("export", target, box, "--replace", "--ros2", "--type", "observation")
    assert (got["grains"], got["messages"], got["merged"]) == (10, 10, 0)
    assert shell("export", target, box) != 0  # it exists
    assert shell("verify", box) == 0 and b"10 verified, 0 failed" in shell.out
    assert shell.json("import", tmp_path / "other.omsg", box)["stored"] == 10
    assert shell.json("import", tmp_path / "other.omsg", box, "--format", "mcap")["stored"] == 0
    assert shell("verify", bag) == 0 and b"1 verified, 0 failed" in shell.out
    code, error = shell.error("import", tmp_path / "other.omsg", bag)
    assert (code, error["code"]) == (errors.FormatError.exit_code, "ERR_FORMAT")


@pytest.mark.parametrize(
    "words",
    [
        ("box.mcap", "--codec", "zstd"),
        ("box.mcap", "--tenant", "a"),
        ("box.mcap", "--columns", "address"),
        ("box.mg", "--ros2"),
        ("box.parquet", "--merge", "m.omsg"),
        ("ada.mif.json", "--user", "ada", "--ros2"),
    ],
)
def test_options_of_other_exports(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    shell("ingest", "m.omsg", stdin=lines(belief(1)))
    assert shell("export", "m.omsg", *words) == USAGE
