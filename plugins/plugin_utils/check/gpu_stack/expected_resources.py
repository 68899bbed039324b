# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: what the recipe expects in addition to the workloads of its charts is there, and its health checks hold."""

from __future__ import annotations

from collections.abc import Iterator

from ...component_stack.chainsaw import Assertion, asked_of
from ...outcome.errors import InputError
from ...outcome.model import Basis, Evidence, Expectation, Outcome, Subject, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .expected_objects import (
    EXPECTED,
    ExpectedObject,
    ExpectedState,
    SeenAssertion,
    asserted_in,
    expected_in,
    nothing_asserted_in,
    unknown_in,
)
from .observe_expected import OBSERVER, is_met

SPEC = CheckSpec(
    id="expected-resources",
    gate="gpu_stack",
    title="What the recipe expects is there, and its health checks hold",
    per=SubjectKind.CLUSTER,
    duration_s=5.0,
    applies=(needs("kubernetes", EXPECTED),),
    causes=("assertion-not-met", "resource-missing", "resource-not-ready"),
)


def judge(observed: ExpectedState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome for each thing that is not as expected. If all are: one that passed."""
    answer = Answer.about_cluster(SPEC, context)
    recipe = context.recipe or {}
    requested = list(asserted_in(recipe))
    places = [(entry.component, entry.kind, entry.namespace, entry.name) for entry in expected_in(recipe)]
    looked = [(entry.component, entry.kind, entry.namespace, entry.name) for entry in observed.objects]
    numbers = [(entry.component, entry.number) for entry in observed.assertions]
    if looked != places or numbers != [(component, number) for component, number, _a in requested]:
        text = f"looked at {len(looked)} objects and {len(numbers)} assertions, not at those that the recipe has"
        return (answer.unknown("no-data", text, "run the gate again"),)
    bad = [outcome for entry in observed.objects for outcome in _object(answer, entry)]
    bad += [
        outcome
        for found, (_component, _number, assertion) in zip(observed.assertions, requested, strict=True)
        for outcome in _assertion(answer, found, assertion)
    ]
    bad += [_not_asked(answer, component, error) for component, error in unknown_in(recipe).items()]
    if bad:
        return tuple(bad)
    nothing = nothing_asserted_in(recipe)
    reported = f"; the recipe skips the health check of {', '.join(nothing)}" if nothing else ""
    if not looked and not numbers:
        return (answer.skipped(f"nothing is left to expect{reported}"),)
    return (answer.passed(f"{len(looked)} expected objects are there, {len(numbers)} assertions hold{reported}"),)


def _object(answer: Answer, entry: ExpectedObject) -> Iterator[Outcome]:
    title = f"{entry.kind} {'/'.join(filter(None, (entry.namespace, entry.name)))}"
    subject = (_component(entry.component),)
    expected = (Expectation(title, "==", "there and ready", Basis.RECIPE),)
    look = f"kubectl get {entry.kind.lower()} {entry.name}" + (f" -n {entry.namespace}" if entry.namespace else "")
    if entry.there is None:
        text = f"{title} of {entry.component} could not be looked at: {entry.problem}"
        yield answer.unknown("resource-unseen", text, look, more_subjects=subject)
    elif not entry.there:
        text = f"{title}, which {entry.component} is expected to have, is not there"
        yield answer.failed("resource-missing", text, look, more_subjects=subject, expected=expected)
    elif entry.desired is not None and (not entry.desired or (entry.ready or 0) < entry.desired):
        text = f"{title} of {entry.component} has {entry.ready} of {entry.desired} pods ready"
        text += f"; {entry.problem}" if entry.problem else ""
        yield answer.failed("resource-not-ready", text, look, more_subjects=subject, expected=expected)


def _not_asked(answer: Answer, component: str, error: InputError) -> Outcome:
    text = f"the health check of {component} was not asked: {error.subject} {error.reason}"
    return answer.unknown("assertion-unknown", text, error.hint, more_subjects=(_component(component),))


def _component(name: str) -> Subject:
    return Subject(SubjectKind.COMPONENT, name)


def _assertion(answer: Answer, found: SeenAssertion, assertion: Assertion) -> Iterator[Outcome]:
    subject = (_component(found.component),)
    space = f" -n {assertion.namespace}" if assertion.namespace else ""
    look = f"kubectl get {assertion.kind.lower()} {assertion.name}".rstrip() + f"{space} -o yaml"
    if found.objects is None:
        text = f"{assertion.title} of {found.component} could not be looked at: {found.problem}"
        yield answer.unknown("resource-unseen", text, look, more_subjects=subject)
        return
    if is_met(assertion, found.objects):
        return
    requested = {place: asked_of(assertion, entry) for place, entry in found.objects.items()}
    same = [place for place, answered in requested.items() if answered == ("", "")]
    reasons = [
        f"{place}: {reported or f'cannot be asked: {why}'}"
        for place, (reported, why) in requested.items()
        if reported or why
    ]
    messages = "; ".join(reasons[:4]) or "there is none"
    if not assertion.must and not same:
        text = (
            f"{assertion.title} of {found.component} may not be as its health check says, which is not "
            f"known: {messages}"
        )
        yield answer.unknown("assertion-unknown", text, look, more_subjects=subject)
        return
    text = f"{assertion.title} of {found.component} is not as its health check asserts: {messages}"
    if not assertion.must:
        text = (
            f"{assertion.kind} {', '.join(same[:8])} is as the health check of {found.component} says that none may be"
        )
    evidence = (Evidence(look, found.component, str(found.objects)[:1000]),)
    yield answer.failed("assertion-not-met", text, look, more_subjects=subject, evidence=evidence)


CHECK = Check(SPEC, OBSERVER, judge)
