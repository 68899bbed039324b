# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every component of the recipe is deployed at its version and its workloads are ready."""

from __future__ import annotations

from ...component_stack.api_services import API_SERVICES, NOT_ANSWERED, NOT_AVAILABLE
from ...component_stack.chart_version import same_chart_version
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, Subject, SubjectKind
from ...outcome.wording import first_of
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .cluster_state import ClusterState, ComponentState
from .lasting import not_lasting, passed_over
from .observe_cluster import OBSERVER
from .roots import (
    bad_nodes,
    blocked_by_permissions,
    component_fault,
    recipe_component,
    unhealthy,
    wanted_version,
)

SPEC = CheckSpec(
    id="component-health",
    gate="gpu_stack",
    title="Every component of the recipe is deployed and ready",
    per=SubjectKind.COMPONENT,
    duration_s=5.0,
    applies=(needs("kubernetes"),),
    causes=(
        NOT_ANSWERED,
        NOT_AVAILABLE,
        "component-foreign",
        "component-missing",
        "component-version",
        "container-runtime-hook-failed",
        "driver-build-failed",
        "nvlink-fabric-not-registered",
        "image-library-missing",
        "driver-root-wrong",
        "driver-not-found",
        "driver-module-refused",
        "image-pull-failed",
        "imex-service-on-host",
        "job-failed",
        "mig-strategy-mismatch",
        "pod-config-error",
        "pod-crash-looping",
        "release-not-deployed",
        "release-pending",
        "runtime-not-configured",
        "workload-flapping",
        "workload-missing",
        "workload-not-ready",
        "workload-not-rendered",
        "workload-scaled-to-zero",
    ),
)

