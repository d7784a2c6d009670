# SPDX-License-Identifier: Apache-2.0
"""Backups in object storage: over a line that fails, and with settings that are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

import omsgrain as og
from omsgrain.errors import OmsError, StoreError
from omsgrain.store import GrainStore
from support.backup_places import addresses, filled, reading
from support.object_server import BUCKET, Failure, ObjectServer
from support.shell import Shell

PLACE = f"s3://{BUCKET}/lidar"
SECRET = "hunter2"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        server.used_by(monkeypatch)
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GrainStore]:
    with filled(tmp_path / "m.omsg", 300) as store:
        yield store


def parts(server: ObjectServer) -> set[str]:
    return {name for name in server.objects if "/parts/" in name}


def test_a_backup_to_object_storage(
    server: ObjectServer, store: GrainStore, tmp_path: Path
) -> None:
    first = store.maintenance.backup_to(PLACE)
    wanted = [grain.address for grain in store]
    store.put_many([reading(n) for n in range(1_000, 1_100)])
    assert store.maintenance.backup_to(PLACE).sent > 0
    assert store.maintenance.backup_to(PLACE).sent == 0
    og.restore(PLACE, tmp_path / "new.omsg")
    assert addresses(tmp_path / "new.omsg") == [grain.address for grain in store]
    og.restore(PLACE, tmp_path / "old.omsg", at=first.backup.id)
    assert addresses(tmp_path / "old.omsg") == wanted
    before = parts(server)
    assert len(og.BackupRepository(PLACE).prune(keep_last=1).removed) == 2
    assert parts(server) < before
    og.restore(PLACE, tmp_path / "again.omsg")
    assert len(addresses(tmp_path / "again.omsg")) == 400


def test_the_command_line_takes_a_bucket(
    server: ObjectServer, shell: Shell, tmp_path: Path
) -> None:
    filled(tmp_path / "m.omsg", 30).close()
    assert shell("backup", "m.omsg", "--to", PLACE, "--json") == 0
    assert shell("backups", PLACE) == 0
    assert "30 grains" in shell.out.decode()
    assert shell("restore", PLACE, "new.omsg") == 0
    assert addresses(tmp_path / "new.omsg") == addresses(tmp_path / "m.omsg")


def test_failures_that_pass_are_not_noticed(server: ObjectServer, store: GrainStore) -> None:
    server.fail_once(Failure(503, "SlowDown"), Failure(0), Failure(500, "InternalError"))
    report = store.maintenance.backup_to(PLACE)
    assert report.sent == report.parts
    assert len(server.asked) > len(set(server.asked))


def test_a_cut_upload_resumes(server: ObjectServer, store: GrainStore, tmp_path: Path) -> None:
    def cut(method: str, path: str) -> Failure | None:
        enough = method == "PUT" and len(parts(server)) == 2
        return Failure(403, "ExpiredToken") if enough else None

    server.fails = cut
    with pytest.raises(StoreError) as refused:
        store.maintenance.backup_to(PLACE)
    assert "ExpiredToken" in str(refused.value)
    assert len(parts(server)) == 2 and og.BackupRepository(PLACE).backups() == []
    server.fails = lambda method, path: None
    report = store.maintenance.backup_to(PLACE)
    assert report.sent == report.parts - 2
    og.restore(PLACE, tmp_path / "new.omsg")
    assert addresses(tmp_path / "new.omsg") == [grain.address for grain in store]


def test_a_large_part_is_one_request(server: ObjectServer, tmp_path: Path) -> None:
    """Pieces of a cut upload would stay in the bucket, where no listing shows them."""
    with og.open(tmp_path / "m.omsg") as store:
        store.put_many([reading(n, note="x" * 60_000) for n in range(110)])
        store.maintenance.backup_to(PLACE)
    assert max(map(len, server.objects.values())) > 6_000_000
    written = [path for method, path in server.asked if method == "PUT"]
    assert len(written) == len(set(written)) and not any("?" in path for path in written)


REFUSED = {
    "wrong id": (Failure(403, "InvalidAccessKeyId"), "keys that are valid"),
    "wrong secret": (Failure(403, "SignatureDoesNotMatch"), "keys that are valid"),
    "an old token": (Failure(400, "ExpiredToken"), "keys that are valid"),
    "another region": (Failure(400, "AuthorizationHeaderMalformed"), "AWS_REGION"),
    "no bucket": (Failure(404, "NoSuchBucket"), "a bucket that exists"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_error_says_what_to_mend(
    case: str, server: ObjectServer, store: GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure, expected = REFUSED[case]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    server.fails = lambda method, path: failure
    with pytest.raises(StoreError) as refused:
        store.maintenance.backup_to(PLACE)
    assert refused.value.found == f"status {failure.status} {failure.code}"
    assert expected in str(refused.value.expected)
    assert SECRET not in repr(refused.value.to_dict()) + str(refused.value)
    assert refused.value.__suppress_context__


def test_a_bucket_that_is_not_there(server: ObjectServer, store: GrainStore) -> None:
    with pytest.raises(StoreError) as refused:
        store.maintenance.backup_to("s3://no-such-bucket/lidar")
    assert refused.value.found == "status 404 NoSuchBucket"


def test_a_bucket_of_another_region(server: ObjectServer, store: GrainStore) -> None:
    server.fails = lambda method, path: Failure(301, "PermanentRedirect")
    with pytest.raises(StoreError) as refused:
        store.maintenance.backup_to(PLACE)
    assert refused.value.found == "another region"


def test_nothing_else_of_an_answer_is_repeated(server: ObjectServer, store: GrainStore) -> None:
    server.fails = lambda method, path: Failure(403, SECRET)
    with pytest.raises(StoreError) as refused:
        store.maintenance.backup_to(PLACE)
    assert refused.value.found == "status 403"
    assert SECRET not in repr(refused.value.to_dict())


def test_http_needs_to_be_allowed(
    server: ObjectServer, store: GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(StoreError) as refused:
        store.maintenance.backup_to(PLACE)
    assert "AWS_ALLOW_HTTP" in str(refused.value.expected)
    assert server.asked == []


def test_a_server_that_does_not_answer_in_time(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request has 30 seconds, or AWS_TIMEOUT."""
    from obstore.store import S3Store

    from omsgrain.storage.backup.objects import objects_at

    monkeypatch.setenv("AWS_TIMEOUT", "100ms")
    place = objects_at(S3Store(BUCKET, retry_config={"max_retries": 0}))
    over = Event()
    server.fails = lambda method, path: Failure(503) if over.wait() else None
    try:
        with pytest.raises(StoreError) as refused:
            place.put("a", b"1")
    finally:
        over.set()
    assert refused.value.found in ("no answer in time", "no connection")


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_TIMEOUT", "AWS_ALLOW_HTTP"])
def test_settings_that_are_wrong(
    server: ObjectServer, store: GrainStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, SECRET)
    with pytest.raises(OmsError) as refused:
        store.maintenance.backup_to(PLACE)
    assert SECRET not in repr(refused.value.to_dict())
