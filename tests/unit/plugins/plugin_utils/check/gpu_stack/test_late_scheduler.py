# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler that comes back late after an outage is waited for; one that refuses is believed in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import observe_dra, observe_gang
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.capacity import Slots
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.api_versions import DraKinds
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import Outage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import queue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.queue import PlacingTime

GANGS = ("gang-a", "gang-b")
GROUP = Kind("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups")
REFUSAL = [{"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available"}]
UNSCHEDULABLE = [{"type": "Unschedulable", "status": "True", "message": "3/3 tasks in gang unschedulable"}]
TIMEOUT_S, LATE_S, MUCH_LATER_S = 0.2, 0.6, 60.0


class Cluster:
    """A namespace whose pods are bound after a while."""

    name = "t"

    def __init__(
        self, bound_after_s: float, pods_say: list[Any] | None = None, groups_say: list[Any] | None = None
    ) -> None:
        self.cluster = self
        self._bound_at = time.monotonic() + bound_after_s
        self._pods_say, self._groups_say = pods_say or [], groups_say or []

    @property
    def _bound(self) -> bool:
        return time.monotonic() > self._bound_at

    def pods(self) -> list[dict[str, Any]]:
        def pod(gang: str, number: int) -> dict[str, Any]:
            spec = {"nodeName": "n1"} if self._bound and gang == GANGS[0] else {}
            metadata = {"name": f"{gang}-{number}", "labels": {"gpufleet.io/gang": gang}}
            return {"metadata": metadata, "spec": spec, "status": {"conditions": self._pods_say}}

        return [pod(gang, number) for gang in GANGS for number in range(2)]

    def find(self, _kind: Kind, _name: str, _namespace: str) -> dict[str, Any]:
        # A phase is set by admission already, so it says nothing of the scheduler.
        return {"status": {"phase": "Pending", "conditions": self._groups_say}}

    def list_objects(self, _kind: Kind, _namespace: str) -> list[dict[str, Any]]:
        result = {"driver": "d", "pool": "n1", "device": "gpu-0"}
        return [{"status": {"allocation": {"devices": {"results": [result]}}}} if self._bound else {}]


@pytest.fixture(autouse=True)
def _late(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(queue, "CONTROLLERS_LATE_S", 90.0)
    yield


def _gangs(cluster: Cluster, outage: Outage) -> dict[str, int]:
    settings = observe_gang.GangSettings(
        provider="", nodes=2, queue="", image="", timeout_s=TIMEOUT_S, settle_s=0.0, cleanup_s=1.0
    )
    slots = Slots(nodes=("n1",), count=2, gpus=1)
    space = cast(TemporaryNamespace, cluster)
    wait = PlacingTime(TIMEOUT_S, outage)
    return observe_gang.settled(space, GROUP, GANGS, slots, settings, wait, Progress(silent))


def _after_outage() -> Outage:
    return Outage(120.0, over_at=time.monotonic())


@pytest.mark.parametrize(
    ("says", "outage"), [({}, Outage(120.0)), ({"pods_say": REFUSAL}, None), ({"groups_say": UNSCHEDULABLE}, None)]
)
def test_a_scheduler_that_is_late_is_waited_for(says: dict[str, Any], outage: Outage | None) -> None:
    assert _gangs(Cluster(LATE_S, **says), outage or _after_outage()) == {"gang-a": 2, "gang-b": 0}


@pytest.mark.parametrize("says", [{"pods_say": REFUSAL}, {"groups_say": UNSCHEDULABLE}])
def test_a_refusal_without_outage_is_found_in_the_tests_own_time(says: dict[str, Any]) -> None:
    assert _gangs(Cluster(MUCH_LATER_S, **says), Outage(120.0)) == {"gang-a": 0, "gang-b": 0}


def test_a_scheduler_that_never_looks_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "CONTROLLERS_LATE_S", 0.2)
    assert _gangs(Cluster(MUCH_LATER_S), Outage(120.0)) == {"gang-a": 0, "gang-b": 0}


def _claim(cluster: Cluster, outage: Outage) -> str:
    wait = PlacingTime(TIMEOUT_S, outage)
    kinds = DraKinds(version="v1", claims=GROUP, slices=GROUP, classes=GROUP)
    _found, pod = observe_dra.settled(cast(TemporaryNamespace, cluster), kinds, wait, Progress(silent))
    return str(pod["spec"].get("nodeName", ""))


def test_a_claim_is_waited_for_in_the_same_way() -> None:
    assert _claim(Cluster(LATE_S), Outage(120.0)) == "n1"
    assert _claim(Cluster(LATE_S, pods_say=REFUSAL), _after_outage()) == "n1"
    assert _claim(Cluster(MUCH_LATER_S, pods_say=REFUSAL), Outage(120.0)) == ""
