# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A validation without a cluster: a recipe and a snapshot of upstream, and what needs a cluster told as skipped."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation import looks as validation_looks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.looks import (
    NOT_TOLD,
    observe_readiness,
    supplied_snapshot,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.phases import closed_by, decide_phase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.requested import (
    ValidationRequest,
    requested_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.start import start_validation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.sections import PHASE_CONSTRAINTS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.formats import from_data, to_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    Collected,
    CollectorResult,
    Snapshot,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import GateVerdict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run, not_ended_well

NOWHERE = Connection(kubeconfig="/nowhere")
CHECKS = ["platform-health", "gpu-operator-health", "dra-support", "accelerator-metrics", "ai-service-metrics"]


BANDWIDTH = {"name": "nccl-all-reduce-bw"}


def recipe(version: str = ">= 1.25", **more: Any) -> dict[str, Any]:
    return {
        "kind": "RecipeResult",
        "apiVersion": "aicr.nvidia.com/v1alpha1",
        "criteria": {"accelerator": "a100", "service": "kind", "os": "any"},
        "componentRefs": [
            {"name": "gpu-operator", "namespace": "gpu-operator", "version": "v25.10.1", "chart": "gpu-operator"}
        ],
        "deploymentOrder": ["gpu-operator"],
        "constraints": [{"name": "K8s.server.version", "value": version}],
        "validation": {"conformance": {"checks": CHECKS}},
        **more,
    }


def upstream(version: str = "v1.34.0") -> dict[str, Any]:
    """A snapshot as the upstream tool writes it: one node's host, all nodes' labels."""
    label = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB|instance-20260602-102458"}
    return {
        "kind": "Snapshot",
        "apiVersion": "aicr.nvidia.com/v1alpha1",
        "metadata": {"timestamp": "2026-06-02T10:30:00Z", "version": "0.13.0", "source-node": "aicr"},
        "measurements": [
            {"type": "K8s", "subtypes": [{"subtype": "server", "data": {"version": version}}]},
            {
                "type": "NodeTopology",
                "subtypes": [{"subtype": "summary", "data": {"node-count": 1}}, {"subtype": "label", "data": label}],
            },
        ],
    }


@pytest.fixture
def run(tmp_path: Path) -> Run:
    path = tmp_path / "20261123T050000Z-ab12"
    path.mkdir()
    made = Run(path)
    made.save_record(new_run(path.name, "lab", now_utc(), (), rehearsal=False))
    return made


def asked(
    run: Run, tmp_path: Path, document: dict[str, Any], seen: dict[str, Any], **options: Any
) -> ValidationRequest:
    (tmp_path / "recipe.yaml").write_text(json.dumps(document))
    (tmp_path / "snapshot.yaml").write_text(json.dumps(seen))
    stated = {
        "phases": [],
        "recipe": str(tmp_path / "recipe.yaml"),
        "snapshot": str(tmp_path / "snapshot.yaml"),
        "max_age_s": 86400.0,
        "no_cluster": True,
        "fail_fast": False,
        "skip_checks": [],
        "recipe_data": [],
        "node_selector": {},
        **options,
    }
    return start_validation(run, stated, NOWHERE)


def readiness(run: Run, *provider: str) -> Status:
    context = run.observe_context(datetime.now(UTC).date(), silent)
    observe_readiness(run, requested_of(run), context, NOWHERE, "helm", provider)
    return decide_phase(run, "readiness").status


def test_a_recipe_is_validated_against_a_snapshot_alone(run: Run, tmp_path: Path) -> None:
    asked(run, tmp_path, recipe(), upstream(), phases=["conformance"])
    assert readiness(run) is Status.PASSED
    verdict = decide_phase(run, "conformance")
    assert verdict.status is Status.SKIPPED and "no-cluster mode" in verdict.message
    suite = json.loads((run.path / "ctrf" / "conformance.json").read_text())
    summary = suite["results"]["summary"]
    assert (summary["passed"], summary["failed"], summary["tests"]) == (0, 0, summary["skipped"])
    stats = run_stats(run)
    assert (stats["gpufleet_passed"], stats["gpufleet_exit_code"]) == (False, 0)
    assert stats["gpufleet_verdict"].startswith("validated in part: readiness passed; conformance skipped")
    assert not_ended_well(run.record) == ()


def test_a_validation_is_judged_again_from_what_it_saved(run: Run, tmp_path: Path) -> None:
    asked(run, tmp_path, recipe(), upstream(), phases=["conformance"])
    readiness(run)
    decide_phase(run, "conformance")
    record, differences = rejudge(Run(run.path))
    assert differences == []
    assert [(verdict.gate, verdict.status.value) for verdict in record.phases] == [
        ("readiness", "passed"),
        ("conformance", "skipped"),
    ]
    saved = run.path / "evidence" / "readiness" / "snapshot.json"
    saved.write_text(saved.read_text().replace("v1.34.0", "v1.35.0"))
    record, differences = rejudge(Run(run.path))
    assert any("readiness-constraints" in line and "passed" in line for line in differences)
    suite = run.path / "ctrf" / "readiness.json"
    suite.write_text(suite.read_text().replace('"passed"', '"failed"', 1))
    record, differences = rejudge(Run(run.path))
    assert [verdict.status for verdict in record.phases if verdict.gate == "readiness"] == [Status.OTHER]


def test_a_cluster_that_is_not_ready_closes_the_phases_after_it(run: Run, tmp_path: Path) -> None:
    wanted = asked(run, tmp_path, recipe(">= 1.35"), upstream(), phases=["conformance"])
    assert readiness(run) is Status.FAILED
    assert closed_by(run, wanted, "conformance") == "phase conformance: not reached, phase readiness is failed"
    assert decide_phase(run, "conformance").status is Status.PENDING
    assert not (run.path / "ctrf" / "conformance.json").exists()
    assert run_stats(run)["gpufleet_exit_code"] == 8
    assert "K8s.server.version is v1.34.0" in (run.path / "ctrf" / "readiness.json").read_text()


@pytest.mark.parametrize(("fail_fast", "closed"), [(True, "phase deployment is failed"), (False, "")])
def test_after_a_phase_that_is_not_passed_the_others_are_gone_through_unless_the_first_is_to_end_it(
    run: Run, tmp_path: Path, fail_fast: bool, closed: str
) -> None:
    stated = asked(run, tmp_path, recipe(), upstream(), fail_fast=fail_fast)
    assert readiness(run) is Status.PASSED
    failed = GateVerdict(gate="deployment", status=Status.FAILED, message="a component is not healthy")
    run.save_record(run.record.with_phase(failed))
    for phase in ("conformance", "performance"):
        assert closed in closed_by(run, stated, phase)
        assert bool(closed_by(run, stated, phase)) is fail_fast
    verdict = decide_phase(run, "performance")
    assert (verdict.status is Status.PENDING) is fail_fast and verdict.status is not Status.PASSED


def test_nodes_that_the_recipe_selects_are_told_as_not_used(run: Run, tmp_path: Path) -> None:
    asked(run, tmp_path, recipe(validation={"performance": {"nodeSelection": {"maxNodes": 2}}}), upstream())
    assert any("validation.performance.nodeSelection" in note for note in run.record.notes)


def test_gpus_that_the_recipe_is_not_for_are_found_without_a_constraint(run: Run, tmp_path: Path) -> None:
    other = recipe(criteria={"accelerator": "h100"})
    asked(run, tmp_path, other, upstream(), phases=["readiness"])
    assert readiness(run) is Status.FAILED
    (entry,) = (run.record.phase("readiness") or pytest.fail("undecided")).blocking
    assert (entry.cause, entry.shown) == ("other-accelerator", "instance-20260602-102458")
    summary = (run.path / "report.md").read_text()
    assert "| readiness | failed | phase readiness is" in summary
    assert "- failed pool-accelerator on instance-20260602-102458: other-accelerator: " in summary
    assert "| facility |" not in summary, "it decided no gate"


def test_a_check_that_was_left_out_is_told_and_the_phase_is_not_passed(run: Run, tmp_path: Path) -> None:
    asked(run, tmp_path, recipe(), upstream(), phases=["readiness"], skip_checks=["pool-accelerator"])
    assert readiness(run) is Status.SKIPPED
    message = (run.record.phase("readiness") or pytest.fail("undecided")).message
    assert message == (
        "1 check skipped, so phase readiness is not passed: pool-accelerator (named in gpufleet_skip_checks)"
    )


@pytest.mark.parametrize(
    ("document", "options", "told"),
    [
        (recipe(), {"phases": ["deploy"]}, "deploy"),
        (recipe(), {"skip_checks": ["gang-schedulin"]}, "gang-schedulin"),
        (recipe(validation={"conformance": {"checks": ["dra-suport"]}}), {}, "dra-suport"),
        (recipe(constraints=[{"name": "K8s.servr.version", "value": "1"}]), {}, "K8s.servr.version"),
        (recipe(constraints=[{"name": "K8s.server.version", "value": "~> 1.30"}]), {}, "~>, which is no operator"),
        (recipe(constraints=[{"name": "K8s.server.version", "value": ">= newest"}]), {}, "compared with nothing"),
        (recipe(constraints=[{"name": "K8s.server.version"}]), {}, "is not a constraint"),
        (recipe(validation={"performance": {"constraints": [BANDWIDTH | {"value": ">= many"}]}}), {}, "with nothing"),
        (recipe(validation={"performance": {"timeout": "long"}}), {}, "no duration"),
        (recipe(), {"snapshot": ""}, "needs a snapshot"),
        (recipe(validation={"performance": {"infrastructure": "nccl-doctor"}}), {}, "is no component of the recipe"),
        ({"kind": "RecipeMetadata"}, {}, "no resolved recipe"),
    ],
)
def test_what_nobody_knows_is_refused_before_anything_is_looked_at(
    document: dict[str, Any], options: dict[str, Any], told: str, run: Run, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=told):
        asked(run, tmp_path, document, upstream(), **options)


NEWER = {"name": "K8s.tenant-node-groups.driver-preset", "value": "Install"}
BY_UPSTREAM: dict[str, Any] = {"metadata": {"version": "1.3.0", "appliedOverlays": ["base"]}}


@pytest.mark.parametrize(
    ("document", "noted"),
    [
        (recipe(constraints=[NEWER]), "constraint K8s.tenant-node-groups.driver-preset"),
        (recipe(constraints=[{"name": "K8s.servr.version", "value": "1"}], **BY_UPSTREAM), "K8s.servr.version"),
        (recipe(validation={"deployment": {"constraints": [NEWER]}}), "constraint K8s.tenant-node-groups"),
    ],
)
def test_what_a_newer_upstream_names_is_judged_as_other_and_said_at_the_start(
    document: dict[str, Any], noted: str, run: Run, tmp_path: Path
) -> None:
    """A name that is far from all of ours, or one in a recipe that upstream itself wrote, is no slip of the pen."""
    asked(run, tmp_path, document, upstream())
    assert [note for note in run.record.notes if noted in note and "other, not passed" in note]


@pytest.mark.parametrize(("value", "status"), [("Install", Status.PASSED), ("None", Status.FAILED)])
@pytest.mark.parametrize("carried", [True, False])
def test_who_installs_the_driver_is_judged_by_what_the_provider_lists(
    value: str, status: Status, carried: bool, run: Run, tmp_path: Path
) -> None:
    """NVIDIA/aicr, docs/user/cli-reference (--aks-gpu-pools): every AKS recipe of today has the constraint."""
    seen = upstream()
    if carried:
        seen["measurements"][0]["subtypes"].append({"subtype": "aks-gpu-pools", "data": {"gpu-driver": "Install"}})
    asked(run, tmp_path, recipe(constraints=[{"name": "K8s.aks-gpu-pools.gpu-driver", "value": value}]), seen)
    assert readiness(run) is (status if carried else Status.OTHER)
    (tmp_path / "pools.json").write_text('[{"name": "a", "vmSize": "Standard_NC24ads_A100_v4", "gpuProfile": null}]')
    assert readiness(run, f"aks-gpu-pools={tmp_path / 'pools.json'}") is status


@pytest.mark.parametrize("name", ["gke-gpu-nic-networks", "gke-gpu-nic-topology", "brand-new-check-of-aicr-2"])
def test_a_check_of_a_newer_upstream_keeps_its_phase_from_passing_and_nothing_else(
    name: str, run: Run, tmp_path: Path
) -> None:
    """NVIDIA/aicr: recipes/overlays/h100-gke-cos-training.yaml has the first, docs/integrator/gke-tcpxo-networking.md
    the second."""
    document = recipe(validation={"deployment": {"checks": [name, "operator-health"]}}, **BY_UPSTREAM)
    asked(run, tmp_path, document, upstream(), phases=["readiness", "deployment"])
    assert readiness(run) is Status.PASSED
    assert decide_phase(run, "deployment").status is Status.SKIPPED
    message = (run.record.phase("deployment") or pytest.fail("undecided")).message
    assert name in message and "is not passed" in message


UID = "6d1f0a4c-0000-4000-8000-000000000001"


def supplied(tmp_path: Path, **changes: Any) -> ValidationRequest:
    whole = CollectorResult(state=Collected.WHOLE)
    seen = Snapshot(
        taken=now_utc(), made_by="gpufleet.bringup 1", cluster_uid=UID, collectors=dict.fromkeys(COLLECTORS, whole)
    )
    path = tmp_path / "supplied.json"
    path.write_text(to_text(replace(seen, **changes)))
    return ValidationRequest(snapshot=str(path), max_age_s=3600.0)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    class Opened:
        def __init__(self, _connection: Connection) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_error: object) -> None: ...

    monkeypatch.setattr(validation_looks, "Cluster", Opened)
    monkeypatch.setattr(validation_looks, "cluster_uid", lambda _cluster: UID)


