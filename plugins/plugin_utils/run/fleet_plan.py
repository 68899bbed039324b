# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which idle node would be tested next, and why: looked at, and nothing changed, held or recorded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..check.node_tests.registry import enabled_tests
from ..check.node_tests.settings import CONTINUOUS, ContinuousSettings
from ..check.spec import ObserveContext
from ..clients.kube.cluster import Cluster, ask_all
from ..clients.kube.connection import connection_from
from ..clients.kube.errors import ForbiddenError
from ..fleet.free_nodes import RIGHTS
from ..fleet.queue import demands_of, plan_batch
from ..fleet.queue_model import BatchPlan
from ..fleet.remembered import remembered
from ..fleet.standing import day_text, parts_now, standings
from ..outcome.wording import count
from ..runtime.progress import Emit
from ..store.database import place_of
from ..store.records import Lease, NodeResult
from ..store.service import open_service
from ..workload.node_use import NodeUse
from .decision import run_day
from .run import Run
from .site_nodes import busy_hosts, limits_of, queue_nodes, uses_in_kubernetes, uses_in_slurm


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """The plan of a batch at one moment; on `busy` hosts only passive checks may go."""

    plan: BatchPlan
    busy: tuple[str, ...]
    tests: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return it for people, how much there is of each first."""
        plan = self.plan
        head = f"{count(len(plan.batch), 'node')} now, {len(plan.positions) - len(plan.batch)} wait, "
        head += f"{len(plan.not_due)} not due, {len(plan.not_free)} not free, {len(self.busy)} of these at work"
        due = f"; next due on {day_text(plan.next_due_s)}" if plan.next_due_s is not None else ""
        return [f"{head}{due}", *plan.lines()]


def fleet_plan(run: Run, options: Mapping[str, Any], emit: Emit, now_s: float | None = None) -> FleetPlan:
    """Return which nodes a cycle would test now, and why.

    Args:
        run: whose site and settings count.
        options: `store`, `tests`, `scontrol`, and how the cluster is reached.
        emit: takes progress lines.
        now_s: the time now, seconds since the epoch; None: that of this controller.

    Raises:
        ForbiddenError: this user may not look; it names what for.
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
        standings(results, now_s),
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
        denied = [asked.text for asked in ask_all(cluster, RIGHTS) if not asked.allowed]
        if denied:
            hint = "bind ClusterRole gpufleet-continuous-observe (docs/rbac.md)"
            raise ForbiddenError("API server", f"this user may not {', '.join(denied)}.", hint)
        return uses_in_kubernetes(cluster, context)


def _history(store: str, run: Run, now_s: float) -> tuple[list[NodeResult], Sequence[Lease], list[str]]:
    """Return what is remembered, who tests now, and what to say of it; a history that is not there is not made."""
    place = place_of(store) if store else None
    if place is None or (isinstance(place, Path) and not place.is_file()):
        said = f"{place} is not there" if place else "none is stated"
        return [], (), [f"history: {said}: every test counts as never done"]
    history, site, rehearsal = open_service(place), run.site.name, run.record.rehearsal or run.site.rehearsal
    found = remembered(history, site, rehearsal=rehearsal, now_s=now_s)
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
