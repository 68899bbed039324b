# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A roll and the operator's upgrade controller, in lock step: who goes, who waits, who failed, who stays cordoned."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    NODES,
    PODS,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.kubernetes import (
    SKIP,
    STATE,
    UpgradeState,
    unguarded,
    upgrade_nodes,
    upgrade_states,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers import driver_upgrade as operator
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    DELETE,
    Change,
    ClusterFacts,
    ClusterView,
)

Json = dict[str, Any]
NAMES = {"gpu01": "node-1", "gpu02": "node-2", "gpu03": "node-3"}
NAMESPACE = "gpu-operator"


@dataclass
class World:
    """A cluster in which a newer driver was declared: every pod is of revision 1, the DaemonSet of revision 2."""

    failing: set[str] = field(default_factory=set)
    auto: bool = True
    objects: dict[Kind, dict[tuple[str, str], Json]] = field(default_factory=dict)
    walked: dict[str, list[str]] = field(default_factory=dict)
    passes: int = 0

    def __post_init__(self) -> None:
        policy = {"driver": {"upgradePolicy": {"autoUpgrade": self.auto, "maxParallelUpgrades": 1}}}
        daemon_set = {
            "name": operator.DRIVER, "namespace": NAMESPACE, "uid": "ds", "labels": {"app": operator.DRIVER},
            "annotations": {"deprecated.daemonset.template.generation": "2"},
        }  # fmt: skip
        self.objects = {
            CLUSTER_POLICIES: {("", "p"): {"metadata": {"name": "p"}, "spec": policy}},
            DAEMON_SETS: {(NAMESPACE, operator.DRIVER): {"metadata": daemon_set}},
            CONTROLLER_REVISIONS: {(NAMESPACE, f"r{n}"): self.revision(n) for n in (1, 2)},
            NODES: {
                ("", node): {"metadata": {"name": node, "labels": {SKIP: "true"}}, "spec": {}}
                for node in NAMES.values()
            },
            PODS: {},
        }
        for node in NAMES.values():
            self.start_pod(node, 1)

    @staticmethod
    def revision(number: int) -> Json:
        owners = [{"uid": "ds"}]
        return {
            "metadata": {
                "name": f"r{number}", "namespace": NAMESPACE, "labels": {"controller-revision-hash": f"hash{number}"},
                "ownerReferences": owners,
            },
            "revision": number,
        }  # fmt: skip

    def start_pod(self, node: str, number: int) -> None:
        labels = {
            "app": operator.DRIVER, "controller-revision-hash": f"hash{number}", "pod-template-generation": str(number),
        }  # fmt: skip
        name = f"driver-{node}-{number}"
        ready = "False" if number == 2 and node in self.failing else "True"
        self.objects[PODS][NAMESPACE, name] = {
            "metadata": {
                "name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [{"uid": "ds"}],
            },
            "spec": {"nodeName": node},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }  # fmt: skip

    # What upgrade_nodes asks of a cluster.
    def list_objects(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
        del fields
        key, value = labels.split("=") if labels else ("", "")
        return [
            deepcopy(item)
            for (where, _name), item in self.objects[kind].items()
            if namespace in ("", where) and (not labels or (item["metadata"].get("labels") or {}).get(key) == value)
        ]

    def change(self, kind: Kind, name: str, edit: Any, namespace: str = "") -> None:
        self.objects[kind][namespace, name] = edit(deepcopy(self.objects[kind][namespace, name]))

    def sleep(self, seconds: float) -> None:
        """The operator makes one pass."""
        del seconds
        self.passes += 1
        assert self.passes < 100
        nodes = {
            name: SimpleNamespace(pod_faults={operator.DRIVER: "CrashLoopBackOff"} if name in self.failing else {})
            for name in NAMES.values()
        }
        for change in operator.reconcile(ClusterView(self.objects), cast(ClusterFacts, SimpleNamespace(nodes=nodes))):
            self.apply(change)

    def apply(self, change: Change) -> None:
        if change.verb == DELETE:
            node = self.objects[change.kind].pop((change.namespace, change.name))["spec"]["nodeName"]
            self.start_pod(node, 2)
            return
        node = self.objects[NODES]["", change.name]
        for part in ("labels", "annotations"):
            merged = {**(node["metadata"].get(part) or {}), **change.body["metadata"].get(part, {})}
            node["metadata"][part] = {key: value for key, value in merged.items() if value is not None}
        node["spec"] |= change.body.get("spec", {})
        self.walked.setdefault(change.name, []).append(node["metadata"]["labels"][STATE])

    def cordon(self, *nodes: str) -> None:
        for node in nodes:
            self.objects[NODES]["", node]["spec"]["unschedulable"] = True

    def upgrade(self, *names: str, timeout_s: float = 60) -> dict[str, str]:
        chosen = {name: NAMES[name] for name in names}
        return upgrade_nodes(cast(Cluster, self), chosen, timeout_s=timeout_s, sleep=self.sleep)

    def look(self) -> dict[str, UpgradeState]:
        return upgrade_states(cast(Cluster, self), NAMES)


def test_nodes_of_the_wave_go_through_all_states_and_stay_cordoned() -> None:
    world = World()
    world.cordon("node-1", "node-2")
    assert world.upgrade("gpu01", "gpu02") == {"gpu01": "", "gpu02": ""}
    # No uncordon-required: the node was cordoned when its upgrade began. Two at once although the policy says one.
    assert world.walked["node-1"] == world.walked["node-2"] == [
        "upgrade-required", "cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required",
        "pod-restart-required", "validation-required", "upgrade-done",
    ]  # fmt: skip
    assert world.objects[NODES]["", "node-1"]["spec"]["unschedulable"] is True
    assert world.walked["node-3"] == ["upgrade-required"] and not world.look()["gpu03"].newest


def test_a_node_that_the_operator_had_counted_before_its_cordon_stays_cordoned_too() -> None:
    world = World()
    world.sleep(0)
    assert world.look()["gpu01"].state == "upgrade-required"
    world.cordon("node-1")
    assert world.upgrade("gpu01") == {"gpu01": ""}
    assert world.objects[NODES]["", "node-1"]["spec"]["unschedulable"] is True


def test_a_failed_upgrade_is_given_up_and_the_other_node_goes_on() -> None:
    world = World(failing={"node-1"})
    world.cordon("node-1", "node-2")
    found = world.upgrade("gpu01", "gpu02")
    assert found["gpu02"] == "" and found["gpu01"].startswith("the operator says upgrade-failed: state upgrade-failed")


def test_a_state_of_the_upgrade_before_is_no_upgrade() -> None:
    world = World(auto=False)
    world.objects[NODES]["", "node-1"]["metadata"]["labels"][STATE] = "upgrade-done"
    world.cordon("node-1")
    found = world.upgrade("gpu01", timeout_s=0)
    assert "did not end within" in found["gpu01"] and "is of an older revision and Ready" in found["gpu01"]


def test_a_node_that_has_the_newest_driver_is_done_at_once_and_is_not_touched() -> None:
    world = World()
    world.objects[PODS].clear()
    world.start_pod("node-1", 2)
    before = deepcopy(world.objects[NODES])
    assert world.upgrade("gpu01") == {"gpu01": ""} and world.objects[NODES] == before


def test_a_node_without_driver_pod_is_not_done() -> None:
    world = World()
    world.objects[PODS].clear()
    assert "has no driver pod" in world.upgrade("gpu01", timeout_s=0)["gpu01"]


@pytest.mark.parametrize(("skipped", "problem"), [(True, False), (False, True)])
def test_nodes_that_the_operator_would_upgrade_outside_of_their_wave_are_named(skipped: bool, problem: bool) -> None:
    world = World()
    if not skipped:
        world.objects[NODES]["", "node-2"]["metadata"]["labels"] = {}
    assert ("may upgrade gpu02 now" in unguarded(world.look())) is problem
