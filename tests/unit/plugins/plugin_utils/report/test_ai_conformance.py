# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence for AI conformance: what is proven passes, what is not known fails, what was not asked is skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from thinned import HEALTHY

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Evidence,
    Measure,
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.ai_conformance import (
    FAIL,
    PASS,
    SKIP,
    conformance,
    judged,
    outcomes_of,
    pages,
    verdict_of,
    versions,
    write_pages,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

GANG = Outcome(
    check="gang-admission", gate="gpu_stack", status=Status.PASSED, rating=Rating.GOOD,
    subjects=(Subject(SubjectKind.CLUSTER, "site"),), summary="one gang placed whole",
    evidence=(Evidence("PodGroups", "gpu01", "gang-a: Running\ngang-b: Pending"),),
)  # fmt: skip
BAD = replace(
    GANG, status=Status.FAILED, rating=Rating.BAD, cause="gang-partial", hint="look", summary="placed in part"
)
UNKNOWN = replace(GANG, status=Status.OTHER, rating=Rating.UNKNOWN, cause="no-capacity", summary="all busy")
LEFT_OUT = replace(GANG, status=Status.SKIPPED, rating=Rating.UNKNOWN, summary="left out by gpufleet_skip_checks")


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ((GANG,), PASS),
        ((BAD,), FAIL),
        ((UNKNOWN,), FAIL),
        ((GANG, UNKNOWN), FAIL),
        ((LEFT_OUT,), SKIP),
        ((GANG, LEFT_OUT), SKIP),
        ((LEFT_OUT, BAD), FAIL),
        ((replace(LEFT_OUT, status=Status.PENDING),), FAIL),
        ((), SKIP),
        ((replace(GANG, check="dra-slices"),), SKIP),
    ],
)
def test_a_requirement_is_what_its_checks_are(outcomes: tuple[Outcome, ...], verdict: str) -> None:
    (found,) = judged(outcomes, "1.37", ["gang-scheduling"])
    assert (found.id, found.level, found.verdict) == ("gang_scheduling", "MUST", verdict)


def test_the_verdict_counts_what_is_open_and_begins_with_the_word_rehearsal() -> None:
    found = judged((GANG,), "1.37", ["gang-scheduling", "ai_inference", "cluster_autoscaling"])
    assert [(entry.level, entry.verdict) for entry in found].count(("MUST", SKIP)) == 2
    said = "1 of 3 requirements met, 0 not met, 2 not proven (2 of them MUST)"
    assert verdict_of(found, rehearsal=False) == said
    assert verdict_of(found, rehearsal=True) == f"REHEARSAL {said}"
    proven = judged((GANG,), "1.37", ["gang-scheduling"])
    assert verdict_of(proven, rehearsal=False) == "1 of 1 requirement met, 0 not met"
    assert proven[0].reason == "1 result of gang-admission, all passed"


def test_half_of_the_checks_prove_nothing_and_a_failed_half_fails() -> None:
    half = replace(GANG, check="dra-slices")
    (found,) = judged((half,), "1.34", ["dra_support"])
    assert found.verdict == SKIP and "dra-allocation" in found.reason
    (found,) = judged((replace(BAD, check="dra-slices"),), "1.34", ["dra_support"])
    assert found.verdict == FAIL


def test_why_a_check_was_not_asked_of_the_site_is_told() -> None:
    why = {"dra-allocation": "the device plugin gives out the GPUs"}
    (found,) = judged((replace(GANG, check="dra-slices"),), "1.35", ["dra_support"], why)
    assert (found.level, found.verdict) == ("MUST", SKIP)
    assert found.reason == "not asked in this run: dra-allocation (the device plugin gives out the GPUs)"


@pytest.mark.parametrize(("served", "verdict"), [(1, PASS), (0, SKIP), (None, SKIP)])
def test_a_check_that_had_nothing_to_look_at_shows_nothing(served: int | None, verdict: str) -> None:
    measured = () if served is None else (Measure("Gateways served", served, "count"),)
    class_alone = replace(GANG, check="inference-gateway", summary="no Gateway uses it yet", measured=measured)
    (found,) = judged((class_alone,), "1.37", ["ai-inference"])
    assert (found.level, found.verdict) == ("MUST", verdict)
    assert ("no Gateway uses it yet" in found.reason) is (verdict == SKIP)


def test_that_nobody_gets_alerts_is_no_matter_of_metrics() -> None:
    collected = [replace(GANG, gate="telemetry", check=name) for name in ("gpu-metrics-scraped", "recipe-rules-loaded")]
    lost = replace(BAD, gate="telemetry", check="alert-delivery", cause="alertmanager-not-wired")
    (found,) = judged((*collected, lost), "1.37", ["ai-service-metrics"])
    assert found.verdict == PASS
    (found,) = judged((collected[0], lost), "1.37", ["ai-service-metrics"])
    assert found.verdict == SKIP


