# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where a cycle runs its tests, whoever gives the nodes work, and what dead cycles left in the history."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..check.node_tests.spec import NodeTest
from ..check.spec import ObserveContext
from ..clients.kube.cluster import Cluster
from ..fleet.cycle_model import RunJobs, Stock
from ..runtime.clock import now_utc
from ..runtime.progress import Emit
from ..store.service import ServiceStore
from ..store.service_model import Cycle

_DEAD_DAYS = 90


@dataclass(frozen=True, slots=True)
class CyclePlace:
    """What a cycle is told of its place, which is held by then: its tests, how stock is taken, and `jobs`, within which
    tests are run and which adds to the notes what it leaves; `cluster` is None where there is no Kubernetes."""

    context: ObserveContext
    tests: tuple[NodeTest, ...]
    stock: Callable[[], Stock]
    jobs: Callable[[list[str]], AbstractContextManager[RunJobs]]
    cluster: Cluster | None = None


def others(store: ServiceStore, cycle: Cycle) -> tuple[Cycle, ...]:
    """Return the cycles of the site beside this one that may have left something."""
    since = (datetime.now(UTC) - timedelta(days=_DEAD_DAYS)).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = store.cycles(cycle.site, rehearsal=cycle.rehearsal, since=since)
    return tuple(other for other in known if other.cycle_id != cycle.cycle_id)


def forget_dead(
    store: ServiceStore, cycle: Cycle, emit: Emit, dead: Callable[[str], bool] = lambda _cycle_id: True
) -> None:
    """End what cycles of dead controllers left in the history.

    Whoever holds the place is the only one that tests there, and what dead runs left was removed: so nothing runs any
    more under the leases of others. The leases of cycles that are not `dead` stay until they run out.
    """
    for lease in store.leases(cycle.site, rehearsal=cycle.rehearsal):
        if lease.cycle_id != cycle.cycle_id and dead(lease.cycle_id) and store.release(lease):
            emit(f"lease of {lease.test} on {lease.node} taken over from dead cycle {lease.cycle_id}")
    for other in others(store, cycle):
        if not other.ended and dead(other.cycle_id):
            store.end_cycle(other.cycle_id, now_utc(), "its controller died")