@pytest.mark.usefixtures("here")
def test_a_supplied_snapshot_of_this_cluster_and_of_late_is_looked_at(tmp_path: Path) -> None:
    assert supplied_snapshot(supplied(tmp_path), NOWHERE).cluster_uid == UID


OLD = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
AHEAD = (datetime.now(UTC) + timedelta(hours=2)).isoformat()


@pytest.mark.usefixtures("here")
def test_a_clock_that_is_a_minute_ahead_takes_no_snapshot_away(tmp_path: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    assert supplied_snapshot(supplied(tmp_path, taken=soon), NOWHERE).taken == soon


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cluster_uid": "another"}, "is of cluster another, this is cluster 6d1f0a4c"),
        ({"cluster_uid": "", "made_by": "aicr 0.13.0"}, "does not say of which cluster it is"),
        ({"taken": OLD}, "at most 1 h"),
        ({"taken": AHEAD}, "after the time here: nobody knows how old it is"),
        ({"taken": "yesterday"}, "does not say when it was taken"),
    ],
)
def test_a_supplied_snapshot_of_another_cluster_or_past_its_age_is_no_answer(
    changes: dict[str, str], told: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=told):
        supplied_snapshot(supplied(tmp_path, **changes), NOWHERE)


def test_what_upstream_states_of_its_own_benchmark_is_taken_and_told(run: Run, tmp_path: Path) -> None:
    """The performance section of NVIDIA/aicr recipes/overlays/gb200-oke-ubuntu-inference-dynamo.yaml, and a unit."""
    stated = {
        "inference-model": "Qwen/Qwen3-8B", "inference-concurrency-per-gpu": "256",
        "inference-routing-mode": "dynamo-router", "inference-throughput": ">= 50000", "inference-ttft-p99": "<= 2000",
        "nccl-all-reduce-bw": ">= 300 GB/s",
    }  # fmt: skip
    entries = [{"name": name, "value": value} for name, value in stated.items()]
    asked(run, tmp_path, recipe(validation={"performance": {"constraints": entries}}), upstream())
    told = [note for note in run.record.notes if "routing-mode" in note]
    assert len(told) == 1 and "is not used" in told[0]
    assert PHASE_CONSTRAINTS in run.site.capabilities


