# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the tools of hosts said, in a run or in a pod on a node, as the hosts of a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar

from ..outcome.wording import first_of
from ..probe.ibstat import Hca
from ..probe.infiniband_class import Adapter
from ..probe.nvidia_proc import DriverFiles, DriverGpu
from ..probe.nvidia_smi_model import Gpu, SmiLog
from ..probe.os_release import OsRelease
from ..snapshot.model import (
    WHOLE_HOST,
    Collected,
    CollectorResult,
    Host,
    HostGpu,
)
from ..snapshot.node import Attributes
from .host_facts import HostFacts
from .tool_reading import ProbeFailure

SSH, POD = "ssh", "pod"
_UNITS = {"fabric_manager": "nvidia-fabricmanager.service"}
# The readings that a snapshot keeps; counters and temperatures move by themselves.
READINGS = ("smi", "modules", "kernel_release", "os", "ofed", "fabric_manager", "hcas", "sysctl", "boot", "units")
NODE_READINGS = (
    "smi", "modules", "kernel_release", "os", "sysctl", "boot", "cgroup_units", "nvidia_proc", "infiniband_class",
)  # fmt: skip
_SHOWN = 8
T = TypeVar("T")


def hosts_of(facts: Mapping[str, HostFacts]) -> tuple[dict[str, Host], dict[str, str]]:
    """Return the hosts that were reached over SSH, and why others were not."""
    found = {name: host_over_ssh(host) for name, host in sorted(facts.items()) if host.reached}
    return found, {name: host.reason or host.unread for name, host in facts.items() if not host.reached}


def all_hosts(found: Mapping[str, Host], missing: Mapping[str, str]) -> dict[str, Host]:
    """Return the hosts that were read, and those that were not with the reason: a node that is cordoned for weeks does
    not take the others out of every comparison."""
    lost = {name: Host(unread={WHOLE_HOST: reason or "nobody says why"}) for name, reason in missing.items()}
    return dict(sorted({**lost, **found}.items()))


def result_of(found: Mapping[str, Host], missing: Mapping[str, str], hint: str) -> CollectorResult:
    """Return what became of looking at hosts: it failed where none could be read.

    Args:
        found: those that were read.
        missing: those that were not, each with the reason.
        hint: what to do about them.
    """
    lacking = [f"{name} ({reason})" for name, reason in sorted(missing.items())]
    text = first_of(lacking, _SHOWN, "; ")
    if not found:
        reason = f"not read: {text or 'the run has no hosts'}"
        return CollectorResult(state=Collected.FAILED, reason=reason, hint=hint)
    unread = Counter(fact for host in found.values() for fact in host.unread)
    told = ", ".join(f"{fact} of {count}" for fact, count in sorted(unread.items()))
    parts = [f"{len(found)} host(s) read"]
    parts += [f"{len(missing)} not read: {text}"] if missing else []
    parts += [f"not all of them gave {told}"] if told else []
    return CollectorResult(state=Collected.WHOLE, reason="; ".join(parts), hint=hint if missing else "")


class _Reader:
    """Reads facts of one host, and keeps the reasons of those that are not there."""

    def __init__(self, facts: HostFacts) -> None:
        self._facts = facts
        self.unread: dict[str, str] = {}

    def read(self, fact: str, kind: type[T], otherwise: T) -> T:
        value: Any = self._facts.read(fact, kind)
        if isinstance(value, ProbeFailure):
            self.unread[fact] = value.text
            return otherwise
        return value  # type: ignore[no-any-return]  # read() checked that it is a `kind`

    def smi(self) -> SmiLog:
        nothing = SmiLog(schema="", driver_version="", cuda_version="", attached_gpus=0, gpus=())
        return self.read("smi", SmiLog, nothing)

    def common(self) -> dict[str, Any]:
        """Return the fields that are read alike in both ways."""
        system = self.read("os", OsRelease, OsRelease("", "", ""))
        words = {"ID": system.id, "VERSION_ID": system.version_id, "PRETTY_NAME": system.pretty_name}
        return {
            "os": words if system.id else {},
            "kernel": self.read("kernel_release", str, ""),
            "boot": _shared(self.read("boot", dict, {})),
            "sysctl": _shared(self.read("sysctl", dict, {})),
            "modules": _listed_once(self.read("modules", frozenset, frozenset())),
        }


def host_over_ssh(facts: HostFacts) -> Host:
    """Return a host whose tools were asked on it."""
    reader = _Reader(facts)
    smi, common = reader.smi(), reader.common()
    states = {unit: reader.read(fact, str, "") for fact, unit in _UNITS.items()}
    units: dict[str, Attributes] = {unit: {"ActiveState": state} for unit, state in states.items() if state}
    for unit, fields in reader.read("units", dict, {}).items():
        units[unit] = {**units.get(unit, {}), **fields}
    return Host(
        **common,
        units=units,
        driver=smi.driver_version,
        cuda=smi.cuda_version,
        ofed=reader.read("ofed", str, ""),
        gpus={gpu.bus_id: _gpu(gpu) for gpu in smi.gpus},
        adapters={hca.name: _adapter(hca) for hca in reader.read("hcas", tuple, ())},
        unread=reader.unread,
        read_by=SSH,
    )


def host_from_pod(facts: HostFacts) -> Host:
    """Return a host whose kernel a pod on it asked: without the driver's tools its GPUs are as its files say."""
    reader = _Reader(facts)
    smi, common = reader.smi(), reader.common()
    files = reader.read("nvidia_proc", DriverFiles, DriverFiles("", {}))
    gpus = {gpu.bus_id: _gpu(gpu) for gpu in smi.gpus} or {place: _listed(gpu) for place, gpu in files.gpus.items()}
    if "nvidia_proc" not in reader.unread and not files.release:
        # Nobody can ask a driver that is not there.
        reader.unread.pop("smi", None)
    return Host(
        **common,
        units=reader.read("cgroup_units", dict, {}),
        driver=smi.driver_version or files.release,
        cuda=smi.cuda_version,
        gpus=gpus,
        adapters=_classed(reader.read("infiniband_class", dict, {})),
        unread=reader.unread,
        read_by=POD,
    )


def _shared(values: Mapping[str, str]) -> dict[str, str]:
    """Return the same mapping for hosts that say the same: hundreds of settings are alike on all of a fleet."""
    return _once(tuple((intern(key), intern(value)) for key, value in values.items()))


@lru_cache(maxsize=256)
def _once(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(pairs)


@lru_cache(maxsize=256)
def _listed_once(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


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


def _listed(gpu: DriverGpu) -> HostGpu:
    return HostGpu(product=gpu.product, uuid=gpu.uuid, vbios=gpu.vbios or None)


def _adapter(hca: Hca) -> Attributes:
    return _attributes(hca.kind, hca.firmware, hca.node_guid, (port.link_layer for port in hca.ports))


def _classed(adapters: Mapping[str, Adapter]) -> dict[str, Attributes]:
    return {
        name: _attributes(found.kind, found.firmware, found.node_guid, found.link_layers)
        for name, found in adapters.items()
    }


def _attributes(kind: str, firmware: str, node_guid: str, layers: Iterable[str]) -> Attributes:
    return {"kind": kind, "firmware": firmware, "node_guid": node_guid, "link_layer": ",".join(sorted(set(layers)))}
