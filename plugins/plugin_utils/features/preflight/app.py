# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Preflight of a run: inventory and variables, then the recipe from them, and how many waves the diagnostic of the
fleet takes. No host is contacted."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from ...check.kit.settings_layers import Loaded, applied
from ...check.nodes.dcgm_diag_settings import DCGM_DIAG, DURATION_S, DcgmDiagSettings
from ...check.registry import all_checks
from ...collect.tool_requests import LOADING_LEVEL
from ...outcome.gates import GATE_IDS, STACK_GATE
from ...outcome.wording import first_of
from ...run.not_reached import write_pending_suites
from ...run.own_limits import own_limits
from ...run.run import Run, needs_recipe
from ...run.settings_sources import held_options
from ...runtime.clock import elapsed_text
from ...runtime.progress import Emit
from ...site.model import DriverOwner, Site
from ...verdict.run import RunRecord, new_run, unproven_before, with_phases, with_site
from ..inventory.app import CheckedInventory, checked_inventory, tool_options
from ..inventory.hosts import Inventory, hosts_to_read

# A fleet that takes longer gets a hint how to take less.
_MOST_WAVES = 8


@dataclass(frozen=True, slots=True)
class DiagnosticWaves:
    """So many hosts, so many at a time; `forks`: Ansible's, 0 where Ansible does not run on the hosts."""

    hosts: int
    at_once: int
    forks: int

    @property
    def count(self) -> int:
        """How many waves the diagnostic takes, one after the other."""
        return math.ceil(self.hosts / self.at_once)

    @property
    def duration_s(self) -> float:
        """The duration of all waves, in seconds."""
        return self.count * DURATION_S

    def lines(self) -> list[str]:
        """Return notes for the user: empty where one wave is enough."""
        if self.count < 2:
            return []
        limit = f"forks = {self.forks}" if self.at_once == self.forks else f"{DCGM_DIAG}.at_once"
        takes = elapsed_text(self.duration_s)
        line = f"diagnostic: {self.hosts} hosts, {self.at_once} at a time ({limit}): about {takes}"
        if self.forks and self.count > _MOST_WAVES:
            wanted = math.ceil(self.hosts / _MOST_WAVES)
            way = f"--forks {wanted}" if self.at_once == self.forks else f"{DCGM_DIAG}.at_once={wanted}"
            line += f"; with {way} about {elapsed_text(_MOST_WAVES * DURATION_S)}"
        return [line]


def diagnostic_waves(checked: CheckedInventory, forks: int) -> DiagnosticWaves | None:
    """Return the waves of the diagnostic.

    None where none loads the GPUs (a rehearsal does not), or where the forks of Ansible are unknown.

    Args:
        checked: the site with its settings.
        forks: how many hosts Ansible works on at a time.
    """
    site, settings = checked.site, applied(checked.settings, DcgmDiagSettings, DCGM_DIAG)
    hosts, in_pods = len(site.in_scope), site.driver_owner is DriverOwner.OPERATOR
    gate = STACK_GATE if in_pods else "nodes"
    loads = settings.level >= LOADING_LEVEL and not site.rehearsal
    if not loads or gate not in site.gates or not hosts or not (in_pods or forks):
        return None
    at_once = settings.at_once_in_pods(hosts) if in_pods else settings.at_once_by_forks(forks)
    return DiagnosticWaves(hosts=hosts, at_once=at_once, forks=0 if in_pods else forks)


# Which test images are named by a tag, under which a registry may have another image tomorrow.

# A test of idle nodes that a gate runs as well.
_TESTS = {"dl_unit": "fabric_validation"}
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def image_lines(settings: Loaded, site: Site) -> list[str]:
    """Return notes about the images of the tests of its gates, as lines.

    Empty where all have a digest, or where nothing is pulled, in a rehearsal.

    Args:
        settings: every setting that applies, by gate or check id and name.
        site: its gates, and whether it is a rehearsal's.
    """
    scope = set() if site.rehearsal else set(site.gates)
    gates = {gate: gate for gate in GATE_IDS} | _TESTS
    gates |= {check.spec.id: check.spec.gate_at(site) for check in all_checks(site.check_dirs)}
    names = [
        f"{key}.{name}"
        for key, entries in sorted(settings.items())
        for name, entry in sorted(entries.items())
        if (name == "image" or name.endswith("_image"))
        and gates.get(key) in scope
        and not _DIGEST.search(str(entry.value))
    ]
    if not names:
        return []
    count = f"{len(names)} test images are" if len(names) > 1 else "1 test image is"
    pins = "so the registry decides what runs; do: state NAME@sha256:DIGEST in gpufleet_settings for"
    return [f"{count} named by tag alone, {pins}: {', '.join(names)}"]


