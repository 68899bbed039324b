# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The start of a validation: the request is checked and saved, together with a supplied recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...check.comparison.performance_constraints import not_judged, unit_of
from ...check.selection import checks_named, infrastructure_of, is_misspelt, limits_of, require_names
from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import Connection
from ...collect.snapshot_place import read_recipe_text
from ...constraint.declared import declared_constraint, unknown_name, wrong_value
from ...outcome.codec import dumps
from ...outcome.errors import InputError
from ...outcome.gates import asked_phases
from ...recipe.output import RUN_FILE
from ...run.run import Run, components_of
from ...runtime.clock import now_utc
from ...runtime.files import write_atomic
from ...runtime.redaction import redact, redact_data
from ...runtime.strict import parse_yaml
from ...site.model import Site, SiteProfile
from ...verdict.run import with_phases
from ..recipe.declared import take_benchmark_inputs, with_dra
from ..snapshot.recipe_drift import require_resolved
from .requested import ASKED, ValidationRequest
from .site_images import site_images


def start_validation(run: Run, options: Mapping[str, Any], connection: Connection) -> ValidationRequest:
    """Write the request, the supplied recipe, and a pending verdict of each phase.

    Args:
        run: the run; without a cluster it needs no inventory.
        options: those of module validation_start.
        connection: used only for a recipe in a ConfigMap.

    Raises:
        InputError: an unknown phase, check or constraint, or no recipe.
        BringupError: the place of the recipe does not respond.
    """
    images, answered_by_ours = site_images(options["recipe_data"])
    requested = ValidationRequest(
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
    if requested.no_cluster and not requested.snapshot:
        raise InputError("gpufleet_no_cluster", "needs a snapshot to look at.", "name one: gpufleet_validate_snapshot")
    check_dirs = () if requested.no_cluster else run.site.check_dirs
    require_names(requested.skip_checks, "gpufleet_skip_checks", images, check_dirs)
    if requested.no_cluster:
        run.save_site(_site_alone(run))
        run.save_hardware({})
    if options["recipe"]:
        text, source = read_recipe_text(options["recipe"], lambda: Cluster(connection))
        recipe = redact_data(require_resolved(parse_yaml(text, source), source))
        write_atomic(run.path / RUN_FILE, dumps(recipe))
        run.reload()
        run.save_site(with_dra(run.site, recipe))
    _require_known(run.recipe, requested, check_dirs)
    write_atomic(run.path / ASKED, dumps(replace(requested, snapshot=redact(requested.snapshot))))
    notes = (*run.record.notes, *_notes(run.recipe), *answered_by_ours)
    record = with_phases(replace(run.record, site=run.site.name, notes=notes), requested.phases)
    run.save_record(replace(record, updated=now_utc()))
    if options["recipe"]:
        # The recipe of the inventory was taken by preflight.
        take_benchmark_inputs(run)
    return requested


def _site_alone(run: Run) -> Site:
    """Return the site of a validation that has no inventory: its nodes are those of the snapshot."""
    return Site(
        name=run.record.site, profile=SiteProfile.CLOUD, hosts=(), gates=(), capabilities=("kubernetes", "pods", "dra")
    )


def _written_by_upstream(recipe: Mapping[str, Any]) -> bool:
    """Whether the upstream tool wrote the recipe: it puts its version into the metadata, and ours does not."""
    return bool((recipe.get("metadata") or {}).get("version"))


def _is_slip(hint: str, recipe: Mapping[str, Any]) -> bool:
    """Whether an unknown name is a typing error rather than a name of a newer upstream release.

    A name close to a known one, or one in the wrong place, is refused before anything is observed. Any other name, and
    every name in a recipe that upstream wrote, becomes `other` where it is judged, so that the rest of the recipe is
    still judged.
    """
    return not _written_by_upstream(recipe) and hint.startswith(("Did you mean", "It is measured"))


def _require_known(recipe: Mapping[str, Any] | None, requested: ValidationRequest, check_dirs: tuple[str, ...]) -> None:
    """Refuse a recipe with misspelt checks or constraints. Names that are merely unknown are judged as `other`."""
    if recipe is None:
        raise InputError(
            "validation", "has no recipe.", "name one: gpufleet_validate_recipe, or state gpufleet_criteria"
        )
    sections = recipe.get("validation") or {}
    configured = [("", recipe.get("constraints") or ())]
    configured += [("", pool.get("constraints") or ()) for pool in recipe.get("pools") or ()]
    configured += [(phase, (section or {}).get("constraints") or ()) for phase, section in sections.items()]
    for phase, entries in configured:
        for entry in entries:
            hint = unknown_name(str(entry.get("name")), phase)
            if _is_slip(hint, recipe):
                raise InputError(f"constraint {entry.get('name')!r} of the recipe", "is measured by nothing.", hint)
            constraint = declared_constraint(entry)
            wrong = wrong_value(replace(constraint, unit=constraint.unit or unit_of(constraint.name)))
            if wrong:
                # Compared as text it would count as violated.
                raise InputError(f"constraint {constraint.name!r} of the recipe", wrong, "correct the recipe")
    known = components_of(dict(recipe))
    for phase in requested.phases:
        named = () if _written_by_upstream(recipe) else checks_named(recipe, phase)
        names = [name for name in named if is_misspelt(name, requested.images, check_dirs)]
        require_names(names, f"validation.{phase}.checks of the recipe", requested.images, check_dirs)
        limits_of(recipe, phase)
        needed = infrastructure_of(recipe, phase)
        if needed and needed not in known:
            hint = f"name one of {', '.join(known)}" if known else "the recipe has no components"
            raise InputError(f"validation.{phase}.infrastructure", f"{needed!r} is no component of the recipe.", hint)


def _notes(recipe: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the parts of a recipe's validation section for which this release uses another source."""
    sections = ((recipe or {}).get("validation") or {}).items()
    text = "of the recipe is not used: it is about a part that only upstream's own benchmark has"
    return (
        *(
            f"validation.{phase}.nodeSelection of the recipe is not used: the hosts are those of the inventory in scope"
            for phase, section in sections
            if (section or {}).get("nodeSelection")
        ),
        *(f"constraint {name} {text}" for name in not_judged(recipe)),
        *(f"{what} of the recipe is not known to this release: it is other, not passed" for what in _unknown(recipe)),
    )


def _unknown(recipe: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the constraints of a recipe that this release cannot measure."""
    sections = {phase: section or {} for phase, section in ((recipe or {}).get("validation") or {}).items()}
    for phase, section in {"": recipe or {}, **sections}.items():
        for entry in section.get("constraints") or ():
            if unknown_name(str(entry.get("name")), phase):
                yield f"constraint {entry.get('name')}"
