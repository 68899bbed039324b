# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run: its directory, its record, its site and the context for judging."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..check.declare import GatePlan, declare
from ..check.kit.saved_settings import read_settings, settings_document
from ..check.kit.settings_layers import Loaded
from ..check.registry import all_settings
from ..check.spec import JudgeContext, ObserveContext
from ..hardware.accelerator import Simulated, load_accelerators
from ..hardware.sku import Sku
from ..outcome.codec import dumps, from_plain, load, load_json, to_plain
from ..outcome.errors import InputError, NotFoundError
from ..outcome.gates import COMPARED_GATES, STACK_GATE
from ..outcome.model import Outcome
from ..recipe.sections import shape_problem
from ..report.facts import read_foreign_outcomes, read_own_outcomes, read_phase_outcomes, write_suites
from ..runtime.files import (
    BASELINE,
    CONTROLLER,
    DECLARED,
    HARDWARE,
    KEEPER_LOCK,
    LATEST,
    RECIPE,
    RUN,
    SETTINGS,
    SITE,
    write_atomic,
)
from ..runtime.process import controller_runs, is_locked
from ..runtime.progress import Emit
from ..runtime.redaction import redact_data, redact_settings
from ..site.model import Site
from ..verdict.run import RunRecord, is_decided
from ..verdict.saved import record_from_plain
from .digests import has_digests, keep_digests
from .version import collection_version

if TYPE_CHECKING:
    from ..verdict.baseline import AcceptedBaseline


