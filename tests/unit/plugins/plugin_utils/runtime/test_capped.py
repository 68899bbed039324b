# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of a long stream beginning and end are kept in whole lines, and how much is left out is said."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import Capped, left_out_of

LINES = [f"line {number:04}\n".encode() for number in range(1000)]


def read(content: bytes, limit: int, piece: int) -> str:
    kept = Capped(limit)
    for start in range(0, len(content), piece):
        kept.add(content[start : start + piece])
    return kept.content().decode()


@pytest.mark.parametrize("piece", [1, 7, 4096, 1 << 20])
def test_a_short_log_is_whole(piece: int) -> None:
    content = b"".join(LINES)
    assert read(content, len(content), piece).encode() == content
    assert not left_out_of(read(content, len(content), piece))


@pytest.mark.parametrize("piece", [1, 7, 4096, 1 << 20])
def test_a_long_log_loses_its_middle_and_says_so(piece: int) -> None:
    content = b"".join(LINES)
    kept = read(content, 995, piece)
    first, mark, last = re.split(r"(\[gpufleet: .*\]\n)", kept)
    assert content.startswith(first.encode())
    assert content.endswith(last.encode())
    assert all(re.fullmatch(r"line \d{4}", line) for line in (first + last).splitlines())
    missing = len(content) - len(first) - len(last)
    assert f"{missing} bytes" in mark
    assert left_out_of(kept).startswith(f"{missing} bytes")
    assert len(first) + len(last) <= 995


def test_a_line_without_end_does_not_grow_in_memory() -> None:
    kept = Capped(1000)
    for _time in range(1000):
        kept.add(b"x" * 4096)
    assert len(kept.content()) < 1100
    assert left_out_of(kept.content().decode())
