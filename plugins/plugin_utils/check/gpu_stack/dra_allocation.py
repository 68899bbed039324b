# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the scheduler allocates GPUs to a pod through a ResourceClaim."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .dra_offer import DRA_DRIVER
from .observe_dra import OBSERVER, ClaimResult, DraSettings
from .roots import offers_gpus_by_dra

SPEC = CheckSpec(
    id="dra-allocation",
    gate="gpu_stack",
    phase="conformance",
    title="A ResourceClaim for two GPUs is allocated, and its container sees them",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=10.0,
    applies=(needs("kubernetes", "dra"),),
    causes=(
        "dra-gpus-not-visible",
        "dra-not-allocated",
        "dra-not-prepared",
        "dra-not-served",
        "dra-wrong-devices",
        "no-dra-driver",
    ),
    settings=DraSettings,
)


def judge(observed: ClaimResult, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome.

    It fails if the recipe's DRA driver offers no GPUs, since the check is declared only if DRA is wanted.
    """
    answer = Answer.about_cluster(SPEC, context)
    if not offers_gpus_by_dra(context):
        hint = (
            f"let {DRA_DRIVER} give out GPUs (values resources.gpus.enabled: true, and the device plugin none), "
            "or waive the checks dra-slices and dra-allocation"
        )
        return (answer.failed("no-dra-driver", "no DRA driver of the recipe gives out GPUs", hint),)
    if observed.problem:
        return (_not_tried(answer, observed),)
    if observed.asked < 1:
        return (answer.unknown("no-data", "nothing was asked for", "run the gate again"),)
    return (_decided(answer, observed),)


def _not_tried(answer: Answer, result: ClaimResult) -> Outcome:
    if result.problem in ("dra-not-served", "no-device-class"):
        hint = "use Kubernetes 1.34 or newer, or the beta API of DynamicResourceAllocation; kubectl get deviceclasses"
        return answer.failed("dra-not-served", result.reason, hint)
    after = {
        "driver-not-ready": "component-health",
        "no-devices": "dra-slices",
    }
    if result.problem in after:
        return answer.blocked(by=after[result.problem], because=result.reason)
    return answer.unknown(result.problem, f"not tried: {result.reason}", result.hint or "run the gate again")


def _decided(answer: Answer, result: ClaimResult) -> Outcome:
    facts = _facts(result)
    if not result.allocated or not result.node:
        reported = f": {result.said}" if result.said else ""
        hint = "kubectl get resourceslices,deviceclasses; read the scheduler's log for the claim"
        return answer.failed(
            "dra-not-allocated", f"{count(result.asked, 'GPU')} not allocated{reported}", hint, **facts
        )
    if not all(device.driver and device.pool and device.device for device in result.devices):
        text = "allocated, but a device of the claim has no driver, pool or name"
        return answer.unknown("no-data", text, "run the gate again; kubectl get resourceclaims -A -o yaml", **facts)
    wrong = _wrong(result)
    if wrong:
        return answer.failed("dra-wrong-devices", wrong, "compare the claim's result with the ResourceSlices", **facts)
    blind = _blind(answer, result, facts)
    if blind is not None:
        return blind
    if result.leftovers:
        hint = "kubectl get ns -l gpufleet.io/purpose=test; delete what the run left"
        return answer.unknown("cleanup-incomplete", f"allocated, but left behind: {result.leftovers[0]}", hint, **facts)
    names = ", ".join(device.device for device in result.devices)
    return answer.passed(
        f"{count(result.asked, 'GPU')} of {result.node} allocated and seen in a container: {names}", **facts
    )


def _blind(answer: Answer, result: ClaimResult, facts: dict[str, Any]) -> Outcome | None:
    """Return why the container is not known to see its GPUs. None: it sees them."""
    observed, where = result.container, f"on {result.node}"
    if observed is None:
        text = "allocated, but this run did not record whether a container sees the GPUs"
        return answer.unknown("container-not-looked-into", text, "run the gate again", **facts)
    if observed.no_image:
        hint = "state an image that the site has: gpufleet_settings: {dra-allocation: {image: ...}}"
        return answer.unknown("image-not-pulled", f"allocated; the test's image: {observed.reason}", hint, **facts)
    if observed.unread:
        hint = "allow get of pods/log in the test's namespaces"
        text = f"allocated, but the container's log cannot be read: {observed.unread}"
        return answer.unknown("log-unread", text, hint, **facts)
    log = (
        f"read the log of the DRA driver's kubelet plugin {where}: kubectl logs -n {DRA_DRIVER} -c gpus "
        "-l nvidia-dra-driver-gpu-component=kubelet-plugin"
    )
    if observed.exit_code is None:
        text = f"allocated {where}, but the container did not start: {observed.reason or 'no reason is told'}"
        if "PrepareDynamicResources" in observed.reason or "prepare" in observed.reason.lower():
            return answer.failed("dra-not-prepared", text, log, **facts)
        return answer.unknown("container-not-started", text, log, **facts)
    if observed.exit_code != 0:
        reported = observed.printed.splitlines()[-1] if observed.printed else observed.reason
        text = f"nvidia-smi in the container {where} ended with {observed.exit_code}: {reported}"
        return answer.failed("dra-gpus-not-visible", text[:400], log, **facts)
    wanted = {device.uuid for device in result.devices if device.uuid}
    if wanted and len(wanted) != result.asked:
        text = f"only {len(wanted)} of the {result.asked} allocated devices {where} have a UUID to compare with"
        return answer.unknown("no-data", text, "run the gate again; kubectl get resourceslices -o yaml", **facts)
    if len(observed.uuids) != result.asked or (len(wanted) == result.asked and set(observed.uuids) != wanted):
        listed = ", ".join(observed.uuids) or "none"
        text = (
            f"the container {where} sees {count(len(observed.uuids), 'GPU')} ({listed}) of the {result.asked} allocated"
        )
        return answer.failed("dra-gpus-not-visible", text[:400], log, **facts)
    return None


def _wrong(result: ClaimResult) -> str:
    names = [(device.pool, device.device) for device in result.devices]
    if len(names) != result.asked:
        return f"{len(names)} devices allocated, {result.asked} asked for"
    if len(set(names)) != len(names):
        return f"the same device twice: {names}"
    unknown = [device.device for device in result.devices if not device.known]
    if unknown:
        return f"devices that no slice of the GPU driver has: {', '.join(unknown)}"
    if result.pool_nodes != (result.node,):
        return f"devices of {', '.join(result.pool_nodes)} for a pod on {result.node}"
    return ""


def _facts(result: ClaimResult) -> dict[str, Any]:
    devices = "\n".join(f"{device.driver} {device.pool} {device.device}" for device in result.devices)
    return {
        "measured": (
            Measure("devices allocated", len(result.devices), "count"),
            Measure("settled after", result.settled_s, "s"),
        ),
        "expected": (Expectation("devices allocated", "==", result.asked, Basis.RULE, "count"),),
        "evidence": (
            Evidence("ResourceClaim status.allocation", result.node, devices or result.said),
            Evidence("nvidia-smi -L in the pod", result.node, result.container.printed if result.container else ""),
        ),
    }


CHECK = Check(SPEC, OBSERVER, judge)
