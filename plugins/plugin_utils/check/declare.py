# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is declared: which checks a gate must answer at this site, for which subjects, and what is left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..outcome.errors import BringupError
from ..outcome.model import SubjectKind
from ..site.model import Site
from ..verdict.gate import NotDeclared
from .registry import checks_of
from .spec import Capabilities, CheckSpec, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCheck:
    """A check that the gate must answer, with the names of the subjects that each need an answer."""

    id: str
    title: str
    subjects: tuple[str, ...]
    disturbs: str
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The checks that a gate must answer at a site, and those that it is not asked."""

    gate: str
    checks: tuple[DeclaredCheck, ...]
    not_declared: tuple[NotDeclared, ...] = ()
    schema_version: int = 1


def declare(
    gate: str,
    site: Site,
    components: tuple[str, ...] | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> Declaration:
    """Return what the gate declares.

    Args:
        gate: gate id.
        site: the site.
        components: names of the recipe's components, subjects of checks per component; None where the recipe is not
            known yet, and no check is left out for what it lacks.
        recipe: the resolved recipe, of which some checks ask what it promises; None where it is not known.

    Raises:
        BringupError: this release has no check for that gate at all.
    """
    candidates = checks_of(gate, site)
    if not candidates:
        raise BringupError(
            f"gate {gate}",
            "this release has no check for it, so it cannot be passed.",
            "leave it out of gpufleet_gates; the verdict then names the gates that were proven",
        )
    place = Place(site=site, recipe=recipe, components=components)
    asked = [_asked(check.spec, place) for check in candidates]
    # First what is not asked at all, then what is not asked of some subjects.
    left_out = [entry for found, entries in asked if found is None for entry in entries]
    left_out += [entry for found, entries in asked if found is not None for entry in entries]
    declared = tuple(found for found, _entries in asked if found is not None)
    return Declaration(gate=gate, checks=declared, not_declared=tuple(left_out))


def driver_part(declaration: Declaration, site: Site) -> Declaration:
    """Return what of a declaration needs the driver."""
    needs = {check.spec.id for check in checks_of(declaration.gate, site) if check.spec.needs_driver}
    return replace(
        declaration,
        checks=tuple(check for check in declaration.checks if check.id in needs),
        not_declared=tuple(entry for entry in declaration.not_declared if entry.id in needs),
    )


def _asked(spec: CheckSpec, place: Place) -> tuple[DeclaredCheck | None, list[NotDeclared]]:
    """Return the check with the subjects that it is asked of, None where there are none, and what is left out."""
    site, names, left_out = place.site, set[str](), list[NotDeclared]()
    subjects = place.components or () if spec.per is SubjectKind.COMPONENT else site.expected_subjects(spec.per)
    for rule in (Capabilities(spec.requires), *spec.applies):
        left = rule.left_out(subjects, place)
        if left is None:
            continue
        if left.reason:
            left_out.append(NotDeclared(id=spec.id, title=spec.title, reason=left.reason))
        if left.names is None:
            return None, left_out
        names |= left.names
    hosts = {host.name for host in site.in_scope}
    if hosts and hosts <= names:
        return None, left_out
    subjects = tuple(name for name in subjects if name not in names)
    found = DeclaredCheck(
        id=spec.id,
        title=spec.title,
        subjects=subjects,
        disturbs=spec.disturbs_at(site).value,
        duration_s=spec.duration_s,
    )
    return found, left_out
