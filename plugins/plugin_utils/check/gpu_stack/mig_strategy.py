# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the MIG configuration requested for a node is applied, in the strategy of the recipe.

The MIG manager of the GPU operator writes its progress into a label
(docs.nvidia.com/datacenter/cloud-native/gpu-operator, "GPU Operator with MIG"). GPU feature discovery marks a product
as invalid if its strategy cannot offer it (NVIDIA/k8s-device-plugin, internal/lm).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..spec import Check, CheckSpec, JudgeContext, needs
from .cluster_host import ClusterHost, per_host
from .cluster_state import ClusterState, NodeState
from .observe_cluster import OBSERVER
from .roots import GPU_OPERATOR, Roots, mig_manager, node_fault, recipe_component

SPEC = CheckSpec(
    id="mig-strategy",
    gate="gpu_stack",
    title="The MIG configuration is in force, in the recipe's strategy",
    per=SubjectKind.NODE,
    applies=(needs("kubernetes"),),
    causes=("mig-config-failed", "mig-strategy-differs", "mig-strategy-mismatch"),
)
CONFIG, STATE, STRATEGY = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/mig.strategy"
_PRODUCT, _INVALID = "nvidia.com/gpu.product", "-MIG-INVALID"


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host. A node without MIG labels is in the operator's default state: not partitioned."""
    return per_host(SPEC, observed, context, partial(_judge_host, Roots(observed, context)), needs_sku=False)


def _judge_host(roots: Roots, host: ClusterHost) -> Outcome:
    node, answer = host.node, host.answer
    if node is None:
        fault = node_fault(node)
        return answer.blocked(by="node-ready", because=f"the node itself does not work: {fault[1] if fault else ''}")
    for operand in roots.broken_on(node.name):
        if operand.workload.app in ("nvidia-mig-manager", "gpu-feature-discovery"):
            return answer.blocked(by="cluster-policy-ready", because=f"the {operand.title} is not ready there")
    requested, state, configured = node.labels.get(CONFIG, ""), node.labels.get(STATE, ""), _configured(host.context)
    facts, strategy = _facts(node, configured), node.labels.get(STRATEGY, "")
    log = f"read the log of the pod that {mig_manager(node.name)} names"
    if state == "failed":
        text = f"the MIG manager could not apply {requested or 'the configuration'}"
        anew = f"kubectl label node {node.name} {CONFIG}- && kubectl label node {node.name} {CONFIG}={requested}"
        hint = (
            f"{log}; what uses the GPUs must be gone first; then {anew if requested else 'state a configuration anew'}"
        )
        return answer.failed("mig-config-failed", text, hint, **facts)
    if node.labels.get(_PRODUCT, "").endswith(_INVALID):
        text = f"strategy {strategy or 'none'} cannot give out the MIG devices of the node: {node.labels[_PRODUCT]}"
        hint = "set gpu-operator mig.strategy: mixed, or one geometry on all GPUs of the node (nvidia.com/mig.config)"
        return answer.failed("mig-strategy-mismatch", text, hint, **facts)
    if configured and strategy and strategy != configured:
        text = f"the node's MIG strategy is {strategy}, the recipe states {configured}"
        hint = "kubectl get clusterpolicy -o yaml (spec.mig.strategy): run gate gpu_stack again, or correct the recipe"
        return answer.failed("mig-strategy-differs", text, hint, **facts)
    if requested and state != "success":
        text = f"{requested} is asked for, and the MIG manager says {state or 'nothing'}"
        return answer.unknown("mig-config-pending", text, f"{log}; then run the gate again", **facts)
    return answer.passed(f"{requested} is in force" if requested else "no MIG configuration is asked for", **facts)


def _configured(context: JudgeContext) -> str:
    """Return the strategy in the recipe's values. Empty: they leave it to the chart."""
    values: Any = (recipe_component(GPU_OPERATOR, context) or {}).get("values") or {}
    return str((values.get("mig") or {}).get("strategy") or "")


def _facts(node: NodeState, configured: str) -> dict[str, Any]:
    names = (CONFIG, STATE, STRATEGY, _PRODUCT)
    labels = ", ".join(f"{name}={node.labels[name]}" for name in names if name in node.labels)
    return {
        "measured": (Measure("state of the MIG configuration", node.labels.get(STATE) or None),),
        "expected": (Expectation("MIG strategy", "==", configured, Basis.RECIPE),) if configured else (),
        "evidence": (Evidence("GET /api/v1/nodes metadata.labels", node.name, labels or "no label of MIG"),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
