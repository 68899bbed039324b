# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why the driver did not start a GPU, from its lines in the kernel log: for the checks that find a GPU missing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...probe.driver_start import StartFailure, StartTrouble
from ...probe.kernel_log import KernelLog
from .node_context import NodeContext

# The first kind of this order is reported: the last kind is a consequence of the others.
_ORDER: tuple[StartTrouble, ...] = ("module-kind", "driver-release", "bar", "fsp", "gsp", "init")
_CAUSES: dict[StartTrouble, tuple[str, str]] = {
    "module-kind": (
        "gpu-driver-unfit",
        "install the other kind of the driver's kernel modules (open ones for Blackwell), then reboot the node",
    ),
    "driver-release": ("gpu-driver-unfit", "install a driver release that knows this GPU, then reboot the node"),
    "bar": (
        "gpu-start-failed",
        "switch `Above 4G decoding` on in the BIOS, and compare the BIOS settings with hosts that are well",
    ),
    "fsp": (
        "gpu-start-failed",
        "power-cycle the node; compare the confidential computing mode of the GPU with that of hosts that are well, "
        "and update its firmware",
    ),
    "gsp": (
        "gpu-start-failed",
        "look whether the GSP firmware of the driver's own version is under /lib/firmware/nvidia; reinstall the "
        "driver, then power-cycle the node",
    ),
    "init": (
        "gpu-start-failed",
        "power-cycle the node and read the lines NVRM of its kernel log; if the GPU does not start again, replace it",
    ),
}


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Cause, the driver's line, hint, and the addresses of the GPUs that the lines name."""

    cause: str
    line: str
    hint: str
    addresses: tuple[str, ...]


def not_started(host: NodeContext, gone: Collection[str] = ()) -> NotStarted | None:
    """Return why the driver started no GPU, or not those at `gone`, since it was last loaded.

    None if the kernel log does not show a reason, or if there is no log.
    """
    failures = [f for f in last_start(host) if f.kind in _CAUSES and (not gone or f.address in gone)]
    if not failures:
        return None
    first = min(failures, key=lambda failure: _ORDER.index(failure.kind))
    cause, hint = _CAUSES[first.kind]
    addresses = tuple(dict.fromkeys(f.address for f in failures if f.address))
    return NotStarted(cause, first.text, hint, addresses)


def last_start(host: NodeContext) -> tuple[StartFailure, ...]:
    """Return the start failures that the driver logged since it was last loaded; empty without a kernel log."""
    log = host.facts.kernel
    if not isinstance(log, KernelLog):
        return ()
    since = log.driver_loaded[-1] if log.driver_loaded else -1
    return tuple(failure for failure in log.starts if failure.line > since)
