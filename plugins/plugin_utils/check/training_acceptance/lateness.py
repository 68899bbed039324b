# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How late each host was at the start of a run, and at what. Pure arithmetic on what its pod and ranks say of it.

torchrun's agents meet before any of them starts a worker (torch/distributed/elastic/agent/server/api.py), so workers
of all hosts begin together however late one host was. What tells hosts apart is when a pod's container began, when it
found the meeting point, how long it loaded PyTorch, and how long its ranks then needed for their devices.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...probe.training_log_model import PHASES, PodLog
from .model import Run

STARTED, RESOLVED, LOADED, READY = "started", "resolved", "loaded", "ready"


@dataclass(frozen=True, slots=True)
class Late:
    """Seconds by which a host was later than the first one, and the phase at which it was."""

    seconds: float
    phase: str


def lateness_of(run: Run) -> dict[str, Late]:
    """Return the lateness of every host of a run that said when it began (release 0.1 did not)."""
    ready = {host: seconds for host, pod in run.pods.items() if (seconds := _ready(pod)) is not None}
    pods = {host: run.pods[host].phases for host in run.record.hosts if host in ready}
    pods = {host: phases for host, phases in pods.items() if len(phases) == len(PHASES)}
    if not pods:
        return {}
    began = min(phases[STARTED] for phases in pods.values())
    index_0 = next((pod.host for pod in run.record.pods if pod.index == 0 and pod.host in pods), None)
    # The name is there as soon as the pod of index 0 is; that one's lateness is not the others'.
    meeting = pods[index_0][STARTED] if index_0 else max(phases[STARTED] for phases in pods.values())
    loaded = min(phases[LOADED] - phases[RESOLVED] for phases in pods.values())
    prepared = min(ready[host] for host in pods)
    found = {}
    for host, phases in pods.items():
        parts = {
            STARTED: phases[STARTED] - began,
            RESOLVED: phases[RESOLVED] - max(phases[STARTED], meeting),
            LOADED: phases[LOADED] - phases[RESOLVED] - loaded,
            READY: ready[host] - prepared,
        }
        phase = max(parts, key=parts.__getitem__)
        found[host] = Late(max(0.0, parts[phase]), phase)
    return found


def _ready(pod: PodLog) -> float | None:
    """Return how long the slowest rank of a pod needed until it was ready for the others."""
    times = [log.setup.ready - log.started for log in pod.ranks if log.setup and log.setup.ready is not None]
    return max(times) if times and len(times) == len(pod.ranks) else None
