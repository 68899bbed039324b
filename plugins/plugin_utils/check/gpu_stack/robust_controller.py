# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the webhooks of the recipe's controllers are served, and refuse invalid objects.

A webhook that is not served blocks every write that it intercepts, or lets everything through, and no workload shows
it. If a webhook accepts everything, the first user who submits a broken job finds out.
"""

from __future__ import annotations

import re
from typing import Any

from ...component_stack.facts import stack_facts
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Components, JudgeContext, needs
from .observe_platform import OBSERVER, PlatformState, TriedObject, Webhook
from .roots import recipe_component

CONTROLLERS = ("dynamo-platform", "kubeflow-trainer", "kueue", "volcano")
SPEC = CheckSpec(
    id="robust-controller",
    gate="gpu_stack",
    phase="conformance",
    title="Webhooks of controllers are served and refuse invalid objects",
    per=SubjectKind.CLUSTER,
    duration_s=2.0,
    applies=(needs("kubernetes"), Components(CONTROLLERS)),
    causes=("invalid-object-accepted", "webhook-missing", "webhook-unserved", "webhook-without-ca"),
)
# What refused: a webhook, by the name of its entry (kubernetes/apiserver,
# pkg/admission/plugin/webhook/errors/statuserror.go: ToStatusErr), or a policy in the API server, which replaces some
# of them (pkg/admission/plugin/policy/validating/dispatcher.go). A policy of the site refuses as well, and proves
# nothing about the component.
_DENIED = re.compile(r"""admission webhook "([^"]+)" denied|ValidatingAdmissionPolicy '([^']+)' [^\n]*?denied""")


def judge(observed: PlatformState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome for each thing that is wrong. If nothing is: one that passed."""
    answer = Answer.about_cluster(SPEC, context)
    names = [str(name) for name in (context.recipe or {}).get("deploymentOrder") or []]
    wanted = {name: stack_facts().controllers[name] for name in names if name in CONTROLLERS}
    unready = observed.why_unready(wanted)
    if unready is not None:
        return (answer.blocked(by="component-health", because=f"component {unready[0]}: {unready[1]}"),)
    if observed.webhooks is None or not wanted:
        return (answer.unknown("no-data", "the webhooks were not looked at", "run the gate again"),)
    facts = _facts(observed)
    bad = [outcome for hook in observed.webhooks if (outcome := _hook(answer, hook, facts)) is not None]
    there = {hook.name for hook in observed.webhooks}
    for name, entry in wanted.items():
        missing = [hook for hook in entry.webhooks if hook not in there]
        if missing:
            place = (recipe_component(name, context) or {}).get("namespace") or name
            hint = (
                f"put it back: helm get manifest {name} -n {place} | kubectl apply -n {place} -f -; who removed it is "
                "in the API server's audit log"
            )
            bad.append(answer.failed("webhook-missing", f"{name} has no webhook {missing[0]}", hint, **facts))
        elif entry.invalid:
            tried = next((attempt for attempt in observed.tried if attempt.component == name), None)
            outcome = None if bad else _refusal(answer, name, tried, facts)
            bad += [outcome] if outcome else []
    if bad:
        return tuple(bad)
    kinds = ", ".join(f"{attempt.kind} of {attempt.component}" for attempt in observed.tried)
    text = f"{len(observed.webhooks)} webhooks are served, and an invalid {kinds} is refused"
    return (answer.passed(text, **facts),)


def _hook(answer: Answer, hook: Webhook, facts: dict[str, Any]) -> Outcome | None:
    if not hook.has_ca:
        text = f"webhook {hook.name} ({hook.configuration}) has no caBundle, so the API server does not trust it"
        hint = "cert-manager's ca-injector or the operator itself writes it: read their logs"
        return answer.failed("webhook-without-ca", text, hint, **facts)
    if hook.ready:
        return None
    text = f"nobody serves webhook {hook.name} ({hook.configuration}): service {hook.service} has no ready endpoint"
    hint = f"kubectl get endpointslices -n {hook.service.partition('/')[0]}; the pods behind the service"
    if hook.strict:
        return answer.failed("webhook-unserved", f"{text}; what it looks at cannot be written", hint, **facts)
    return answer.marginal("webhook-unserved", f"{text}; what it looks at is written unseen", hint, **facts)


def _refusal(answer: Answer, name: str, tried: TriedObject | None, facts: dict[str, Any]) -> Outcome | None:
    if tried is None:
        return answer.unknown("no-data", f"no object of {name} was tried", "run the gate again", **facts)
    if tried.accepted:
        text = f"an invalid {tried.kind} is accepted: the webhook of {name} lets everything through"
        hint = "rules, namespaceSelector and matchConditions of its ValidatingWebhookConfiguration; its log"
        return answer.failed("invalid-object-accepted", text, hint, **facts)
    entry = stack_facts().controllers[name]
    by = {webhook or policy for webhook, policy in _DENIED.findall(tried.said)}
    if not by & {*entry.webhooks, *entry.policies}:
        text = f"an invalid {tried.kind} of {name} was refused, but not by its admission: {tried.said or 'no reason'}"
        hint = f"run the gate again; kubectl create --dry-run=server -f of such a {tried.kind} shows who refuses it"
        return answer.unknown("refused-otherwise", text, hint, **facts)
    return None


def _facts(observed: PlatformState) -> dict[str, Any]:
    hooks = observed.webhooks or ()
    lines = "\n".join(f"{hook.name}: {hook.service}, {hook.ready} ready" for hook in hooks)
    reported = "\n".join(f"{attempt.kind}: {attempt.said}" for attempt in observed.tried)
    served = sum(1 for hook in hooks if hook.ready)
    return {
        "measured": (Measure("webhooks served", served, "count"),),
        "expected": (Expectation("webhooks served", "==", len(hooks), Basis.RULE, "count"),),
        "evidence": (
            Evidence("webhook configurations; endpointslices", "cluster", lines[:1200]),
            Evidence("dry run of invalid objects", "cluster", reported[:1200]),
        ),
    }


CHECK = Check(SPEC, OBSERVER, judge)
