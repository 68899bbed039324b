# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A validation of a cluster: what was asked for, phase by phase looked at and decided. No gate is decided by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ..check.judge import judge_gate
from ..check.performance_constraints import CHECK as BOUNDS
from ..check.performance_constraints import judge_bounds, stated_bounds
from ..check.selection import (
    PhaseDeclaration,
    checks_named,
    declare_phase,
    infrastructure_of,
    limits_of,
    names_of_checks,
    require_names,
)
from ..check.validators.catalog import ValidatorImage, validator_images
from ..check.validators.judge import validator_outcomes
from ..clients.kube.cluster import Cluster
from ..clients.kube.connection import Connection
from ..collect.snapshot_place import read_recipe_text
from ..constraint.names import unknown_name
from ..outcome.codec import dumps, load
from ..outcome.errors import BringupError, InputError
from ..outcome.model import Outcome, Rating, Status, Subject, SubjectKind
from ..outcome.phases import READINESS, asked_phases
from ..recipe.output import RUN_FILE
from ..recipe.request import catalogue_of
from ..runtime.clock import now_utc
from ..runtime.files import write_atomic
from ..runtime.redaction import redact
from ..runtime.secret_keys import redact_data
from ..runtime.strict import parse_yaml
from ..site.model import Site, SiteProfile
from ..verdict.gate import Blocking, GateVerdict, decide
from ..verdict.run import with_phases
from .decision import run_day
from .run import Run, components_of
from .site_recipe import with_dra
from .snapshot_recipe import require_resolved

ASKED = "validation.json"
NO_CLUSTER = "no-cluster mode: nothing but the snapshot is looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a validation was asked: its phases in their order, names of checks to leave out, and how.

    `snapshot` is where a supplied one lies (empty: one is taken), `max_age_s` how old that may be; `installed` says
    that the recipe's components are there, so that nodes say which GPUs they have; `images` are validators of the site,
    and `node_selector` the labels of the nodes that their own pods are for.
    """

    phases: tuple[str, ...] = (READINESS,)
    skip_checks: tuple[str, ...] = ()
    no_cluster: bool = False
    fail_fast: bool = False
    snapshot: str = ""
    max_age_s: float = 0.0
    installed: bool = False
    images: tuple[ValidatorImage, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    schema_version: int = 1


def asked_of(run: Run) -> Asked:
    """Return what a run was asked; one that brings a cluster up looks at its readiness.

    Raises:
        InputError: the file cannot be read.
    """
    path = run.path / ASKED
    return load(Asked, path) if path.is_file() else Asked()


def start_validation(run: Run, options: Mapping[str, Any], connection: Connection) -> Asked:
    """Write what is asked, the recipe that is supplied, and a pending verdict of each phase.

    Args:
        run: the run; without a cluster it needs no inventory.
        options: those of module validation_start.
        connection: asked only for a recipe in a ConfigMap.

    Raises:
        InputError: an unknown phase, check or constraint, or no recipe.
        BringupError: nobody answers at the place of the recipe.
    """
    images, answered_by_ours = site_images(options["recipe_data"])
    asked = Asked(
        phases=asked_phases(options["phases"]),
        skip_checks=tuple(options["skip_checks"]),
        no_cluster=options["no_cluster"],
        fail_fast=options["fail_fast"],
        snapshot=options["snapshot"] or "",
        max_age_s=float(options["max_age_s"]),
        installed=True,
        images=images,
        node_selector={str(key): str(value) for key, value in options["node_selector"].items()},
    )
    if asked.no_cluster and not asked.snapshot:
        raise InputError("gpufleet_no_cluster", "needs a snapshot to look at.", "name one: gpufleet_validate_snapshot")
    check_dirs = () if asked.no_cluster else run.site.check_dirs
    require_names(asked.skip_checks, "gpufleet_skip_checks", images, check_dirs)
    if asked.no_cluster:
        run.save_site(_site_alone(run))
        run.save_hardware({})
    if options["recipe"]:
        text, source = read_recipe_text(options["recipe"], lambda: Cluster(connection))
        recipe = redact_data(require_resolved(parse_yaml(text, source), source))
        write_atomic(run.path / RUN_FILE, dumps(recipe))
        run.reload()
        run.save_site(with_dra(run.site, recipe))
    _require_known(run.recipe, asked, check_dirs)
    write_atomic(run.path / ASKED, dumps(replace(asked, snapshot=redact(asked.snapshot))))
    notes = (*run.record.notes, *_notes(run.recipe), *answered_by_ours)
    record = with_phases(replace(run.record, site=run.site.name, notes=notes), asked.phases)
    run.save_record(replace(record, updated=now_utc()))
    return asked


def site_images(recipe_data: Sequence[str]) -> tuple[tuple[ValidatorImage, ...], tuple[str, ...]]:
    """Return the validators of the site's own catalogues, and a note of those that checks of ours answer for.

    Raises:
        InputError: an entry that cannot be run as it is written.
        ProblemsError: everything that is wrong with the directories.
    """
    if not recipe_data:
        return (), ()
    entries = catalogue_of([Path(text) for text in recipe_data]).checks
    images, ours = validator_images(entries, names_of_checks())
    text = f"checks of this collection answer for {', '.join(ours)}; give an image a name of its own to run it as well"
    return images, (text,) if ours else ()


def _site_alone(run: Run) -> Site:
    """Return the site of a validation that has no inventory: its nodes are those of the snapshot."""
    return Site(
        name=run.record.site, profile=SiteProfile.CLOUD, hosts=(), gates=(), capabilities=("kubernetes", "pods", "dra")
    )


def _require_known(recipe: Mapping[str, Any] | None, asked: Asked, check_dirs: tuple[str, ...]) -> None:
    """Refuse a recipe whose checks or constraints nobody knows: dropped in silence they would read as passed."""
    if recipe is None:
        raise InputError(
            "validation", "has no recipe.", "name one: gpufleet_validate_recipe, or state gpufleet_criteria"
        )
    sections = recipe.get("validation") or {}
    stated = [("", recipe.get("constraints") or ())]
    stated += [("", pool.get("constraints") or ()) for pool in recipe.get("pools") or ()]
    stated += [(phase, (section or {}).get("constraints") or ()) for phase, section in sections.items()]
    for phase, entries in stated:
        for entry in entries:
            hint = unknown_name(str(entry.get("name")), phase)
            if hint:
                raise InputError(f"constraint {entry.get('name')!r} of the recipe", "is measured by nothing.", hint)
    known = components_of(dict(recipe))
    for phase in asked.phases:
        names = checks_named(recipe, phase)
        require_names(names, f"validation.{phase}.checks of the recipe", asked.images, check_dirs)
        limits_of(recipe, phase)
        needed = infrastructure_of(recipe, phase)
        if needed and needed not in known:
            hint = f"name one of {', '.join(known)}" if known else "the recipe has no components"
            raise InputError(f"validation.{phase}.infrastructure", f"{needed!r} is no component of the recipe.", hint)


def _notes(recipe: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return what a recipe's validation section says and this release takes from elsewhere."""
    sections = ((recipe or {}).get("validation") or {}).items()
    return tuple(
        f"validation.{phase}.nodeSelection of the recipe is not used: the hosts are those of the inventory in scope"
        for phase, section in sections
        if (section or {}).get("nodeSelection")
    )


