# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose digest is another one than that of most, and when nobody can be named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.digest_majority import LEAST, majority


@pytest.mark.parametrize(
    ("digests", "minority", "split"),
    [
        ("aaaa", "", False),
        ("aaba", "2", False),
        ("abb", "0", False),
        ("aabbb", "01", False),
        # Half is no majority, and of two nobody can tell which is right.
        ("aabb", "", True),
        ("ab", "", True),
        ("abc", "", True),
        ("aa", "", False),
        ("a", "", False),
    ],
)
def test_the_minority_of_three_and_more_is_named(digests: str, minority: str, split: bool) -> None:
    found = majority({str(n): digest for n, digest in enumerate(digests)})
    assert found is not None
    assert ("".join(found.minority), found.split, found.total) == (minority, split, len(digests))


def test_nobody_says_nothing() -> None:
    assert majority({}) is None


@given(st.dictionaries(st.integers(0, 40), st.sampled_from("abc"), min_size=1))
def test_a_named_member_always_stands_against_more_than_half(digests: dict[int, str]) -> None:
    found = majority(digests)
    assert found is not None
    alike = len(set(digests.values())) == 1
    assert alike == (not found.minority and not found.split)
    if found.minority:
        assert found.agreeing * 2 > len(digests) >= LEAST and not found.split
        assert {digests[name] for name in digests if name not in found.minority} == {found.usual}