def check_inventory(run: Run, options: Mapping[str, Any], inventory: Inventory, emit: Emit) -> dict[str, Any]:
    """Check inventory and variables, and write site.json, hardware.json and settings.json.

    Raises:
        ProblemsError: everything that is wrong, in one list.
    """
    checked = checked_inventory(options, inventory)
    site = checked.site
    run.save_site(site)
    run.save_hardware(checked.hardware)
    run.save_settings(checked.settings)
    run.save_record(replace(_scoped(run, site), notes=tuple(options["notes"]), own_limits=own_limits(run)))
    write_pending_suites(run)
    waves = diagnostic_waves(checked, inventory.forks)
    images = image_lines(checked.settings, site)
    phases = [verdict.gate for verdict in run.record.phases]
    on_hold = [f"settings: {name} keeps the value of the rehearsal, not yours" for name in held_options(options)]
    for line in (*site_lines(site, options, phases), *on_hold, *(waves.lines() if waves else ()), *images):
        emit(line)
    return {
        "gates": list(site.gates),
        "before": list(site.before_from_gate),
        "hosts": hosts_to_read(site, inventory, options["fabric_host"]),
        "tools": tool_options(checked),
    }


def site_lines(site: Site, options: Mapping[str, Any], phases: Sequence[str] = ()) -> list[str]:
    """Return a summary of the inventory: hosts, scope, and what the run leaves unproven; for a validation its phases in
    place of gates."""
    about = f"phases: {', '.join(phases)}" if phases else f"in scope: {', '.join(site.gates)}"
    aside = f" ({first_of(sorted(site.quarantined), 8)})" if site.quarantined else ""
    lines = [f"inventory: {len(site.hosts)} hosts, {len(site.quarantined)} quarantined{aside}; {about}"]
    today = datetime.now(UTC).date()
    lines += [
        f"waived until {one.until}: {one.check} for {one.subject}, by {one.who}"
        for one in site.waivers
        if one.active_on(today)
    ]
    if options["default_criteria"] and not options["criteria"] and needs_recipe(site):
        chosen = ", ".join(f"{name} {value}" for name, value in site.criteria.items())
        lines.append(f"gpufleet_criteria states nothing; the recipe is that for {chosen}")
    lines.extend(options["notes"])
    outside = [gate for gate in GATE_IDS if gate not in site.gates and not phases]
    if outside:
        lines.append(f"outside the scope of this run, so never called accepted: {', '.join(outside)}")
    missing = () if phases else unproven_before(site.gates)
    if missing:
        lines.append(
            f"not proven by this run, though its gates depend on it, so a fault there shows later: {', '.join(missing)}"
        )
    return lines + _expired_lines(site, today)


def _expired_lines(site: Site, today: date) -> list[str]:
    """Return the expired waivers and acceptances, so that the user learns of them before the run."""
    decided = (*(("waiver", one) for one in site.waivers), *(("acceptance", one) for one in site.acceptances))
    return [
        f"{kind} of {one.check} for {one.subject} by {one.who} ended on {one.until} and applies to nothing"
        for kind, one in decided
        if not one.active_on(today)
    ]


# What the start of a run wrote into its record, and the inventory does not have.
_OF_THE_START = ("updated", "versions", "command", "kept_command", "history", "check_mode", "work", "ctrf_dest")


def _scoped(run: Run, site: Site) -> RunRecord:
    old = run.record
    fresh = new_run(old.run_id, site.name, old.started, site.gates, rehearsal=site.rehearsal)
    kept = {name: getattr(old, name) for name in _OF_THE_START}
    scoped = replace(fresh, from_gate=site.from_gate, **kept)
    # A validation uses the observers of gates, and decides none.
    phases = [verdict.gate for verdict in old.phases]
    return with_site(with_phases(scoped, phases) if phases else scoped, site)
