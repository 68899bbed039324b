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
from ..outcome.wording import first_of
from ..site.model import Site
from ..verdict.gate import NotDeclared
from .registry import AnyCheck, checks_of

_NAMES = 8


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
    able = [check for check in candidates if not check.spec.missing_capabilities(site)]
    asked = [check for check in able if components is None or _has_one_of(check.spec.components, components)]
    absent = tuple(_without_component(check) for check in able if check not in asked)
    offering = [check for check in asked if check.spec.offers is not None] if components is not None else []
    promised = {c.spec.id: c.spec.offers(site, recipe) for c in offering if c.spec.offers is not None}
    none = tuple(_unasked(check) for check in asked if promised.get(check.spec.id) == ())
    asked = [check for check in asked if promised.get(check.spec.id) != ()]
    declared = tuple(
        found
        for check in asked
        if (found := _declared(check, site, components or (), promised.get(check.spec.id))) is not None
    )
    left_out = tuple(_left_out(check, site) for check in candidates if check.spec.missing_capabilities(site))
    alone = tuple(entry for check in asked if (entry := _without_equal(check, site)) is not None)
    silent = tuple(entry for check in asked if (entry := _without_bmc(check, site)) is not None)
    silent += tuple(entry for check in asked if (entry := _without_pdu(check, site)) is not None)
    return Declaration(gate=gate, checks=declared, not_declared=left_out + absent + none + alone + silent)


def driver_part(declaration: Declaration, site: Site) -> Declaration:
    """Return what of a declaration needs the driver."""
    needs = {check.spec.id for check in checks_of(declaration.gate, site) if check.spec.needs_driver}
    return replace(
        declaration,
        checks=tuple(check for check in declaration.checks if check.id in needs),
        not_declared=tuple(entry for entry in declaration.not_declared if entry.id in needs),
    )


def _declared(
    check: AnyCheck, site: Site, components: tuple[str, ...], promised: tuple[str, ...] | None
) -> DeclaredCheck | None:
    spec = check.spec
    subjects = components if spec.per is SubjectKind.COMPONENT else site.expected_subjects(spec.per)
    alone = {host.name for host in site.without_equal} if spec.between_hosts else set()
    alone |= {host.name for host in site.in_scope if not host.bmc} if spec.through_bmc else set()
    if alone and len(alone) == len(site.in_scope):
        return None
    subjects = tuple(name for name in subjects if name not in alone)
    subjects = subjects if promised is None else tuple(name for name in subjects if name in promised)
    if spec.through_pdu:
        subjects = tuple(name for name in subjects if name in _racks_with_pdus(site))
    return DeclaredCheck(
        id=spec.id, title=spec.title, subjects=subjects, disturbs=spec.disturbs.value, duration_s=spec.duration_s
    )


def _has_one_of(wanted: tuple[str, ...], components: tuple[str, ...]) -> bool:
    return not wanted or any(name in components for name in wanted)


def _without_component(check: AnyCheck) -> NotDeclared:
    reason = f"needs {' or '.join(check.spec.components)}: the recipe has none"
    return NotDeclared(id=check.spec.id, title=check.spec.title, reason=reason)


def _unasked(check: AnyCheck) -> NotDeclared:
    return NotDeclared(id=check.spec.id, title=check.spec.title, reason=check.spec.unasked)


def _left_out(check: AnyCheck, site: Site) -> NotDeclared:
    reasons = [
        f"needs {word.replace('|', ' or ')}: {site.missing.get(word, 'the inventory has none')}"
        for word in check.spec.missing_capabilities(site)
    ]
    return NotDeclared(id=check.spec.id, title=check.spec.title, reason="; ".join(reasons))


def _without_equal(check: AnyCheck, site: Site) -> NotDeclared | None:
    if not check.spec.between_hosts or not site.without_equal:
        return None
    hosts = ", ".join(f"{host.name} is the only {host.sku}" for host in site.without_equal)
    reason = f"needs two hosts of one SKU: {hosts} here"
    return NotDeclared(id=check.spec.id, title=check.spec.title, reason=reason)


def _without_bmc(check: AnyCheck, site: Site) -> NotDeclared | None:
    unnamed = [host.name for host in site.in_scope if not host.bmc]
    if not check.spec.through_bmc or not unnamed:
        return None
    reason = f"needs the address of the BMC: {first_of(unnamed, _NAMES)} without gpufleet_bmc"
    return NotDeclared(id=check.spec.id, title=check.spec.title, reason=reason)


def _racks_with_pdus(site: Site) -> set[str]:
    stated = site.settings.get("pdu-feeds", {}).get("pdus") or {}
    return {str(entry.get("rack", "")) for entry in stated.values() if isinstance(entry, Mapping)}


def _without_pdu(check: AnyCheck, site: Site) -> NotDeclared | None:
    without = sorted(set(site.racks) - _racks_with_pdus(site))
    if not check.spec.through_pdu or not without:
        return None
    reason = f"needs the address of a PDU: gpufleet_settings.pdu-feeds.pdus has none in {', '.join(without[:_NAMES])}"
    return NotDeclared(id=check.spec.id, title=check.spec.title, reason=reason)