def closed_by(run: Run, asked: Asked, phase: str) -> str:
    """Return why a phase is not looked at: readiness is not passed, or an earlier one with fail_fast; else empty."""
    before = asked.phases[: asked.phases.index(phase)] if phase in asked.phases else ()
    for name in before:
        verdict = run.record.phase(name)
        if verdict is not None and not verdict.opens_next and (name == READINESS or asked.fail_fast):
            return f"phase {phase}: not reached, phase {name} is {verdict.status.value}"
    return ""


def declared_phase(run: Run, asked: Asked, phase: str) -> PhaseDeclaration:
    """Return what a phase of that run declares."""
    return declare_phase(
        phase,
        run.site,
        run.recipe,
        components=components_of(run.recipe),
        skip=asked.skip_checks,
        images=asked.images,
    )


def decide_phase(run: Run, phase: str) -> GateVerdict:
    """Judge what was seen for a phase, write its CTRF and JUnit, decide from the CTRF that is read back, and record it.

    Raises:
        BringupError: nothing could be written.
    """
    asked, begun = asked_of(run), run.record.updated
    closed = closed_by(run, asked, phase)
    if closed:
        verdict = GateVerdict(gate=phase, status=Status.PENDING, message=closed)
    else:
        declaration = declared_phase(run, asked, phase)
        outcomes = phase_outcomes(run, declaration)
        try:
            verdict = phase_verdict(run, declaration, run.save_phase(phase, outcomes, declaration.gates))
        except InputError as error:
            verdict = _unreadable(phase, error)
    verdict = replace(verdict, started=begun, duration_s=_seconds_since(begun))
    run.save_record(replace(run.record.with_phase(verdict), updated=now_utc()))
    return verdict


