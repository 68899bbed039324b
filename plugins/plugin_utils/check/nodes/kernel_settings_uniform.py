# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check kernel-settings-uniform: huge pages, NUMA balancing, IOMMU and the like are set alike on all hosts of a SKU."""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .observe_hosts import OBSERVER
from .part_versions import Part, PartVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettingsSettings:
    """Settings of check kernel-settings-uniform."""

    sysctls: tuple[str, ...] = setting("Settings of the kernel that all hosts of a SKU have alike (sysctl).")
    boot_parameters: tuple[str, ...] = setting("Parameters of the boot that all hosts of a SKU have alike.")


SPEC = CheckSpec(
    id="kernel-settings-uniform",
    gate="nodes",
    title="Kernel settings alike on all hosts of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    requires=("host_access",),
    settings=KernelSettingsSettings,
)
_UNSET = "not set"


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """A difference may be meant, so a person decides; the value of most hosts is the usual one."""
    settings = context.settings_of(SPEC.id, KernelSettingsSettings)
    versions = PartVersions(
        SPEC,
        {host.name: _values(seen, host.name, settings) for host in context.site.in_scope},
        lambda host, _name: host.answer.subject,
        word="kernel setting",
        needs="sysctl",
    )
    return versions.judge(seen, context)


def _values(seen: FleetFacts, name: str, settings: KernelSettingsSettings) -> tuple[Part, ...]:
    """Return the settings of a host; an empty value stands for what could not be read."""
    if name not in seen.hosts:
        return ()
    sysctls, boot = seen.hosts[name].read("sysctl", dict), seen.hosts[name].read("boot", dict)
    if isinstance(sysctls, ProbeFailure):
        return ()
    found = [(word, sysctls.get(f"/proc/sys/{word.replace('.', '/')}") or _UNSET) for word in settings.sysctls]
    found += [
        (word, "" if isinstance(boot, ProbeFailure) else boot.get(word, _UNSET)) for word in settings.boot_parameters
    ]
    return tuple(Part(word, (word,), value) for word, value in found)


CHECK = Check(SPEC, OBSERVER, judge)
