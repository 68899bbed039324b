# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a gate can be taken over: fresh, changed, never passed, failed since, too old, let through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from counted_work import lines_per_pair
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fingerprint.dependencies import (
    SiteState,
    dependencies_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Acceptance, Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.freshness import (
    FreshnessContext,
    GateFreshness,
    Needed,
    Why,
    gate_freshness,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NonPass, Pass

NAMES = ("gpu01", "gpu02")
SITE = make_site(tuple(Host(name=n, sku="h100", node_name=n) for n in NAMES), name="s")
STATE = SiteState(hosts={name: {"driver": "580.1"} for name in NAMES})
CONTEXT = FreshnessContext(site=SITE, state=STATE, now=datetime(2026, 11, 21, 12, tzinfo=UTC), max_age_days=7)
NEEDED = [Needed(check="gpu-census", kind=SubjectKind.NODE, subject=name) for name in NAMES]


def passed(subject: str, day: int = 20, run_id: str = "run-1", state: SiteState = STATE) -> Pass:
    return Pass(
        gate="nodes",
        check="gpu-census",
        subject=subject,
        run_id=run_id,
        passed=f"2026-11-{day:02d}T12:00:00Z",
        dependencies=dependencies_of("nodes", "gpu-census", SubjectKind.NODE, subject, (subject,), SITE, state),
        gate_passed=True,
        begun=2 * day,
    )


def non_pass(subject: Subject | None, day: int, status: Status = Status.FAILED) -> NonPass:
    rating = Rating.BAD if status is Status.FAILED else Rating.MARGINAL
    seen = None
    if subject is not None:
        seen = Outcome(
            check="gpu-census", gate="nodes", status=status, rating=rating, subjects=(subject,), summary="text",
            cause="gpu-missing", hint="mend",
        )  # fmt: skip
    return NonPass(
        gate="nodes",
        run_id="run-9",
        seen=f"2026-11-{day:02d}T12:00:00Z",
        text="failed",
        outcome=seen,
        order=2 * day + 1,
    )


def judged(passes: list[Pass], *non_passes: NonPass, context: FreshnessContext = CONTEXT) -> GateFreshness:
    return gate_freshness("nodes", NEEDED, passes, non_passes, context)


BOTH = [passed(name) for name in NAMES]


def test_what_was_recorded_last_counts_whatever_the_clocks_said() -> None:
    """The controller whose run failed last was a day behind."""
    behind = replace(non_pass(node_subject("gpu02"), 19), order=BOTH[1].begun + 1)
    assert behind.seen < BOTH[1].passed
    assert not judged(BOTH, behind).can_be_taken_over
    ahead = replace(non_pass(node_subject("gpu02"), 21), order=BOTH[1].begun - 1)
    assert judged(BOTH, ahead).can_be_taken_over


def test_a_pass_from_the_future_does_not_count() -> None:
    found = judged([BOTH[0], replace(BOTH[1], passed="2027-11-20T12:00:00Z")])
    assert not found.can_be_taken_over and not found.only_changed
    assert "gpu-census on gpu02 of no age that counts: passed at 2027-11-20" in found.reasons()[0]
    assert "a clock was wrong" in found.reasons()[0]


def test_fresh_passes_of_every_subject_stand_for_the_gate() -> None:
    found = judged([passed("gpu01"), passed("gpu02", 18, "run-0")])
    assert found.can_be_taken_over and not found.reasons()
    over = found.taken_over
    assert (over.runs, over.results) == (("run-1", "run-0"), 2)
    assert (over.oldest[:10], over.newest[:10]) == ("2026-11-18", "2026-11-20")


def test_a_subject_that_changed_is_stale_and_the_other_is_not() -> None:
    rolled = replace(STATE, hosts=STATE.hosts | {"gpu02": {"driver": "580.2"}})
    found = judged(BOTH, context=replace(CONTEXT, state=rolled))
    assert not found.can_be_taken_over and found.only_changed
    assert [entry.subject for entry in found.fresh] == ["gpu01"]
    assert found.reasons() == ["driver 580.1 -> 580.2 on gpu02"]


@pytest.mark.parametrize(
    ("passes", "non_passes", "why", "words"),
    [
        (BOTH[:1], (), Why.NEVER, "gpu-census on gpu02 never passed"),
        ([], (), Why.NEVER, "gpu-census on gpu01, gpu-census on gpu02 never passed"),
        (BOTH, (non_pass(node_subject("gpu02"), 21),), Why.FAILED, "not passed since: failed in run run-9"),
        (BOTH, (non_pass(Subject(SubjectKind.GPU, "gpu02/gpu3", "gpu02"), 21),), Why.FAILED, "gpu-census on gpu02"),
        (BOTH, (non_pass(None, 21),), Why.FAILED, "not passed since"),
        ([BOTH[0], passed("gpu02", 13)], (), Why.EXPIRED, "8 days since run run-1, at most 7 count"),
    ],
)
def test_a_gate_without_a_pass_to_build_on_does_not_stand(
    passes: list[Pass], non_passes: tuple[NonPass, ...], why: Why, words: str
) -> None:
    found = judged(passes, *non_passes)
    assert not found.can_be_taken_over and not found.only_changed
    assert {entry.why for entry in found.stale} == {why}
    assert words in "; ".join(found.reasons())


def test_a_pass_after_the_trouble_counts_and_trouble_of_another_gate_does_not() -> None:
    assert judged(BOTH, non_pass(node_subject("gpu02"), 19)).can_be_taken_over
    assert judged(BOTH, replace(non_pass(node_subject("gpu02"), 21), gate="gpu_stack")).can_be_taken_over


DECISION: dict[str, Any] = {"check": "gpu-census", "subject": "gpu02", "reason": "r", "who": "w", "until": "2026-12-31"}


@pytest.mark.parametrize(
    ("status", "decisions", "stands"),
    [
        (Status.FAILED, {"waivers": (Waiver(**DECISION),)}, True),
        (Status.FAILED, {"waivers": (Waiver(**DECISION | {"until": "2026-11-20"}),)}, False),
        (Status.FAILED, {"acceptances": (Acceptance(**DECISION),)}, False),
        (Status.OTHER, {"acceptances": (Acceptance(**DECISION),)}, True),
        (Status.FAILED, {}, False),
    ],
)
def test_what_a_person_lets_through_today_needs_no_pass(
    status: Status, decisions: dict[str, Any], stands: bool
) -> None:
    context = replace(CONTEXT, site=replace(SITE, **decisions))
    found = judged(BOTH[:1], non_pass(node_subject("gpu02"), 20, status), context=context)
    assert found.can_be_taken_over is stands
    assert [entry.subject for entry in found.decided] == (["gpu02"] if stands else [])


def test_a_gate_of_which_everything_was_let_through_stands_for_nothing() -> None:
    waiver = Waiver(**DECISION | {"subject": "gpu*"})
    context = replace(CONTEXT, site=replace(SITE, waivers=(waiver,)))
    assert not judged([], *(non_pass(node_subject(name), 20) for name in NAMES), context=context).can_be_taken_over


def test_the_work_grows_with_hosts_and_troubles_and_not_with_their_product() -> None:
    def prepare(size: int) -> Callable[[], object]:
        names = [f"gpu{number:04d}" for number in range(size)]
        needed = [Needed(check="gpu-census", kind=SubjectKind.NODE, subject=name) for name in names]
        passes, troubles = [passed(name) for name in names], [non_pass(node_subject(name), 21) for name in names]
        return lambda: gate_freshness("nodes", needed, passes, troubles, CONTEXT)

    assert abs(lines_per_pair(prepare, 8)) < 0.2