_BY_HAND = (
    "run gate gpu_stack of site.yml, which changes it back, put it into gpufleet_overrides, or accept it "
    "(gpufleet_acceptances)"
)


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome for each component of the recipe, in order of installation."""
    names = [str(name) for name in (context.recipe or {}).get("deploymentOrder") or []]
    return tuple(_one(observed, context, name) for name in names)


def _one(cluster: ClusterState, context: JudgeContext, name: str) -> Outcome:
    answer = Answer(SPEC, context, Subject(SubjectKind.COMPONENT, name))
    hidden = blocked_by_permissions(answer, cluster)
    if hidden:
        return hidden
    component = cluster.component(name)
    if component is None or cluster.workloads is None:
        return answer.unknown("no-data", f"component {name} was not looked at", "run the gate again")
    fault = component_fault(cluster, component, context)
    if fault is None and component.promised is None:
        return _unread(answer, component)
    if fault is None and not component.promised and _runs_something(cluster, component):
        text = f"release {component.release} has workloads in the cluster, and its manifest names none"
        namespace, _slash, release = component.release.partition("/")
        hint = f"compare with helm get manifest {release} -n {namespace}; this may be a defect of ours: report it"
        return answer.unknown("manifest-unread", text, hint)
    young = not_lasting(answer, cluster.workloads_for(component), bad_nodes(cluster, context)) if not fault else None
    if young is not None:
        return young
    missing = _not_rendered(cluster, component, context) if fault is None else ""
    if missing:
        hint = (
            f"correct `workloads` of {name} in registry.yaml of your recipe data (gpufleet_recipe_data), or switch the "
            "workload on in the component's values"
        )
        return answer.failed("workload-not-rendered", missing, hint, **_facts(cluster, component, context))
    if fault is None:
        return _healthy(answer, cluster, component, context)
    cause, text, hint = fault
    if not component.release and not component.owner and cause != "component-foreign":
        root = _sick_dependency(cluster, context, name)
        if component.installing == "waiting":
            # The installer waits for workloads, or for the operator's policy if every component is healthy.
            owner = SPEC.id if root else "cluster-policy-ready"
            return answer.blocked(by=owner, because=f"{name} is not installed: {component.installing_reason}")
        if root:
            text = f"{name} is not installed: it depends on {root}, which is not healthy"
            return answer.blocked(by=SPEC.id, because=text)
    if cause == NOT_ANSWERED:
        # Tried without a known result: how the server would have responded is not under the site's control.
        return answer.unknown(cause, f"{name} was not installed: {text}", hint, **_facts(cluster, component, context))
    return answer.failed(cause, text, hint, **_facts(cluster, component, context))


def _unread(answer: Answer, component: ComponentState) -> Outcome:
    """Return the outcome for a release whose required workloads are not known."""
    if component.unread:
        hint = f"helm get manifest {component.name} -n {component.release.partition('/')[0]}; then run the gate again"
        return answer.unknown("manifest-unread", f"what the release must run is not known: {component.unread}", hint)
    text = "this run did not record which workloads the release's manifest contains"
    return answer.unknown("manifest-unread", text, "run the gate again with this release of the collection")


def _not_rendered(cluster: ClusterState, component: ComponentState, context: JudgeContext) -> str:
    """Return which workload of the site's registry entry the release lacks. Empty: none.

    The entry does not apply to what others installed.
    """
    configured = (recipe_component(component.name, context) or {}).get("workloads") or ()
    if component.owner or not isinstance(configured, list | tuple):
        return ""
    there = {(entry.kind, entry.name) for entry in component.promised or ()}
    there |= {(workload.kind, workload.name) for workload in cluster.workloads_for(component)}
    missing = [
        f"{entry['kind']} {entry['name']}" for entry in configured if (entry["kind"], entry["name"]) not in there
    ]
    if not missing:
        return ""
    rendered = first_of(sorted(f"{kind} {name}" for kind, name in there), 6) or "no workload"
    named = first_of(missing, 3)
    return f"the registry entry names {named}, and release {component.release or component.name} has {rendered}"


def _runs_something(cluster: ClusterState, component: ComponentState) -> bool:
    kinds = {workload.kind for workload in cluster.workloads_for(component)}
    return bool(kinds - {"Job", API_SERVICES.kind})


def _sick_dependency(cluster: ClusterState, context: JudgeContext, name: str) -> str:
    """Return the unhealthy component at the root of what this one waits for. Empty: all that it needs is healthy."""
    refs = (recipe_component(name, context) or {}).get("dependencyRefs") or ()
    for needed in refs if isinstance(refs, list | tuple) else ():
        if unhealthy(cluster, needed, context):
            return _sick_dependency(cluster, context, needed) or str(needed)
    return ""


def _healthy(answer: Answer, cluster: ClusterState, component: ComponentState, context: JudgeContext) -> Outcome:
    workloads = cluster.workloads_for(component)
    count = len(workloads)
    whose = "" if component.ours else f", installed by {component.owner or 'somebody else'}"
    wanted = wanted_version(component.name, context)
    other = component.owner and not same_chart_version(component.version, wanted)
    differs = f" (the recipe has {wanted})" if other else ""
    what = f"{component.release or component.name} {component.version or 'of unknown version'}{differs}"
    text = f"{what} deployed{whose}, {count} of {count} workloads ready{passed_over(workloads)}"
    if component.by_hand:
        shown = f"; changed by hand: {first_of(component.by_hand, 3)}"
        return answer.marginal("changed-by-hand", text + shown, _BY_HAND, **_facts(cluster, component, context))
    return answer.passed(text, **_facts(cluster, component, context))


def _facts(cluster: ClusterState, component: ComponentState, context: JudgeContext) -> dict[str, tuple[object, ...]]:
    workloads = cluster.workloads_for(component)
    ready = sum(workload.state == "ready" for workload in workloads)
    lines = "\n".join(f"{w.kind} {w.name} {w.ready}/{w.desired} {w.reason}".rstrip() for w in workloads)
    return {
        "measured": (
            Measure("version", component.version),
            Measure("status", component.status),
            Measure("workloads ready", ready, "count"),
        ),
        "expected": (
            *_wanted(component, context),
            Expectation("status", "==", "deployed", Basis.RULE),
            Expectation("workloads ready", "==", len(workloads), Basis.RULE, "count"),
        ),
        "evidence": (Evidence("helm list; workloads of the release", component.release, lines[:1200]),),
    }


def _wanted(component: ComponentState, context: JudgeContext) -> tuple[Expectation, ...]:
    """Return the recipe's version as the expectation. What others installed need not have it."""
    if component.owner:
        return ()
    return (Expectation("version", "==", wanted_version(component.name, context), Basis.RECIPE),)


CHECK = Check(SPEC, OBSERVER, judge)
