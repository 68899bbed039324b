# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the walkthroughs of the upstream tool do, one command after another, and what is here in its place.

Commands and answers are those of NVIDIA/aicr, "Validating a Cluster", and of vCluster's walkthrough with an A100
("Introducing and a Deep Dive Into AICR with vCluster"): five nodes, Kubernetes v1.34.0, one NVIDIA A100-SXM4-40GB. Its
five checks on a control plane: tests/rehearsal/test_walkthrough.py; what it printed itself: test_seed_walkthrough.py.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import names_of_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.looks import observe_readiness
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.phases import (
    decide_phase,
    declared_phase,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.requested import requested_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.start import start_validation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer, request_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

U = "unit/plugins/plugin_utils"
# Each command of the two texts, with the test (file below tests/, function) that shows what is here in its place.
COMMANDS = {
    "brew install aicr": ("rehearsal/test_installed.py", "test_a_rehearsal_from_the_installed_collections_passes"),
    "vcluster create token kubectl get nodes nvidia-smi": (
        f"{U}/features/validation/test_seed_walkthrough.py", "test_its_nodes_and_its_gpu_are_those_that_we_know",
    ),
    "aicr snapshot --output": (
        "rehearsal/shared/test_validate.py", "test_snapshot_and_drift_work_with_exactly_the_shipped_rights",
    ),
    "aicr recipe --service --accelerator --output": (
        f"{U}/features/validation/test_seed_walkthrough.py",
        "test_the_command_for_a_recipe_gives_its_criteria_layers_components_order_and_checks",
    ),
    "aicr recipe --snapshot cm://": (f"{U}/recipe/test_clusters.py", "test_the_users_word_wins_and_the_report_says_so"),
    "aicr query --selector": (f"{U}/recipe/test_questions.py", "test_query"),
    "aicr diff --fail-on-drift": ("integration/test_drift_playbook.py", "test_the_exit_code_is_that_of_a_check"),
    "aicr bundle --recipe --deployer helm": (
        "rehearsal/test_gpu_stack.py", "test_components_are_installed_after_what_they_need_and_only_once",
    ),
    "./deploy.sh": (
        "rehearsal/test_gpu_stack.py", "test_components_are_installed_after_what_they_need_and_only_once",
    ),
    "./undeploy.sh": (
        "rehearsal/test_component_life.py",
        "test_the_playbooks_put_back_what_an_upgrade_changed_and_remove_all_of_ours",
    ),
    "aicr validate --recipe --snapshot": (
        f"{U}/features/validation/test_seed_walkthrough.py", "test_its_own_recipe_is_validated_and_gives_its_answers",
    ),
    "aicr validate --recipe --snapshot cm:// https://": (
        f"{U}/collect/test_snapshot_place.py",
        "test_recipe_and_snapshot_are_read_over_https_from_a_server_that_is_trusted",
    ),
    "--phase conformance": (
        "rehearsal/test_walkthrough.py", "test_readiness_and_the_five_checks_pass_as_there",
    ),
    "--phase all": (
        f"{U}/features/validation/test_phases.py",
        "test_after_a_phase_that_is_not_passed_the_others_are_gone_through_unless_the_first_is_to_end_it",
    ),
    "--fail-fast": (
        f"{U}/features/validation/test_phases.py",
        "test_after_a_phase_that_is_not_passed_the_others_are_gone_through_unless_the_first_is_to_end_it",
    ),
    "--no-cluster": (f"{U}/features/validation/test_phases.py", "test_a_recipe_is_validated_against_a_snapshot_alone"),
    "--skip-check": (
        f"{U}/features/validation/test_phases.py", "test_a_check_that_was_left_out_is_told_and_the_phase_is_not_passed",
    ),
    "--fail-on-error=false": (
        "integration/test_validate_playbook.py",
        "test_a_phase_that_failed_ends_with_0_where_it_only_informs_and_is_shown_and_no_pass",
    ),
    "--node-selector --toleration": (
        f"{U}/features/validation/test_phases.py", "test_nodes_that_the_recipe_selects_are_told_as_not_used",
    ),
    "--evidence-dir --cncf-submission --feature": (
        f"{U}/report/test_ai_conformance.py", "test_the_pages_of_a_whole_run_say_that_it_was_rehearsed",
    ),
    "--emit-attestation --push": (
        f"{U}/evidence/test_statements.py", "test_the_page_signs_and_verifies_as_typed_with_and_without_our_tool",
    ),
    "aicr evidence verify": (f"{U}/evidence/test_statements.py", "test_the_commands_and_their_exit_codes"),
    "--kubeconfig": (f"{U}/clients/test_kube.py", "test_options_win_over_the_environment"),
    "--data": (
        f"{U}/features/validation/test_site_validators.py",
        "test_those_of_the_phase_are_asked_unless_the_recipe_names_what_it_wants",
    ),
    "AICR_INFERENCE_PERF_": (
        f"{U}/features/recipe/test_site_recipe.py",
        "test_a_storage_class_is_written_where_the_recipe_asks_for_a_volume",
    ),
    "report.json": (f"{U}/features/validation/test_phases.py", "test_a_recipe_is_validated_against_a_snapshot_alone"),
}  # fmt: skip
# Of NVIDIA/aicr pkg/cli/validate.go (0.11.1), its command line reference (later), and pkg/errors/exitcode.go.
FLAGS = [
    "recipe", "snapshot", "phase", "fail-on-error", "no-cluster", "namespace", "image", "image-pull-secret", "job-name",
    "service-account-name", "node-selector", "toleration", "timeout", "no-cleanup", "require-gpu", "evidence-dir",
    "cncf-submission", "feature", "output", "kubeconfig", "data", "fail-fast", "skip-check", "config",
]  # fmt: skip
EXITS = range(10)
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
def test_every_command_has_its_place_in_the_guide_and_a_test_of_its_own(command: str, repository: Path) -> None:
    assert any(all(word in left for word in command.split()) for left, _right in rows(repository)), command
    file, name = COMMANDS[command]
    assert f"def {name}(" in (repository / "tests" / file).read_text(encoding="utf-8"), (command, file)


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_of_a_validation_has_its_equivalent_or_a_reason(flag: str, repository: Path) -> None:
    assert any(re.search(rf"--{flag}(?![-\w])", left) for left, _right in rows(repository)), flag


@pytest.mark.parametrize("code", EXITS)
def test_every_exit_code_has_its_equivalent(code: int, repository: Path) -> None:
    codes = [re.findall(r"\b(\d)\b", left) for left, _right in rows(repository) if left.startswith("exit ")]
    assert sum(str(code) in found for found in codes) == 1, code


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


def test_every_name_of_a_check_is_told_with_what_is_asked_here(repository: Path) -> None:
    text = (repository / "docs" / "from-aicr.md").read_text(encoding="utf-8").partition("## Its checks")[2]
    told: dict[str, set[str]] = {}
    for names, _weak, here in re.findall(r"^\| (`.+?) \| (.*?) ?\| (.+) \|$", text, re.MULTILINE):
        asked = set(re.findall(r"`([\w-]+)`", here.partition(":")[0]))
        told |= dict.fromkeys(re.findall(r"`([\w-]+)`", names), asked)
    elsewhere = {
        "nccl-all-reduce-bw", "nccl-all-reduce-bw-net", "nccl-all-reduce-bw-nvls", "nccl-cre-all-reduce-bw",
        "inference-perf",
    }  # fmt: skip
    catalogue = yaml.safe_load((repository / "recipes" / "validators" / "catalog.yaml").read_text(encoding="utf-8"))
    named = {entry["name"] for entry in catalogue["validators"]}
    assert named - elsewhere == set(told)
    ours = {check.spec.id for check in all_checks()}
    known = names_of_checks()
    assert {name: set(known[name]) & ours for name in told} == told


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
    observe_readiness(run, requested_of(run), run.observe_context(datetime.now(UTC).date(), silent), nowhere, "helm")
    assert decide_phase(run, "readiness").status is Status.PASSED
    declaration = declared_phase(run, asked, "conformance")
    assert declaration.unknown == () and declaration.expected
    verdict = decide_phase(run, "conformance")
    assert verdict.status is Status.SKIPPED and "no-cluster mode" in verdict.message
