# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Cycles and results of a cluster in service, as tests write them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Cycle, Figure, NodeResult

SITE = "island"


def cycle(cycle_id: str = "c1", *, site: str = SITE, rehearsal: bool = False, day: int = 1) -> Cycle:
    return Cycle(
        cycle_id=cycle_id, site=site, rehearsal=rehearsal, started=f"2026-11-{day:02d}T10:00:00Z", controller="ctl1"
    )


def node_result(
    cycle_id: str = "c1", node: str = "gpu01", test: str = "dl", status: Status = Status.PASSED, **changes: Any
) -> NodeResult:
    known: dict[str, Any] = {
        "started_s": 1000.0,
        "duration_s": 60.0,
        "rating": Rating.GOOD if status is Status.PASSED else Rating.UNKNOWN,
        "cohort": "h100/580.95.05",
        "parts": {"gpu0": "GPU-a", "gpu1": "GPU-b"},
        "digests": {"GPU-a": "0f", "GPU-b": "0f"},
        "figures": (Figure(name="gemm_bf16", number=612.5, unit="TFLOP/s", part="GPU-a"),),
        "log": f"{test}/{node}/{test}_{node}_1000.log.gz",
    }
    return NodeResult(cycle_id=cycle_id, node=node, test=test, status=status, **(known | changes))