@pytest.mark.parametrize("said", [True, False, None])
def test_without_a_cluster_the_run_is_the_rehearsal_that_its_snapshot_is(
    said: bool | None, run: Run, tmp_path: Path
) -> None:
    seen = from_data(upstream(), "up.yaml")
    document = json.loads(to_text(replace(seen, rehearsal=said)))
    asked(run, tmp_path, recipe(), document, phases=["readiness"])
    assert readiness(run) is Status.PASSED
    kept = Run(run.path)
    assert (kept.record.rehearsal, kept.site.rehearsal) == (bool(said), bool(said))
    page = (run.path / "report.md").read_text(encoding="utf-8")
    assert ("rehearsal" in page.casefold()) == (said is not False)
    assert (NOT_TOLD in kept.record.notes) == (said is None)
    readiness(run)
    assert Run(run.path).record.notes.count(NOT_TOLD) == (said is None), "told once"


def test_a_snapshot_of_upstream_is_a_rehearsals_by_the_label_of_its_nodes(run: Run, tmp_path: Path) -> None:
    """kubernetes-sigs/kwok kustomize/kwokctl/resource/node.yaml has the label; upstream records no annotations."""
    seen = upstream()
    seen["measurements"][1]["subtypes"][1]["data"] |= {"type": "kwok|instance-20260602-102458"}
    asked(run, tmp_path, recipe(), seen, phases=["readiness"])
    assert readiness(run) is Status.PASSED
    assert Run(run.path).record.rehearsal and NOT_TOLD not in Run(run.path).record.notes


def test_the_verdict_of_a_validation_without_a_cluster_is_one_short_sentence(run: Run, tmp_path: Path) -> None:
    asked(run, tmp_path, recipe(), upstream(), phases=["deployment", "conformance", "performance"])
    readiness(run)
    skipped = 0
    for phase in ("deployment", "conformance", "performance"):
        verdict = decide_phase(run, phase)
        skipped += verdict.counts["skipped"]
        assert len(verdict.message) < 300, verdict.message
    said = run_stats(run)["gpufleet_verdict"]
    assert f"{skipped} checks skipped, each with its reason in the report; no gate was decided" in said
    assert skipped > 20 and len(said) < 250, said
