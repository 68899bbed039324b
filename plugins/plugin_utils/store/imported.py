# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Taking over the results of another tool: they are kept as claims, and decide nothing unless a person says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from .claims import ClaimedResult, Claims
from .service import ServiceStore
from .service_model import Cycle, NodeResult

PREFIX = "imported/"
_CYCLE = "import-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """What becomes of another tool's results.

    `tests` gives a name of theirs one of our tests: only then do their results count for it. Any other test keeps its
    name behind `imported/`, which no test of ours has. `nodes` gives a name of theirs the name of the inventory.
    """

    site: str
    rehearsal: bool
    source: str
    tests: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)


def import_claims(store: ServiceStore, claims: Claims, plan: ImportPlan, now: str, *, write: bool) -> int:
    """Write what is not there yet, and return how many results that is; imported again, nothing changes.

    Raises:
        BringupError: the history cannot be read or written.
    """
    known = _known(store, plan)
    rounds: list[list[NodeResult]] = []
    count: dict[tuple[str, str], int] = {}
    for row in claims.rows:
        node, test = plan.nodes.get(row.node, row.node), plan.tests.get(row.test, f"{PREFIX}{row.test}")
        if (node, test, row.at_s) in known or (node, test, _day(row.at_s)) in known:
            continue
        known.add((node, test, row.at_s))
        # A cycle has one result of a node and test: the n-th of one goes into the n-th cycle.
        number = count[node, test] = count.get((node, test), -1) + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(_result(row, node, test, f"{_CYCLE}{claims.digest[:16]}-{number}", plan))
    if not write:
        return sum(map(len, rounds))
    written = 0
    for results in rounds:
        started = datetime.fromtimestamp(min(result.started_s for result in results), UTC)
        cycle = Cycle(
            cycle_id=results[0].cycle_id, site=plan.site, rehearsal=plan.rehearsal, controller="imported",
            started=started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )  # fmt: skip
        store.begin_cycle(cycle)
        written += store.add_results(cycle.cycle_id, results)
        store.end_cycle(cycle.cycle_id, now, f"imported from {plan.source} (SHA-256 {claims.digest})")
    return written


def _known(store: ServiceStore, plan: ImportPlan) -> set[tuple[str, str, float | str]]:
    """Return what was imported before, also what retention made a day of."""
    found: set[tuple[str, str, float | str]] = set()
    for result in store.results(plan.site, rehearsal=plan.rehearsal, since_s=0):
        if result.cycle_id.startswith(_CYCLE):
            found.add((result.node, result.test, result.started_s))
    for row in store.days(plan.site, rehearsal=plan.rehearsal):
        found.add((row.node, row.test, row.day))
    return found


def _result(row: ClaimedResult, node: str, test: str, cycle_id: str, plan: ImportPlan) -> NodeResult:
    return NodeResult(
        cycle_id=cycle_id, node=node, test=test, started_s=row.at_s, duration_s=0.0, status=row.status,
        cohort="imported", cause="" if row.status.value == "passed" else "imported-claim",
        summary=f"imported from {plan.source}: {row.test} of node {row.node}: {row.word}",
    )  # fmt: skip


def _day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()
