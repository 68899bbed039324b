# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The proof of a wave: a separate run of one gate over the nodes of the wave alone, kept below the run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...clients.kube.cluster import Cluster
from ...collect.host_evidence import evidence_file
from ...outcome.decisions import Quarantine
from ...outcome.gates import STACK_GATE
from ...outcome.model import Status
from ...outcome.wording import first_of
from ...run.run import Run
from ...runtime.clock import Deadline, elapsed_text, now_utc
from ...runtime.files import CLUSTER, RECIPE, SETTINGS, make_dirs, write_atomic
from ...runtime.progress import Emit, Progress
from ...site.model import Host
from ...verdict.baseline import AcceptedBaseline
from ...verdict.run import PROOF_OF_WAVE, new_run, with_site
from ...workload.capacity import NodeCapacity, read_node_capacity
from .plan import NodeState, Stage

# The partner of a node that is alone in its wave: a free node in service of the same SKU.

_POLL_S = 10.0
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """The nodes that join a wave in its test (`neighbours`), and by node why it has no partner (`alone`)."""

    neighbours: tuple[str, ...] = ()
    alone: dict[str, str] = field(default_factory=dict)


def lonely_nodes(run: Run, nodes: Collection[str]) -> tuple[Host, ...]:
    """Return the nodes that are the only one of their SKU here, though the site has another.

    A measurement between two hosts needs a second host. The only host of its SKU at the site is measured alone, as in
    gate fabric_validation.
    """
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
    """Return a neighbour for each of these nodes. Pure.

    All GPUs of a neighbour are free. Preferred are nodes that came back in this roll, then nodes of the same rack, then
    by name.

    Args:
        run: the run.
        lonely: the nodes.
        out: nodes that are out of service, which are no neighbours.
        states: the states of the nodes of the roll.
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
    """Wait for a neighbour for every node that is alone of its SKU; after the timeout the node is in `alone`.

    Raises:
        BringupError: the API server does not respond.
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


GATE, FABRIC_GATE = "nodes", "fabric_validation"


def start_verification(
    run: Run, nodes: Sequence[str], wave: int, gate: str = GATE, *, neighbours: Sequence[str] = (), again: bool = False
) -> Path:
    """Create the run of a wave over a gate and return its directory.

    It has the same site, settings and decisions of people, and fewer hosts. The other hosts are set aside, not removed,
    because plans of the site name them. So the peers of a node are those of its wave, which got the same change. Nodes
    that are not changed yet are not compared with them.
    """
    path = proof_path(run, wave, gate, again=again)
    make_dirs(path)
    chosen = {*nodes, *neighbours}
    others = [host.name for host in run.site.in_scope if host.name not in chosen]
    aside = tuple(
        Quarantine(node=name, reason="not in this wave", ticket=f"wave {wave}", who="playbook waves") for name in others
    )
    site = replace(
        run.site, gates=(gate,), from_gate="", quarantine=(*run.site.quarantine, *aside), minimum_nodes=0
    )  # fmt: skip
    proof, record = Run(path), run.record
    run_id = f"{record.run_id}{PROOF_OF_WAVE}{path.name}"
    fresh = new_run(run_id, site.name, now_utc(), (gate,), rehearsal=record.rehearsal)
    # Of gate gpu_stack only the checks of the driver: a wave does not change components.
    fresh = replace(
        fresh, versions=record.versions, command=record.command, driver_only=gate == STACK_GATE,
        history=record.history, wave=tuple(nodes),
    )  # fmt: skip
    for name in (SETTINGS, CLUSTER, RECIPE):
        if (run.path / name).is_file():
            write_atomic(path / name, (run.path / name).read_text(encoding="utf-8"))
    proof.save_hardware(run.hardware)
    proof.save_site(site)
    if run.baseline is not None:
        proof.save_baseline(_of_nodes(run.baseline, nodes, whole=not aside))
    proof.save_record(with_site(fresh, site))
    return path


def _of_nodes(baseline: AcceptedBaseline, nodes: Sequence[str], *, whole: bool) -> AcceptedBaseline:
    """Return the accepted figures of these nodes from the begin of the run.

    Figures that all hosts reached together say nothing about some of them, unless these are all (`whole`).
    """
    kept = tuple(e for e in baseline.figures if e.figure.node in nodes or (whole and not e.figure.node))
    absent = baseline.absent or ("" if kept else "nobody accepted a figure of the nodes of this wave")
    return replace(baseline, figures=kept, absent=absent)


def proof_path(run: Run, wave: int, gate: str, *, again: bool = False) -> Path:
    """Return the directory of the run of a wave over a gate; `again`: of the second run, without the nodes that
    failed."""
    name = f"{wave:03}" if gate == GATE else f"{wave:03}-{gate}"
    return run.path / "waves" / (f"{name}-again" if again else name)


def start_driver_proof(run: Run, nodes: Sequence[str], wave: int) -> Path:
    """Create the run of a wave over the checks that need the operator's driver, and return its directory."""
    path = start_verification(run, nodes, wave, STACK_GATE)
    _take_evidence(run, path, nodes, wave)
    return path


def _take_evidence(run: Run, path: Path, nodes: Sequence[str], wave: int) -> None:
    for node in nodes:
        reported = evidence_file(node)
        make_dirs((path / reported).parent)
        write_atomic(path / reported, (proof_path(run, wave, GATE) / reported).read_text(encoding="utf-8"))


def start_fabric_proof(
    run: Run, nodes: Sequence[str], neighbours: Sequence[str], wave: int, *, again: bool = False
) -> Path:
    """Create the run of a wave over gate fabric_validation. The data of its hosts is that of the proof before it.

    Args:
        run: the run.
        nodes: the nodes of the wave that gate nodes passed.
        neighbours: nodes in service that are measured with them; their data is read anew.
        wave: its number.
        again: the rest of the wave is measured once more, without the nodes that failed.
    """
    path = start_verification(run, nodes, wave, FABRIC_GATE, neighbours=neighbours, again=again)
    _take_evidence(run, path, nodes, wave)
    return path


def problems_found(path: Path, nodes: Sequence[str]) -> Mapping[str, str]:
    """Return by node why the run of its wave fails it, empty for a node that passed.

    A finding that blocks the gate and is about no single node of the wave counts for all of them.
    """
    record = Run(path).record
    (gate,) = record.scope
    verdict = record.gate(gate)
    # A gate that declares no check opens the next one and proves nothing.
    if verdict.status is Status.PASSED:
        return dict.fromkeys(nodes, "")
    if not verdict.blocking:
        return dict.fromkeys(nodes, f"gate {gate} is {verdict.status.value}: {verdict.message}")
    against: dict[str, list[str]] = {node: [] for node in nodes}
    for entry in verdict.blocking:
        named = {subject.node or subject.name for subject in entry.subjects} | {entry.subject}
        about = [node for node in nodes if node in named] or list(nodes)
        word = "" if entry.status is Status.FAILED else f" ({entry.status.value})"
        for node in about:
            against[node].append(f"{entry.check}{word}: {entry.summary or entry.cause}")
    return {node: first_of(texts, _SHOWN, "; ") for node, texts in against.items()}


def accused_nodes(path: Path, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes that a failed result of the run names; a result that could not be judged names none."""
    record = Run(path).record
    (gate,) = record.scope
    failed = [entry for entry in record.gate(gate).blocking if entry.status is Status.FAILED]
    named = {name for entry in failed for subject in entry.subjects for name in (subject.node, subject.name)}
    return tuple(node for node in nodes if node in named)
