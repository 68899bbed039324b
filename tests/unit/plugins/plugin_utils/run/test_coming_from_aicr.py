# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the walkthroughs of the upstream tool do, one command after another, and what is here in its place.

Commands and answers are those of NVIDIA/aicr, "Validating a Cluster", and of vCluster's walkthrough with an A100
("Introducing and a Deep Dive Into AICR with vCluster"): five nodes, Kubernetes v1.34.0, one NVIDIA A100-SXM4-40GB. Its
five checks on a control plane: tests/rehearsal/test_walkthrough.py.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer, request_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.validation import (
    asked_of,
    decide_phase,
    declared_phase,
    start_validation,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.validation_looks import observe_readiness
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

COMMANDS = [
    "brew install aicr",
    "aicr snapshot --output",
    "aicr recipe --service --accelerator --output",
    "aicr recipe --snapshot cm://",
    "aicr query --selector",
    "aicr diff --fail-on-drift",
    "aicr bundle --recipe --deployer helm",
    "./deploy.sh",
    "./undeploy.sh",
    "aicr validate --recipe --snapshot",
    "aicr validate --recipe --snapshot cm:// https://",
    "--phase conformance",
    "--phase all",
    "--fail-fast",
    "--no-cluster",
    "--skip-check",
    "--fail-on-error=false",
    "--node-selector --toleration",
    "--evidence-dir --cncf-submission --feature",
    "--emit-attestation --push",
    "aicr evidence verify",
    "--kubeconfig",
    "--data",
    "AICR_INFERENCE_PERF_",
    "report.json",
]
COMPONENTS = [
    "cert-manager", "nfd", "network-operator", "nodewright-operator", "prometheus-operator-crds",
    "kube-prometheus-stack", "gpu-operator", "k8s-ephemeral-storage-metrics", "kai-scheduler", "nvidia-dra-driver-gpu",
    "nvsentinel", "prometheus-adapter",
]  # fmt: skip
CHECKS = ["platform-health", "gpu-operator-health", "dra-support", "accelerator-metrics", "ai-service-metrics"]
NODES = {
    "aicr": "",
    "worker-1": "",
    "worker-2": "",
    "worker-3": "",
    "instance-20260602-102458": "NVIDIA-A100-SXM4-40GB",
}


def rows(repository: Path) -> list[tuple[str, str]]:
    """The table of the guide: what a command of the upstream tool is, and what is here."""
    text = (repository / "docs" / "from-aicr.md").read_text(encoding="utf-8")
    return [(found[1], found[2]) for found in re.finditer(r"^\| (.+?) \| (.+) \|$", text, re.MULTILINE)][2:]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_place_in_the_guide(command: str, repository: Path) -> None:
    assert any(all(word in left for word in command.split()) for left, _right in rows(repository)), command


def test_what_the_guide_names_is_there(repository: Path) -> None:
    right = "\n".join(entry for _left, entry in rows(repository))
    playbooks = set(re.findall(r"gpufleet\.bringup\.(\w+)", right))
    assert (
        playbooks and {name for name in playbooks if not (repository / "playbooks" / f"{name}.yml").is_file()} == set()
    )
    modules = set(re.findall(r"module `(\w+)`", right))
    assert modules and all((repository / "plugins" / "modules" / f"{name}.py").is_file() for name in modules)
    known: set[str] = set()
    for path in repository.glob("roles/*/meta/argument_specs.yml"):
        for spec in yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values():
            known |= set(spec.get("options") or {})
    read = "\n".join(path.read_text("utf-8") for path in (repository / "playbooks").glob("*.yml"))
    named = set(re.findall(r"gpufleet_\w+", right))
    assert {name for name in named if name not in known and name not in read} == set()


def snapshot() -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB|instance-20260602-102458"}
    labels["kubernetes.io/os"] = f"linux|{','.join(NODES)}"
    subtypes = [{"subtype": "summary", "data": {"node-count": 5}}, {"subtype": "label", "data": labels}]
    return {
        "kind": "Snapshot",
        "apiVersion": "aicr.nvidia.com/v1alpha1",
        "metadata": {"timestamp": "2026-06-02T10:30:00Z", "version": "0.13.0", "source-node": "aicr"},
        "measurements": [
            {"type": "K8s", "subtypes": [{"subtype": "server", "data": {"version": "v1.34.0"}}]},
            {"type": "NodeTopology", "subtypes": subtypes},
        ],
    }


def test_the_walkthrough_of_an_a100_gives_its_recipe_its_readiness_and_its_five_checks(tmp_path: Path) -> None:
    found = answer(request_of({"criteria": {"service": "kind", "accelerator": "a100"}}))
    assert list(found.result.order) == COMPONENTS
    recipe = plain(found.result)
    assert recipe["validation"]["conformance"]["checks"] == CHECKS
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    (tmp_path / "snapshot.yaml").write_text(json.dumps(snapshot()))
    path = tmp_path / "20261123T050000Z-ab12"
    path.mkdir()
    run = Run(path)
    run.save_record(new_run(path.name, "vind", now_utc(), (), rehearsal=False))
    nowhere = Connection(kubeconfig="/nowhere")
    stated = {
        "phases": ["conformance"], "recipe": str(tmp_path / "recipe.yaml"),
        "snapshot": str(tmp_path / "snapshot.yaml"), "max_age_s": 86400.0, "no_cluster": True, "fail_fast": False,
        "skip_checks": [], "recipe_data": [], "node_selector": {},
    }  # fmt: skip
    asked = start_validation(run, stated, nowhere)
    assert asked.phases == ("readiness", "conformance")
    observe_readiness(run, asked_of(run), run.observe_context(datetime.now(UTC).date(), silent), nowhere, "helm")
    assert decide_phase(run, "readiness").status is Status.PASSED
    declaration = declared_phase(run, asked, "conformance")
    assert declaration.unknown == () and declaration.expected
    verdict = decide_phase(run, "conformance")
    assert verdict.status is Status.SKIPPED and "no-cluster mode" in verdict.message
