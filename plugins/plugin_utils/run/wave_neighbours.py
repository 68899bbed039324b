# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""With whom a node is measured that is alone in its wave: a free node in service of the same SKU."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..clients.kube.cluster import Cluster
from ..fleet.model import NodeState, Stage
from ..outcome.wording import first_of
from ..runtime.clock import Deadline, elapsed_text
from ..runtime.progress import Emit, Progress
from ..site.model import Host
from ..workload.capacity import NodeCapacity, read_node_capacity
from .run import Run

_POLL_S = 10.0
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """Who joins the nodes of a wave in their test (`neighbours`), and by node why it has nobody (`alone`)."""

    neighbours: tuple[str, ...] = ()
    alone: dict[str, str] = field(default_factory=dict)


def lonely_nodes(run: Run, nodes: Collection[str]) -> tuple[Host, ...]:
    """Return the nodes without another of their SKU among them, where the site has another: between two hosts nothing
    would be measured. The only host of its SKU is measured alone, as in gate fabric_validation."""
    site = run.site
    here = Counter(host.sku for host in site.in_scope if host.name in nodes)
    everywhere = Counter(host.sku for host in site.in_scope)
    return tuple(
        host for host in site.in_scope if host.name in nodes and here[host.sku] == 1 and everywhere[host.sku] > 1
    )


def choose(
    run: Run, lonely: Sequence[Host], out: Collection[str], states: Mapping[str, NodeState],
    capacities: Mapping[str, NodeCapacity],
) -> Company:  # fmt: skip
    """Return a neighbour for each of these nodes whose GPUs are all free: one that came back in this roll before
    others, of the same rack before others, by name. Pure.

    Args:
        run: the run.
        lonely: the nodes.
        out: nodes that are out of service, which are no neighbours.
        states: where the nodes of the roll stand.
        capacities: what the nodes offer now, by their names in the cluster.
    """
    chosen, alone = list[str](), dict[str, str]()
    for host in lonely:
        others = [other for other in run.site.in_scope if other.sku == host.sku and other.name not in {*out, host.name}]
        reasons = {
            other.name: _not_free(capacities.get(other.node_name), run.hardware[host.sku].gpus) for other in others
        }
        free = [other for other in others if not reasons[other.name]]
        free.sort(key=lambda other: (not _returned(states, other.name), other.rack != host.rack, other.name))
        if free:
            chosen.append(free[0].name)
        else:
            alone[host.name] = _nobody(host.sku, reasons)
    return Company(neighbours=tuple(dict.fromkeys(chosen)), alone=alone)


def await_company(
    cluster: Cluster, run: Run, nodes: Sequence[str], states: Mapping[str, NodeState], *, timeout_s: float, emit: Emit,
    sleep: Callable[[float], None] = time.sleep,
) -> Company:  # fmt: skip
    """Return a neighbour for every node that is alone of its SKU, as soon as there is one; `alone` after the time.

    Raises:
        BringupError: the API server does not answer.
    """
    lonely = lonely_nodes(run, nodes)
    deadline, progress = Deadline.after(timeout_s), Progress(emit)
    out = {*nodes, *(node for node, state in states.items() if state.stage.out)}
    names = {host.node_name for host in run.site.in_scope if host.name not in out}
    while lonely:
        found = choose(run, lonely, out, states, read_node_capacity(cluster, names))
        if not found.alone or deadline.left_s <= 0:
            return Company(
                neighbours=found.neighbours,
                alone={node: f"after {elapsed_text(timeout_s)}: {why}" for node, why in found.alone.items()},
            )
        progress.tick(f"waiting for a free neighbour of {', '.join(found.alone)}: {next(iter(found.alone.values()))}")
        sleep(min(_POLL_S, max(0.1, deadline.left_s)))
    return Company()


def _returned(states: Mapping[str, NodeState], name: str) -> bool:
    return name in states and states[name].stage is Stage.RETURNED


def _not_free(capacity: NodeCapacity | None, gpus: int) -> str:
    if capacity is None:
        return "not in the cluster"
    if capacity.closed:
        return capacity.closed
    return "" if capacity.free >= gpus else f"{capacity.free} of {gpus} GPUs are free"


def _nobody(sku: str, reasons: Mapping[str, str]) -> str:
    shown = first_of([f"{name}: {why}" for name, why in reasons.items()], _SHOWN, "; ")
    who = f" ({shown})" if reasons else ""
    return f"NCCL between hosts needs a second host of SKU {sku}, and none in service is free{who}"
