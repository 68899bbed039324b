# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests before and after a chart, and instead of one, on a real control plane with a real Helm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stack_bench import DEFINITION, MAP, StackBench, file, stack_bench
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CONFIG_MAPS,
    CRDS,
    DAEMON_SETS,
    NAMESPACES,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    components_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import read_workloads

TUNINGS = Kind("bringup.example/v1", "Tuning", "tunings")
CHART = {"name": "cert-manager", "namespace": "cert-manager", "chart": "cert-manager", "version": "v1.17.2"}


def recipe(say: str = "hello", tuning: str = DEFINITION) -> dict[str, Any]:
    """Return a recipe: a chart with a manifest before and one after it, and a component that is only manifests."""
    with_chart = {
        **CHART,
        "preManifestFiles": ["before.yaml"],
        "manifestFiles": ["after.yaml"],
        "manifests": [
            file("before", "before.yaml", MAP.format(name="first", say=say)),
            file("after", "after.yaml", MAP.format(name="last", say=say)),
        ],
    }
    only = {"name": "tuning", "namespace": "tuning", "source": "", "manifestFiles": ["tuning.yaml"]}
    only["dependencyRefs"] = ["cert-manager"]  # type: ignore[assignment]
    only["manifests"] = [file("after", "tuning.yaml", tuning)]  # type: ignore[assignment]
    return {"componentRefs": [with_chart, only], "deploymentOrder": ["cert-manager", "tuning"]}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[StackBench]:
    with stack_bench(tmp_path_factory.mktemp("manifests"), repository, [CHART]) as made:
        yield made


def said(bench: StackBench, name: str) -> str:
    """What a ConfigMap of ours says."""
    found = bench.cluster.find(CONFIG_MAPS, name, "cert-manager")
    return str(found["data"].get("say", "")) if found else ""


def test_the_whole_life_of_manifests(bench: StackBench) -> None:
    wanted = recipe()
    checked = bench.installer().preview(bench.plan(wanted), components_of(wanted))
    assert checked["tuning"] == "predicted", "its namespace and its CRD are not there yet"
    assert bench.cluster.find(NAMESPACES, "tuning") is None, "a preview makes nothing"
    assert bench.actions(wanted) == ["install", "install"]

    assert bench.install(wanted) == {"cert-manager": "ready", "tuning": "ready"}
    assert (said(bench, "first"), said(bench, "last")) == ("hello", "hello")
    first, last = (bench.cluster.get(CONFIG_MAPS, name, "cert-manager")["metadata"] for name in ("first", "last"))
    assert first["creationTimestamp"] <= last["creationTimestamp"]
    assert first["labels"][MANAGED_BY_LABEL] == MANAGED_BY
    tuning = bench.cluster.kind("bringup.example/v1", "Tuning")
    assert bench.cluster.find(tuning, "nodes", "tuning") is not None
    (tuner,) = read_workloads(bench.cluster, ["tuning-pods"], 5)
    assert (tuner.release, tuner.state, tuner.desired) == ("tuning/tuning", "ready", 2)
    assert bench.actions(wanted) == ["unchanged", "unchanged"]


def test_another_content_is_applied_and_a_preview_is_not(bench: StackBench) -> None:
    wanted = recipe(say="again")
    bench.install(recipe())
    assert bench.actions(wanted) == ["upgrade", "unchanged"]
    assert bench.installer().preview(bench.plan(wanted), components_of(wanted)) == {"cert-manager": "server"}
    assert said(bench, "last") == "hello"
    assert bench.install(wanted)["cert-manager"] == "ready"
    assert (said(bench, "first"), said(bench, "last")) == ("again", "again")


def test_what_is_no_longer_in_the_recipe_stays(bench: StackBench) -> None:
    bench.install(recipe())
    wanted = recipe()
    wanted["componentRefs"][0] = {**CHART}
    assert bench.install(wanted)["cert-manager"] == "ready"
    assert said(bench, "last") == "hello"


def test_an_object_that_was_taken_away_is_put_back(bench: StackBench) -> None:
    wanted = recipe()
    bench.install(wanted)
    bench.cluster.delete(CONFIG_MAPS, "last", "cert-manager")
    plan = bench.plan(wanted)
    assert (plan.step("cert-manager").action.value, plan.step("cert-manager").reason) == (
        "upgrade", "the release is incomplete",
    )  # fmt: skip
    bench.install(wanted)
    assert said(bench, "last") == "hello"


