# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the scheduler allocates GPUs to a pod through a ResourceClaim."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, Subject, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .observe_dra import OBSERVER, DraSettings, DraView
from .roots import DRA_DRIVER, offers_gpus_by_dra

SPEC = CheckSpec(
    id="dra-allocation",
    gate="gpu_stack",
    title="A ResourceClaim for two GPUs is allocated",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=10.0,
    requires=("kubernetes", "dra"),
    causes=("dra-not-allocated", "dra-not-served", "dra-wrong-devices", "no-dra-driver"),
    settings=DraSettings,
)


def judge(view: DraView, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the one outcome."""
    answer = Answer(SPEC, context, Subject(SubjectKind.CLUSTER, context.site.name))
    if not offers_gpus_by_dra(context):
        hint = (
            f"let {DRA_DRIVER} give out GPUs (values resources.gpus.enabled: true, and the device plugin none), "
            "or waive the checks dra-slices and dra-allocation"
        )
        return (answer.failed("no-dra-driver", "no DRA driver of the recipe gives out GPUs", hint),)
    if view.problem:
        return (_not_tried(answer, view),)
    if view.asked < 1:
        return (answer.unknown("no-data", "nothing was asked for", "run the gate again"),)
    return (_decided(answer, view),)


def _not_tried(answer: Answer, view: DraView) -> Outcome:
    if view.problem in ("dra-not-served", "no-device-class"):
        hint = "use Kubernetes 1.34 or newer with DynamicResourceAllocation; kubectl get deviceclasses"
        return answer.failed("dra-not-served", view.reason, hint)
    after = {
        "driver-not-ready": "component-health",
        "no-devices": "dra-slices",
    }
    if view.problem in after:
        return answer.blocked(by=after[view.problem], because=view.reason)
    return answer.unknown(view.problem, f"not tried: {view.reason}", "run the gate again")


def _decided(answer: Answer, view: DraView) -> Outcome:
    facts = _facts(view)
    if not view.allocated or not view.node:
        said = f": {view.said}" if view.said else ""
        hint = "kubectl get resourceslices,deviceclasses; read the scheduler's log for the claim"
        return answer.failed("dra-not-allocated", f"{view.asked} GPUs were not allocated{said}", hint, **facts)
    wrong = _wrong(view)
    if wrong:
        return answer.failed("dra-wrong-devices", wrong, "compare the claim's result with the ResourceSlices", **facts)
    if view.leftovers:
        hint = "kubectl get ns -l gpufleet.io/purpose=test; delete what the run left"
        return answer.unknown("cleanup-incomplete", f"allocated, but left behind: {view.leftovers[0]}", hint, **facts)
    names = ", ".join(device.device for device in view.devices)
    return answer.passed(f"{view.asked} GPUs of {view.node} allocated: {names}", **facts)


def _wrong(view: DraView) -> str:
    names = [(device.pool, device.device) for device in view.devices]
    if len(names) != view.asked:
        return f"{len(names)} devices allocated, {view.asked} asked for"
    if len(set(names)) != len(names):
        return f"the same device twice: {names}"
    unknown = [device.device for device in view.devices if not device.known]
    if unknown:
        return f"devices that no slice of the GPU driver has: {', '.join(unknown)}"
    if view.pool_nodes != (view.node,):
        return f"devices of {', '.join(view.pool_nodes)} for a pod on {view.node}"
    return ""


def _facts(view: DraView) -> dict[str, Any]:
    devices = "\n".join(f"{device.driver} {device.pool} {device.device}" for device in view.devices)
    return {
        "measured": (
            Measure("devices allocated", len(view.devices), "count"),
            Measure("settled after", view.settled_s, "s"),
        ),
        "expected": (Expectation("devices allocated", "==", view.asked, Basis.RULE, "count"),),
        "evidence": (Evidence("ResourceClaim status.allocation", view.node, devices or view.said),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
