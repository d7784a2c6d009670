# SPDX-License-Identifier: Apache-2.0
"""Temporary files give back what was written, and hold none of it."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.crypto import seal as spools
from omsgrain.crypto.seal import spool


@given(
    st.lists(st.binary(max_size=300), max_size=8),
    st.sampled_from([1, 100, 10_000]),
    st.lists(st.tuples(st.integers(0, 2_400), st.integers(0, 400)), max_size=5),
)
def test_what_was_written_is_read(
    parts: list[bytes], in_memory: int, places: list[tuple[int, int]]
) -> None:
    whole = b"".join(parts)
    with spool(in_memory) as file:
        for part in parts:
            file.write(part)
        assert file.tell() == len(whole) == file.seek(0, 2)
        file.seek(0)
        assert file.read() == whole
        for at, size in places:
            file.seek(at)
            assert file.read(size) == whole[at : at + size]
        file.seek(0)
        assert b"".join(file) == whole


def test_lines() -> None:
    with spool(1) as file:
        file.write(b"one\ntwo\nthree")
        file.seek(0)
        assert [file.readline(), file.readline(2), file.readline()] == [b"one\n", b"tw", b"o\n"]
        assert list(file) == [b"three"]


@pytest.mark.parametrize("size", [10, 200_000])
def test_the_disk_holds_ciphertext(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    made: list[Any] = []

    def watched(**options: Any) -> Any:
        made.append(tempfile.SpooledTemporaryFile(**options))
        return made[-1]

    monkeypatch.setattr(spools, "SpooledTemporaryFile", watched)
    secret = b"Ada prefers tea. " * size
    with spool(1) as file:
        file.write(secret)
        file.flush()
        (below,) = made
        below.seek(0)
        there = below.read()
        assert len(there) == len(secret)
        assert not any(secret[at : at + 8] in there for at in range(0, 160, 8))
    assert below.closed
