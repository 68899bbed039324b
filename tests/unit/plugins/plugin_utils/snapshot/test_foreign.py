# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots as other releases of the upstream tool wrote them, under its three names, of several clouds.

Each is read, and says what it lacks. The forms are public; every file in tests/data/foreign_snapshots names its source.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.model import Constraint, ConstraintStatus
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.decode import (
    from_data,
    parse_snapshot,
    to_text,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.difference import drift_between
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.measure import evaluate_in, gpu_nodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import Collected, Snapshot

PLACE = Path(__file__).resolve().parents[4] / "data" / "foreign_snapshots"
FILES = sorted(PLACE.glob("*.yaml"))
NODE = "worker-7.example"


def read(name: str) -> Snapshot:
    return parse_snapshot((PLACE / f"{name}.yaml").read_text(encoding="utf-8"), name)


def status(seen: Snapshot, name: str, value: str) -> ConstraintStatus:
    return evaluate_in(Constraint(name=name, value=value), seen, (NODE,)).status


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_read_whole_or_says_what_it_lacks(path: Path) -> None:
    seen = read(path.stem)
    assert seen.taken and seen.server.version and seen.images
    assert list(seen.hosts) == [NODE]
    host = seen.hosts[NODE]
    assert host.kernel and host.units["containerd.service"]["ActiveState"] == "active" and "nvidia" in host.modules
    # None of them lists labels, so none of them knows all nodes.
    assert list(seen.failed) == ["nodes"] and "NodeTopology.label" in seen.failed["nodes"].reason
    assert not drift_between(seen, seen).changes
    assert parse_snapshot(to_text(seen), "again") == seen


@pytest.mark.parametrize(
    ("name", "made_by", "provider", "product"),
    [
        ("cloud-native-stack-0.6-eks-h100", "cloud-native-stack 0.6.8", "", "NVIDIA H100 80GB HBM3"),
        ("cloud-native-stack-0.7-eks-gb200", "cloud-native-stack 0.7.8", "", "NVIDIA GB200"),
        ("cloud-native-stack-0.7-eks-h100", "cloud-native-stack 0.7.9", "aws", "NVIDIA H100 80GB HBM3"),
        ("cloud-native-stack-0.8-eks-gb200", "cloud-native-stack 0.8.12", "aws", "NVIDIA GB200"),
        ("aicr-0.3-eks-gb200", "aicr 0.3.3", "aws", "NVIDIA GB200"),
        ("aicr-0.4-openstack-b200", "aicr 0.4.0", "openstack", ""),
        ("eidos-kind-b200", "eidos dev", "kind", "NVIDIA B200"),
    ],
)
def test_who_made_it_where_and_of_which_gpus(name: str, made_by: str, provider: str, product: str) -> None:
    seen = read(name)
    assert seen.made_by == made_by
    assert [node.provider for node in seen.nodes.values()] == ([provider] if provider else [])
    assert [gpu.product for gpu in seen.hosts[NODE].gpus.values()] == ([product] if product else [])
    assert gpu_nodes(seen) == ((NODE,) if product else ())


def test_every_fixture_is_looked_at_and_names_its_source() -> None:
    assert len(FILES) == 7
    assert all("# Form: " in path.read_text(encoding="utf-8") for path in FILES)


def test_the_runtime_is_read_by_both_of_its_names() -> None:
    assert read("cloud-native-stack-0.7-eks-h100").nodes[NODE].container_runtime == "containerd://1.7.24"
    assert read("cloud-native-stack-0.8-eks-gb200").nodes[NODE].container_runtime == "containerd://1.7.27"


def test_a_node_whose_driver_was_not_asked_satisfies_nothing_about_its_gpus() -> None:
    seen = read("aicr-0.4-openstack-b200")
    for name, value in (("GPU.smi.driver", ">= 570"), ("GPU.smi.gpu-count", "== 8"), ("GPU.smi.gpu.model", "!= x")):
        assert status(seen, name, value) is ConstraintStatus.MISSING, name
    assert status(seen, "K8s.server.version", ">= 1.34") is ConstraintStatus.PASS


def test_a_part_that_a_release_had_for_itself_is_named_as_unread() -> None:
    assert read("cloud-native-stack-0.7-eks-gb200").unread == ("K8s.provider",)


FIRST: dict[str, Any] = {
    "kind": "Snapshot",
    "apiVersion": "snapshot.dgxc.io/v1",
    "metadata": {"snapshot-timestamp": "Sat, 20 Dec 2025 15:08:41 +0000", "snapshot-version": "0.4.1"},
}


@pytest.mark.parametrize(
    ("measurements", "message"),
    [
        # mchmarny/cloud-native-stack 204ef81 (0.4.1) and 045f3cc (0.5.6): other types, subtypes without names.
        ([{"type": "KMod", "data": {"nvidia": True}}, {"type": "SMI", "data": {}}], "it measures KMod, SMI"),
        ([{"type": "K8s", "subtypes": [{"data": {"version": "v1.30.14"}}]}], "subtype None is no name"),
        ([], "it measures nothing"),
    ],
)
def test_the_first_releases_are_refused_and_not_read_as_empty(measurements: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_data({**FIRST, "measurements": measurements}, "old.yaml")


def test_one_whose_hosts_nobody_read_says_so() -> None:
    server = {"type": "K8s", "subtypes": [{"subtype": "server", "data": {"version": "v1.33.0"}}]}
    seen = from_data({**FIRST, "measurements": [server]}, "old.yaml")
    assert seen.collectors["hosts"].state is Collected.FAILED
