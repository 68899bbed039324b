# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observer `fabric_load`: every link of the fabric and its counters, before and after the NCCL load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ...collect.host_evidence import HostEvidence, ToolRun, evidence_file, read_evidence
from ...collect.loads import MOMENTS, fabric_load_kind
from ...collect.tool_reading import read_tool
from ...outcome.codec import from_plain
from ...outcome.errors import InputError
from ...runtime.host_tools import load_host_tools
from ...site.cabling import CablingPlan
from ...site.model import Site
from ..fabric.fabric_facts import FabricFacts, SubnetFacts
from ..fabric.observe_fabric import plan_of
from ..fabric.settings import GATE as FABRIC_GATE
from ..fabric.settings import FabricSettings
from ..spec import ObserveContext, Observer

GATE = "fabric_validation"
_LINKS, _ERRORS = "iblinkinfo", "ibqueryerrors"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFabricLoad:
    """What is saved in addition to both readings: the cabling plan, from which links get their names."""

    plan: CablingPlan
    schema_version: int = 1


def observe(context: ObserveContext) -> SavedFabricLoad:
    """Return the cabling plan. The second reading is made after the load, so both are read when they are judged.

    Raises:
        InputError: the plan, the node-name map or the settings of gate fabric are not valid.
    """
    return SavedFabricLoad(plan=plan_of(context, context.settings_of(FABRIC_GATE, FabricSettings)))


def restore(data: Any, run_dir: Path, site: Site) -> FabricFacts:
    """Return both readings as those of gate fabric.

    `interval_s` is the time between them in seconds; `reason` is why there are none.

    Raises:
        InputError: the saved data are not what this release writes.
    """
    del site
    if not isinstance(data, dict) or data.get("schema_version") != 1:
        raise InputError("observation fabric_load", "its schema_version is not 1.", "judge it with its own release")
    plan = from_plain(CablingPlan, data.get("plan"), "observation fabric_load")
    found = [sorted((run_dir / "evidence" / fabric_load_kind(GATE, moment)).glob("*.json")) for moment in MOMENTS]
    names = [[path.stem for path in paths] for paths in found]
    if names[0] != names[1] or len(names[0]) != 1:
        reported = f"read by {_listed(names[0])} before the load, by {_listed(names[1])} after it"
        return FabricFacts(host="", plan=plan, interval_s=0.0, reason=reported)
    host = names[0][0]
    file = evidence_file(host, fabric_load_kind(GATE, "after"))
    before, after = (_reading(paths[0]) for paths in found)
    interval_s, reason = _between(before, after)
    return FabricFacts(
        host=host, plan=plan, interval_s=interval_s, reason=reason, evidence=file,
        subnets=() if reason else _subnets(before.tools, after.tools),
    )  # fmt: skip


def _listed(hosts: list[str]) -> str:
    return ", ".join(hosts) or "no host"


def _reading(path: Path) -> HostEvidence:
    try:
        return read_evidence(path)
    except InputError as error:
        return HostEvidence(host=path.stem, reached=False, reason=str(error))


def _between(before: HostEvidence, after: HostEvidence) -> tuple[float, str]:
    """Return the seconds between both readings, and why they cannot be compared (empty: they can)."""
    for moment, reading in zip(MOMENTS, (before, after), strict=True):
        if not reading.reached:
            return 0.0, f"{moment} the load {reading.host} was not reached: {reading.reason}"[:400]
    ports = [{name for name in reading.tools if name.startswith(_ERRORS)} for reading in (before, after)]
    if ports[0] != ports[1] or not ports[0]:
        return 0.0, f"{_listed(sorted(ports[0]))} was asked before the load, {_listed(sorted(ports[1]))} after it"
    try:
        began, ended = (datetime.fromisoformat(reading.started) for reading in (before, after))
        interval_s = (ended - began).total_seconds()
    except (ValueError, TypeError):
        return 0.0, f"the readings of {before.host} do not say when they were made"
    return (interval_s, "") if interval_s > 0 else (0.0, "the reading after the load is not younger than the other one")


def _subnets(before: Mapping[str, ToolRun], after: Mapping[str, ToolRun]) -> tuple[SubnetFacts, ...]:
    suffixes = sorted(name.removeprefix(_ERRORS) for name in after if name.startswith(_ERRORS))
    return tuple(_subnet(before, after, suffix) for suffix in suffixes)


def _subnet(before: Mapping[str, ToolRun], after: Mapping[str, ToolRun], suffix: str) -> SubnetFacts:
    def value(runs: Mapping[str, ToolRun], name: str) -> Any:
        return read_tool(load_host_tools().named(name), runs.get(name + suffix))

    return SubnetFacts(
        port=suffix.removeprefix("@"), master=None, master_again=None, managers=(), silent_lids=(),
        links_before=value(before, _LINKS), links=value(after, _LINKS),
        errors_before=value(before, _ERRORS), errors=value(after, _ERRORS),
    )  # fmt: skip


OBSERVER = Observer("fabric_load", FabricFacts, observe, restore, saved=SavedFabricLoad)
