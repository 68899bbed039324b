# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judging fails closed: whatever an observer or a judge does, a subject without a good answer is never passed."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check import judge as judging
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import GatePlan, PlannedCheck, declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.answer import Answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import (
    Observation,
    observation_path,
    observe,
    require_whole,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import (
    AnyCheck,
    all_checks,
    observer_for,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import (
    Check,
    CheckSpec,
    JudgeContext,
    ObserveContext,
    Observer,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import BURN_IN, GATE_IDS, READINESS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, SiteProfile

NODES = ("gpu01", "gpu02")
SITE = make_site(tuple(Host(name=n, sku="h100", node_name=n) for n in NODES), name="s", profile=SiteProfile.CLOUD)
SPEC = CheckSpec(id="probe", gate="nodes", title="t", per=SubjectKind.NODE)
CONTEXT = JudgeContext(gate="nodes", site=SITE, today=date(2026, 11, 21))
Judge = Callable[[Any, JudgeContext], tuple[Outcome, ...]]


def planned(*checks: Check[Any], subjects: tuple[str, ...] = NODES) -> GatePlan:
    """Return a plan of these checks, each with its own observer."""
    found = tuple(PlannedCheck(check=check, observer=check.observer, subjects=subjects) for check in checks)
    return GatePlan(gate="nodes", checks=found)


def good(value: Any, context: JudgeContext) -> tuple[Outcome, ...]:
    return tuple(Answer(SPEC, context, node_subject(name)).passed(f"saw {value}") for name in value)


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., tuple[Outcome, ...]]:
    """Observe and judge one check whose observer and judge are given."""

    def run(look: Callable[[ObserveContext], Any], judge: Judge = good, *, saved: bool = True) -> tuple[Outcome, ...]:
        observer = Observer("things", list, look, lambda data, _run_dir, _site: data)
        if saved:
            observe(observer, "nodes", ObserveContext(site=SITE, run_dir=tmp_path, today=CONTEXT.today))
        return judging.judge_gate(planned(Check(SPEC, observer, judge)), CONTEXT, tmp_path)

    return run


Judged = Callable[..., tuple[Outcome, ...]]


def _raises(error: Exception) -> Callable[..., Any]:
    def look(*_args: Any) -> Any:
        raise error

    return look


def by_node(outcomes: tuple[Outcome, ...]) -> dict[str, tuple[Status, str]]:
    return {outcome.subjects[0].name: (outcome.status, outcome.cause) for outcome in outcomes}


def test_healthy_passes_with_the_time_of_the_observation(judged: Judged) -> None:
    outcomes = judged(lambda _context: list(NODES))
    assert by_node(outcomes) == dict.fromkeys(NODES, (Status.PASSED, ""))
    assert all(outcome.started for outcome in outcomes)


def test_a_subject_without_an_answer_is_other(judged: Judged) -> None:
    assert by_node(judged(lambda _context: ["gpu02"]))["gpu01"] == (Status.OTHER, "no-outcome")


@pytest.mark.parametrize(("good_part", "causes"), [(False, ["slow"]), (True, ["", "no-outcome"])])
def test_a_part_that_is_not_good_answers_for_the_site_and_one_that_is_good_does_not(
    tmp_path: Path, good_part: bool, causes: list[str]
) -> None:
    def judge(_value: Any, context: JudgeContext) -> tuple[Outcome, ...]:
        answer = Answer(SPEC, context, Subject(SubjectKind.LINK, "a:1 - b:2"))
        return (answer.passed("fine") if good_part else answer.failed("slow", "it is slow", "look"),)

    observer = Observer("things", list, lambda _context: [1], lambda data, _run_dir, _site: data)
    observe(observer, "nodes", ObserveContext(site=SITE, run_dir=tmp_path, today=CONTEXT.today))
    plan = planned(Check(SPEC, observer, judge), subjects=("s",))
    assert [outcome.cause for outcome in judging.judge_gate(plan, CONTEXT, tmp_path)] == causes


@pytest.mark.parametrize("error", [UnavailableError("API", "does not answer."), RuntimeError("boom"), KeyError("x")])
def test_an_observer_that_fails_makes_every_subject_other(judged: Judged, error: Exception) -> None:
    assert by_node(judged(_raises(error))) == dict.fromkeys(NODES, (Status.OTHER, "observation-failed"))


@pytest.mark.parametrize(
    ("error", "cause"), [(BringupError("x", "cannot."), "not-judged"), (TypeError("boom"), "check-crashed")]
)
def test_a_judge_that_fails_makes_every_subject_other(judged: Judged, error: Exception, cause: str) -> None:
    assert by_node(judged(lambda _context: list(NODES), _raises(error))) == dict.fromkeys(NODES, (Status.OTHER, cause))


def _hangs(*_args: Any) -> Any:
    while True:
        try:
            re.search(r"(a+)+$", "a" * 40 + "b")
        except Exception:  # noqa: BLE001 - a judge that takes whatever it meets for an answer
            continue


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_LIMIT_S", 0.3)


@pytest.mark.usefixtures("short_limit")
def test_a_judge_that_hangs_is_other_with_its_name_and_leaves_no_thread(judged: Judged) -> None:
    threads, begun = threading.active_count(), time.monotonic()
    outcomes = judged(lambda _context: list(NODES), _hangs)
    assert by_node(outcomes) == dict.fromkeys(NODES, (Status.OTHER, "check-hung"))
    assert {o.summary for o in outcomes} == {"not known: check probe: did not end within 0.4 s."}
    assert time.monotonic() - begun < 30
    assert threading.active_count() == threads and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.usefixtures("short_limit")
def test_an_observation_that_is_never_read_is_other_and_the_other_checks_of_it_wait(tmp_path: Path) -> None:
    observer = Observer("things", list, lambda _context: [1], _hangs)
    observe(observer, "nodes", ObserveContext(site=SITE, run_dir=tmp_path, today=CONTEXT.today))
    both = (Check(SPEC, observer, good), Check(replace(SPEC, id="other-check"), observer, good))
    outcomes = judging.judge_gate(planned(*both), CONTEXT, tmp_path)
    assert {(o.check, o.cause) for o in outcomes} == {
        (SPEC.id, "observation-failed"),
        ("other-check", f"blocked-by-{SPEC.id}"),
    }
    assert "reading of observation things: did not end within" in outcomes[0].summary


@pytest.mark.usefixtures("short_limit")
def test_a_judge_within_its_time_is_not_ended_afterwards(judged: Judged) -> None:
    outcomes = judged(lambda _context: list(NODES))
    time.sleep(0.6)
    assert by_node(outcomes) == dict.fromkeys(NODES, (Status.PASSED, ""))


def test_nothing_observed_is_other(judged: Judged) -> None:
    assert by_node(judged(lambda _context: [], saved=False)) == dict.fromkeys(
        NODES, (Status.OTHER, "observation-failed")
    )


def test_what_was_not_observed_is_told_by_one_check_and_the_others_wait_for_it(tmp_path: Path) -> None:
    error = UnavailableError("API", "does not answer.", "start it")
    observer = Observer("things", list, _raises(error), lambda data, _run_dir, _site: data)
    other = replace(SPEC, id="other-check")
    observe(observer, "nodes", ObserveContext(site=SITE, run_dir=tmp_path, today=CONTEXT.today))
    plan = planned(Check(SPEC, observer, good), Check(other, observer, good))
    outcomes = judging.judge_gate(plan, CONTEXT, tmp_path)
    assert {(o.check, o.status, o.cause, o.blocked_by) for o in outcomes} == {
        (SPEC.id, Status.OTHER, "observation-failed", ""),
        (other.id, Status.OTHER, f"blocked-by-{SPEC.id}", SPEC.id),
    }
    assert len(outcomes) == 2 * len(NODES)
    # The check that tells it is only the first of its observation: what is named is what failed.
    waits = {(o.summary, o.hint) for o in outcomes if o.check == other.id}
    assert waits == {("not judged: it rests on what was not observed: API", "start it")}


def test_a_damaged_observation_is_other(judged: Judged, tmp_path: Path) -> None:
    judged(lambda _context: list(NODES))
    observation_path(tmp_path, "nodes", "things").write_text("{}")
    assert {status for status, _cause in by_node(judged(lambda _c: [], saved=False)).values()} == {Status.OTHER}


def test_what_cannot_be_saved_as_json_is_other(judged: Judged) -> None:
    assert {status for status, _cause in by_node(judged(lambda _context: object())).values()} == {Status.OTHER}


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.spec.id)
def test_every_check_of_the_release_is_well_formed(check: AnyCheck) -> None:
    assert check.spec.gate in (*GATE_IDS, READINESS, BURN_IN)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cause) for cause in check.spec.causes)
    assert observer_for(check, check.spec.gate) is check.observer


def test_check_ids_are_unique() -> None:
    ids = [check.spec.id for check in all_checks()]
    assert len(ids) == len(set(ids))


def test_a_check_that_the_profile_cannot_have_is_left_out_with_the_reason() -> None:
    site = make_site(
        SITE.hosts,
        name="s",
        profile=SiteProfile.CLOUD,
        capabilities=("host_access",),
        missing={"facility_record": "the provider owns the room"},
    )
    found = declare("facility", site)
    assert not found.checks
    record = [left for left in found.not_declared if left.id.startswith("facility-")]
    assert len(record) == 7 and all("the provider owns the room" in left.reason for left in record)
    assert all("needs bmc" in left.reason for left in found.not_declared if left not in record)


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.spec.id)
def test_what_was_seen_in_a_schema_that_is_not_known_is_not_read(check: AnyCheck) -> None:
    data = {"schema_version": 99}
    seen = Observation(gate=check.spec.gate, key=check.observer.key, started="", duration_s=0.0, data=data)
    with pytest.raises(BringupError, match=r"reads|has no"):
        require_whole(check.observer, replace(seen, schema_version=1))
