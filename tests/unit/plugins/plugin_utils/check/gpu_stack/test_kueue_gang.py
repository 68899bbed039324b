# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs that Kueue admits: a ClusterQueue of the test's own that goes again, and Jobs that wait for it as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.kueue_gang import (
    KUEUE,
    job_of_gang,
    own_queue,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_gang import (
    GangSettings,
    _provider,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import choices_of, gate_permissions
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import DeadlineError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

from .conftest import site

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


@dataclass
class FakeCluster:
    """A server with a Kueue that calls its queues `Active` as told, and keeps a queue while it has Workloads."""

    active: str = "True"
    versions: tuple[str, ...] = ("v1beta1", "v1beta2")
    refuses: str = ""
    there: dict[tuple[str, str], Json] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def served_versions(self, group: str) -> tuple[str, ...]:
        assert group == "kueue.x-k8s.io"
        return self.versions

    def create(self, kind: Kind, body: Json, _namespace: str = "") -> Json:
        if kind.kind == self.refuses:
            raise ForbiddenError("create", f"may not create {kind.plural}")
        assert (body["apiVersion"], body["kind"]) == (kind.api_version, kind.kind)
        status = {"conditions": [{"type": "Active", "status": self.active}]}
        self.there[kind.kind, body["metadata"]["name"]] = body | {"status": status}
        self.log.append(f"create {kind.kind}")
        return body

    def find(self, kind: Kind, name: str, _namespace: str = "") -> Json | None:
        return self.there.get((kind.kind, name))

    def find_all(self, kind: Kind, _namespace: str = "", *, labels: str = "") -> list[Json]:
        del labels
        return [item for (known, _name), item in self.there.items() if known == kind.kind]

    def delete(self, kind: Kind, name: str, _namespace: str = "") -> bool:
        self.log.append(f"delete {kind.kind}")
        # Its Workload goes with its owner.
        if kind.kind == "Job":
            self.there.pop(("Workload", f"job-{name}"), None)
        assert kind.kind != "ClusterQueue" or not [key for key in self.there if key[0] == "Workload"]
        return self.there.pop((kind.kind, name), None) is not None


def namespace(cluster: FakeCluster | None = None) -> TemporaryNamespace:
    return TemporaryNamespace(cast("Any", cluster), "gpufleet-test-gang-1", 1.0, ())


def test_the_queue_of_a_test_has_what_is_free_takes_tests_alone_and_goes_again() -> None:
    cluster = FakeCluster()
    with own_queue(namespace(cluster), GPU, 16, 5.0) as queue:
        made = cluster.there["ClusterQueue", queue.name]
        (group,) = made["spec"]["resourceGroups"]
        assert group == {
            "coveredResources": [GPU],
            "flavors": [{"name": queue.name, "resources": [{"name": GPU, "nominalQuota": 16}]}],
        }
        assert made["spec"]["namespaceSelector"]["matchLabels"]["gpufleet.io/purpose"] == "test"
        assert "cohort" not in made["spec"] and "cohortName" not in made["spec"]
        assert cluster.there["LocalQueue", "tests"]["spec"] == {"clusterQueue": queue.name}
        for name in ("gang-a", "gang-b"):
            cluster.there["Job", name] = {"metadata": {"name": name}}
            cluster.there["Workload", f"job-{name}"] = {"metadata": {"name": f"job-{name}"}}
    assert cluster.there == {} and queue.leftovers == []
    # The flavor first, or the queue is not active; the queue before the flavor that it holds.
    assert [line for line in cluster.log if "Job" not in line] == [
        "create ResourceFlavor", "create ClusterQueue", "create LocalQueue",
        "delete LocalQueue", "delete ClusterQueue", "delete ResourceFlavor",
    ]  # fmt: skip


def test_what_a_dead_run_left_goes_first() -> None:
    cluster = FakeCluster()
    cluster.there["ClusterQueue", "old"] = {"metadata": {"name": "old"}}
    with own_queue(namespace(cluster), GPU, 16, 5.0):
        assert ("ClusterQueue", "old") not in cluster.there


def test_a_queue_that_does_not_get_active_or_is_refused_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += max(seconds, 0.1)

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    idle = FakeCluster(active="False")
    with pytest.raises(DeadlineError, match="admits"), own_queue(namespace(idle), GPU, 16, 5.0):
        raise AssertionError("it is not active")
    assert idle.there == {}
    strict = FakeCluster(refuses="ClusterQueue")
    with pytest.raises(ForbiddenError, match="clusterqueues"), own_queue(namespace(strict), GPU, 16, 5.0):
        raise AssertionError("it was refused")
    assert strict.there == {}
    none = FakeCluster(versions=("v1alpha1",))
    with pytest.raises(NotFoundError, match="not served"), own_queue(namespace(none), GPU, 16, 5.0):
        raise AssertionError("there is none")


def test_a_gang_is_a_job_that_waits_for_the_queue_and_makes_all_its_pods_at_once() -> None:
    (job,) = job_of_gang(namespace(), "gang-a", "", ("gpu01", "gpu02"), 2, 8, GPU, 60.0)
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "tests"
    spec = job["spec"]
    assert (spec["suspend"], spec["parallelism"], spec["completions"]) == (True, 2, 2)
    pod = spec["template"]
    assert pod["metadata"]["labels"]["gpufleet.io/gang"] == "gang-a"
    # What the queue does not cover nobody may ask for, or no quota is ever enough.
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {GPU: 8}}


@pytest.mark.parametrize(
    ("components", "stated", "provider"),
    [
        (["kueue"], "", KUEUE),
        (["kueue", "volcano"], "", "volcano"),
        (["kueue"], "native", "native"),
        (["gpu-operator"], "", "native"),
        (["gpu-operator"], KUEUE, KUEUE),
    ],
)
def test_kueue_admits_where_nobody_of_the_recipe_places_gangs(
    components: list[str], stated: str, provider: str
) -> None:
    settings = checked_settings(GangSettings, "gang-admission", {"provider": stated})
    recipe = {"deploymentOrder": components}

    @dataclass
    class Context:
        recipe: Json

    assert _provider(cast("Any", Context(recipe)), settings) == provider
    here = site(settings={"gang-admission": {"provider": stated}})
    rights = gate_permissions("gpu_stack", "test", choices_of(here, recipe))
    wanted = any((right.verb, right.resource) == ("create", "resourceflavors") for right in rights)
    assert wanted is (provider == KUEUE)
