# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs at work on nodes of a roll: told before a wave, never overruled when a node is given back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from lease_cluster import MemoryCluster

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.kubernetes import (
    DrainLimits,
    KubernetesNodes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.other_programs import (
    LOCK,
    Others,
    OthersPolicy,
    at_work_on,
    kureds,
    marks,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.nodes import MARK

Json = dict[str, Any]
NAMES = {"gpu01": "node-1", "gpu02": "node-2"}
PAUSED = json.dumps({"nodeID": "manual"})


def kured(lock: str = "", *args: str, image: str = "ghcr.io/kubereboot/kured:1.17.0", **metadata: Any) -> Json:
    notes = {LOCK: lock} if lock else {}
    container = {"image": image, "command": ["/usr/bin/kured"], "args": list(args)}
    return {
        "metadata": {"name": "kured", "namespace": "kube-system", "annotations": notes, **metadata},
        "spec": {"selector": {"matchLabels": {"name": "kured"}}, "template": {"spec": {"containers": [container]}}},
    }


class Site(MemoryCluster):
    """Two nodes; time passes when somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = 0.0
        for name in NAMES.values():
            self.set(name)

    def set(self, name: str, **changes: Any) -> None:
        found = self.find(NODES, name) or {"metadata": {"name": name}, "spec": {}}
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": f"boot-{name}"}}
        metadata = {**found["metadata"], **changes.pop("metadata", {})}
        body = {**found, "metadata": metadata, "spec": {**found["spec"], **changes}, "status": ready}
        self._keep(("Node", "", name), body)

    def run_kured(self, body: Json, *nodes: str) -> None:
        self._keep(("DaemonSet", "kube-system", "kured"), body)
        for node in nodes:
            meta = {"name": f"kured-{node}", "namespace": "kube-system", "labels": {"name": "kured"}}
            self._keep(("Pod", "kube-system", meta["name"]), {"metadata": meta, "spec": {"nodeName": node}})

    def nodes(self, policy: OthersPolicy = "refuse", **more: Any) -> KubernetesNodes:
        others = Others(self.api, policy, clock=lambda: self.slept, **more)
        return KubernetesNodes(self.api, "driver-580", NAMES, DrainLimits(timeout_s=60, poll_s=20), others=others)

    def later(self, seconds: float = 10) -> None:
        self.slept += seconds

    def live(self, name: str) -> Json:
        found = self.find(NODES, name)
        assert found is not None
        return found


@pytest.fixture
def site() -> Site:
    return Site()


def marked(mark: Any) -> Json:
    """Return how a node looks with that mark."""
    value = mark.values[0] if mark.values else "true"
    taints = [{"key": mark.taint, "effect": "NoSchedule"}] if mark.taint else []
    return {
        "metadata": {
            "annotations": {mark.annotation: value} if mark.annotation else {},
            "labels": {mark.label: value} if mark.label else {},
        },
        "taints": taints,
    }


@pytest.mark.parametrize("mark", marks(), ids=lambda mark: mark.annotation or mark.label or mark.taint)
def test_every_agent_is_named_spared_and_never_overruled(site: Site, mark: Any) -> None:
    assert mark.source and sum(map(bool, (mark.annotation, mark.label, mark.taint))) == 1
    nodes = site.nodes()
    site.set("node-1", **marked(mark))
    told = nodes.look(["gpu01", "gpu02"])
    assert told["gpu02"] == "" and told["gpu01"].startswith(f"{mark.agent} is at work on it (")
    assert nodes.cordon("gpu01") == told["gpu01"] and "unschedulable" not in site.live("node-1")["spec"]
    # It came while the node was ours: our mark goes, the cordon stays.
    assert nodes.cordon("gpu02") == ""
    site.set("node-2", metadata={**marked(mark)["metadata"], "annotations": {
        **marked(mark)["metadata"]["annotations"], MARK: "driver-580"}}, taints=marked(mark)["taints"])  # fmt: skip
    left = nodes.give_back("gpu02")
    assert mark.agent in left and left.endswith("so it stays cordoned")
    assert site.live("node-2")["spec"]["unschedulable"] is True
    assert MARK not in site.live("node-2")["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}, {}),
        ({"nvidia.com/gpu-driver-upgrade-state": "upgrade-required"}, {}),
        ({"dgxc.nvidia.com/nvsentinel-state": "remediation-succeeded"}, {}),
        ({}, {"machineconfiguration.openshift.io/state": "Done"}),
        ({"nvidia.com/gpu.present": "true"}, {"weave.works/kured-most-recent-reboot-needed": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_node_on_which_nobody_is_at_work_is_taken(labels: Json, annotations: Json) -> None:
    taint = {"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}
    node = {"metadata": {"name": "a", "labels": labels, "annotations": annotations}, "spec": {"taints": [taint]}}
    assert at_work_on(node) == ""


def test_an_upgrade_that_the_roll_asked_for_is_its_own(site: Site) -> None:
    site.set("node-1", metadata={"labels": {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}})
    assert "GPU operator" in site.nodes().look(["gpu01"])["gpu01"]
    assert site.nodes(own_upgrade=True).look(["gpu01"])["gpu01"] == ""


def test_who_cordoned_a_node_is_named_beside_the_cordon(site: Site) -> None:
    site.set("node-1", unschedulable=True, metadata={"annotations": {"quarantineHealthEvent": "{}"}})
    told = site.nodes().look(["gpu01"])["gpu01"]
    assert told == "cordoned by somebody else; NVSentinel is at work on it (annotation quarantineHealthEvent)"


def test_kured_that_is_not_paused_may_reboot_its_nodes_and_only_these(site: Site) -> None:
    """A driver's package leaves /run/reboot-required behind, and kured would reboot the node in its change."""
    site.run_kured(kured(), "node-1")
    nodes = site.nodes()
    problem = nodes.cordon("gpu01")
    assert problem.startswith("kured (DaemonSet kube-system/kured) may reboot it, its lock is free; pause it")
    assert f'kubectl -n kube-system annotate --overwrite daemonset kured {LOCK}=\'{{"nodeID":"gpufleet"}}\'' in problem
    assert nodes.cordon("gpu02") == ""
    assert site.nodes("allow").cordon("gpu01") == ""
    site.run_kured(kured(PAUSED))
    site.later()
    assert site.nodes().cordon("gpu01") == ""


def test_kured_that_holds_its_lock_for_a_node_is_at_work_on_it(site: Site) -> None:
    lock = {
        "nodeID": "node-1",
        "metadata": {"unschedulable": False},
        "created": "2026-11-26T10:00:00.123456789Z",
        "TTL": 0,
    }
    site.run_kured(kured(json.dumps(lock)), "node-1", "node-2")
    told = site.nodes("allow").look(["gpu01", "gpu02"])
    assert told["gpu01"] == f"kured (DaemonSet kube-system/kured) holds its lock for it (annotation {LOCK})"
    assert told["gpu02"] == ""
    assert "its lock is held by node-1" in site.nodes().look(["gpu02"])["gpu02"]
    site.run_kured(kured(PAUSED))
    nodes = site.nodes()
    assert nodes.cordon("gpu01") == ""
    site.run_kured(kured(json.dumps(lock)))
    site.later()
    assert "so it stays cordoned" in nodes.give_back("gpu01") and site.live("node-1")["spec"]["unschedulable"]


def test_a_kured_whose_pods_cannot_be_told_may_be_on_every_node(site: Site) -> None:
    site.run_kured(kured(), "node-7")
    assert site.nodes().look(["gpu01"])["gpu01"] == ""
    body = kured()
    del body["spec"]["selector"]
    site.run_kured(body)
    assert "may reboot it" in site.nodes().look(["gpu01"])["gpu01"]


def test_cycles_look_at_marks_alone_and_leave_the_nodes_of_others_cordoned(site: Site) -> None:
    site.run_kured(kured(), "node-1", "node-2")
    nodes = site.nodes("allow", locks=False)
    assert nodes.cordon("gpu01") == "" and nodes.give_back("gpu01") == ""
    assert nodes.cordon("gpu01") == ""
    site.set("node-1", metadata={"annotations": {"quarantineHealthEvent": "{}", MARK: "driver-580"}})
    assert nodes.give_back("gpu01").startswith("NVSentinel is at work on it")
    assert site.live("node-1")["spec"]["unschedulable"] is True


def test_waiting_ends_when_the_other_is_done_and_at_the_time_limit(site: Site) -> None:
    site.set("node-1", metadata={"annotations": {"weave.works/kured-reboot-in-progress": "2026"}})

    def done(seconds: float) -> None:
        site.later(seconds)
        site.set("node-1", metadata={"annotations": {}})

    site.nodes().await_others(["gpu01"], sleep=done)
    assert site.slept == 0, "refuse does not wait"
    site.nodes("wait").await_others(["gpu01", "gpu02"], sleep=done)
    assert site.slept == 20 and site.nodes("wait").cordon("gpu01") == ""


def test_boot_ids_are_those_of_the_kubelet(site: Site) -> None:
    site.objects["Node", "", "node-2"]["status"] = {}
    assert site.nodes().boots(["gpu01", "gpu02"]) == {"gpu01": "boot-node-1"}


NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
HELD = {"nodeID": "node-1", "created": "2026-11-26T11:00:00Z"}


@pytest.mark.parametrize(
    ("lock", "args", "holders", "free"),
    [
        ("", (), (), True), (PAUSED, (), ("manual",), False), (json.dumps({**HELD, "TTL": 0}), (), ("node-1",), True),
        (json.dumps({**HELD, "TTL": 1800 * 10**9}), (), (), True),
        (json.dumps({**HELD, "TTL": 7200 * 10**9}), (), ("node-1",), True),
        # With more than one at a time the plain form is no lock, and one place alone pauses nobody.
        (PAUSED, ("--concurrency=2",), (), True),
        (json.dumps({"locks": [{"nodeID": "x"}]}), ("--concurrency", "2"), ("x",), True),
        (json.dumps({"locks": [{"nodeID": "x"}, {"nodeID": "y"}]}), ("--concurrency=2",), ("x", "y"), False),
        ("{", (), (), True), ("[]", (), (), True), ('{"nodeID": "x", "TTL": 5}', (), (), True),
    ],
)  # fmt: skip
def test_locks_of_kured(lock: str, args: tuple[str, ...], holders: tuple[str, ...], free: bool) -> None:
    (found,) = kureds([kured(lock, *args)], NOW)
    assert found.holders == holders and bool(found.may_reboot({"node-1", "node-2"})) is free
    if free:
        paused = found.pause.partition("='")[2].removesuffix("'`")
        (now,) = kureds([kured(paused, *args)], NOW)
        assert now.may_reboot({"node-1", "node-2"}) == ""


def test_kured_is_known_by_its_image_its_command_and_its_lock() -> None:
    other = kured(PAUSED, image="registry.example.org/tools:1", name="reboots", annotations={"own/lock": PAUSED})
    other["spec"]["template"]["spec"]["containers"][0]["command"] = ["/bin/sh"]
    assert kureds([other]) == ()
    other["metadata"]["annotations"][LOCK] = PAUSED
    assert kureds([other])[0].may_reboot({"a"}) == ""
    own = kured("", "--lock-annotation=own/lock", annotations={"own/lock": PAUSED})
    assert kureds([own])[0].may_reboot({"a"}) == "" and "own/lock=" in kureds([own])[0].pause
