# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What most have, by each of the two rules; whose digest is another one, and when no member can be named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.majority import (
    LEAST,
    majority,
    more_than_any_other,
    more_than_half,
)

# Where no result rests on which of several is taken, or on whether it is that of most.
PICKED = {
    "benchmark/network.py": "the resource that pods ask for, of those that nodes offer",
    "gpu_stack/capacity.py": "the size of nodes that a test of gangs uses",
    "inference_acceptance/inference_smoke.py": "which of different answers is printed first",
    "nodes/uniform.py": "values in the order of how many hosts have them",
    "facility/bmc_firmware_uniform.py": "the same of versions",
    "training_acceptance/observe_training.py": "which setup is printed, beside the rule",
}


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


@pytest.mark.parametrize(
    ("values", "leads", "has_half"),
    [
        ("", None, None),
        ("a", "a", "a"),
        ("aab", "a", "a"),
        # Ahead of each other one, and not of all others together.
        ("aabc", "a", None),
        ("aaabbc", "a", None),
        ("aabb", None, None),
        ("aabbc", None, None),
        ("cbbb", "b", "b"),
    ],
)
def test_most_is_one_of_two_rules(values: str, leads: str | None, has_half: str | None) -> None:
    assert (more_than_any_other(Counter(values)), more_than_half(Counter(values))) == (leads, has_half)


def test_no_check_has_a_rule_of_its_own(repository: Path) -> None:
    checks = repository / "plugins" / "plugin_utils" / "check"
    found = (path for path in checks.rglob("*.py") if "most_common(" in path.read_text(encoding="utf-8"))
    assert {str(path.relative_to(checks)) for path in found} == {*PICKED}


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
