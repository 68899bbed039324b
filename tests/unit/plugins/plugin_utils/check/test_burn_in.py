# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host passes a burn-in only if every test passed for as many hours as were asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.burn_in import burn_in_soak, observe_soak
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.burn_in.model import Soak, SoakResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status, SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

TESTS = ("dl_unit", "nccl_loop")


def passed(host: str, test: str, number: int, seconds: float) -> SoakResult:
    loaded_s = 3600.0 if test == "dl_unit" else 0.0
    return SoakResult(host=host, test=test, round=number, status=Status.PASSED, seconds=seconds, loaded_s=loaded_s)


def whole(hosts: tuple[str, ...] = ("gpu01", "gpu02")) -> Soak:
    """Two hours of load by one of two tests on each host."""
    results = tuple(passed(host, test, number, 1800.0) for number in (1, 2) for test in TESTS for host in hosts)
    return Soak(hours=2.0, tests=TESTS, hosts=hosts, rounds=2, results=results, load_s=3600.0)


def judged(seen: Soak, hours: float = 2.0) -> dict[str, Outcome]:
    site = make_site([Host(name=name, sku="dgx-h100", node_name=name) for name in ("gpu01", "gpu02")])
    settings = {burn_in_soak.SPEC.id: {"hours": hours}}
    context = JudgeContext(gate="burn_in", site=site, today=date(2026, 11, 23), saved_settings=settings)
    return {outcome.subjects[0].name: outcome for outcome in burn_in_soak.judge(seen, context)}


def test_hosts_that_passed_everything_for_all_hours_pass() -> None:
    assert {outcome.status for outcome in judged(whole()).values()} == {Status.PASSED}


@pytest.mark.parametrize(
    ("change", "status", "cause"),
    [
        ({"status": Status.FAILED, "cause": "slow-adapter"}, Status.FAILED, "failed-under-load"),
        ({"status": Status.OTHER, "cause": "unreadable"}, Status.OTHER, "soak-too-short"),
        ({"status": Status.PENDING, "cause": "preempted"}, Status.OTHER, "soak-too-short"),
        ({"loaded_s": 3500.0}, Status.OTHER, "soak-too-short"),
    ],
)
def test_one_result_of_one_host_that_is_not_good_holds_that_host_alone(
    change: dict[str, object], status: Status, cause: str
) -> None:
    seen = whole()
    results = (replace(seen.results[0], summary="what was seen", **change), *seen.results[1:])  # type: ignore[arg-type]
    found = judged(replace(seen, results=results))
    assert (found["gpu01"].status, found["gpu01"].cause) == (status, cause)
    assert found["gpu02"].status is Status.PASSED


def test_the_part_that_a_test_blames_is_named_beside_its_host() -> None:
    seen = whole()
    wrong = replace(seen.results[0], status=Status.FAILED, cause="digest-differs", parts=("gpu1",))
    found = judged(replace(seen, results=(wrong, *seen.results[1:])))
    named = [(subject.kind, subject.name, subject.node) for subject in found["gpu01"].subjects]
    assert named == [(SubjectKind.NODE, "gpu01", "gpu01"), (SubjectKind.GPU, "gpu01/gpu1", "gpu01")]


@pytest.mark.parametrize(("parts", "named"), [(("gpu1",), "gpu01/gpu1"), ((), "gpu01")])
def test_a_failure_names_its_log_and_the_commands_that_go_on(parts: tuple[str, ...], named: str) -> None:
    wrong = replace(
        whole().results[0],
        status=Status.FAILED,
        cause="digest-differs",
        parts=parts,
        log="/logs/dl_unit/gpu01/x.log.gz",
    )
    found = judged(Soak(hours=2.0, tests=TESTS, hosts=("gpu01", "gpu02"), results=(wrong,), directory="/srv/run 1"))
    assert found["gpu01"].summary.endswith("after 0.0 s of load")
    assert found["gpu01"].hint == (
        f"read /logs/dl_unit/gpu01/x.log.gz; pack the part: ansible-playbook gpufleet.bringup.rma "
        f"-e gpufleet_rma={named} -e \"gpufleet_run='/srv/run 1'\"; "
        "burn in the repaired host alone with -e gpufleet_burn_in_nodes=gpu01"
    )


def test_hours_of_pods_are_no_hours_of_load() -> None:
    """24 hours of pods were some hundred seconds of GPUs at work (findings T232)."""
    seen = whole()
    short = tuple(replace(entry, seconds=86400.0, loaded_s=8.0) for entry in seen.results)
    assert {outcome.cause for outcome in judged(replace(seen, results=short)).values()} == {"soak-too-short"}


