# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of what is there: criteria that a snapshot or the cluster says, and flags that overrule them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from gpufleet_command import Command
from snapshot_api import PagedApi, cluster_of, everything, node

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import cluster as kube
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot_place import write_snapshot
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot import app as taking
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError


def nobody() -> Cluster:
    raise AssertionError("no cluster is needed")


@pytest.fixture
def api() -> PagedApi:
    """A cluster of two H100 nodes on EKS."""
    found = everything([node("gpu01"), node("gpu02")], [])
    found.objects["/version"] = {**found.objects["/version"], "gitVersion": "v1.34.1-eks-113cf36"}
    return found


@pytest.fixture
def file(api: PagedApi, tmp_path: Path) -> Path:
    """A snapshot of it."""
    place = tmp_path / "snapshot.json"
    write_snapshot(collect_cluster(cluster_of(api), "gpufleet.bringup 0.0.0"), str(place), nobody)
    return place


@pytest.fixture
def asked(api: PagedApi, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What connections were made to the cluster, which answers in place of a socket."""
    connections: list[Any] = []

    class Answering(Cluster):
        def __init__(self, connection: Any, **_how: Any) -> None:
            connections.append(connection)
            self.transport = cluster_of(api).transport

    monkeypatch.setattr(kube, "Cluster", Answering)
    monkeypatch.setattr(taking, "Cluster", Answering)
    return connections


def criteria(text: str) -> dict[str, str]:
    return {name: value for name, value in yaml.safe_load(text)["criteria"].items() if value != "any"}


def test_what_is_not_given_is_detected_and_said_with_its_evidence(gpufleet: Command, file: Path) -> None:
    ended = gpufleet("recipe", "--snapshot", str(file), "--intent", "training")
    assert ended.code == 0, ended.err
    found = criteria(ended.out)
    assert (found["service"], found["accelerator"], found["os"], found["intent"]) == (
        "eks",
        "h100",
        "ubuntu",
        "training",
    )
    told = ended.err.splitlines()
    assert any(line.startswith("gpufleet: accelerator: h100 (node gpu01: gpu_product is NVIDIA-H100") for line in told)
    assert "gpufleet: intent: training (stated)" in told
    assert any(line.startswith("gpufleet: not detected: ") and "platform" in line for line in told)


def test_a_flag_wins_and_what_it_overrules_is_said(gpufleet: Command, file: Path) -> None:
    ended = gpufleet("query", "criteria.accelerator", "--snapshot", str(file), "--accelerator", "a100")
    assert (ended.code, ended.out) == (0, "a100\n"), ended.err
    assert "warning: criteria accelerator: a100 is stated and counts; the cluster says h100" in ended.err
    assert "accelerator: a100 (stated; detected: h100, " in ended.err


def test_the_cluster_itself_and_a_config_map_are_read(
    gpufleet: Command, api: PagedApi, asked: list[Any], file: Path
) -> None:
    live = gpufleet("recipe", "--snapshot", "cluster", "--intent", "training", "--context", "site-a")
    assert (live.code, criteria(live.out)["accelerator"]) == (0, "h100"), live.err
    # Nobody's secrets are read for it: Helm keeps its releases in them.
    assert not [path for path in api.pages if "secrets" in path]
    snapshot = collect_cluster(cluster_of(api), "gpufleet.bringup 0.0.0")
    write_snapshot(snapshot, "cm://ops/accepted", lambda: cluster_of(api))
    kept = gpufleet("recipe", "--snapshot", "cm://ops/accepted", "--intent", "training")
    assert criteria(kept.out) == criteria(live.out)
    assert len(asked) == 2


def test_a_cluster_whose_nodes_cannot_be_read_gives_no_recipe(
    gpufleet: Command, api: PagedApi, asked: list[Any]
) -> None:
    api.refused["/api/v1/nodes"] = UnavailableError("Kubernetes API", "forbidden: nodes.")
    ended = gpufleet("recipe", "--snapshot", "cluster", "--service", "eks", "--accelerator", "h100")
    assert (ended.code, ended.out) == (8, "")
    assert "nodes of the cluster" in ended.err
    assert asked


@pytest.mark.parametrize(
    ("place", "code", "words"),
    [
        ("nowhere.json", 3, "nowhere.json"),
        ("http://example.org/s.json", 2, "is not https"),
        ("cm://ops", 2, "write cm://namespace/name"),
    ],
)
def test_a_place_without_a_snapshot_is_refused(gpufleet: Command, place: str, code: int, words: str) -> None:
    ended = gpufleet("recipe", "--snapshot", place, "--service", "eks")
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err


def test_a_difference_says_what_was_detected_once(gpufleet: Command, file: Path) -> None:
    ended = gpufleet("diff", "intent=training", "intent=inference", "--snapshot", str(file))
    assert ended.code == 0
    assert ended.err.count("gpufleet: accelerator: h100") == 1