class Run:
    """One run directory.

    A file is read on first access, and cached; what is saved here is cached as well. After another process wrote into
    the directory, `reload` drops the cache.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._outcomes: dict[str, tuple[Outcome, ...]] = {}

    @cached_property
    def site(self) -> Site:
        """The checked inventory.

        Raises:
            InputError: it cannot be read, or the run was refused before it was checked.
        """
        path = self.path / SITE
        if not path.exists() and (self.path / RUN).is_file():
            raise _not_started(self.path, self.record.problem)
        return load(Site, path)

    @cached_property
    def record(self) -> RunRecord:
        """The verdicts so far."""
        path = self.path / RUN
        return record_from_plain(load_json(path), str(path))

    @property
    def at_work(self) -> bool:
        """Whether its playbook still runs, or the process that holds the cluster for it. Known on its machine alone."""
        return is_locked(self.path / KEEPER_LOCK) or controller_runs(self.path / CONTROLLER)

    @cached_property
    def hardware(self) -> dict[str, Sku]:
        """The SKUs of this site, by the names in the inventory."""
        path = self.path / HARDWARE
        saved = {name: from_plain(Sku, plain, str(path)) for name, plain in load_json(path).items()}
        return {name: _with_kind(sku) for name, sku in saved.items()}

    @cached_property
    def recipe(self) -> dict[str, Any] | None:
        """The resolved recipe, None before preflight resolved it."""
        path = self.path / RECIPE
        if not path.is_file():
            return None
        recipe = load_json(path)
        if not isinstance(recipe, dict) or not isinstance(recipe.get("deploymentOrder"), list):
            raise InputError(str(path), "is not a resolved recipe (no deploymentOrder).", "resolve the recipe again")
        if wrong := shape_problem(recipe):
            raise InputError(str(path), wrong, "resolve the recipe again")
        return recipe

    def outcomes(self, gate: str) -> tuple[Outcome, ...]:
        """Return every outcome of the gate from its CTRF files, ours and those of third parties.

        Raises:
            InputError: a file cannot be read.
        """
        return (*self.own_outcomes(gate), *read_foreign_outcomes(self.path, gate, self.site))

    def own_outcomes(self, gate: str) -> tuple[Outcome, ...]:
        """Return the outcomes of this collection's own checks from the gate's CTRF file.

        Raises:
            InputError: the file cannot be read.
        """
        if gate not in self._outcomes:
            self._outcomes[gate] = read_own_outcomes(self.path, gate)
        return self._outcomes[gate]

    @property
    def needs_recipe(self) -> bool:
        """Whether a gate in scope converges a recipe."""
        return needs_recipe(self.site)

    @cached_property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings saved with the run, by gate or check id and name."""
        return read_settings(self.path, all_settings)

    def judge_context(self, gate: str, today: date) -> JudgeContext:
        """Return the context for the judges of a gate."""
        return JudgeContext(
            gate=gate,
            site=self.site,
            today=today,
            hardware=dict(self.hardware),
            recipe=self.recipe,
            saved_settings=self.settings,
            shared=self.shared if gate in COMPARED_GATES else {},
            passed_phases=frozenset(verdict.gate for verdict in self.record.phases if verdict.opens_next),
            baseline=self.baseline if gate in COMPARED_GATES else None,
        )

    @cached_property
    def baseline(self) -> AcceptedBaseline | None:
        """The figures that were accepted when the run began; None where it keeps none."""
        # Only gates that compare hosts use it.
        from ..verdict.baseline import AcceptedBaseline

        path = self.path / BASELINE
        return load(AcceptedBaseline, path) if path.is_file() else None

    @cached_property
    def shared(self) -> dict[str, dict[str, str]]:
        """What each host may share with others: rack, leaf switches, driver, firmware."""
        # Only gates that compare hosts use it, and it parses the output of the tools of hosts.
        from ..collect.host_facts import shared_facts

        return shared_facts(self.path, self.site)

    def observe_context(
        self, today: date, emit: Emit, connections: dict[str, str] | None = None, holder: str = ""
    ) -> ObserveContext:
        """Return the context for the observers of a gate (see ObserveContext)."""
        return ObserveContext(
            site=self.site,
            run_dir=self.path,
            today=today,
            hardware=dict(self.hardware),
            recipe=self.recipe,
            connections=connections or {},
            emit=emit,
            saved_settings=self.settings,
            holder=holder,
        )

    def declaration(self, gate: str) -> GatePlan:
        """Return the plan of that gate at this site with this recipe."""
        found = declare(gate, self.site, components_of(self.recipe), self.recipe)
        return found.driver_part() if self.record.driver_only else found

    def save_site(self, site: Site) -> None:
        """Write the checked inventory without its secrets; the run has none from here on."""
        plain = to_plain(site)
        kept = redact_data(plain) | {"settings": redact_settings(plain["settings"])}
        write_atomic(self.path / SITE, dumps(kept))
        self.site = from_plain(Site, kept, str(self.path / SITE))

    def mark_rehearsal(self) -> None:
        """Mark the site and the run as a rehearsal."""
        self.save_site(replace(self.site, rehearsal=True))
        self.save_record(replace(self.record, rehearsal=True))

    def save_hardware(self, hardware: dict[str, Sku]) -> None:
        """Write the SKUs of this site, by the names in the inventory."""
        facts = {name: to_plain(_for_judges(sku)) for name, sku in hardware.items()}
        write_atomic(self.path / HARDWARE, dumps(facts))
        self.hardware = hardware

    def save_settings(self, settings: Loaded) -> None:
        """Write every setting that applies to this run, with its source."""
        write_atomic(self.path / SETTINGS, dumps(settings_document(settings)))
        self.__dict__.pop("settings", None)

    def save_baseline(self, baseline: AcceptedBaseline) -> None:
        """Write the accepted figures, so that the run is judged by them whatever is accepted later."""
        write_atomic(self.path / BASELINE, dumps(baseline))
        self.baseline = baseline

    @cached_property
    def declared(self) -> dict[str, list[str]] | None:
        """By gate or phase the ids of the checks that it declared; None where the release did not write them."""
        path = self.path / DECLARED
        return from_plain(dict[str, list[str]], load_json(path), str(path)) if path.is_file() else None

    def save_declared(self, gate: str, checks: Iterable[str]) -> None:
        """Write what a gate or phase declares, before it is judged, so that a check that is removed later is
        noticed."""
        declared = {**(self.declared or {}), gate: list(checks)}
        write_atomic(self.path / DECLARED, dumps(declared))
        self.declared = declared

    def save_outcomes(self, gate: str, outcomes: tuple[Outcome, ...]) -> None:
        """Write the gate's CTRF and JUnit suites. The decision uses what can be read back, so nothing is cached
        here."""
        write_suites(self.path, gate, outcomes, self.record, collection_version())
        self._outcomes.pop(gate, None)

    def save_phase(self, phase: str, outcomes: tuple[Outcome, ...], gates: tuple[str, ...]) -> tuple[Outcome, ...]:
        """Write the CTRF and JUnit suites of a phase of a validation, and return the outcomes as read back."""
        write_suites(self.path, phase, outcomes, self.record, collection_version())
        return read_phase_outcomes(self.path, phase, gates)

    def save_whole_suite(self) -> None:
        """Write one CTRF report of all suites that the run has so far.

        Raises:
            BringupError: a suite cannot be read, or the requested copy cannot be written.
        """
        from ..report.facts import write_whole

        write_whole(self.path, self.record, collection_version())

    def save_record(self, record: RunRecord) -> None:
        """Write the record and every report made from it; each file is whole or absent."""
        if is_decided(record) and has_digests(record) and not record.what_if:
            # Last: a file that is changed from here on is found when the run is judged again.
            record = replace(record, digests=keep_digests(self.path))
        write_atomic(self.path / RUN, dumps(redact_data(to_plain(record))))
        self.record = record
        self.write_report(record)

    def write_report(self, record: RunRecord, differences: tuple[str, ...] = ()) -> None:
        """Write every report of the run from that record; `differences` are results that could not be confirmed."""
        # Most modules load a run and write no report: pages and plots are imported where one is written.
        from ..report.facts import AlreadyRead
        from ..report.run_report import write_report

        kept = self.__dict__
        read = AlreadyRead(site=kept.get("site"), recipe=kept.get("recipe"), own_outcomes=self._outcomes)
        write_report(self.path, record, differences, read)

    def reload(self) -> None:
        """Drop everything that was read, so that it is read again on the next access."""
        for name in ("site", "record", "hardware", "recipe", "settings", "shared", "baseline", "declared"):
            self.__dict__.pop(name, None)
        self._outcomes.clear()


