# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan of a gate: which checks it judges at a site, for which subjects, and which observer each uses.

The plan also lists the checks that are left out, with the reason. It is made once; observers and judges follow it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..outcome.errors import BringupError
from ..outcome.model import SubjectKind
from ..site.model import Site
from ..verdict.gate import NotDeclared
from .registry import AnyCheck, AnyObserver, checks_of, observer_for
from .spec import CheckSpec, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCheck:
    """A check of the plan, the observer that it uses in that gate, and the names of the subjects that each need an
    outcome."""

    check: AnyCheck
    observer: AnyObserver
    subjects: tuple[str, ...]

    @property
    def spec(self) -> CheckSpec:
        """The specification of the check."""
        return self.check.spec

    @property
    def id(self) -> str:
        """The id of the check."""
        return self.check.spec.id


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlan:
    """The checks that a gate judges at a site.

    `not_declared` are the checks or subjects left out, with the reason. `of_gate` are all checks that belong to the
    gate there, left out or not.
    """

    gate: str
    checks: tuple[PlannedCheck, ...]
    not_declared: tuple[NotDeclared, ...] = ()
    of_gate: tuple[AnyCheck, ...] = ()

    def only(self, ids: Collection[str]) -> GatePlan:
        """Return the plan with only these of its checks; `not_declared` stays as it is."""
        return replace(self, checks=tuple(planned for planned in self.checks if planned.id in ids))

    def driver_part(self) -> GatePlan:
        """Return the part of the plan whose checks need the GPU driver."""
        needs = {check.spec.id for check in self.of_gate if check.spec.needs_driver}
        return replace(self.only(needs), not_declared=tuple(entry for entry in self.not_declared if entry.id in needs))


def declare(
    gate: str,
    site: Site,
    components: tuple[str, ...] | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> GatePlan:
    """Return the plan of a gate.

    Args:
        gate: gate id.
        site: the site.
        components: names of the recipe's components, the subjects of checks per component. None while the recipe is
            not known: then no check is left out for a component that the recipe lacks.
        recipe: the resolved recipe, for checks that judge what it promises. None while it is not known.

    Raises:
        BringupError: this release has no check for that gate, or an observer of the gate returns another type than a
            check of it takes.
    """
    candidates = checks_of(gate, site)
    if not candidates:
        raise BringupError(
            f"gate {gate}",
            "this release has no check for it, so it cannot be passed.",
            "leave it out of gpufleet_gates; the verdict then names the gates that were proven",
        )
    place = Place(site=site, recipe=recipe, components=components)
    requested = [_requested(check, gate, place) for check in candidates]
    # Checks that are left out as a whole come first in the list, then those left out for some of their subjects.
    left_out = [entry for found, entries in requested if found is None for entry in entries]
    left_out += [entry for found, entries in requested if found is not None for entry in entries]
    declared = tuple(found for found, _entries in requested if found is not None)
    return GatePlan(gate=gate, checks=declared, not_declared=tuple(left_out), of_gate=candidates)


def _requested(check: AnyCheck, gate: str, place: Place) -> tuple[PlannedCheck | None, list[NotDeclared]]:
    """Return the check with the subjects that it applies to, and what is left out.

    The check is None where it applies to no subject.
    """
    spec, site, names, left_out = check.spec, place.site, set[str](), list[NotDeclared]()
    subjects = place.components or () if spec.per is SubjectKind.COMPONENT else site.expected_subjects(spec.per)
    for rule in spec.applies:
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
    return PlannedCheck(check=check, observer=observer_for(check, gate), subjects=subjects), left_out