def test_a_burn_in_whose_tests_keep_no_gpu_at_work_is_for_a_person_to_accept() -> None:
    found = judged(replace(whole(), load_s=0.0))
    assert {(outcome.status, outcome.cause) for outcome in found.values()} == {(Status.OTHER, "gpus-not-loaded")}
    assert all("no test kept the GPUs at work" in outcome.summary for outcome in found.values())


def test_hours_that_were_made_up_for_do_not_hide_a_test_that_said_nothing() -> None:
    seen = whole()
    odd = SoakResult(host="gpu01", test="dl_unit", round=3, status=Status.OTHER, seconds=0.0, cause="unreadable")
    found = judged(replace(seen, results=(*seen.results, odd)))
    assert found["gpu01"].cause == "soak-unclear" and found["gpu02"].status is Status.PASSED


def test_a_test_that_never_answered_is_no_pass_however_long_the_others_ran() -> None:
    seen = whole()
    results = tuple(replace(entry, test="dl_unit") for entry in seen.results)
    assert {outcome.cause for outcome in judged(replace(seen, results=results)).values()} == {"soak-too-short"}


def test_the_hours_of_the_setting_count_and_not_those_that_were_written() -> None:
    assert {outcome.cause for outcome in judged(whole(), hours=3.0).values()} == {"soak-too-short"}


def test_a_host_that_took_no_part_is_not_passed() -> None:
    found = judged(whole(("gpu01",)))
    assert found["gpu02"].cause == "not-soaked" and found["gpu01"].status is Status.PASSED


def test_a_host_is_left_alone_after_a_failure_and_when_its_hours_are_over() -> None:
    seen = replace(whole(), hours=2.5)
    assert seen.still_to_do("gpu01") and not whole().still_to_do("gpu01")
    failed = SoakResult(host="gpu01", test="dl_unit", round=3, status=Status.FAILED, seconds=1.0, cause="wrong")
    seen = replace(seen, results=(*seen.results, failed))
    assert not seen.still_to_do("gpu01") and seen.still_to_do("gpu02")


def test_a_host_that_one_test_has_loaded_long_enough_has_the_others_to_do_once() -> None:
    seen = whole()
    first = replace(seen, hours=0.5, rounds=0, results=tuple(e for e in seen.results if e.test == "dl_unit")[:1])
    assert first.soaked_s("gpu01") >= 0.5 * 3600 and first.lacking("gpu01") == ("nccl_loop",)
    assert first.still_to_do("gpu01") and first.missing("gpu01") == (0.0, 1)
    unread = SoakResult(host="gpu01", test="nccl_loop", round=1, status=Status.OTHER, seconds=9.0, cause="unreadable")
    assert replace(first, results=(*first.results, unread)).missing("gpu01") == (0.0, 1)
    assert not replace(first, results=(*first.results, passed("gpu01", "nccl_loop", 1, 9.0))).still_to_do("gpu01")


@pytest.mark.parametrize(
    "change",
    [
        {"hosts": ("gpu01",)},
        {"tests": ("dl_unit",)},
        {"hours": 0.0},
        {"hours": float("nan")},
        {"schema_version": 2},
    ],
)
def test_rounds_of_hosts_or_tests_that_nobody_asked_for_are_refused(change: dict[str, object]) -> None:
    seen = replace(whole(), **change)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        observe_soak.restore(to_plain(seen), Path(), make_site())


def test_what_the_burn_in_left_in_the_cluster_holds_the_phase_and_no_host() -> None:
    site = make_site([Host(name=name, sku="dgx-h100", node_name=name) for name in ("gpu01", "gpu02")])
    settings = {burn_in_soak.SPEC.id: {"hours": 2.0}}
    context = JudgeContext(gate="burn_in", site=site, today=date(2026, 11, 23), saved_settings=settings)
    left = "Pod of gpufleet-burn-in-1a2b3c: Still there: dl-unit-2-0 on node gpu02"
    outcomes = burn_in_soak.judge(replace(whole(), leftovers=(left,)), context)
    held = [outcome for outcome in outcomes if outcome.status is not Status.PASSED]
    assert [(one.status, one.cause, one.subjects[0].kind) for one in held] == [
        (Status.OTHER, "cleanup-incomplete", SubjectKind.CLUSTER)
    ]
    assert "dl-unit-2-0 on node gpu02" in held[0].summary and len(outcomes) == 3


def test_rounds_that_an_earlier_build_wrote_left_nothing() -> None:
    plain = to_plain(whole())
    del plain["leftovers"]
    assert observe_soak.restore(plain, Path(), make_site()).leftovers == ()
