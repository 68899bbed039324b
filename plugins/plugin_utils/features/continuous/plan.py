# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The nodes of a site as the test queue sees them, and which idle node would be tested next, and why. It only reads:
nothing is changed, held or recorded."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...check.kit.tolerations import tolerations_of
from ...check.node_tests.registry import enabled_tests
from ...check.node_tests.settings import CONTINUOUS, ContinuousSettings
from ...check.spec import ObserveContext
from ...clients.kube.cluster import Cluster, ask_all
from ...clients.kube.connection import connection_from
from ...clients.kube.errors import ForbiddenError
from ...hardware.sku import Sku
from ...outcome.wording import count
from ...probe.slurm_nodes import parse
from ...run.decision import run_day
from ...run.run import Run
from ...runtime.progress import Emit
from ...site.cabling import stated_cabling
from ...site.model import Site
from ...store.database import place_of
from ...store.records import Lease, NodeResult
from ...store.service import open_service
from ...verdict.run import Work, WorkRow
from ...workload.capacity import read_gpu_objects
from ...workload.free_slurm import uses_of_hosts
from ...workload.node_use import NodeUse, Use
from ...workload.slurm_jobs import SlurmCommands
from ..waves.slurm import ask_scontrol
from .free_nodes import RIGHTS, SYSTEM, free_nodes
from .node_history import BatchLimits, day_text, histories_by_test, parts_now, saved_state, window_of
from .queue import BatchPlan, QueueNode, demands_of, plan_batch


def uses_in_kubernetes(cluster: Cluster, context: ObserveContext) -> dict[str, NodeUse]:
    """Return by host name what is on its node now. Hosts that are set aside are not queried.

    Raises:
        BringupError: the API server does not respond, or refuses.
    """
    settings = context.settings_of(CONTINUOUS, ContinuousSettings)
    components = {str(entry.get("namespace") or "") for entry in (context.recipe or {}).get("componentRefs", [])}
    found = free_nodes(
        *read_gpu_objects(cluster),
        {host.node for host in context.site.in_scope},
        system={*SYSTEM, *components, *settings.system_namespaces} - {""},
        tolerations=tolerations_of(context),
        beside_others=settings.beside_pods,
    )
    return {host.name: replace(found[host.node], name=host.name) for host in context.site.in_scope}


def uses_in_slurm(scontrol: str, site: Site, hardware: Mapping[str, Sku], reservation: str = "") -> dict[str, NodeUse]:
    """Return by host name what Slurm reports about its node now.

    Args:
        scontrol: the command.
        site: the site whose hosts are read.
        hardware: the SKUs.
        reservation: the one in which tests run; empty for none.

    Raises:
        InputError: the output of scontrol is no list of nodes, or there is no such reservation.
        BringupError: there is no scontrol on this controller, or it does not respond.
    """
    # Text, because flag BLOCKED is in no JSON (probe/slurm_nodes.py).
    nodes = parse(ask_scontrol(scontrol, "show", "nodes"))
    return uses_of_hosts(nodes, site.in_scope, hardware, SlurmCommands(scontrol).reserved(reservation))


def queue_nodes(
    context: ObserveContext, uses: Mapping[str, NodeUse], parts: Mapping[str, Mapping[str, str]]
) -> tuple[QueueNode, ...]:
    """Return all hosts of the site for the queue.

    Args:
        context: the site and its hardware.
        uses: what is on their nodes, by host.
        parts: what is in them, by host and slot (node_history.parts_now).
    """
    set_aside = {entry.node: f"quarantined: {entry.reason} ({entry.ticket})" for entry in context.site.quarantine}
    rails = _rails(context)
    found = []
    for host in context.site.hosts:
        use = uses.get(host.name)
        not_free = set_aside.get(host.name) or (use.why if use is not None and not use.free else "")
        if use is None and not not_free:
            not_free = "nobody was asked what is on it"
        node = QueueNode(name=host.name, rack=host.rack, rail=rails.get(host.name, ""), not_free=not_free)
        found.append(replace(node, parts=parts.get(host.name, {})))
    return tuple(found)


def busy_hosts(uses: Iterable[NodeUse]) -> tuple[str, ...]:
    """Return the hosts where only passive checks may run, because a user's work is there."""
    return tuple(sorted(use.name for use in uses if use.use is Use.BUSY))


def _rails(context: ObserveContext) -> dict[str, str]:
    """Return by host the leaf switches of its adapters, from the configured cabling plan; empty without a plan."""
    plan = stated_cabling(context.site, context.hardware)
    found: dict[str, set[str]] = {}
    for link in plan.links if plan is not None else ():
        if link.host and link.far is not None:
            found.setdefault(link.host, set()).add(link.far.node)
    return {host: ", ".join(sorted(names)) for host, names in found.items()}