def phase_outcomes(run: Run, declaration: PhaseDeclaration) -> tuple[Outcome, ...]:
    """Return what the judges of a phase say of its saved observations, and what was left out, each with its reason."""
    asked = asked_of(run)
    found: list[Outcome] = []
    live = not asked.no_cluster or declaration.phase == READINESS
    for part in declaration.parts:
        if live and part.checks:
            found += judge_gate(part, run.judge_context(part.gate, run_day(run.record)), run.path)
        elif not live:
            found += [_skipped(run, part.gate, check.id, NO_CLUSTER) for check in part.checks]
    first = declaration.parts[0].gate
    if live:
        found += validator_outcomes(declaration.images, declaration.phase, run.path, run.site.name, first)
    else:
        found += [_skipped(run, first, image.name, NO_CLUSTER) for image in declaration.images]
    found += [_skipped(run, first, entry.id, entry.reason) for entry in declaration.skipped]
    found += [_without_check(run, first, name) for name in declaration.unknown]
    bounds = stated_bounds(run.recipe, declaration.phase)
    if bounds and live:
        found += judge_bounds(bounds, found, run.site.name, first)
    elif bounds:
        found.append(_skipped(run, first, BOUNDS, NO_CLUSTER))
    return tuple(found)


def _skipped(run: Run, gate: str, check: str, reason: str) -> Outcome:
    return Outcome(
        check=check, gate=gate, status=Status.SKIPPED, rating=Rating.UNKNOWN, subjects=_about(run), summary=reason
    )  # fmt: skip


def _without_check(run: Run, gate: str, name: str) -> Outcome:
    return Outcome(
        check=name,
        gate=gate,
        status=Status.OTHER,
        rating=Rating.UNKNOWN,
        subjects=_about(run),
        summary="the recipe asks for it, and this release has no check for it",
        cause="check-not-in-release",
        hint=f"take it out of the recipe's validation section, or leave it out by name: gpufleet_skip_checks: [{name}]",
    )


def _about(run: Run) -> tuple[Subject, ...]:
    return (Subject(SubjectKind.SITE, run.site.name),)


def phase_verdict(run: Run, declaration: PhaseDeclaration, outcomes: tuple[Outcome, ...]) -> GateVerdict:
    """Return the verdict over these outcomes; what was left out by name holds nothing, and is never a pass."""
    skipped = {outcome.check for outcome in outcomes if outcome.status is Status.SKIPPED}
    expected = {check: subjects for check, subjects in declaration.expected.items() if check not in skipped}
    others = (*declaration.unknown, *(image.name for image in declaration.images if image.name not in skipped))
    expected |= dict.fromkeys(others, (run.site.name,))
    if stated_bounds(run.recipe, declaration.phase) and BOUNDS not in skipped:
        expected[BOUNDS] = (run.site.name,)
    seen = [outcome for outcome in outcomes if outcome.status is not Status.SKIPPED]
    phase = declaration.phase
    verdict = decide(phase, expected, seen, run.site, run_day(run.record), declaration.not_declared)
    verdict = replace(verdict, message=verdict.message.replace(f"gate {phase}", f"phase {phase}", 1))
    if not skipped:
        return verdict
    reasons: dict[str, list[str]] = {}
    for outcome in sorted(outcomes, key=lambda entry: entry.check):
        if outcome.status is Status.SKIPPED:
            reasons.setdefault(outcome.summary, []).append(outcome.check)
    named = "; ".join(f"{', '.join(checks)} ({reason})" for reason, checks in reasons.items())
    counts = verdict.counts | {Status.SKIPPED.value: len(skipped)}
    told = f"{len(skipped)} check(s) skipped, so phase {phase} is not passed: {named}"
    if verdict.opens_next:
        return replace(verdict, status=Status.SKIPPED, message=told, counts=counts, key_figure="")
    return replace(verdict, message=f"{verdict.message}; {told}", counts=counts)


def _unreadable(phase: str, error: BringupError) -> GateVerdict:
    entry = Blocking(
        check="ctrf",
        subject=phase,
        status=Status.OTHER,
        cause="results-unreadable",
        summary=f"{error.subject}: {error.reason}",
        hint=error.hint or "run the phase again",
    )
    text = f"phase {phase} is not passed: its results cannot be read back"
    return GateVerdict(gate=phase, status=Status.OTHER, message=text, blocking=(entry,))


def _seconds_since(begun: str) -> float:
    started = datetime.fromisoformat(begun.replace("Z", "+00:00"))
    ended = datetime.fromisoformat(now_utc().replace("Z", "+00:00"))
    return round((ended - started).total_seconds(), 3)
