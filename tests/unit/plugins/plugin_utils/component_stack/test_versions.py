# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a version of Kubernetes says to a chart by what was read of it; of another version nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.versions import (
    FILE,
    KubernetesRange,
    Pair,
    Record,
    Support,
    Versions,
    apart,
    kubernetes_lines,
    recorded_versions,
    supported_on,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError


def record(oldest: str = "", newest: str = "", of: str = "1.15.1") -> Record:
    ends = KubernetesRange(oldest=oldest, newest=newest, source="README.md") if oldest or newest else None
    return Record(of=of, checked="2026-11-29", source="a tag", kubernetes=ends)


@pytest.mark.parametrize(
    ("oldest", "newest", "kubernetes", "support"),
    [
        ("1.24", "1.35", "v1.35.9-eks-3025e55", Support.MET),
        ("1.24", "1.35", "1.24", Support.MET),
        ("1.24", "1.35", "v1.36.0", Support.NOT_MET),
        ("1.24", "1.35", "1.23.17", Support.NOT_MET),
        ("1.24", "", "1.99", Support.MET),
        ("1.24", "", "1.23", Support.NOT_MET),
        ("", "1.35", "1.36", Support.NOT_MET),
        ("", "1.35", "1.9", Support.MET),
        ("", "", "1.35", Support.UNKNOWN),
    ],
)
def test_both_ends_count_as_minor_versions(oldest: str, newest: str, kubernetes: str, support: Support) -> None:
    assert supported_on(record(oldest, newest), "v1.15.1", kubernetes)[0] is support


@pytest.mark.parametrize("version", ["1.15.2", "1.16.0", "", "latest"])
def test_of_another_version_nothing_is_known(version: str) -> None:
    assert supported_on(record("1.24", "1.35"), version, "1.35") == (Support.UNKNOWN, "what was read is of 1.15.1")
    assert supported_on(None, version, "1.35") == (Support.UNKNOWN, "nothing was read of it")


def test_charts_that_are_not_for_a_kubernetes_are_named_in_one_line() -> None:
    recorded = Versions(components={"volcano": record("1.24", "1.35"), "nfd": record("1.24", of="0.19.0")})
    pins = {"volcano": "1.15.1", "nfd": "0.19.0", "own": "1.0.0"}
    assert kubernetes_lines(pins, "v1.36.3", recorded) == [
        "Kubernetes v1.36.3 is not what these charts are for: volcano 1.15.1 (its project supports 1.24 to 1.35)"
    ]
    assert kubernetes_lines(pins, "v1.35.3", recorded) == []
    assert kubernetes_lines({"volcano": "1.16.0"}, "v1.36.3", recorded) == []


def test_a_pair_is_apart_when_one_of_it_was_raised() -> None:
    recorded = Versions(components={"a": record(of="1.0.0"), "b": record(of="2.0.0")})
    as_read = Pair(pins=("a", "b"), why="one operator", source="charts")
    assert apart(as_read, {"a": "1.0.0", "b": "v2.0.0"}, recorded) == ""
    assert (
        apart(as_read, {"a": "1.1.0", "b": "2.0.0"}, recorded) == "a 1.1.0, b 2.0.0: they belong together, one operator"
    )
    assert apart(as_read, {"a": "1.1.0", "b": "2.1.0"}, recorded) == ""
    assert apart(as_read, {"a": "1.1.0"}, recorded) == ""
    same = Pair(pins=("a", "b"), same=True, why="one release", source="charts")
    assert apart(same, {"a": "3.0.0", "b": "v3.0.0"}, recorded) == ""
    assert apart(same, {"a": "3.0.0", "b": "3.0.1"}, recorded) == "a 3.0.0, b 3.0.1: they belong together, one release"


def test_a_private_directory_says_more_and_says_it_last(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(
        "components:\n"
        "  volcano: {of: 1.16.0, checked: 2026-12-01, source: tag, kubernetes: {newest: '1.36', source: README.md}}\n"
        "  own: {of: 1.0.0, checked: 2026-12-01, source: us}\n",
        encoding="utf-8",
    )
    found = recorded_versions([tmp_path]).components
    assert (found["volcano"].of, found["own"].of, found["nfd"]) == (
        "1.16.0",
        "1.0.0",
        recorded_versions().components["nfd"],
    )


@pytest.mark.parametrize(
    "text",
    [
        "components: {a: {of: 1.0.0, checked: 2026-12-01, source: x, kubernetes: {source: x}}}",
        "components: {a: {of: 1.0.0, checked: 2026-12-01, source: x, kubernetes: {newest: soon, source: x}}}",
        "components: {a: {of: 1.0.0, checked: last week, source: x}}",
        "components: {a: {of: 1.0.0, checkd: 2026-12-01, source: x}}",
        "components: {a: {of: 1.0.0, source: x}}",
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text + "\n", encoding="utf-8")
    with pytest.raises((InputError, ProblemsError), match=FILE):
        recorded_versions([tmp_path])
