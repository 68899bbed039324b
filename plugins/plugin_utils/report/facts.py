# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every report of a run is made of: the record, the results, and what the run directory says beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..fingerprint.dependencies import digest
from ..outcome.codec import load, load_json, to_plain
from ..outcome.errors import InputError
from ..outcome.gates import GATE_IDS, GATES
from ..outcome.model import Outcome
from ..outcome.phases import PHASE_GATES
from ..runtime.run_dir import RECIPE, SITE
from ..site.model import Site
from ..verdict.run import RunRecord
from .earlier_records import with_subjects
from .looks import read_looks
from .suites import ctrf_path, read_foreign_outcomes, read_own_outcomes, read_phase_outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyRead:
    """What the caller has read from the run directory already, so that it is not read again; None: not read."""

    site: Site | None = None
    recipe: Mapping[str, Any] | None = None
    own_outcomes: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run as reports show it.

    `outcomes` are gate id to what its CTRF files hold, `phase_outcomes` the same of phases of a validation;
    `looks` are gates that the run did not reach to what is wrong there as far as it was read;
    `site` and `recipe` are None before they were checked;
    `differences` are recorded results that a later judgement could not confirm.
    """

    record: RunRecord
    outcomes: Mapping[str, tuple[Outcome, ...]]
    site: Site | None = None
    recipe: Mapping[str, Any] | None = None
    recipe_digest: str = ""
    differences: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    phase_outcomes: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)
    looks: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)

    @property
    def settings_digest(self) -> str:
        """SHA-256 over the site's settings; the settings themselves may hold what does not belong into a report."""
        return digest(self.site.settings) if self.site else ""

    @property
    def site_digest(self) -> str:
        """SHA-256 over everything that the inventory says."""
        return digest(to_plain(self.site)) if self.site else ""


def load_facts(
    run_dir: Path, record: RunRecord, differences: tuple[str, ...] = (), read: AlreadyRead | None = None
) -> RunFacts:
    """Return what is in a run directory. What cannot be read is named; a report is written all the same."""
    read = read or AlreadyRead()
    unreadable: list[str] = []
    site = read.site or _site(run_dir / SITE, unreadable)
    if read.recipe is not None:
        recipe: Mapping[str, Any] | None = read.recipe
        recipe_digest = digest(recipe)
    else:
        recipe, recipe_digest = _recipe(run_dir / RECIPE, unreadable)
    phases = {verdict.gate: _phase_outcomes(run_dir, verdict.gate, unreadable) for verdict in record.phases}
    outcomes = {gate.id: _outcomes(run_dir, gate.id, site, read.own_outcomes, unreadable) for gate in GATES}
    return RunFacts(
        record=with_subjects(record, outcomes),
        outcomes=outcomes,
        site=site,
        recipe=recipe,
        recipe_digest=recipe_digest,
        differences=differences,
        unreadable=tuple(unreadable),
        phase_outcomes=phases,
        looks=read_looks(run_dir, unreadable),
    )


def _site(path: Path, unreadable: list[str]) -> Site | None:
    if not path.is_file():
        return None
    try:
        return load(Site, path)
    except InputError as error:
        unreadable.append(str(error))
        return None


def _outcomes(
    run_dir: Path, gate: str, site: Site | None, own: Mapping[str, tuple[Outcome, ...]], unreadable: list[str]
) -> tuple[Outcome, ...]:
    if gate not in own and not ctrf_path(run_dir, gate).is_file():
        return ()
    try:
        mine = own[gate] if gate in own else read_own_outcomes(run_dir, gate)
        return (*mine, *read_foreign_outcomes(run_dir, gate, site)) if site else mine
    except InputError as error:
        # The gate's verdict says so, too, and is not a pass.
        unreadable.append(str(error))
        return ()


def _phase_outcomes(run_dir: Path, phase: str, unreadable: list[str]) -> tuple[Outcome, ...]:
    if not ctrf_path(run_dir, phase).is_file():
        return ()
    try:
        return read_phase_outcomes(run_dir, phase, (*GATE_IDS, *PHASE_GATES.get(phase, ())))
    except InputError as error:
        # The phase's verdict says so, too, and is not a pass.
        unreadable.append(str(error))
        return ()


def _recipe(path: Path, unreadable: list[str]) -> tuple[Mapping[str, Any] | None, str]:
    if not path.is_file():
        return None, ""
    try:
        found = load_json(path)
    except InputError as error:
        unreadable.append(str(error))
        return None, ""
    return (found if isinstance(found, dict) else None), digest(found)
