# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the tools of hosts said in a run, as the hosts of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..probe.ibstat import Hca
from ..probe.nvidia_smi_model import Gpu, SmiLog
from ..probe.os_release import OsRelease
from ..snapshot.model import Attributes, Collected, CollectorResult, Host, HostGpu
from .host_facts import HostFacts
from .tool_reading import ProbeFailure

_UNITS = {"fabric_manager": "nvidia-fabricmanager.service"}
# The readings that a snapshot keeps; counters and temperatures move by themselves.
READINGS = ("smi", "modules", "kernel_release", "os", "ofed", "fabric_manager", "hcas")
# No reading of gate nodes asks for these.
NOT_READ = ("sysctl", "boot parameters", "systemd units beside the Fabric Manager")
T = TypeVar("T")


def hosts_of(facts: Mapping[str, HostFacts]) -> tuple[dict[str, Host], CollectorResult]:
    """Return the hosts that were reached, and what became of looking at all of them."""
    found = {name: _host(host) for name, host in sorted(facts.items()) if host.reached}
    missing = [f"{name} ({host.reason or host.unread})" for name, host in sorted(facts.items()) if not host.reached]
    if missing or not facts:
        shown = "; ".join(missing[:8]) or "the run has no hosts"
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        hint = "run gate nodes again, and take the snapshot of that run"
        return found, CollectorResult(state=Collected.FAILED, reason=f"not read: {shown}{more}", hint=hint)
    reason = f"gate nodes reads no {', '.join(NOT_READ)}"
    return found, CollectorResult(state=Collected.WHOLE, reason=reason)


def _host(facts: HostFacts) -> Host:
    unread: dict[str, str] = {}

    def read(fact: str, kind: type[T], otherwise: T) -> T:
        value: Any = facts.read(fact, kind)
        if isinstance(value, ProbeFailure):
            unread[fact] = value.text
            return otherwise
        return value  # type: ignore[no-any-return]  # read() checked that it is a `kind`

    smi = read("smi", SmiLog, SmiLog(schema="", driver_version="", cuda_version="", attached_gpus=0, gpus=()))
    system = read("os", OsRelease, OsRelease("", "", ""))
    units = {unit: read(fact, str, "") for fact, unit in _UNITS.items()}
    return Host(
        os={"ID": system.id, "VERSION_ID": system.version_id, "PRETTY_NAME": system.pretty_name} if system.id else {},
        kernel=read("kernel_release", str, ""),
        modules=tuple(sorted(read("modules", frozenset, frozenset()))),
        units={unit: {"ActiveState": state} for unit, state in units.items() if state},
        driver=smi.driver_version,
        cuda=smi.cuda_version,
        ofed=read("ofed", str, ""),
        gpus={gpu.bus_id: _gpu(gpu) for gpu in smi.gpus},
        adapters={hca.name: _adapter(hca) for hca in read("hcas", tuple, ())},
        unread=unread,
    )


def _gpu(gpu: Gpu) -> HostGpu:
    return HostGpu(
        product=gpu.product,
        uuid=gpu.uuid,
        serial=gpu.serial,
        vbios=gpu.vbios,
        mig=gpu.mig_current,
        ecc=gpu.ecc_current,
        memory_mib=gpu.memory_total_mib,
    )


def _adapter(hca: Hca) -> Attributes:
    layers = sorted({port.link_layer for port in hca.ports})
    return {"kind": hca.kind, "firmware": hca.firmware, "node_guid": hca.node_guid, "link_layer": ",".join(layers)}
