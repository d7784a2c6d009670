# SPDX-License-Identifier: Apache-2.0
"""Without POSIX: all that docs/operations.md does not name as missing works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from omsgrain.errors import SchemaError
from omsgrain.formats.mif_ld import directory
from support.paths import TESTS

HERE = TESTS
WORK = r"""
import sys
sys.path.insert(0, sys.argv[1])
from support import without_posix
from functools import partial
from pathlib import Path
import omsgrain as og
from omsgrain.crypto.signers import Ed25519Signer
from omsgrain.interchange.signed_files import sign_file
from omsgrain.crypto import KeyRing
from omsgrain.server import process as server_process
from omsgrain.mcp.service import Root
from omsgrain.mcp.transport import DescriptorLines
import os

said = [{"type": "belief", "subject": "lamp", "relation": "is", "object": f"brass {n}",
         "confidence": 1, "user_id": f"u-{n % 2}", "created_at": 1768471200000 + n}
        for n in range(6)]

def refused(work, code):
    try:
        work()
    except og.errors.OmsError as error:
        assert error.code == code, error
    else:
        raise AssertionError(code)

key = os.urandom(32)
for keys in (None, KeyRing.create("people.keys", master=key)):
    path = "sealed.omsg" if keys else "plain.omsg"
    for number, half in enumerate((said[:3], said[3:])):  # the second time it is there already
        with og.open(path, keys=keys) as store:
            assert store.put_many(half).stored == 3
            assert len(store.query(user_id="u-1").results) == (1, 3)[number]
            assert keys or len(store.search("brass").results) == 3 * number + 3
    with og.open(path, keys=keys, actor="ops") as store:
        assert store.maintenance.check().ok and store.audit.verify().ok
        store.maintenance.backup(f"{path}.backup")
        refused(store.maintenance.compact, "ERR_UNSUPPORTED")
        assert store.put_many(said).duplicates == 6
    og.restore(f"{path}.backup", f"{path}.restored", keys=keys)
    with og.open(path, keys=keys) as store:
        report = store.privacy.erase(["u-1"], reason_code="gdpr17")
        assert (report.erased or report.sealed, report.incomplete) == (3, ("scrub",))
        assert store.maintenance.check().ok
    if keys is None:  # what is sealed need not be removed: its key is gone
        again = partial(og.restore, f"{path}.backup", "again.omsg", tombstones_from=path)
        refused(again, "ERR_UNSUPPORTED")
        assert not Path("again.omsg").exists()
    with og.open(f"{path}.restored", keys=keys, readonly=True) as store:
        assert len(store) == 6
keys.rewrap(os.urandom(32))
keys.backup("copy.keys")
refused(lambda: keys.rekey(key), "ERR_UNSUPPORTED")

with og.open("plain.omsg") as store:
    store.export_mg("all.mg")
with og.open("other.omsg") as other:
    assert other.import_mg("all.mg").stored == 3
signer = Ed25519Signer.generate()
signer.save(Path("robot.pem"))
sign_file(Path("all.mg"), signer)
Path("root").mkdir()
root = Root(Path("root"))
root.write("a/../b.json", b"{}", field="x")
assert root.read("b.json", 10, field="x") == b"{}"
refused(lambda: root.read("../all.mg", 10, field="x"), "ERR_UNSUPPORTED")
refused(lambda: server_process.Workers(lambda: None, None), "ERR_UNSUPPORTED")
reading, writing = os.pipe()
os.write(writing, b"{}\n")
assert DescriptorLines(reading, 100).readline() == "{}\n"
from omsgrain.cli.bench import memory_used
assert (memory_used() is None) == (not Path("/proc/self/status").exists())
"""


def test_work_without_posix(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(HERE)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", ["C:/a.json", "C:a.json", "\\a.json", "..\\a.json", "a\\..\\..\\b"]
)
def test_paths_of_windows_stay_inside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(directory._inside(name)) == name  # here it is but an odd name
    monkeypatch.setattr(directory, "PurePath", PureWindowsPath)
    with pytest.raises(SchemaError):
        directory._inside(name)
    assert str(directory._inside("a/b.json")) == "a/b.json"
