# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check unit-limits: GPU jobs may lock as much memory and open as many files on all hosts of a SKU, and as configured.

An adapter registers memory that is locked: with a small limit (LimitMEMLOCK of the unit that starts containers or jobs)
NCCL ends with `ibv_reg_mr failed: Cannot allocate memory`. A container with IPC_LOCK has no limit, so a small limit is
a fault only where the site configures a larger one, or where one host differs from the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ..kit.finding import Finding
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLimitsSettings:
    """Settings of check unit-limits."""

    memlock_gib: float | None = setting(
        "Memory that processes of GPU jobs must at least be able to lock (LimitMEMLOCK of the unit that starts them); "
        "null: not stated, a host that differs from most is for a person.",
        default=None,
        unit="GiB",
        above=0,
    )
    nofile: int | None = setting(
        "Files that they must at least be able to open (LimitNOFILE); null: not stated, as with memlock_gib.",
        default=None,
        unit="files",
        above=0,
    )


SPEC = CheckSpec(
    id="unit-limits",
    gate="nodes",
    title="GPU jobs may lock memory and open files alike on all hosts of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("memlock-limit-low", "nofile-limit-low"),
    settings=UnitLimitsSettings,
)
# Units whose limits apply to what they start: containers, and jobs of Slurm. The kubelet itself starts none.
_STARTERS = (
    "containerd.service", "crio.service", "docker.service", "k3s.service", "k3s-agent.service", "rke2-server.service",
    "rke2-agent.service", "slurmd.service",
)  # fmt: skip
_MEMLOCK, _NOFILE = "LimitMEMLOCK", "LimitNOFILE"
_UNLIMITED, _GIB = "infinity", 1 << 30
# The same as systemd before release 229 prints it.
_LARGEST = str((1 << 64) - 1)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge limits. One below the configured limit fails; any other difference may be intended, so a person decides."""
    versions = PartVersions(
        SPEC,
        {host.name: _compared(observed, context, host.name, host.sku) for host in context.site.in_scope},
        lambda host, _name: host.answer.subject,
        word="limit",
        needs="units",
        rules=_rules,
    )
    return versions.judge(observed, context)


def _limits(units: Mapping[str, Mapping[str, str]]) -> dict[tuple[str, str], str]:
    """Return the limits of the running units, by unit and name; empty for one that systemd does not report."""
    running = [unit for unit in _STARTERS if units.get(unit, {}).get("ActiveState") == "active"]
    return {(unit, name): _reported(units[unit].get(name, "")) for unit in running for name in (_MEMLOCK, _NOFILE)}


def _reported(word: str) -> str:
    if word in (_UNLIMITED, _LARGEST):
        return _UNLIMITED
    return word if word.isascii() and word.isdigit() else ""


def _compared(observed: FleetFacts, context: JudgeContext, name: str, sku: str) -> tuple[Part, ...]:
    """Return the limits of a host for which the site configures nothing."""
    units = observed.hosts[name].read("units", dict) if name in observed.hosts else {}
    if isinstance(units, ProbeFailure):
        return ()
    configured = _configured(context.settings_of(SPEC.id, UnitLimitsSettings, sku))
    return tuple(
        Part(f"{unit} {limit}", (unit, limit), value)
        for (unit, limit), value in _limits(units).items()
        if limit not in configured
    )


def _configured(settings: UnitLimitsSettings) -> dict[str, float]:
    least = {_MEMLOCK: None if settings.memlock_gib is None else settings.memlock_gib * _GIB, _NOFILE: settings.nofile}
    return {name: value for name, value in least.items() if value is not None}


def _rules(host: NodeContext) -> list[Finding]:
    configured, limits = _configured(host.settings(UnitLimitsSettings)), _limits(host.facts.values["units"])
    if configured and not limits:
        text = f"a limit is stated, and none of {', '.join(_STARTERS)} runs"
        hint = "`systemctl list-units --type=service` on the node: which unit starts containers or jobs?"
        return [Finding(cause="unit-limits-no-unit", text=text, hint=hint, marginal=True)]
    return [
        _finding(unit, name, value, configured[name])
        for (unit, name), value in limits.items()
        if name in configured and value != _UNLIMITED and (not value or int(value) < configured[name])
    ]


def _finding(unit: str, name: str, value: str, least: float) -> Finding:
    cause = "memlock-limit-low" if name == _MEMLOCK else "nofile-limit-low"
    text = f"{unit}: {name}={value or 'not told'}, expected {least:.0f} or more"
    hint = f"`systemctl edit {unit}`: [Service] {name}=infinity; then restart it, and the pods or jobs that it started"
    if not value:
        return Finding(cause="unit-limits-not-reported", text=text, hint=f"`systemctl show {unit}`", marginal=True)
    return Finding(cause=cause, text=text, hint=hint)


CHECK = Check(SPEC, OBSERVER, judge)
