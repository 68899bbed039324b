# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What one host observed of the fabric: subnet managers, ports and error counters twice each, and the cabling plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...collect.host_evidence import HostEvidence, ToolRun
from ...collect.tool_reading import ProbeFailure, read_tool
from ...probe.fabric_summary import FabricSummary
from ...probe.ibdiagnet import Diagnosis
from ...probe.iblinkinfo import LinkEnd
from ...probe.ibqueryerrors import ErrorReport
from ...probe.ibswinfo import SwitchHealth
from ...probe.sharp_hello import SharpJob
from ...probe.sminfo import SmInfo
from ...runtime.host_tools import load_host_tools
from ...site.cabling import CablingPlan

_NO_MANAGER = "iberror: failed: query"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetFacts:
    """One subnet, observed through `port` (empty: the port that the tools chose).

    `master` is None if the tools found no subnet manager. `managers` are those that responded, `silent_lids` the LIDs
    of those that did not. `switches` is what each queried switch reports of itself, by its LID.
    """

    port: str
    master: SmInfo | ProbeFailure | None
    master_again: SmInfo | ProbeFailure | None
    managers: tuple[SmInfo, ...] | ProbeFailure
    silent_lids: tuple[int, ...]
    links_before: tuple[LinkEnd, ...] | ProbeFailure
    links: tuple[LinkEnd, ...] | ProbeFailure
    errors_before: ErrorReport | ProbeFailure
    errors: ErrorReport | ProbeFailure
    diagnosis: Diagnosis | ProbeFailure | None = None
    features: FabricSummary | ProbeFailure | None = None
    sharp_job: SharpJob | ProbeFailure | None = None
    switches: dict[int, SwitchHealth | ProbeFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricFacts:
    """What gate fabric judges. `reason` is why nothing was observed; `evidence` is relative to the run directory."""

    host: str
    plan: CablingPlan
    interval_s: float
    subnets: tuple[SubnetFacts, ...] = ()
    reason: str = ""
    evidence: str = ""


def subnets_of(evidence: HostEvidence) -> tuple[SubnetFacts, ...]:
    """Return every observed subnet: one for each adapter port in the names of tools (`sminfo@mlx5_0:1`)."""
    suffixes = sorted(name.removeprefix("sminfo") for name in evidence.tools if name.partition("@")[0] == "sminfo")
    return tuple(_subnet(evidence.tools, suffix) for suffix in suffixes)


def _subnet(tools: Mapping[str, ToolRun], suffix: str) -> SubnetFacts:
    def value(name: str, reading: str = "") -> Any:
        return _value(name, tools.get(f"{name}{reading}{suffix}"))

    managers, not_reporting = _managers(tools, suffix)
    return SubnetFacts(
        port=suffix.removeprefix("@"),
        master=_master(tools.get(f"sminfo{suffix}")),
        master_again=_master(tools.get(f"sminfo_again{suffix}")),
        managers=managers,
        silent_lids=not_reporting,
        links_before=value("iblinkinfo"),
        links=value("iblinkinfo", "_again"),
        errors_before=value("ibqueryerrors"),
        errors=value("ibqueryerrors", "_again"),
        diagnosis=value("ibdiagnet") if f"ibdiagnet{suffix}" in tools else None,
        features=value("ibdiagnet_features") if f"ibdiagnet_features{suffix}" in tools else None,
        sharp_job=value("sharp_hello") if f"sharp_hello{suffix}" in tools else None,
        switches={int(lid): value("ibswinfo", f"_{lid}") for lid in _switch_lids(tools, suffix)},
    )


def _switch_lids(tools: Mapping[str, ToolRun], suffix: str) -> list[str]:
    begin = "ibswinfo_"
    named = [name.partition("@") for name in tools if name.startswith(begin)]
    return [name.removeprefix(begin) for name, at, port in named if f"{at}{port}" == suffix]


def _master(run: ToolRun | None) -> SmInfo | ProbeFailure | None:
    """Return the subnet manager that responds; None where the tool queried one and got no response."""
    if run is not None and run.rc not in (0, None) and _NO_MANAGER in run.stdout + run.stderr:
        return None
    value: SmInfo | ProbeFailure = _value("sminfo", run)
    return value


def _managers(tools: Mapping[str, ToolRun], suffix: str) -> tuple[tuple[SmInfo, ...] | ProbeFailure, tuple[int, ...]]:
    lids: tuple[int, ...] | ProbeFailure = _value("saquery", tools.get(f"saquery{suffix}"))
    if isinstance(lids, ProbeFailure):
        return lids, ()
    answers = {lid: _value("sminfo", tools.get(f"sminfo_{lid}{suffix}")) for lid in lids}
    there = tuple(info for info in answers.values() if isinstance(info, SmInfo))
    return there, tuple(lid for lid, info in answers.items() if not isinstance(info, SmInfo))


def _value(name: str, run: ToolRun | None) -> Any:
    return read_tool(load_host_tools().named(name), run)
