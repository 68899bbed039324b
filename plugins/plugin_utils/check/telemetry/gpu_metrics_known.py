# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: no metrics come from GPUs or hosts that are not in the inventory."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind, node_subject
from ...outcome.wording import count
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext
from .fleet import Fleet
from .metrics_host import seen_in, without_metrics
from .model import FleetMetrics
from .observe_metrics import OBSERVER

SPEC = CheckSpec(
    id="gpu-metrics-known",
    gate="telemetry",
    title="no metrics of strangers",
    per=SubjectKind.CLUSTER,
    duration_s=10.0,
    causes=("stranger-gpu", "stranger-host", "wrong-host"),
)
_HINTS = {
    "stranger-gpu": "was a GPU replaced? run gate nodes again; else find who exports it",
    "stranger-host": "add it to the inventory, or to gpufleet_settings.telemetry.allowed_hosts",
    "wrong-host": "a relabelling or two swapped hosts: compare the label Hostname or hostname with nvidia-smi -L there",
}
_SHOWN = 5


def judge(observed: FleetMetrics, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome for each cause: unknown GPU, unknown host, GPU at another host."""
    answer, fleet = Answer.about_cluster(SPEC, context), Fleet(observed)
    blocked = without_metrics(answer, fleet)
    if blocked is not None:
        return (blocked,)
    evidence = seen_in(observed, observed.settings.metrics.field)
    outcomes = []
    for cause in dict.fromkeys(stranger.cause for stranger in fleet.strangers):
        same = [stranger for stranger in fleet.strangers if stranger.cause == cause]
        text = "; ".join(stranger.text for stranger in same[:_SHOWN])
        more = f"; and {len(same) - _SHOWN} more" if len(same) > _SHOWN else ""
        nodes = tuple(dict.fromkeys(node_subject(stranger.host) for stranger in same if stranger.host))
        # An unknown host is no fault of this fleet. A GPU at the wrong place is.
        make = answer.marginal if cause == "stranger-host" else answer.failed
        outcomes.append(make(cause, text + more, _HINTS[cause], evidence=evidence, more_subjects=nodes))
    if outcomes:
        return tuple(outcomes)
    known = sum(bool(host.gpus) for host in observed.hosts)
    how = (
        "by UUID"
        if known == len(observed.hosts)
        else f"by UUID on {known} of {len(observed.hosts)} hosts, else by number"
    )
    others = {
        s.node or s.claims for s in observed.series if not s.host and {s.claims, s.node} & set(observed.neighbours)
    }
    beside = f"; {count(len(others), 'other node')} of the cluster left alone" if others else ""
    return (answer.passed(f"every series belongs to a GPU of the inventory ({how}){beside}", evidence=evidence),)


CHECK = Check(SPEC, OBSERVER, judge)
