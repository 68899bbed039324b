# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What would a saved run say with other settings: judged from its observations into a directory of its own.

The run is only read. What comes out is labelled in its record, its sentence and its page, has a run id of its own, and
is neither recorded in the history nor exported as JUnit or metrics.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..check.kit.saved_settings import stated_by_thresholds
from ..check.kit.settings import Setting, merged, settings_in
from ..check.kit.settings_layers import SITE, Layer, load_settings, resolved, threshold_layers
from ..check.registry import all_settings
from ..outcome.errors import InputError, ProblemsError
from ..outcome.model import Status
from ..report.ctrf import write_suite
from ..report.suites import ctrf_path
from ..runtime.layers import laid_over
from ..verdict.gate import GateVerdict
from ..verdict.run import RunRecord
from .decision import verdict_from_files
from .rejudge import changed_results, declaration_then, judged_again
from .run import Run
from .version import collection_version

_LINKED = ("evidence", "observations")
_COPIED = ("cabling.json", "hardware.json", "recipe.json", "settings.json", "baseline.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A setting that is not what the run was judged with. `applies`: it says what is good, not how to look."""

    key: str
    name: str
    before: Any
    now: Any
    applies: bool

    def __str__(self) -> str:
        return f"{self.key}.{self.name}={self.now} (was {self.before})"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The second judgement: its directory, its verdicts, and the results that differ from those of the run."""

    run_dir: Path
    record: RunRecord
    results: tuple[str, ...]


def changed_settings(run: Run, stated: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return what differs of `stated` from the settings that the run was judged with.

    Args:
        run: the saved run.
        stated: settings by gate or check id and name, as in `gpufleet_settings`.

    Raises:
        ProblemsError: everything that is wrong with them, as in preflight.
    """
    kinds = all_settings(run.site.check_dirs)
    problems = load_settings(kinds, (*threshold_layers(run.site.check_dirs), Layer(SITE, stated)))[1]
    if problems:
        raise ProblemsError("what-if settings", tuple(problems))
    return _changes(run, stated, {key: _settings_of(kinds[key]) for key in stated})


def changed_thresholds(run: Run, recipe_data: Sequence[str]) -> tuple[Change, ...]:
    """Return what differs of today's thresholds, and of private ones, from those that were saved with the run.

    Raises:
        InputError: a file of thresholds cannot be read.
        ProblemsError: everything that is wrong in the files.
    """
    kinds = all_settings(run.site.check_dirs)
    layers = threshold_layers((*run.site.check_dirs, *recipe_data))
    problems = load_settings(kinds, layers)[1]
    if problems:
        raise ProblemsError("thresholds", tuple(problems))
    stated: dict[str, Any] = {}
    for layer in layers:
        stated = laid_over(stated, layer.stated)
    mine = stated_by_thresholds(run.path, stated)
    return tuple(
        change
        for change in _changes(run, mine, {key: _settings_of(kinds[key]) for key in mine})
        if change.name not in run.site.settings.get(change.key, {})
    )


def _settings_of(classes: Sequence[type[Any]]) -> dict[str, Setting]:
    return {name: entry for kind in classes for name, entry in settings_in(kind).items()}


def _changes(run: Run, stated: Mapping[str, Any], known: Mapping[str, Mapping[str, Setting]]) -> tuple[Change, ...]:
    found = []
    for key, options in stated.items():
        before = resolved(key, run.settings.get(key), run.site.settings.get(key, {}))
        now = merged(before, options)
        found += [
            Change(key=key, name=name, before=before.get(name), now=now[name], applies=known[key][name].use == "judge")
            for name in options
            if now[name] != before.get(name)
        ]
    return tuple(found)


def what_if(run: Run, changes: Sequence[Change], directory: Path | None = None) -> WhatIf:
    """Judge the observations of a run by changed settings, and write the reports into a directory of their own.

    Args:
        run: the saved run, which stays as it is.
        changes: the settings; those that do not apply to judging are left out.
        directory: where to write; a new one below `what-if/` beside the run if not given.

    Raises:
        InputError: the directory is in use, or lies in the run.
    """
    applied = [change for change in changes if change.applies]
    target = _made(run, directory)
    settings = run.site.settings
    for change in applied:
        settings = laid_over(settings, {change.key: {change.name: change.now}})
    other = Run(target)
    other.save_site(replace(run.site, settings=settings))
    record = replace(
        run.record,
        run_id=f"{run.record.run_id}-what-if",
        what_if=", ".join(map(str, applied)),
        command="",
        history=False,
    )
    results: list[str] = []
    for recorded in record.gates:
        if _is_judged(recorded):
            record = record.with_gate(_judged(run, other, record, recorded, results))
    other.save_record(record)
    return WhatIf(run_dir=target, record=record, results=tuple(results))


def _is_judged(recorded: GateVerdict) -> bool:
    """Whether the gate looked in that run: it was reached, not taken over, and what it converges did not fail."""
    converged = all(entry.check != "converge" for entry in recorded.blocking)
    return recorded.status is not Status.PENDING and recorded.taken_over is None and converged


def _judged(run: Run, other: Run, record: RunRecord, recorded: GateVerdict, results: list[str]) -> GateVerdict:
    gate = recorded.gate
    outcomes = judged_again(run, gate, other.site)
    results += changed_results(gate, run.own_outcomes(gate), outcomes, ("recorded", "would be"))
    write_suite(
        ctrf_path(other.path, gate), gate, outcomes,
        run_id=record.run_id, rehearsal=record.rehearsal, version=collection_version(),
    )  # fmt: skip
    other.record = record
    verdict = verdict_from_files(other, declaration_then(run, gate))
    return replace(verdict, started=recorded.started, duration_s=recorded.duration_s)


def _made(run: Run, directory: Path | None) -> Path:
    """Make the directory, with what is the same as in the run."""
    target = directory.expanduser().absolute() if directory else _next_free(run.path.parent / "what-if" / run.path.name)
    hint = "name a directory of its own, or none"
    if target.resolve().is_relative_to(run.path.resolve()):
        raise InputError(str(target), "lies in the run, which stays as it is.", hint)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(str(target), "is there and not empty.", hint)
    try:
        target.mkdir(parents=True, exist_ok=True)
        target.chmod(run.path.stat().st_mode & 0o777)
        for name in _LINKED:
            # So that the links of the page lead to the evidence.
            (target / name).symlink_to(os.path.relpath(run.path / name, target))
        for name in (name for name in _COPIED if (run.path / name).is_file()):
            shutil.copy(run.path / name, target / name)
        if (run.path / "ctrf").is_dir():
            shutil.copytree(run.path / "ctrf", target / "ctrf")
    except OSError as error:
        raise InputError(str(target), f"cannot hold a what-if: {error.strerror}.", hint) from None
    return target


def _next_free(base: Path) -> Path:
    number = 1
    while (found := base.with_name(f"{base.name}-{number}")).exists():
        number += 1
    return found