def limits_of(settings: ContinuousSettings) -> BatchLimits:
    """Return the batch limits that the site configures.

    Raises:
        InputError: no valid window, day or time zone.
    """
    return BatchLimits(
        size=settings.batch,
        per_rack=settings.per_rack,
        per_rail=settings.per_rail,
        window=window_of(settings.window, settings.window_zone, settings.window_days),
        failed_again_h=settings.failed_again_h,
        other_again_h=settings.other_again_h,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """The plan of a batch at one moment. On `busy` hosts only passive checks may run."""

    plan: BatchPlan
    busy: tuple[str, ...]
    tests: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the plan as lines of text, a summary first."""
        plan = self.plan
        head = f"{count(len(plan.batch), 'node')} now, {len(plan.positions) - len(plan.batch)} wait, "
        head += f"{len(plan.not_due)} not due, {len(plan.not_free)} not free, {len(self.busy)} of these at work"
        due = f"; next due on {day_text(plan.next_due_s)}" if plan.next_due_s is not None else ""
        return [f"{head}{due}", *plan.lines()]

    def work(self, verb: str) -> Work:
        """Return the plan as the work of its run: which nodes a cycle would test, and why not the others."""
        plan = self.plan
        rows = [
            (
                place.node,
                "waits" if place.waits else "now",
                place.waits or "; ".join(f"{due.test} {due.why}" for due in place.tests),
            )
            for place in plan.positions
        ]
        rows += [(node, "not due", why) for node, why in plan.not_due.items()]
        rows += [(node, "not free", why) for node, why in plan.not_free.items()]
        return Work(
            verb=verb,
            head=("node", "tested", "why"),
            rows=tuple(WorkRow(cells=cells, good=True) for cells in rows),
            sentence=f"a cycle would test {self.lines()[0]}",
        )


def fleet_plan(run: Run, options: Mapping[str, Any], emit: Emit, now_s: float | None = None) -> FleetPlan:
    """Return which nodes a cycle would test now, and why.

    Args:
        run: the run with the site and its settings.
        options: `store`, `tests`, `scontrol`, and how the cluster is reached.
        emit: takes progress lines.
        now_s: the time now, seconds since the epoch; None: that of this controller.

    Raises:
        ForbiddenError: this user may not read what is needed; it names the rights.
        BringupError: the site, the history, the cluster or Slurm cannot be read.
    """
    connections = {name: str(options[name]) for name in ("kubeconfig", "context") if options.get(name)}
    context = run.observe_context(run_day(run.record), emit, connections)
    settings, tests = context.settings_of(CONTINUOUS, ContinuousSettings), enabled_tests(context, options["tests"])
    limits, uses, now_s = limits_of(settings), _uses(context, options), time.time() if now_s is None else now_s
    results, leases, note = _history(str(options["store"] or ""), run, now_s)
    plan = plan_batch(
        queue_nodes(context, uses, parts_now(results, now_s)),
        demands_of(tests, settings),
        histories_by_test(results, now_s),
        leases,
        limits,
        now_s,
    )
    for line in note:
        emit(line)
    return FleetPlan(plan=plan, busy=busy_hosts(uses.values()), tests=tuple(test.id for test in tests))


def _uses(context: ObserveContext, options: Mapping[str, Any]) -> dict[str, NodeUse]:
    if context.site.orchestrator == "slurm":
        reservation = context.settings_of(CONTINUOUS, ContinuousSettings).slurm_reservation
        return uses_in_slurm(options["scontrol"], context.site, context.hardware, reservation)
    with Cluster(connection_from(options)) as cluster:
        denied = [requested.text for requested in ask_all(cluster, RIGHTS) if not requested.allowed]
        if denied:
            hint = "bind ClusterRole gpufleet-continuous-observe (docs/rbac.md)"
            raise ForbiddenError("API server", f"this user may not {', '.join(denied)}.", hint)
        return uses_in_kubernetes(cluster, context)


def _history(store: str, run: Run, now_s: float) -> tuple[list[NodeResult], Sequence[Lease], list[str]]:
    """Return the results of the history, the current leases, and notes. A missing history is not created."""
    place = place_of(store) if store else None
    if place is None or (isinstance(place, Path) and not place.is_file()):
        reported = f"{place} is not there" if place else "none is stated"
        return [], (), [f"history: {reported}: every test counts as never done"]
    history, site, rehearsal = open_service(place), run.site.name, run.record.rehearsal or run.site.rehearsal
    found = saved_state(history, site, rehearsal=rehearsal, now_s=now_s)
    return found, history.leases(site, rehearsal=rehearsal), []


def positions_of(plan: BatchPlan) -> list[dict[str, Any]]:
    """Return the positions as plain values."""
    return [
        {
            "number": position.number,
            "node": position.node,
            "rack": position.rack,
            "now": not position.waits,
            "waits": position.waits,
            "tests": [
                {"test": due.test, "urgency": due.urgency.name.lower(), "why": due.why} for due in position.tests
            ],
        }
        for position in plan.positions
    ]
