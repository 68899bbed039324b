# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Constraints in `validation.deployment` and `validation.conformance` of a recipe, after the components were installed.

They cover the version of the GPU operator and the driver of every node. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...component_stack.read import INCOMPLETE
from ...constraint.declared import GPU_NODE_LABEL, LABEL_COUNT, declared_constraint, unknown_name
from ...constraint.evaluate import Constraint, ConstraintResult, ConstraintStatus, unmeasurable
from ...outcome.gates import CONFORMANCE, DEPLOYMENT
from ...recipe.sections import PHASE_CONSTRAINTS, constraints_of
from ..spec import JudgeContext
from .cluster_state import ClusterState
from .kube_objects import keeps_label

if TYPE_CHECKING:
    from ...snapshot.model import Release, Snapshot

_OPERATOR = "gpu-operator"
# Status of a release in Helm, and that of one with missing manifests (component_stack/read.py).
_IN_FORCE = ("deployed", INCOMPLETE)
_SEEN = ("server", "nodes", "releases")


def phase_results(recipe: Mapping[str, Any], observed: ClusterState, context: JudgeContext) -> list[ConstraintResult]:
    """Return the result of each of these constraints.

    What the gate did not observe, or nothing measures, is unmeasured.
    """
    if PHASE_CONSTRAINTS not in context.site.capabilities:
        return []
    # Imported here: few recipes have such constraints, and they are measured on whole snapshots.
    from ...snapshot.measure import evaluate_in

    configured = {phase: constraints_of(recipe, phase) for phase in (DEPLOYMENT, CONFORMANCE)}
    snapshot, nodes = _as_snapshot(recipe, observed), tuple(host.node_name for host in context.site.in_scope)
    found: dict[tuple[Constraint, str], ConstraintResult] = {}
    for phase, entries in configured.items():
        for constraint in map(declared_constraint, entries):
            hint = unknown_name(constraint.name, phase)
            if (constraint, hint) in found:
                continue
            if hint:
                result = unmeasurable(constraint, hint)
            else:
                result = _not_kept(constraint) if _is_cut(constraint) else evaluate_in(constraint, snapshot, nodes)
            found[constraint, hint] = result
    return list(found.values())


def _is_cut(constraint: Constraint) -> bool:
    """Return whether the gate kept only a part of what is measured: `!key` would hold for what it left out."""
    key = constraint.value.lstrip("! ").partition("=")[0].strip()
    return constraint.name == LABEL_COUNT or (constraint.name == GPU_NODE_LABEL and not keeps_label(key))


def _not_kept(constraint: Constraint) -> ConstraintResult:
    reason = (
        f"{constraint.name} {constraint.value}: the gate does not keep it; state it in the recipe's own constraints."
    )
    return ConstraintResult(constraint=constraint, status=ConstraintStatus.MISSING, reason=reason)


def _as_snapshot(recipe: Mapping[str, Any], observed: ClusterState) -> Snapshot:
    """Return the cluster state as a snapshot, in which constraints are measured."""
    from ...snapshot.model import COLLECTORS, Collected, CollectorResult, Node, Server, Snapshot

    unseen = CollectorResult(state=Collected.FAILED, reason="the gate does not look at it")
    looked = {name: CollectorResult(state=Collected.WHOLE) if name in _SEEN else unseen for name in COLLECTORS}
    nodes = {
        node.name: Node(labels=node.labels, taints=node.taints, kernel=node.kernel, os_image=node.os_image)
        for node in observed.nodes or ()
    }
    return Snapshot(
        taken="",
        made_by="gate gpu_stack",
        collectors=looked,
        server=Server(version=observed.version),
        nodes=nodes,
        releases=_operators(recipe, observed),
    )


def _operators(recipe: Mapping[str, Any], observed: ClusterState) -> dict[str, Release]:
    """Return the GPU operator as installed.

    Empty: what is used in its place has no known version, or helm names a revision that was not applied.
    """
    from ...snapshot.model import Release

    found = {}
    for ref in recipe.get("componentRefs") or ():
        chart = str(ref.get("chart") or ref["name"]).rpartition("/")[2]
        state = observed.component(str(ref["name"]))
        if chart == _OPERATOR and state is not None and state.version and state.status in _IN_FORCE:
            found[state.release or state.name] = Release(chart=_OPERATOR, version=state.version)
    return found
