# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a run gives no figure. The causes of a failed launch are defined here for all benchmark gates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...clients.kube.errors import mending
from ...workload.queue import QUEUES
from ...workload.queue import SETTING as QUEUE_SETTING

# By the state of a job or server: what happened, and what to do about it.
_LAUNCH: dict[str, tuple[str, str]] = {
    "unschedulable": (
        "the scheduler found no place",
        "free what the scheduler says is missing, or correct requests and taints; then run the gate again",
    ),
    "image": (
        "the image cannot be pulled",
        "make the image reachable from the node (mirror, pull secret), or state another one",
    ),
    "refused": (
        "it was refused",
        "correct what the message names (quota, admission, permissions); `kubectl get events -A -w` while the gate "
        "runs again may say more",
    ),
    "held": (
        "its queue held it",
        "give the ClusterQueue room for it, and let its namespaceSelector and (Kueue 0.15 and later) "
        "managedJobsNamespaceSelector of Kueue's configuration take namespaces with the label "
        f"gpufleet.io/purpose=test, or state another one: {QUEUE_SETTING}; {QUEUES}",
    ),
    "slow-start": (
        "its containers did not start in time",
        "pull the image to the nodes beforehand, or raise pull_s; `kubectl get events -A -w` while the gate runs "
        "again says what is waited for",
    ),
    "lost-node": (
        "its node went away, or gave it up",
        "look at the node (is it there, is it short of something, does somebody drain it?), then run gate nodes again",
    ),
    "no-program": (
        "what it starts is not on its hosts",
        "install it where PATH of every host has it, state where it lies (fabric_validation.program), or let Pyxis "
        "start an image that has it (continuous.slurm_containers: pyxis)",
    ),
    "preempted": ("a user took the place", "run the gate again when the host is free"),
    "unknown": (
        "how it ended is not known",
        "`scontrol show job`; its log has to lie where controller and nodes see it by one path (continuous.slurm_dir)",
    ),
    "aborted": ("the time limit of the whole gate was reached", "raise total_s, or look at what took so long"),
}
# Messages of Slurm jobs (workload/slurm_script.py, workload/slurm_jobs.py), and what to do about each state.
_OF_SLURM = re.compile(r": (?:sbatch: |srun on |slurmstepd\S*: |node \S+: |job \d+ (?:is|was|of) )")
_SLURM: dict[str, str] = {
    "unschedulable": "scontrol show job, scontrol show node: free the hosts, or end the reservation; then run the "
    "gate again",
    "refused": "correct continuous.slurm_partition, .slurm_account and .slurm_qos: scontrol show partition; sacctmgr "
    "show assoc user=$USER",
    "image": "make the image reachable from the hosts for Enroot (`enroot import` there), or state the path of a "
    "squashfs file",
    "lost-node": "scontrol show node says why; mend the host, resume it, and run gate nodes again",
    "preempted": "squeue says who has the host; run the gate again when it is free",
}
_TRANSIENT = ("launch-unschedulable", "launch-preempted")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a run gives no figure.

    Args:
        cause: slug.
        text: one sentence.
        bad: the run proves a defect. Otherwise its result is unknown.
    """

    cause: str
    text: str
    bad: bool = False

    @property
    def transient(self) -> bool:
        """Whether the cause is temporary and not a fault of the hosts, so that another attempt makes sense."""
        return self.cause in _TRANSIENT


def launch_problem(state: str, reason: str) -> tuple[str, str] | None:
    """Return cause and text for a job or server that did not start properly. None: any other state."""
    if state not in _LAUNCH:
        return None
    return f"launch-{state}", f"{_LAUNCH[state][0]}: {reason}"[:400]


def hint_for(cause: str, hints: Mapping[str, str], text: str = "") -> str:
    """Return what to do about a cause: the gate's own hint, else that of a failed launch.

    Args:
        cause: slug.
        hints: hints of the gate, by cause.
        text: the message of the problem; it may name the policy that refused the launch.
    """
    if cause == "launch-refused" and (mend := mending(text)):
        return mend
    state = cause.removeprefix("launch-")
    if state != cause and state in _SLURM and _OF_SLURM.search(text):
        return _SLURM[state]
    launch = _LAUNCH.get(state, ("", "read the log, then run the gate again"))
    return hints.get(cause, launch[1])
