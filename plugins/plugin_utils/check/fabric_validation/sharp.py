# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a run of all hosts reduced in the switches of InfiniBand (SHARP), as its site states.

NCCL falls back to rings without an error where no job of SHARP can be made. What shows that it did not: every host has
ranks that made their job (a line of Mellanox/nccl-rdma-sharp-plugins), and the algorithm at the largest size is one
that reduces there: CollNet, or NVLS between nodes (NVIDIA/nccl#919: NVLink SHARP within nodes, CollNet between them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...outcome.wording import first_of
from .model import Run
from .transport import host_log

_IN_SWITCHES = ("collnetdirect", "collnetchain", "nvls")
_MOST = 3


@dataclass(frozen=True, slots=True)
class SharpProof:
    """`used`; `unused` with the hosts that have none, text and hint; `unchosen`: it was there and NCCL took another
    way; `unknown`: the log does not say."""

    proof: Literal["used", "unused", "unchosen", "unknown"]
    text: str = ""
    hint: str = ""
    hosts: tuple[str, ...] = ()


def sharp_of(run: Run, *, fabric: str) -> SharpProof:
    """Return what the log of a run shows of SHARP."""
    if fabric != "infiniband":
        text = f"SHARP is stated, and the fabric of these hosts is {fabric}: only switches of InfiniBand reduce"
        return SharpProof("unknown", text, "leave sharp out of the settings of nccl-all-nodes-bw")
    if run.debug is not None and run.debug.clique_size == run.record.ranks:
        text = "SHARP is stated, and all hosts are in one NVLink domain: nothing between them goes over InfiniBand"
        return SharpProof(
            "unknown", text, "leave sharp out of the settings of nccl-all-nodes-bw, or test several domains"
        )
    logs = {name: host_log(run, name) for name in run.record.hosts}
    silent = [name for name, log in logs.items() if log is None]
    if silent or not run.algorithm:
        text = (
            f"no line of NCCL about {', '.join(silent[:_MOST])}"
            if silent
            else "NCCL does not say which algorithm it used"
        )
        return SharpProof("unknown", f"{text}, so nothing is known of SHARP", "read the log of the run")
    without = tuple(name for name, log in logs.items() if log and not log.sharp)
    refused = {name: log.no_sharp for name, log in logs.items() if log and log.no_sharp}
    if without or refused:
        return _unused(run, without or tuple(refused), refused)
    if run.algorithm not in _IN_SWITCHES:
        text = f"every host made its job of SHARP, and NCCL chose {run.algorithm} at the largest size"
        return SharpProof("unchosen", text, "state NCCL_ALGO (settings: env), or do without SHARP")
    return SharpProof("used", f"reduced in the switches by {run.algorithm}")


def _unused(run: Run, hosts: tuple[str, ...], refused: dict[str, tuple[str, ...]]) -> SharpProof:
    start = f"no reduction in the switches (SHARP) with {first_of(hosts, _MOST)}; NCCL used {run.algorithm}"
    if refused:
        host, lines = next(iter(refused.items()))
        hint = (
            "see that the aggregation manager runs beside the subnet manager (`systemctl status sharp_am`, or SHARP in "
            f"UFM) and try `/opt/mellanox/sharp/bin/sharp_hello -d mlx5_0:1 -v 3` on {host}"
        )
        return SharpProof("unused", f"{start}; {host} says: {lines[0]}", hint, hosts)
    plugins = [name for name in hosts if (log := host_log(run, name)) and not log.collnet]
    if plugins:
        hint = "use an image with nccl-rdma-sharp-plugins (HPC-X has it) and put its directory into LD_LIBRARY_PATH"
        return SharpProof("unused", f"{start}: its image has no CollNet plugin", hint, hosts)
    hint = "read the lines of the run about SHARP and CollNet; NCCL_COLLNET_ENABLE has to be 1 (settings: env)"
    return SharpProof("unused", f"{start}, and no line says why", hint, hosts)