def _for_judges(sku: Sku) -> Sku:
    """Return the SKU with its kind of GPU, without the fields that only a rehearsal reads."""
    return sku if sku.gpu is None else replace(sku, gpu=replace(sku.gpu, simulated=Simulated()))


def _with_kind(sku: Sku) -> Sku:
    """Return the SKU with its kind of GPU. Earlier releases did not save it; then it is that of this release."""
    return sku if sku.gpu is not None else replace(sku, gpu=load_accelerators().get(sku.accelerator))


def needs_recipe(site: Site) -> bool:
    """Return whether a gate in the site's scope converges a recipe: the GPU stack on Kubernetes."""
    return STACK_GATE in site.gates and "kubernetes" in site.capabilities


def components_of(recipe: dict[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the recipe's components in deployment order."""
    return tuple(str(name) for name in (recipe or {}).get("deploymentOrder", ()))


def existing_run_dir(text: str, *, refused: bool = False) -> Path:
    """Return the run directory; with `refused` also that of a run that did not start, to report that.

    Raises:
        NotFoundError: it has no run.
        InputError: it has a run that did not start.
    """
    path = Path(text).expanduser()
    if not (path / RUN).is_file():
        hint = "start one (ansible-playbook gpufleet.bringup.site -i INVENTORY), or name the directory of another run"
        # Reports show only the name of a run.
        named = Path(".run") / path
        hint = f"did you mean {named}?" if (named / RUN).is_file() else hint
        # It is set where preflight has passed.
        beside = path.parent.glob(f"*/{RUN}") if path.name == LATEST else ()
        if newest := max((found.parent.name for found in beside), default=""):
            hint = f"no run there has started yet; the newest is {path.parent / newest}"
        raise NotFoundError(str(path), "holds no run (no run.json).", hint)
    if not refused and not (path / SITE).exists():
        problem = Run(path).record.problem
        if problem:
            raise _not_started(path, problem)
    return path.resolve()


def runs_beside(run_dir: Path) -> list[Path]:
    """Return the directories of the other runs beside a run, the newest first."""
    return sorted((path for path in run_dir.parent.glob("*Z-*") if path != run_dir), reverse=True)


def no_recipe(run: Run) -> InputError:
    """Return the error for a run without a recipe, with the newest run beside it that has one."""
    found = next((path for path in runs_beside(run.path) if (path / RECIPE).is_file()), None)
    hint = f"-e gpufleet_run={found}" if found else "run gate gpu_stack, which resolves it, and name that run"
    return InputError(str(run.path), "holds no resolved recipe (recipe.json).", hint)


def _not_started(path: Path, problem: str) -> InputError:
    why = f" ({problem.splitlines()[0].rstrip('.')})" if problem else ""
    hint = f"name a run that started: -e gpufleet_run={path.parent}/<run>"
    return InputError(str(path), f"holds no checked inventory: this run did not start{why}.", hint)
