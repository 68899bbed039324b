# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""vCluster's walkthrough with an A100, on what it printed itself: its nodes, its GPU, its recipe and its answers.

The text is read where it is (seeds/003-vcluster-aicr-a100.txt of the shared material). Its five checks on a control
plane are in tests/rehearsal/test_walkthrough.py, its commands one by one in test_coming_from_aicr.py.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import names_of_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.looks import observe_readiness
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.phases import (
    decide_phase,
    declared_phase,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.requested import requested_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.start import start_validation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer, request_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

Json = dict[str, Any]
NOWHERE = Connection(kubeconfig="/nowhere")
# What the catalogue of ours has newer, or under the name that its project took since.
MOVED = {"version", "chart", "source"}


@pytest.fixture(scope="session")
def seed(shared: Path) -> str:
    return (shared / "seeds" / "003-vcluster-aicr-a100.txt").read_text(encoding="utf-8")


def the_recipe(seed: str) -> Json:
    """What `cat recipe.yaml` prints there."""
    found = re.search(r"^\$ cat recipe\.yaml\n(.*?)^Bundling and Deploying", seed, re.MULTILINE | re.DOTALL)
    assert found is not None
    read: Json = yaml.safe_load(found[1])
    return read


def nodes_of(seed: str) -> list[tuple[str, str, str]]:
    """What `kubectl get nodes -o wide` prints there: name, version and kernel."""
    return re.findall(r"^(\S+) +Ready +\S+ +(v\d+\S+) +(\S+)$", seed, re.MULTILINE)


def snapshot(seed: str) -> Json:
    """These nodes in the form of upstream's snapshot, the GPU where its kernel is."""
    nodes = nodes_of(seed)
    (version,) = {version for _name, version, _kernel in nodes}
    (host,) = [name for name, _version, kernel in nodes if kernel.endswith("-gcp")]
    (product,) = set(re.findall(r"^\d+ +(NVIDIA \S+) ", seed, re.MULTILINE))
    labels = {"nvidia.com/gpu.product": f"{product.replace(' ', '-')}|{host}"}
    subtypes = [{"subtype": "summary", "data": {"node-count": len(nodes)}}, {"subtype": "label", "data": labels}]
    return {
        "kind": "Snapshot", "apiVersion": "aicr.nvidia.com/v1alpha1",
        "metadata": {"timestamp": "2026-06-02T10:30:00Z", "version": "0.13.0", "source-node": nodes[0][0]},
        "measurements": [
            {"type": "K8s", "subtypes": [{"subtype": "server", "data": {"version": version}}]},
            {"type": "NodeTopology", "subtypes": subtypes},
        ],
    }  # fmt: skip


def validated(tmp_path: Path, recipe: Json, seen: Json) -> Run:
    """`aicr validate --recipe recipe.yaml --phase conformance`, up to what needs the cluster."""
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    (tmp_path / "snapshot.yaml").write_text(yaml.safe_dump(seen), encoding="utf-8")
    path = tmp_path / "20261123T050000Z-ab12"
    path.mkdir()
    run = Run(path)
    run.save_record(new_run(path.name, "vind", now_utc(), (), rehearsal=False))
    stated = {
        "phases": ["conformance"], "recipe": str(tmp_path / "recipe.yaml"),
        "snapshot": str(tmp_path / "snapshot.yaml"), "max_age_s": 86400.0, "no_cluster": True, "fail_fast": False,
        "skip_checks": [], "recipe_data": [], "node_selector": {},
    }  # fmt: skip
    start_validation(run, stated, NOWHERE)
    observe_readiness(run, requested_of(run), run.observe_context(datetime.now(UTC).date(), silent), NOWHERE, "helm")
    return run


def test_the_command_for_a_recipe_gives_its_criteria_layers_components_order_and_checks(seed: str) -> None:
    theirs = the_recipe(seed)
    assert "aicr recipe --service kind --accelerator a100 -o recipe.yaml" in seed
    ours = plain(answer(request_of({"criteria": {"service": "kind", "accelerator": "a100"}})).result)
    assert ours["criteria"] == theirs["criteria"]
    assert ours["metadata"]["appliedOverlays"] == theirs["metadata"]["appliedOverlays"]
    assert ours["deploymentOrder"] == theirs["deploymentOrder"]
    assert ours["validation"]["conformance"] == theirs["validation"]["conformance"]
    # "components=12 overlays=3", as its command prints.
    told = re.search(r"recipe generation completed: components=(\d+) overlays=(\d+)", seed)
    assert told is not None
    assert (len(ours["componentRefs"]), len(ours["metadata"]["appliedOverlays"])) == (int(told[1]), int(told[2]))
    mine = {entry["name"]: entry for entry in ours["componentRefs"]}
    for entry in theirs["componentRefs"]:
        own = mine[entry["name"]]
        stated = ("namespace", "type", "chart", "source", "version", "dependencyRefs")
        differing = {key for key in stated if own.get(key) != entry.get(key)}
        assert differing <= MOVED, (entry["name"], differing)


def test_its_own_recipe_is_validated_and_gives_its_answers(seed: str, tmp_path: Path) -> None:
    recipe = the_recipe(seed)
    run = validated(tmp_path, recipe, snapshot(seed))
    # "readiness pre-flight: constraints=1", "readiness passed: K8s.server.version >= 1.25 (got v1.34.0)".
    told = re.search(r"readiness passed: (\S+) (>= \S+) \(got (\S+)\)", seed)
    assert told is not None and [(told[1], told[2])] == [(e["name"], e["value"]) for e in recipe["constraints"]]
    assert decide_phase(run, "readiness").status is Status.PASSED
    report = json.loads((run.path / "ctrf" / "readiness.json").read_text(encoding="utf-8"))
    constraint = next(t for t in report["results"]["tests"] if t["name"].startswith("readiness-constraints"))
    assert told[3] in json.dumps(constraint) and told[2] in json.dumps(constraint)
    # "running phase=conformance catalog=11 selected=5": five by name, each with a "validator passed" of its own.
    asked = declared_phase(run, requested_of(run), "conformance")
    names = recipe["validation"]["conformance"]["checks"]
    assert set(names) == set(re.findall(r"validator passed: (\S+)", seed)) and asked.unknown == ()
    led = {check for name in names for check in names_of_checks()[name]}
    not_here = {entry.id for entry in asked.not_declared}
    assert led <= set(asked.expected) | not_here | {entry.id for entry in asked.skipped}
    assert set(asked.expected) <= led


def test_a_cluster_older_than_its_recipe_wants_is_not_ready(seed: str, tmp_path: Path) -> None:
    seen = snapshot(seed)
    seen["measurements"][0]["subtypes"][0]["data"]["version"] = "v1.24.9"
    run = validated(tmp_path, the_recipe(seed), seen)
    assert decide_phase(run, "readiness").status is Status.FAILED


def test_another_gpu_than_that_of_its_recipe_is_not_ready(seed: str, tmp_path: Path) -> None:
    seen = json.loads(json.dumps(snapshot(seed)).replace("NVIDIA-A100-SXM4-40GB", "NVIDIA-L4"))
    run = validated(tmp_path, the_recipe(seed), seen)
    assert decide_phase(run, "readiness").status is Status.FAILED


def test_its_nodes_and_its_gpu_are_those_that_we_know(seed: str, repository: Path) -> None:
    nodes = nodes_of(seed)
    # "node topology complete: nodes=5".
    assert len(nodes) == 5 and f"node topology complete: nodes={len(nodes)} " in seed
    found = re.search(r"^0 +(NVIDIA \S+) +\d+W / (\d+)W +\d+MiB / (\d+)MiB", seed, re.MULTILINE)
    assert found is not None
    sku = load_hardware([repository / "recipes" / "hardware"])["a2-highgpu-8g"]
    assert (sku.gpu_product, sku.gpu_memory_mib) == (found[1], int(found[3]))
