# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validators of a site in the phases of a validation: which are asked, what was saved of them, and the verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import PhaseDeclaration
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators import observe as running
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.contract import ValidatorRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.looks import (
    observe_phase,
    observe_readiness,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.phases import (
    decide_phase,
    declared_phase,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.requested import (
    ValidationRequest,
    requested_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.start import start_validation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

NOWHERE = Connection(kubeconfig="/nowhere")
IMAGE = "registry.example/acme/checks:v1"
CATALOGUE = {
    "apiVersion": "gpufleet.bringup/v1",
    "kind": "ValidatorCatalog",
    "validators": [
        {"name": "storage-burst", "phase": "conformance", "image": IMAGE, "timeout": "2m"},
        {"name": "licence-server", "phase": "conformance", "image": IMAGE, "disturbs": False},
        {"name": "dra-support", "phase": "conformance", "image": IMAGE},
    ],
}
SNAPSHOT = {
    "kind": "Snapshot",
    "apiVersion": "aicr.nvidia.com/v1alpha1",
    "metadata": {"timestamp": "2026-06-02T10:30:00Z", "version": "0.13.0", "source-node": "gpu01"},
    "measurements": [{"type": "K8s", "subtypes": [{"subtype": "server", "data": {"version": "v1.34.0"}}]}],
}


def recipe(*checks: str, **section: Any) -> dict[str, Any]:
    return {
        "kind": "RecipeResult",
        "criteria": {"service": "kind"},
        "componentRefs": [{"name": "gpu-operator", "namespace": "gpu-operator", "version": "v25.10.1"}],
        "deploymentOrder": ["gpu-operator"],
        "constraints": [{"name": "K8s.server.version", "value": ">= 1.25"}],
        "validation": {"conformance": {"checks": list(checks), **section}} if checks else {},
    }


@pytest.fixture
def run(tmp_path: Path) -> Run:
    path = tmp_path / "20261123T050000Z-ab12"
    path.mkdir()
    made = Run(path)
    made.save_record(new_run(path.name, "lab", now_utc(), (), rehearsal=False))
    site = tmp_path / "site"
    (site / "validators").mkdir(parents=True)
    (site / "validators" / "catalog.yaml").write_text(yaml.safe_dump(CATALOGUE))
    return made


def asked(run: Run, *checks: str, timeout: str = "", **options: Any) -> ValidationRequest:
    """Ask for phase conformance; the snapshot is there, and only looking at it is without a cluster."""
    base = run.path.parent
    (base / "recipe.yaml").write_text(json.dumps(recipe(*checks, timeout=timeout)))
    (base / "snapshot.yaml").write_text(json.dumps(SNAPSHOT))
    stated = {
        "phases": ["conformance"], "recipe": str(base / "recipe.yaml"), "snapshot": str(base / "snapshot.yaml"),
        "max_age_s": 86400.0, "no_cluster": True, "fail_fast": False, "skip_checks": [],
        "recipe_data": [str(base / "site")], "node_selector": {"pool": "gpu"}, **options,
    }  # fmt: skip
    start_validation(run, stated, NOWHERE)
    context = run.observe_context(_today(), silent)
    observe_readiness(run, requested_of(run), context, NOWHERE, "helm")
    assert decide_phase(run, "readiness").status is Status.PASSED
    return requested_of(run)


def _today() -> date:
    return datetime.now(UTC).date()


def on_a_cluster(run: Run) -> ValidationRequest:
    """From here on the validation has its cluster."""
    found = replace(requested_of(run), no_cluster=False)
    (run.path / "validation.json").write_text(dumps(found))
    return found


def names(declaration: PhaseDeclaration) -> list[str]:
    return [image.name for image in declaration.images]


def test_those_of_the_phase_are_asked_unless_the_recipe_names_what_it_wants(run: Run) -> None:
    wanted = asked(run)
    assert names(declared_phase(run, wanted, "conformance")) == ["licence-server", "storage-burst"]
    assert names(declared_phase(run, wanted, "deployment")) == []
    assert any("answer for dra-support" in note for note in run.record.notes)
    named = asked(run, "dra-support", "storage-burst")
    declaration = declared_phase(run, named, "conformance")
    assert names(declaration) == ["storage-burst"] and declaration.unknown == ()


def test_a_name_in_no_catalogue_is_refused_with_the_nearest(run: Run) -> None:
    with pytest.raises(InputError, match="is no check") as error:
        asked(run, "storage-bursts")
    assert "storage-burst" in error.value.hint


def test_one_that_is_left_out_and_all_without_a_cluster_are_skipped_and_the_phase_is_not_passed(run: Run) -> None:
    asked(run, "storage-burst", "licence-server", skip_checks=["storage-burst"])
    verdict = decide_phase(run, "conformance")
    assert verdict.status is Status.SKIPPED
    assert "licence-server (no-cluster mode" in verdict.message
    assert "storage-burst (named in gpufleet_skip_checks)" in verdict.message


def look(run: Run, monkeypatch: pytest.MonkeyPatch, ends: dict[str, int | None] | BringupError) -> list[list[str]]:
    """Let the phase look; containers end with these codes."""
    groups: list[list[str]] = []

    def played(validators: Any, phase: str, inputs: Any, context: ObserveContext) -> dict[str, ValidatorRun]:
        assert phase == "conformance" and json.loads(inputs.snapshot)["kind"] == "Snapshot"
        assert json.loads(inputs.recipe)["kind"] == "RecipeResult" and inputs.node_selector == {"pool": "gpu"}
        groups.append([validator.name for validator in validators])
        if isinstance(ends, BringupError):
            raise ends
        return {
            v.name: ValidatorRun(name=v.name, image=v.image, state="succeeded", exit_code=ends[v.name])
            for v in validators
        }

    monkeypatch.setattr(running, "run_validators", played)
    found = on_a_cluster(run)
    declaration = declared_phase(run, found, "conformance")
    context = run.observe_context(_today(), silent)
    observe_phase(run, declaration, lambda _gate: (context, None))
    return groups


def test_those_that_disturb_nothing_run_at_once_and_each_answer_stands_beside_the_others(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(run, "storage-burst", "licence-server")
    assert look(run, monkeypatch, {"storage-burst": 0, "licence-server": 0}) == [["licence-server"], ["storage-burst"]]
    verdict = decide_phase(run, "conformance")
    assert verdict.status is Status.PASSED, verdict
    assert verdict.counts["passed"] == 2
    assert rejudge(Run(run.path))[1] == []


@pytest.mark.parametrize(
    ("code", "status"), [(1, Status.FAILED), (2, Status.SKIPPED), (137, Status.OTHER), (None, Status.OTHER)]
)
def test_one_that_is_not_passed_holds_the_phase(
    code: int | None, status: Status, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(run, "storage-burst", "licence-server")
    look(run, monkeypatch, {"storage-burst": code, "licence-server": 0})
    assert decide_phase(run, "conformance").status is status


def test_one_that_could_not_be_run_or_was_not_saved_is_other(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(run, "storage-burst", "licence-server")
    on_a_cluster(run)
    assert decide_phase(run, "conformance").status is Status.OTHER
    look(run, monkeypatch, BringupError("create roles", "is not allowed.", "grant it"))
    verdict = decide_phase(run, "conformance")
    assert verdict.status is Status.OTHER
    assert {entry.check for entry in verdict.blocking} == {"storage-burst", "licence-server"}
    assert all("create roles" in entry.summary for entry in verdict.blocking)


def test_none_runs_in_check_mode(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(run, "storage-burst")
    monkeypatch.setattr(running, "run_validators", lambda *_args: pytest.fail("it ran"))
    declaration = declared_phase(run, on_a_cluster(run), "conformance")
    context = run.observe_context(_today(), silent)
    observe_phase(run, declaration, lambda _gate: (context, None), check_mode=True)
    assert decide_phase(run, "conformance").status is Status.OTHER


def test_none_takes_longer_than_its_phase(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that run when the time is over end with it, and those after them are not begun."""
    ran: list[tuple[str, float]] = []

    def played(validators: Any, *_more: Any) -> dict[str, ValidatorRun]:
        ran.extend((validator.name, validator.timeout_s) for validator in validators)
        sleep(30)
        return {}

    asked(run, "storage-burst", "licence-server", timeout="1s")
    monkeypatch.setattr(running, "run_validators", played)
    declaration = declared_phase(run, on_a_cluster(run), "conformance")
    context = run.observe_context(_today(), silent)
    begun = monotonic()
    observe_phase(run, declaration, lambda _gate: (context, None))
    assert monotonic() - begun < 10
    ((name, timeout_s),) = ran
    assert name == "licence-server" and timeout_s <= 1.0, "it is told how long it has"
    verdict = decide_phase(run, "conformance")
    assert verdict.status is Status.OTHER
    assert {entry.check: entry.cause for entry in verdict.blocking} == {
        "licence-server": "observation-failed",
        "storage-burst": "observation-failed",
    }
    assert all("did not end within" in e.summary or "time of the phase" in e.summary for e in verdict.blocking)
