# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots as other releases of the upstream tool wrote them, under its three names, of several clouds.

Each is read, and says what it lacks. The forms are public; every file in tests/data/foreign_snapshots names its source.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import Constraint, ConstraintStatus
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.difference import (
    Importance,
    drift_between,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.detect import detect
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import catalogue_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.formats import (
    from_data,
    parse_snapshot,
    to_text,
    to_upstream,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.measure import cluster_facts, evaluate_in
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import Collected, Snapshot, gpu_nodes

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


# NVIDIA/aicr pkg/collector/topology/topology.go, encodeTaints, of 0.11.1 and later: of a key with several effects the
# effect is in the key alone. Kubernetes itself gives both to a node that does not answer.
UNREACHABLE = "node.kubernetes.io/unreachable"
TAINTS = {f"{UNREACHABLE}.NoSchedule": "|gpu02", f"{UNREACHABLE}.NoExecute": "|gpu02", "team": "NoSchedule|a|gpu01"}


def _topology(label: dict[str, Any], taint: dict[str, Any], count: int) -> Snapshot:
    subtypes = {"summary": {"node-count": count}, "taint": taint, "label": label}
    topology = [{"subtype": name, "data": data} for name, data in subtypes.items()]
    head = {"kind": "Snapshot", "apiVersion": "aicr.nvidia.com/v1alpha1", "metadata": {"version": "v0.11.1"}}
    server = {"type": "K8s", "subtypes": [{"subtype": "server", "data": {"version": "v1.33.0"}}]}
    return from_data({**head, "measurements": [server, {"type": "NodeTopology", "subtypes": topology}]}, "up.yaml")


def test_a_taint_with_two_effects_is_read_as_upstream_writes_it_and_written_so() -> None:
    seen = _topology({"zone": "a|gpu01,gpu02"}, TAINTS, 2)
    assert not seen.failed.keys() - {"hosts", "policies"}
    assert seen.nodes["gpu02"].taints == (f"{UNREACHABLE}:NoExecute", f"{UNREACHABLE}:NoSchedule")
    assert seen.nodes["gpu01"].taints == ("team=a:NoSchedule",)
    (topology,) = (m for m in to_upstream(seen)["measurements"] if m["type"] == "NodeTopology")
    assert next(part["data"] for part in topology["subtypes"] if part["subtype"] == "taint") == TAINTS


def test_one_whose_tool_did_not_reach_the_api_server_does_not_say_that_there_are_no_nodes() -> None:
    # pkg/collector/topology/topology.go, emptyMeasurement: what it writes then.
    assert "no node in" in _topology({}, {}, 0).failed["nodes"].reason


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        ({"smi": {"driver": "570.86.16", "gpu-count": 8, "gpu.model": "NVIDIA H100 80GB HBM3"}}, 8),
        # Releases after 0.11 (pkg/collector/gpu/doc.go): the bus is asked, and nvidia-smi is not, or has no driver yet.
        ({"hardware": {"gpu-present": True, "gpu-count": 4, "driver-loaded": False, "model": "h100"}}, 4),
        ({"hardware": {"gpu-present": True, "gpu-count": 2}, "smi": {"gpu-count": 0}}, 2),
        ({"hardware": {"gpu-present": False, "gpu-count": 0}}, 0),
    ],
)
def test_all_gpus_of_the_node_are_counted_though_one_is_described(parts: dict[str, Any], count: int) -> None:
    gpus = {"type": "GPU", "subtypes": [{"subtype": name, "data": data} for name, data in parts.items()]}
    node = {"type": "K8s", "subtypes": [{"subtype": "node", "data": {"source-node": NODE, "provider-id": "aws:///x"}}]}
    labels = {"type": "NodeTopology", "subtypes": [{"subtype": "label", "data": {"zone": f"a|{NODE}"}}]}
    seen = from_data({**FIRST, "measurements": [gpus, node, labels]}, "up.yaml")
    assert not seen.unread
    assert seen.hosts[NODE].gpu_count == count and bool(gpu_nodes(seen)) == bool(count)
    if count:
        assert status(seen, "GPU.smi.gpu-count", f"== {count}") is ConstraintStatus.PASS
        assert status(seen, "GPU.smi.gpu-count", "== 1") is ConstraintStatus.FAIL
        less = {"first of 1": next(iter(seen.hosts[NODE].gpus.values()))}
        fewer = replace(seen, hosts={NODE: replace(seen.hosts[NODE], gpus=less)})
        assert drift_between(seen, fewer).changes[0].importance is Importance.CRITICAL


@pytest.mark.parametrize(
    ("parts", "accelerator"),
    [
        ({"hardware": {"gpu-present": True, "gpu-count": 8, "model": "h100"}}, "h100"),
        ({"hardware": {"gpu-present": True, "gpu-count": 4, "model": "gb200"}}, "gb200"),
        ({"hardware": {"gpu-present": True, "gpu-count": 8, "model": "rtx-pro-6000"}}, "rtx-pro-6000"),
        ({"hardware": {"gpu-present": True, "gpu-count": 8, "model": "unknown-sku"}}, ""),
        # What a driver says counts more.
        (
            {
                "hardware": {"gpu-present": True, "gpu-count": 8, "model": "h100"},
                "smi": {"gpu-count": 8, "gpu.model": "NVIDIA H200"},
            },
            "h200",
        ),
    ],
)
def test_the_word_of_the_bus_tells_the_accelerator_without_a_driver(parts: dict[str, Any], accelerator: str) -> None:
    """NVIDIA/aicr, pkg/collector/gpu/device_ids.go (findings F106)."""
    gpus = {"type": "GPU", "subtypes": [{"subtype": name, "data": data} for name, data in parts.items()]}
    node = {"type": "K8s", "subtypes": [{"subtype": "node", "data": {"source-node": NODE}}]}
    seen = from_data({**FIRST, "measurements": [gpus, node]}, "up.yaml")
    vocabulary = catalogue_of(()).vocabulary
    detection = detect(cluster_facts(seen), vocabulary, parse_criteria({}, vocabulary))
    assert [entry.value for entry in detection.findings if entry.dimension == "accelerator"] == [accelerator]
    # A word of another tool is no product: a constraint on the product is not measured by it.
    assert bool(next(iter(seen.hosts[NODE].gpus.values())).product) is ("smi" in parts)


def test_a_unit_that_was_started_again_runs_the_same_and_another_command_is_told() -> None:
    def seen(command: str, times: str) -> Snapshot:
        said = {"ExecStart": f"[[/usr/bin/containerd [{command}] false {times}]]", "TimeoutStartUSec": 90000000}
        unit = {"type": "SystemD", "subtypes": [{"subtype": "containerd.service", "data": said}]}
        return from_data({**FIRST, "measurements": [unit]}, "up.yaml")

    started = "1764981219416498 12345 0 0 2410 0 0"
    before = seen("/usr/bin/containerd", started)
    assert not drift_between(
        before, seen("/usr/bin/containerd", "1764999999416498 99 1764999999416490 98 7 1 -1")
    ).changes
    (change,) = drift_between(before, seen("/usr/bin/containerd --debug", started)).changes
    assert change.path == "host.units[containerd.service][ExecStart]" and "--debug" in change.after
