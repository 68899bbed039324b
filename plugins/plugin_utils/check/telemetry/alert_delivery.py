# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: a rule that Prometheus evaluates fires, and its alert arrives at a receiver."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .metrics_host import SCRAPED
from .model import AlertDelivery
from .observe_alert import OBSERVER

SPEC = CheckSpec(
    id="alert-delivery",
    gate="telemetry",
    title="a test alert fires and arrives",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.PLAIN_PODS,
    duration_s=120.0,
    applies=(needs("kubernetes"),),
    causes=(
        "rule-not-evaluated",
        "rule-broken",
        "alert-not-firing",
        "alertmanager-not-wired",
        "alert-not-routed",
        "alert-not-received",
    ),
)


def judge(observed: AlertDelivery, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome. Its cause is the stage at which the alert got lost."""
    answer = Answer.about_cluster(SPEC, context)
    if observed.problem is not None:
        problem = observed.problem
        if problem.cause == "prometheus-unreachable":
            return (answer.blocked(by=SCRAPED, because=f"{problem.subject}: {problem.reason}"),)
        return (answer.unknown(problem.cause, f"{problem.subject}: {problem.reason}"[:500], problem.hint),)
    details = _details(observed)
    outcome = _lost(observed, answer, details)
    if outcome is not None:
        return (outcome,)
    if observed.leftovers:
        hint = "kubectl get ns,prometheusrules -A -l gpufleet.io/purpose=test; delete what the test left"
        return (answer.unknown("cleanup-incomplete", f"left behind: {observed.leftovers[0]}", hint, **details),)
    text = (
        f"the rule was evaluated, fired after {observed.firing_s:.1f} s and arrived after {observed.received_s:.1f} s"
    )
    return (answer.passed(text, **details),)


def _lost(trace: AlertDelivery, answer: Answer, details: dict[str, Any]) -> Outcome | None:
    """Return the stage at which the alert got lost. None: it arrived."""
    limits = trace.settings.alert
    if trace.rule_error:
        hint = "Prometheus cannot evaluate `vector(1)`: look at its log"
        return answer.failed("rule-broken", f"Prometheus says of the rule: {trace.rule_error}"[:500], hint, **details)
    if trace.loaded_s is None:
        text = f"Prometheus did not have the rule after {limits.load_s:g} s: its operator does not take it up"
        hint = "read the log of prometheus-operator, and ruleSelector: kubectl get prometheus -A -o yaml"
        return answer.failed("rule-not-evaluated", text, hint, **details)
    if trace.firing_s is None:
        text = f"Prometheus has the rule, but it did not fire within {limits.fire_s:g} s"
        return answer.failed("alert-not-firing", text, "look at /rules and /status of Prometheus", **details)
    if trace.received_s is not None:
        return None
    if not trace.alertmanagers:
        text = "the alert fires, but Prometheus knows no Alertmanager to send it to"
        hint = "kubectl get prometheus -A -o yaml: spec.alerting.alertmanagers, and is its Service there?"
        return answer.failed("alertmanager-not-wired", text, hint, **details)
    if trace.asked and trace.routed is None:
        addresses = ", ".join(trace.alertmanagers)
        text = f"the alert fires, but Alertmanager does not have it; Prometheus sends to {addresses}"
        hint = "look at prometheus_notifications_errors_total and at network policies between the two"
        return answer.failed("alertmanager-not-wired", text, hint, **details)
    if trace.routed is not None and not any(trace.name in receiver for receiver in trace.routed):
        text = f"Alertmanager sends the alert to {', '.join(trace.routed) or 'nobody'}, not to the test's receiver"
        hint = "read the log of prometheus-operator: does it take up AlertmanagerConfig objects?"
        return answer.failed("alert-not-routed", text, hint, **details)
    text = f"the alert fires and is sent, but its receiver had nothing after {limits.arrive_s:g} s"
    hint = "look at Alertmanager's log and alertmanager_notifications_failed_total, at network policies and proxies"
    return answer.failed("alert-not-received", text, hint, **details)


def _details(trace: AlertDelivery) -> dict[str, Any]:
    stages = (
        ("rule loaded", trace.loaded_s),
        ("alert firing", trace.firing_s),
        ("alert received", trace.received_s),
    )
    limits = trace.settings.alert
    return {
        "measured": tuple(Measure(name, round(value, 1), "s") for name, value in stages if value is not None),
        "expected": (Expectation("alert received", "<=", limits.load_s + limits.fire_s + limits.arrive_s, Basis.RULE),),
        "evidence": (Evidence("log of the receiver", trace.where, "", trace.evidence),) if trace.evidence else (),
    }


CHECK = Check(SPEC, OBSERVER, judge)
