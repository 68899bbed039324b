# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a pod of a test is not placed yet, in the cluster's own words. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .kueue import SETTING

Json = dict[str, Any]
_OUT = "exclude namespaces with the label gpufleet.io/purpose=test from its managed ones (managedJobsNamespaceSelector)"
# kueue.sigs.k8s.io, "Opt-in Namespace Management".
_EXCLUDE = (
    f"{_OUT}, or name a ClusterQueue for the tests ({SETTING}); not both, for Kueue from 0.15 on starts no job of an "
    "excluded namespace that names a queue"
)
# For pods that go through no queue, whatever the site states.
NO_QUEUE_HINT = (
    f"if Kueue set it, {_OUT}; not where a ClusterQueue is named for other tests, for Kueue from 0.15 on starts none "
    "of their jobs then"
)
_SCC = "unable to validate against any security context constraint"
# Older releases name the field alone, newer ones the constraint before it; the rest of the list is `not usable`.
_BROKEN = re.compile(r"(?:provider [\w-]+: )?\.?[\w.\[\]]+: Invalid value: .*?(?=, provider |, spec\.|, \.|\]$|\]\s|$)")
_MOST_BROKEN = 3
HELD_HINT = f"whoever set the gate must admit the test: for kueue.x-k8s.io/admission of Kueue {_EXCLUDE}"


def held_by_gates(pod: Json) -> str:
    """Return which scheduling gates hold a pod, empty if none does.

    A gated pod is never offered to a scheduler, so it says nothing about it. Kueue gates the pods that it manages
    until their workload is admitted; without a LocalQueue in the namespace that is never.
    """
    gates = [str(gate.get("name", "")) for gate in (pod.get("spec") or {}).get("schedulingGates") or []]
    return f"pod {pod['metadata']['name']} is held by the scheduling gate {', '.join(gates)}" if gates else ""


def first_held(pods: Iterable[Json]) -> str:
    """Return which scheduling gates hold the first pod that one holds, empty if none does."""
    return next(filter(None, map(held_by_gates, pods)), "")


def suspended(job: Json) -> str:
    """Return why an object that makes the pods of a test makes none, from the answer to its creation; empty if it does.

    Kueue's webhook suspends jobs that name no queue where it is told to manage them (manageJobsWithoutQueueName,
    pkg/controller/jobframework/defaults.go), and starts them only once a queue admits them.
    """
    spec = job.get("spec") or {}
    if not (spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend")):
        return ""
    text = f"{job.get('kind', 'job')} {job['metadata']['name']} was suspended when it was made, so it makes no pods"
    return f"{text}; if Kueue did it, {_EXCLUDE}"


def told_refusal(message: str) -> str:
    """Return a controller's or API server's refusal of a pod, shortened to what decides where OpenShift's admission
    refused it.

    It lists every security context constraint with what the pod breaks of it; most are not for the account at all. A
    ClusterRole and a group can be given one before there is a namespace (OpenShift, "Managing security context
    constraints": role-based access; oc adm policy add-scc-to-group).
    """
    if _SCC not in message:
        return message
    broken = dict.fromkeys(text.strip(" ,[]") for text in _BROKEN.findall(message))
    why = "; ".join(list(broken)[:_MOST_BROKEN])
    return (
        "no security context constraint allows this pod: let the accounts of tests use `privileged` for the run "
        f"(oc adm policy add-scc-to-group privileged system:serviceaccounts); {why or 'nothing is said of why'}"
    )


def why_pending(pod: Json) -> str:
    """Return what the scheduler says of a pod that it did not place, empty if nothing."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))[:400]
    return ""
