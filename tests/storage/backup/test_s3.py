# SPDX-License-Identifier: Apache-2.0
"""Backups to a server that checks keys and signatures as S3 does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.store import GrainStore
from support.backup_places import addresses, filled, reading
from support.servers.s3 import BUCKET, keys_in, s3

pytestmark = pytest.mark.services
PLACE = f"s3://{BUCKET}/lidar"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What a client of a running server has in its environment."""
    found, keys = s3(tmp_path_factory.mktemp("s3"))
    with found:
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{found.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": keys_in(keys).id,
            "AWS_SECRET_ACCESS_KEY": keys_in(keys).secret,
        }


@pytest.fixture(autouse=True)
def settings(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GrainStore]:
    with filled(tmp_path / "m.omsg", 200) as store:
        yield store


def test_backups_restore_and_prune(store: GrainStore, tmp_path: Path) -> None:
    store.put_many([reading(n, note="x" * 60_000) for n in range(1_000, 1_110)])
    first = store.maintenance.backup_to(PLACE)
    old = [grain.address for grain in store]
    store.put_many([reading(n) for n in range(2_000, 2_100)])
    store.delete(old[0], reason="wrong")
    assert store.maintenance.backup_to(PLACE).sent > 0
    assert store.maintenance.backup_to(PLACE).sent == 0
    og.restore(PLACE, tmp_path / "new.omsg")
    assert addresses(tmp_path / "new.omsg") == [grain.address for grain in store]
    og.restore(PLACE, tmp_path / "old.omsg", at=first.backup.created_at)
    assert addresses(tmp_path / "old.omsg") == old
    report = og.BackupRepository(PLACE).prune(keep_last=1)
    assert len(report.removed) == 2 and report.parts > 0
    og.restore(PLACE, tmp_path / "again.omsg")
    assert addresses(tmp_path / "again.omsg") == addresses(tmp_path / "new.omsg")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId"),
    ],
)
def test_wrong_keys(
    store: GrainStore, monkeypatch: pytest.MonkeyPatch, name: str, found: str
) -> None:
    monkeypatch.setenv(name, secret := "hunter2")
    with pytest.raises(StoreError) as refused:
        store.maintenance.backup_to(PLACE)
    assert refused.value.found == f"status 403 {found}"
    assert secret not in repr(refused.value.to_dict())


def test_a_bucket_that_is_not_there(store: GrainStore) -> None:
    with pytest.raises(StoreError) as refused:
        store.maintenance.backup_to("s3://no-such-bucket/lidar")
    assert refused.value.found == "status 404 NoSuchBucket"