def test_what_no_check_proves_is_skipped_and_says_what_is_missing() -> None:
    (found,) = judged((), "1.37", ["workload-sandboxing"])
    assert found.verdict == SKIP and "no check runs a sandbox" in found.reason


def test_an_unknown_feature_or_list_is_refused() -> None:
    with pytest.raises(InputError, match=r"gang-scheduling|features"):
        judged((), "1.37", ["gang-schedulin"])
    with pytest.raises(InputError, match=r"1\.99"):
        judged((), "1.99")
    with pytest.raises(InputError, match="features"):
        judged((), "1.37", ["dra-support"])


def test_every_list_names_requirements_and_every_requirement_names_checks_that_there_are() -> None:
    ids, known = {check.spec.id for check in all_checks()}, conformance().requirements
    assert versions() == ("1.33", "1.34", "1.35", "1.37")
    for version in versions():
        levels = conformance().lists[version].levels
        assert set(levels) <= set(known) and set(levels.values()) <= {"MUST", "SHOULD"}
    for name, requirement in known.items():
        assert set(requirement.checks) <= ids, name
        assert bool(requirement.checks) is not bool(requirement.lacks), name
    features = [feature for requirement in known.values() for feature in requirement.features]
    assert len(features) == len(set(features))


def test_the_pages_of_a_whole_run_say_that_it_was_rehearsed(tmp_path: Path) -> None:
    unpack(HEALTHY, tmp_path)
    found = {entry.id: entry for entry in judged(outcomes_of(tmp_path, Run(tmp_path).record), "1.37")}
    proven = ("gang_scheduling", "secure_accelerator_access", "accelerator_metrics", "ai_service_metrics")
    assert {found[name].verdict for name in proven} == {PASS}
    assert {entry.verdict for entry in found.values()} == {PASS, SKIP}
    made = pages(found.values(), "1.37", Run(tmp_path).record)
    assert set(made) == {"index.md", *(f"{name}.md" for name in found)}
    assert all("simulated" in text for text in made.values())
    assert "| [gang_scheduling](gang_scheduling.md)" in made["index.md"] and "| MUST | PASS |" in made["index.md"]
    assert "gang-a: Running" in made["gang_scheduling.md"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"what_if": "gpu_stack.settle_s"}, "judged by other settings"),
        ({"check_mode": True}, "check mode"),
        ({"wave": ("gpu01",)}, "of a roll"),
        ({"driver_only": True}, "needs the driver"),
    ],
)
def test_a_run_that_is_no_verdict_about_the_platform_gives_no_evidence(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    unpack(HEALTHY, tmp_path)
    record = Run(tmp_path).record
    assert outcomes_of(tmp_path, record)
    with pytest.raises(InputError, match=told):
        outcomes_of(tmp_path, replace(record, **changes))


def test_results_of_a_gate_or_phase_that_is_to_be_looked_at_again_count_no_more(tmp_path: Path) -> None:
    """A second validation in a directory ended before it came there: what lies there is of the one before."""
    unpack(HEALTHY, tmp_path)
    record = Run(tmp_path).record
    waiting = replace(record, gates=tuple(
        replace(verdict, status=Status.PENDING) if verdict.gate == "telemetry" else verdict for verdict in record.gates
    ))  # fmt: skip
    found = {entry.id: entry.verdict for entry in judged(outcomes_of(tmp_path, waiting), "1.37")}
    assert (found["gang_scheduling"], found["accelerator_metrics"]) == (PASS, SKIP)
    none = replace(record, gates=tuple(replace(verdict, status=Status.PENDING) for verdict in record.gates))
    with pytest.raises(InputError, match="no results"):
        outcomes_of(tmp_path, none)


def test_a_run_without_results_gives_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no results"):
        outcomes_of(tmp_path, new_run("r1", "site", "2026-11-23T08:00:00Z", (), rehearsal=False))


def test_a_page_of_another_list_does_not_stay_beside_the_new_ones(tmp_path: Path) -> None:
    write_pages(tmp_path, {"index.md": "old", "gang_scheduling.md": "PASS", "dra_support.md": "PASS"})
    (tmp_path / "notes.md").write_text("of the site")
    write_pages(tmp_path, {"index.md": "new", "dra_support.md": "FAIL"})
    there = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert there == {"index.md": "new", "dra_support.md": "FAIL", "notes.md": "of the site"}