def test_what_was_changed_or_taken_away_by_hand_is_found_and_put_back(bench: StackBench) -> None:
    wanted = recipe()
    bench.install(wanted)
    assert bench.actions(wanted) == ["unchanged", "unchanged"], "defaults of the server are no change"
    bench.write("kubectl-edit", CONFIG_MAPS, "last", "cert-manager", {"data": {"say": "other"}})
    bench.write("kubectl-patch", CONFIG_MAPS, "first", "cert-manager", {"data": {"say": None}})
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "tuner:2"}]
    bench.write("kubectl-set", DAEMON_SETS, "tuner", "tuning-pods", image)
    assert [step.reason for step in bench.plan(wanted).steps] == [
        "changed by hand: ConfigMap first data.say, ConfigMap last data.say",
        "changed by hand: DaemonSet tuning-pods/tuner spec.template.spec.containers[tuner].image",
    ]
    assert bench.install(wanted) == {"cert-manager": "ready", "tuning": "ready"}
    assert (said(bench, "first"), said(bench, "last")) == ("hello", "hello")
    assert bench.actions(wanted) == ["unchanged", "unchanged"]


def test_what_controllers_write_is_theirs(bench: StackBench) -> None:
    wanted = recipe()
    bench.install(wanted)
    bench.write("some-operator", CONFIG_MAPS, "last", "cert-manager", {"data": {"say": "tuned", "more": "x"}})
    bench.write("kubectl-annotate", CONFIG_MAPS, "first", "cert-manager", {"metadata": {"annotations": {"note": "x"}}})
    assert bench.actions(wanted) == ["unchanged", "unchanged"]
    assert said(bench, "last") == "tuned"


def test_an_object_of_somebody_else_is_left_alone_until_it_is_adopted(bench: StackBench) -> None:
    wanted = recipe()
    bench.install(wanted)
    bench.cluster.delete(CONFIG_MAPS, "last", "cert-manager")
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}, "data": {"say": "mine"}}
    bench.cluster.create(CONFIG_MAPS, foreign, "cert-manager")
    step = bench.plan(wanted).step("cert-manager")
    assert step.action.value == "unchanged"
    assert "ConfigMap last was made by somebody else and is left alone" in step.reason
    bench.install(wanted)
    assert said(bench, "last") == "mine"
    assert bench.actions(wanted, policies={"cert-manager": "adopt"}) == ["adopt", "unchanged"]
    assert bench.install(wanted, policies={"cert-manager": "adopt"})["cert-manager"] == "ready"
    assert said(bench, "last") == "hello"
    assert bench.actions(wanted) == ["unchanged", "unchanged"]


def test_a_manifest_that_the_server_refuses_fails_its_component(bench: StackBench) -> None:
    wrong = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong}\ndta: {a: b}\n"
    found = bench.install(recipe(tuning=wrong))
    assert found["cert-manager"] == "ready"
    assert found["tuning"].startswith("failed")
    assert "dta" in found["tuning"]


def test_removal_names_what_holds_it_and_leaves_nothing_of_ours(bench: StackBench) -> None:
    wanted = recipe()
    bench.install(wanted)
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {}}
    bench.cluster.create(CONFIG_MAPS, mine, "default")
    held = {"metadata": {"finalizers": ["bringup.example/held"]}}
    bench.cluster.patch(TUNINGS, "nodes", held, "tuning")
    shown = bench.removals(wanted, crds=False)
    assert [(entry.component, entry.action) for entry in shown] == [("tuning", "remove"), ("cert-manager", "remove")]
    assert bench.actions(wanted) == ["unchanged", "unchanged"], "a plan removes nothing"

    gone = bench.remove(wanted, drain_s=3.0)
    assert (gone["tuning"].state, gone["cert-manager"].state) == ("blocked", "waiting")
    assert "Tuning tuning/nodes is still there" in gone["tuning"].reason
    assert "finalizers: bringup.example/held" in gone["tuning"].reason
    assert "kubectl patch tunings.bringup.example nodes -n tuning" in gone["tuning"].hint
    assert "cert-manager/cert-manager" in bench.helm.releases()

    bench.cluster.patch(TUNINGS, "nodes", {"metadata": {"finalizers": None}}, "tuning")
    assert {entry.state for entry in bench.remove(wanted).values()} == {"removed"}
    assert bench.cluster.find(CRDS, "tunings.bringup.example") is not None, "definitions stay"
    assert bench.cluster.find(NAMESPACES, "tuning") is not None, "namespaces stay"
    assert {entry.action for entry in bench.removals(wanted, crds=False)} == {"absent"}

    namespaces = ("cert-manager", "tuning", "tuning-pods")
    gone = bench.remove(wanted, *namespaces, crds=True)
    assert {name: gone[f"namespace {name}"].state for name in namespaces} == dict.fromkeys(namespaces, "removed")
    eventually(lambda: bench.objects() ^ bench.before == {"configmaps default/mine"})
