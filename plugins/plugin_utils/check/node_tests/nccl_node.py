# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Test: the GPUs of one node reduce over the node's own NVLinks, all of them at once.

The run is that of gate fabric_validation over single hosts (phase `node`). Cycles leave it out unless a site enables
it: a burn-in loads NVLinks on purpose, and reads their error counters before and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..benchmark.plan import BenchmarkHost
from ..fabric_validation.model import Phase, PlannedHost, Run
from ..fabric_validation.transport import Transport, host_log
from ..kit.settings import with_default
from .nccl_loop import NcclLoop, RunOfOne
from .settings import NodeTestSettings

# NCCL logs the same for NVLink and PCIe: a GPU writes into the memory of another one. The rate shows which it was.
_DIRECT = "P2P"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclNodeSettings(NodeTestSettings):
    """Settings of the test; how its run is made and judged stands in those of gate fabric_validation."""

    # For burn-ins; a cycle need not load NVLinks as well.
    enabled: bool = with_default(NodeTestSettings, "enabled", False)


class NcclNode(NcclLoop):
    """all_reduce_perf over the NVLinks of one node."""

    id = "nccl_node"
    title = "NCCL over the NVLinks of one node"
    settings_type = NcclNodeSettings
    phase: ClassVar[Phase] = "node"

    def unfit(self, host: BenchmarkHost) -> str:
        """Return why the test does not apply to such hosts: one GPU has no peer, or there is no NVLink. Empty if it
        does."""
        sku = self._sku(host)
        if sku.gpus < 2:
            return "it has one GPU, which has nobody to reach"
        return "" if sku.nvlink_links else f"{sku.name} has no NVLink"

    def unready(self, host: BenchmarkHost) -> str:
        """Return that every host is ready: the test does not use its adapters."""
        del host
        return ""

    def _parts(self, host: PlannedHost) -> dict[str, str]:
        """Return no parts: the log does not show which links and switches carried the data."""
        del host
        return {}

    def _said(self, host: PlannedHost, run: Run) -> RunOfOne:
        return _OverNvlink(self._jobs, host, self._sku(host), run)


class _OverNvlink(RunOfOne):
    """One run over the NVLinks of its host."""

    slow = ("slow-nvlink", "nvlink-bandwidth-marginal")
    hint = "`nvidia-smi nvlink --status` and `nvidia-smi topo -m` on the node: a link that is down or slow"

    def transport(self) -> Transport:
        """Return that there is no network to prove; beside_links reads every channel."""
        log = host_log(self.run, self.host.name)
        if log is None or not log.channels:
            return Transport("unproven", text="no line says which way the data went")
        return Transport("proven", text="every channel from GPU to GPU")

    def beside_links(self) -> str:
        """Return which data did not go from GPU to GPU; empty if all of it did."""
        log = host_log(self.run, self.host.name)
        other = next((one for one in log.channels if not one.via.startswith(_DIRECT)), None) if log else None
        return f"rank {other.source} reaches {other.target} via {other.via}, and not from GPU to GPU" if other else ""


TEST = NcclNode
