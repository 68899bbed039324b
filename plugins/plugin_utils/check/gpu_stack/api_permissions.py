# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the credentials allow what the gate does (SelfSubjectAccessReview, before anything is tried)."""

from __future__ import annotations

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .cluster_state import ClusterState
from .observe_cluster import OBSERVER

SPEC = CheckSpec(
    id="api-permissions",
    gate="gpu_stack",
    title="The credentials allow what the gate does",
    per=SubjectKind.CLUSTER,
    applies=(needs("kubernetes"),),
    causes=("permission-denied",),
)


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    answer = Answer.about_cluster(SPEC, context)
    if not observed.permissions:
        return (answer.unknown("no-data", "no permission was asked for", "run the gate again"),)
    denied = observed.denied
    total = len(observed.permissions)
    facts = {
        "measured": (Measure("allowed", total - len(denied), "count"),),
        "expected": (Expectation("allowed", "==", total, Basis.RULE, "count"),),
        "evidence": (Evidence("POST selfsubjectaccessreviews", "cluster", "; ".join(p.text for p in denied)),),
    }
    if denied:
        texts = ", ".join(permission.text for permission in denied)
        hint = "grant them to the user of the kubeconfig (ClusterRole and binding); test: kubectl auth can-i " + (
            f"{denied[0].text} --all-namespaces"
        )
        return (answer.failed("permission-denied", f"not allowed: {texts}", hint, **facts),)
    return (answer.passed(f"{total} of {total} permissions granted", **facts),)


CHECK = Check(SPEC, OBSERVER, judge)
