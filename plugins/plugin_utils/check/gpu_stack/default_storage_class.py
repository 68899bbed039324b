# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: volumes that components of the recipe claim are bound, and a claim without a class gets one."""

from __future__ import annotations

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .observe_platform import OBSERVER, PlatformState, VolumeClaim

SPEC = CheckSpec(
    id="default-storage-class",
    gate="gpu_stack",
    title="Volume claims of the recipe's components get their volumes",
    per=SubjectKind.CLUSTER,
    duration_s=1.0,
    applies=(needs("kubernetes"),),
    causes=("no-default-storage-class", "storage-class-missing", "volume-not-bound"),
)
_SETTING = "gpufleet_settings: {gpu_stack: {storage_class: NAME}}"


def judge(observed: PlatformState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome. A cluster without a default class passes as long as no claim needs it."""
    answer = Answer.about_cluster(SPEC, context)
    if observed.storage_classes is None or observed.claims is None:
        return (answer.unknown("no-data", "volumes were not looked at", "run the gate again"),)
    known, defaults = set(observed.storage_classes), observed.default_classes
    waiting = [claim for claim in observed.claims if claim.phase != "Bound" and not claim.waits_for_pod]
    facts = {
        "measured": (Measure("claims bound", len(observed.claims) - len(waiting), "count"),),
        "expected": (Expectation("claims bound", "==", len(observed.claims), Basis.RULE, "count"),),
        "evidence": (Evidence("GET storageclasses, persistentvolumeclaims", "cluster", _lines(observed)),),
    }
    if waiting:
        cause, text, hint = _why(waiting[0], known, bool(defaults))
        more = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
        return (answer.failed(cause, text + more, hint, **facts),)
    # With several defaults the newest is used since Kubernetes 1.26 (kubernetes.io, "Default StorageClass"). That is
    # reported, but it is no fault.
    newest = ", of which the newest is taken" if len(defaults) > 1 else ""
    which = f"default {', '.join(defaults)}{newest}" if defaults else "no default, and nobody asks for it"
    later = sum(claim.phase != "Bound" for claim in observed.claims)
    open_ones = f", {later} wait for their pods" if later else ""
    text = f"{len(observed.claims) - later} of {len(observed.claims)} claims are bound{open_ones}; {which}"
    return (answer.passed(text, **facts),)


def _why(claim: VolumeClaim, known: set[str], has_default: bool) -> tuple[str, str, str]:
    """Return (cause, text, hint) of a claim without a volume."""
    namespace, _slash, name = claim.name.partition("/")
    look = f"kubectl describe pvc -n {namespace} {name}"
    if claim.phase == "Lost":
        return "volume-not-bound", f"claim {claim.name} lost its volume", f"{look}; restore the volume"
    if claim.storage_class is None and not has_default:
        text = f"claim {claim.name} asks for the default StorageClass, and the cluster has none"
        return (
            "no-default-storage-class",
            text,
            f"kubectl get storageclasses; mark one as default, or state it: {_SETTING}",
        )
    if claim.storage_class and claim.storage_class not in known:
        text = f"claim {claim.name} asks for StorageClass {claim.storage_class}, which does not exist"
        return "storage-class-missing", text, f"kubectl get storageclasses; state one that exists: {_SETTING}"
    of_class = f" of StorageClass {claim.storage_class}" if claim.storage_class else ""
    text = f"claim {claim.name}{of_class} is {claim.phase or 'without a phase'}"
    return "volume-not-bound", text, f"{look}: its provisioner says why; is its driver there?"


def _lines(observed: PlatformState) -> str:
    marks = [
        f"{name} (default)" if name in observed.default_classes else name for name in observed.storage_classes or ()
    ]
    claims = [f"{claim.name}: {claim.phase} {claim.storage_class or ''}".strip() for claim in observed.claims or ()]
    return "\n".join(["StorageClasses: " + (", ".join(marks) or "none"), *claims])[:1200]


CHECK = Check(SPEC, OBSERVER, judge)
