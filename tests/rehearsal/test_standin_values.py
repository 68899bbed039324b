# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in charts rendered by Helm: with the values of every recipe, and with values that once were wrong."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from catalogue_bench import leaves
from helm_program import helm_program
from seeds import drawing

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import components_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.render import Renderer, rendered
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import merged_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import documents
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.chart import FAULT_ANNOTATION
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror, chart_ref

Json = dict[str, Any]
Render = Callable[[Json], tuple[list[Json], str]]


@pytest.fixture(scope="module")
def helm() -> Path:
    return helm_program()


@pytest.fixture(scope="module")
def render(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Return what Helm renders of a component as documents, or what it says when it refuses."""
    mirror = tmp_path_factory.mktemp("mirror")

    def one(component: Json) -> tuple[list[Json], str]:
        (package,) = build_mirror(mirror, [component])
        return _template(helm, package, component)

    return one


def _template(helm: Path, package: Path, component: Json) -> tuple[list[Json], str]:
    argv = [str(helm), "template", component["name"], str(package), "--namespace", component["namespace"]]
    values = json.dumps(component.get("values") or {})
    done = subprocess.run(
        [*argv, "--kube-version", "1.34.0", "--values", "-"],
        input=values, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode:
        return [], done.stderr
    return [document for document in documents(done.stdout) if document], ""


def _component(leaf: str, name: str) -> Json:
    recipe = next(found.recipe for found in leaves() if found.name == leaf)
    return next(dict(entry) for entry in recipe["componentRefs"] if entry["name"] == name)


def _with(component: Json, values: Json) -> Json:
    return {**component, "values": merged_values(component["values"], values)}


def _workload(documents: list[Json], name: str) -> Json:
    return next(d for d in documents if d["metadata"]["name"] == name and d["kind"] in ("Deployment", "DaemonSet"))


def _pod(documents: list[Json], name: str) -> Json:
    spec: Json = _workload(documents, name)["spec"]["template"]["spec"]
    return spec


def test_every_chart_renders_with_the_values_of_every_recipe(render: Render) -> None:
    seen: dict[str, str] = {}
    for leaf in leaves():
        for entry in leaf.recipe["componentRefs"]:
            if entry["type"] == "Helm" and chart_ref(entry) is not None:
                seen.setdefault(json.dumps([entry["name"], entry.get("values")], sort_keys=True), leaf.name)
                if seen[json.dumps([entry["name"], entry.get("values")], sort_keys=True)] == leaf.name:
                    documents, error = render(entry)
                    assert not error, (leaf.name, entry["name"], error)
                    assert documents, (leaf.name, entry["name"])
    assert len(seen) > 40


def test_nothing_of_any_recipe_is_left_to_be_installed_by_hand(helm: Path, tmp_path: Path) -> None:
    """Charts, what Kustomize builds and manifests: each becomes a component of the installer."""
    mirror = tmp_path / "mirror"
    renderer = Renderer(helm=str(helm), mirror=str(mirror))
    for leaf in drawing("installable").sample(leaves(), 20):
        build_mirror(mirror, leaf.recipe["componentRefs"])
        components = components_of(rendered(leaf.recipe, renderer))
        assert [component.name for component in components] == leaf.recipe["deploymentOrder"], leaf.name


DRA = ("service=generic", "nvidia-dra-driver-gpu")


@pytest.mark.parametrize(
    ("leaf", "name", "wrong", "says"),
    [
        (
            *DRA,
            {"resources": {"gpus": {"enabled": True}}},
            "cannot be deployed alongside the standard GPU device plugin",
        ),
        *(
            (
                "intent=inference,platform=dynamo",
                "dynamo-platform",
                {key: {"enabled": False}},
                f"'{key}.enabled' has been",
            )
            for key in ("etcd", "nats", "grove", "kai-scheduler")
        ),
    ],
)
def test_values_that_the_real_chart_refuses_are_refused(
    leaf: str, name: str, wrong: Json, says: str, render: Render
) -> None:
    component = _component(leaf, name)
    assert says in render(_with(component, wrong))[1]
    assert render(component)[1] == ""


def test_an_affinity_is_taken_away_by_null_and_not_by_an_empty_mapping(render: Render) -> None:
    name = "nvidia-dra-driver-gpu-controller"
    component = _component(*DRA)
    kept = _pod(render(_with(component, {"controller": {"affinity": {}}}))[0], name)["affinity"]
    assert "node-role.kubernetes.io/control-plane" in json.dumps(kept)
    assert not _pod(render(component)[0], name)["affinity"]


def test_a_plugin_goes_where_its_values_let_it(render: Render) -> None:
    name, component = "nvidia-dra-driver-gpu-kubelet-plugin", _component(*DRA)
    assert _pod(render(component)[0], name)["tolerations"] == [{"operator": "Exists"}]
    assert not _pod(render(_with(component, {"kubeletPlugin": {"tolerations": []}}))[0], name).get("tolerations")
    chosen = _with(component, {"kubeletPlugin": {"nodeSelector": {"pool": "a"}}})
    assert _pod(render(chosen)[0], name)["nodeSelector"] == {"pool": "a"}


@pytest.mark.parametrize(
    ("scheduler", "crashes"),
    [
        ({"enabled": True, "name": ""}, True),
        ({"enabled": True, "name": "kai-scheduler"}, True),
        ({"enabled": False, "name": "volcano"}, True),
        ({"name": "kai-scheduler"}, False),
    ],
)
def test_kuberay_crashes_with_a_scheduler_that_is_not_there(scheduler: Json, crashes: bool, render: Render) -> None:
    component = _with(_component("platform=ray", "kuberay-operator"), {"batchScheduler": scheduler})
    pod = _workload(render(component)[0], "kuberay-operator")["spec"]["template"]
    assert (FAULT_ANNOTATION in (pod["metadata"].get("annotations") or {})) is crashes


def test_slurm_asks_for_a_volume_only_where_it_is_told_to(render: Render) -> None:
    component = _component("intent=training,platform=slurm", "slinky-slurm")
    asked = _with(component, {"controller": {"persistence": {"enabled": True}}})
    for given, volumes in ((component, 0), (asked, 1)):
        (controller,) = (d for d in render(given)[0] if d["metadata"]["name"] == "slurm-controller")
        assert len(controller["spec"].get("volumeClaimTemplates") or []) == volumes


@pytest.mark.parametrize(("leaf", "made"), [("service=aks", "nvidia-container-runtime"), ("service=eks", "nvidia")])
def test_the_collector_names_the_runtime_class_that_the_operator_is_told_to_make(
    leaf: str, made: str, render: Render
) -> None:
    assert _pod(render(_component(leaf, "nvsentinel"))[0], "metadata-collector")["runtimeClassName"] == made
    operator = _component(leaf, "gpu-operator")["values"]["operator"].get("runtimeClass") or "nvidia"
    assert operator == made


def test_a_chart_says_which_kubernetes_it_takes(render: Render, tmp_path: Path) -> None:
    (package,) = build_mirror(tmp_path, [_component(*DRA)])
    text = subprocess.run(["tar", "-xzOf", str(package)], capture_output=True, text=True, check=True).stdout
    assert '"kubeVersion": ">=1.32.0-0"' in text


@pytest.mark.parametrize(
    ("name", "path", "workload"),
    [
        ("cert-manager", "", "cert-manager"),
        ("cert-manager", "webhook", "cert-manager-webhook"),
        ("gpu-operator", "operator", "gpu-operator"),
        ("network-operator", "operator", "network-operator"),
        ("kai-scheduler", "global", "kai-operator"),
    ],
)
def test_system_pods_go_where_the_values_say(name: str, path: str, workload: str, render: Render) -> None:
    given: Json = {"nodeSelector": {"pool": "system"}, "tolerations": [{"key": "system", "operator": "Exists"}]}
    component = _with(_component("service=generic", name), {path: given} if path else given)
    pod = _pod(render(component)[0], workload)
    assert {key: pod[key] for key in given} == given


def test_the_chart_of_the_disks_makes_the_classes_that_its_values_name(render: Render) -> None:
    component = _component("service=eks", "aws-ebs-csi-driver")
    for given, wanted in ((component, ["gp3"]), ({**component, "values": {}}, [])):
        documents, error = render(given)
        assert not error
        assert [d["metadata"]["name"] for d in documents if d["kind"] == "StorageClass"] == wanted


def test_the_scheduler_of_volcano_is_a_critical_pod(render: Render) -> None:
    documents, _error = render(_component("service=gke,platform=volcano", "volcano"))
    assert _pod(documents, "volcano-scheduler")["priorityClassName"] == "system-cluster-critical"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["default-parent-queue", "default-queue"]),
        ({"parentName": "top", "childName": "gpus"}, ["top", "gpus"]),
        ({"createDefaultQueue": False}, []),
    ],
)
def test_the_chart_of_kai_makes_the_queues_that_its_values_name(given: Json, names: list[str], render: Render) -> None:
    documents, _error = render(_with(_component("service=generic", "kai-scheduler"), {"defaultQueue": given}))
    queues = [document for document in documents if document["kind"] == "Queue"]
    assert [queue["metadata"]["name"] for queue in queues] == names
    assert [queue["spec"].get("parentQueue") for queue in queues] == [None, *names[:1]][: len(names)]
