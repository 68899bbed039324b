# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges a gate's observations: runs the pure judges and fails closed where one of them gives no outcome."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..outcome.errors import BringupError, DeadlineError
from ..outcome.model import NOT_OBSERVED, Outcome, Rating, Status, Subject, SubjectKind, answered_by
from ..runtime.clock import time_limit
from ..runtime.redaction import redact
from .declare import GatePlan
from .kit.answer import Answer
from .observation import Observation, require_whole, saved_observation
from .registry import AnyCheck, AnyObserver
from .spec import JudgeContext

# Time limit for reading an observation or for one judge, and what each host adds. Both are done in seconds; what takes
# so long hangs on evidence of an unforeseen form. 5,000 hosts have 6 min.
_LIMIT_S, _LIMIT_HOST_S = 120.0, 0.05
_HUNG = "this is a defect: report it with the run directory; judge the run again with the release that fixes it"
_AGAIN = "read the observation in the run directory, fix the reason and run the gate again"
_Restored = dict[str, tuple[Observation | None, Any, BringupError | None]]


def judge_gate(plan: GatePlan, context: JudgeContext, run_dir: Path) -> tuple[Outcome, ...]:
    """Return an outcome for every subject of every declared check, from the saved observations alone.

    Reading an observation and each judge have a time limit. What exceeds it is `other`, with the name of the
    observation or check.

    Where an observation is missing, the first check that needs it reports why. The other checks that need it are
    blocked by that first one.
    """
    restored: _Restored = {}
    reported: dict[str, str] = {}
    outcomes: list[Outcome] = []
    for planned in plan.checks:
        check, observer = planned.check, planned.observer
        if observer.key not in restored:
            restored[observer.key] = _restore(observer, plan.gate, context, run_dir)
        answers = _answers(check, planned.subjects, context, restored[observer.key])
        failure = restored[observer.key][2]
        if failure is not None:
            first = reported.setdefault(observer.key, check.spec.id)
            if first != check.spec.id:
                answers = [_waiting(check, context, o, first, failure) for o in answers]
        outcomes.extend(answers)
    return tuple(outcomes)


def _waiting(check: AnyCheck, context: JudgeContext, outcome: Outcome, first: str, failure: BringupError) -> Outcome:
    """Return that a check is blocked because its observation is missing; check `first` reports the reason."""
    answer = Answer(check.spec, context, outcome.subjects[0])
    waits = answer.blocked(by=first, because=f"it rests on what was not observed: {failure.subject}")
    return replace(waits, hint=failure.hint or _AGAIN, started=outcome.started, duration_s=outcome.duration_s)


def _restore(
    observer: AnyObserver, gate: str, context: JudgeContext, run_dir: Path
) -> tuple[Observation | None, Any, BringupError | None]:
    try:
        observed = saved_observation(run_dir, gate, observer.key)
        if observed.error is not None:
            error = observed.error
            return (
                observed,
                None,
                BringupError(error["subject"], error["reason"], error["hint"], tuple(error["evidence"])),
            )
        require_whole(observer, observed)
        with time_limit(f"reading of observation {observer.key}", _limit_s(context), _HUNG):
            return observed, observer.restore(observed.data, run_dir, context.site), None
    except BringupError as failure:
        return None, None, failure
    except (Exception, SystemExit) as crash:  # noqa: BLE001 - unreadable saved data is `other`, with the reason
        return None, None, _defect(f"observation {observer.key}", crash)


def _limit_s(context: JudgeContext) -> float:
    return _LIMIT_S + _LIMIT_HOST_S * len(context.site.hosts)


def _defect(subject: str, crash: Exception | SystemExit) -> BringupError:
    text = redact(str(crash))[:400]
    return BringupError(
        subject, f"crashed with {type(crash).__name__}: {text}.", "this is a defect: report it with the run directory"
    )


def _answers(
    check: AnyCheck,
    subjects: tuple[str, ...],
    context: JudgeContext,
    restored: tuple[Observation | None, Any, BringupError | None],
) -> list[Outcome]:
    observed, value, failure = restored
    started, duration_s = (observed.started, observed.duration_s) if observed else ("", 0.0)
    outcomes: tuple[Outcome, ...] = ()
    cause = NOT_OBSERVED
    if failure is None:
        try:
            with time_limit(f"check {check.spec.id}", _limit_s(context), _HUNG):
                outcomes = _outcomes(check, check.judge(value, context))
        except DeadlineError as error:
            failure, cause = error, "check-hung"
        except BringupError as error:
            failure, cause = error, "not-judged"
        except (Exception, SystemExit) as crash:  # noqa: BLE001 - a crashed judge must become `other`
            failure, cause = _defect(f"check {check.spec.id}", crash), "check-crashed"
    stamped = [replace(o, started=o.started or started, duration_s=o.duration_s or duration_s) for o in outcomes]
    answered = {name for outcome in stamped for name in answered_by(outcome, context.site.name)}
    missing = [name for name in subjects if name not in answered]
    if not subjects and not stamped:
        missing = [context.site.name]
    return [*stamped, *(_unanswered(check, name, context, failure, cause, started, duration_s) for name in missing)]


def _outcomes(check: AnyCheck, given: Any) -> tuple[Outcome, ...]:
    """Return the outcomes of a judge, which may be a tuple or a generator.

    Raises:
        TypeError: an element is no Outcome. mypy finds this in our checks, not in those of a site.
    """
    outcomes = tuple(given)
    strange = next((entry for entry in outcomes if not isinstance(entry, Outcome)), None)
    if strange is not None:
        raise TypeError(f"judge of {check.spec.id} gave {strange!r}, which is no Outcome")
    return outcomes


def _unanswered(
    check: AnyCheck,
    name: str,
    context: JudgeContext,
    failure: BringupError | None,
    cause: str,
    started: str,
    duration_s: float,
) -> Outcome:
    kind = check.spec.per
    node = name if kind is SubjectKind.NODE else ""
    text = (
        f"not known: {failure.subject}: {failure.reason}" if failure else "the check gave no answer for this subject."
    )
    return Outcome(
        check=check.spec.id,
        gate=context.gate,
        status=Status.OTHER,
        rating=Rating.UNKNOWN,
        subjects=(Subject(kind, name, node),),
        summary=text,
        cause=cause if failure else "no-outcome",
        hint=(failure.hint if failure else "") or _AGAIN,
        started=started,
        duration_s=duration_s,
    )
