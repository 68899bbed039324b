# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the error counters of NVLinks say of the time before the gate: a link that flapped for days is due to fail.

What a load adds to them is the business of checks host-state-after-….
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ...probe.nvidia_smi_nvlink_errors import NvlinkCounters, NvlinkErrors
from ..kit.finding import Finding
from .node_context import NodeContext

_HINT = (
    "`nvidia-smi nvlink -e -i <gpu>` and the kernel log (XID 74, 144 to 150); reset the GPU, which sets the counters "
    "to 0, and run the gate again: replace what counts again"
)


def past_errors(
    host: NodeContext, errors: NvlinkErrors, allowed: Mapping[str, int], rates: Mapping[str, float]
) -> tuple[Finding, ...]:
    """Return a finding for each GPU of which a link stands above a limit.

    Args:
        host: the host.
        errors: what `nvidia-smi nvlink -e` printed.
        allowed: how high a counter may stand since the driver was loaded, by its name; others are not judged.
        rates: how high a bit error rate may be, by its name; others are not judged.
    """
    return tuple(finding for gpu in errors.gpus for finding in _gpu(host, gpu, allowed, rates))


def _gpu(
    host: NodeContext, gpu: NvlinkCounters, allowed: Mapping[str, int], rates: Mapping[str, float]
) -> tuple[Finding, ...]:
    links: dict[int, list[str]] = defaultdict(list)
    for (link, name), count in gpu.counters.items():
        if count > allowed.get(name, count):
            links[link].append(f"{name} {count}")
    for (link, name), rate in gpu.rates.items():
        if rate > rates.get(name, rate):
            links[link].append(f"{name} {rate:.2g}, limit {rates[name]:g}")
    if not links:
        return ()
    shown = "; ".join(f"link {link}: {', '.join(words)}" for link, words in list(links.items())[:3])
    more = f"; and {len(links) - 3} more links" if len(links) > 3 else ""
    text = f"GPU {gpu.index}, since the driver was loaded: {shown}{more}"
    part = host.gpu_named(gpu.index, gpu.uuid)
    hint = _HINT.replace("<gpu>", str(gpu.index))
    return (Finding(cause="nvlink-errors-before", text=text, hint=hint, subjects=(part,), marginal=True),)
