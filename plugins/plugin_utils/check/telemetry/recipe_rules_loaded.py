# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: Prometheus has the rules of the recipe, and evaluates them without an error."""

from __future__ import annotations

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .alert_delivery import SPEC as DELIVERY
from .metrics_host import SCRAPED
from .model import AlertDelivery
from .observe_alert import OBSERVER
from .recipe_rules import lacking, stated_rules

SPEC = CheckSpec(
    id="recipe-rules-loaded",
    gate="telemetry",
    title="Prometheus evaluates the rules of the recipe",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.PLAIN_PODS,
    # The observation is that of the test alert.
    duration_s=DELIVERY.duration_s,
    applies=(needs("kubernetes"),),
    causes=("recipe-rule-broken", "recipe-rule-not-loaded"),
)
_NAMED = 6


def judge(observed: AlertDelivery, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the recipe's rules. Whether any rule is loaded at all is the test alert's check."""
    answer, configured = Answer.about_cluster(SPEC, context), stated_rules(context.recipe)
    if observed.problem is not None and observed.problem.cause == "prometheus-unreachable":
        return (answer.blocked(by=SCRAPED, because=f"{observed.problem.subject}: {observed.problem.reason}"),)
    if not configured:
        return (answer.passed("the recipe of this run brings no rules"),)
    if observed.problem is not None or observed.loaded_s is None:
        return (answer.blocked(by=DELIVERY.id, because="Prometheus did not take up the rule of the test either"),)
    if observed.recipe_rules is None:
        hint = "run the gate again; kubectl port-forward to Prometheus, then GET /api/v1/rules"
        return (answer.unknown("rules-not-read", "this run did not record which rules Prometheus has", hint),)
    missing = [f"{group}/{name}" for group, name in lacking(configured, observed.recipe_rules)]
    broken = [rule for rule in observed.recipe_rules if rule.health == "err"]
    waiting = [f"{rule.group}/{rule.name}" for rule in observed.recipe_rules if rule.health not in ("ok", "err")]
    count, total = sum(rule.health == "ok" for rule in observed.recipe_rules), configured.total()
    lines = "\n".join(
        f"{rule.group}/{rule.name}: {rule.health} {rule.error}".rstrip() for rule in observed.recipe_rules
    )
    facts = {
        "measured": (Measure("rules evaluated", count, "count"),),
        "expected": (Expectation("rules evaluated", ">=", total, Basis.RECIPE, "count"),),
        "evidence": (Evidence("GET /api/v1/rules", observed.where, lines[:1200]),),
    }
    if missing:
        text = f"Prometheus does not have {len(missing)} rule(s) of the recipe: {', '.join(missing[:_NAMED])}"
        hint = (
            "kubectl get prometheusrules -A: is it there? then ruleSelector and ruleNamespaceSelector "
            "(kubectl get prometheus -A -o yaml) and the log of prometheus-operator, which leaves out invalid ones"
        )
        return (answer.failed("recipe-rule-not-loaded", text, hint, **facts),)
    if broken:
        first = broken[0]
        text = f"{len(broken)} rule(s) of the recipe cannot be evaluated: {first.group}/{first.name}: {first.error}"
        hint = "correct the rule's file in the recipe, then run gate gpu_stack again; Prometheus shows it at /rules"
        return (answer.failed("recipe-rule-broken", text, hint, **facts),)
    if waiting:
        text = f"not evaluated yet: {', '.join(waiting[:_NAMED])}"
        return (answer.unknown("rules-not-evaluated", text, "run the gate again", **facts),)
    return (answer.passed(f"{count} rules of the recipe are evaluated", **facts),)


CHECK = Check(SPEC, OBSERVER, judge)
