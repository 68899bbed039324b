# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The part of the history that the queue needs. It grows with the nodes and not with the years.

That is the newest answer of every node and test, what was given back during the last day, and for the few nodes whose
newest answer says nothing all results of some weeks: how often they were tried, and what they said before.
"""

from __future__ import annotations

from ..outcome.model import Status
from ..store.records import NodeResult
from ..store.service import ServiceStore
from .standing import DAY_S, is_dated, is_measured

_TRIES_S, _GIVEN_BACK_S = 30 * DAY_S, DAY_S
# So many names in one question.
_NAMES = 500


def remembered(store: ServiceStore, site: str, *, rehearsal: bool, now_s: float) -> list[NodeResult]:
    """Return the results from which `standings` and `parts_now` are made, each once, without figures and digests.

    Args:
        store: the history.
        site: whose.
        rehearsal: whether those of rehearsals.
        now_s: the time now, seconds since the epoch.

    Raises:
        BringupError: the history cannot be read.
    """
    latest = store.latest(site, rehearsal=rehearsal, whole=False)
    unclear = sorted({result.node for result in latest.values() if not _says(result, now_s)})
    given_back = store.results(
        site, rehearsal=rehearsal, since_s=now_s - _GIVEN_BACK_S, statuses={Status.PENDING}, whole=False
    )
    found = {_identity(result): result for result in (*latest.values(), *given_back)}
    for start in range(0, len(unclear), _NAMES):
        some = unclear[start : start + _NAMES]
        tried = store.results(site, rehearsal=rehearsal, since_s=now_s - _TRIES_S, nodes=some, whole=False)
        found |= {_identity(result): result for result in tried}
        for kind in ("passed", "failed"):
            last = store.last(site, kind, rehearsal=rehearsal, nodes=some, whole=False).values()
            found |= {_identity(result): result for result in last}
    return list(found.values())


def _says(result: NodeResult, now_s: float) -> bool:
    return is_measured(result) and is_dated(result, now_s)


def _identity(result: NodeResult) -> tuple[str, str, str, float, str]:
    return result.cycle_id, result.node, result.test, result.started_s, result.status.value
