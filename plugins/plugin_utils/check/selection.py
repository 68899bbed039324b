# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which checks a phase of a validation judges: those that the recipe names, else all of that phase."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from ..outcome.errors import InputError
from ..outcome.gates import CONFORMANCE, DEPLOYMENT, PHASE_GATES
from ..recipe.sections import asks_nothing, constraints_of, section_of
from ..runtime.files import RECIPES
from ..runtime.strict import nearest_hint, read_yaml
from ..site.model import Site
from ..verdict.gate import NotDeclared
from .declare import GatePlan, declare
from .registry import all_checks
from .validators.catalog import ValidatorImage, seconds_of

COMPONENT_HEALTH, RECIPE_CONSTRAINTS = "component-health", "recipe-constraints"
# Two names of upstream for related checks (gke-gpu-nic-networks, gke-gpu-nic-topology) are less similar than this.
_MISSPELT = 0.8
_LEFT_OUT = "named in gpufleet_skip_checks"
_CATALOG = RECIPES / "validators" / "catalog.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedCheck:
    """A check that a person left out by name, or that does not apply at this site. It is reported and never a pass."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseDeclaration:
    """What a phase judges, gate by gate.

    `skipped` are checks that a person left out or that do not apply here. `unknown` are names of the recipe for which
    this release has no check, which is no pass. `images` are validators of the site.
    """

    phase: str
    parts: tuple[GatePlan, ...]
    skipped: tuple[SkippedCheck, ...] = ()
    unknown: tuple[str, ...] = ()
    images: tuple[ValidatorImage, ...] = ()

    @property
    def gates(self) -> tuple[str, ...]:
        """The gates whose checks it judges."""
        return tuple(part.gate for part in self.parts)

    def without_newer(self, known: Collection[str]) -> PhaseDeclaration:
        """Return it without the checks that an earlier run did not have; `known` are the checks of that run."""
        return replace(self, parts=tuple(part.only(known) for part in self.parts))

    @property
    def not_declared(self) -> tuple[NotDeclared, ...]:
        """The checks that are left out, each with its reason."""
        return tuple(entry for part in self.parts for entry in part.not_declared)

    @property
    def expected(self) -> dict[str, tuple[str, ...]]:
        """The subjects that each need an outcome, by check."""
        return {check.id: check.subjects for part in self.parts for check in part.checks}


def names_of_checks(directories: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """Return our checks by every name that a recipe may use: upstream's names (recipes/validators/catalog.yaml), ours,
    and those of a site's own directories."""
    return _names(directories)


@cache
def _names(directories: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    ours = [check.spec.id for check in all_checks(directories)]
    configured = {entry["name"]: tuple(entry.get("checks") or (entry["name"],)) for entry in _entries()}
    # A check of ours with upstream's name is judged in addition to those that the table lists.
    same = {name: (name, *found) if name in ours and name not in found else found for name, found in configured.items()}
    return {name: (name,) for name in ours} | same


def _entries() -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = read_yaml(_CATALOG)["validators"]
    return found


def require_names(
    names: Iterable[str],
    source: str,
    images: Iterable[ValidatorImage] = (),
    check_dirs: tuple[str, ...] = (),
) -> None:
    """Refuse names of unknown checks. `images` are validators of the site, `check_dirs` the directories of its own
    checks.

    Raises:
        InputError: the first unknown name, with the nearest known one.
    """
    known = {*names_of_checks(check_dirs), *(image.name for image in images)}
    for name in names:
        if name not in known:
            raise InputError(f"{source}: {name}", "is no check.", nearest_hint(name, known))


def is_misspelt(name: str, images: Iterable[ValidatorImage] = (), check_dirs: tuple[str, ...] = ()) -> bool:
    """Whether an unknown name is so near to that of a check that it is a misspelling. A name far from all of them may
    be of a newer release of upstream."""
    known = {*names_of_checks(check_dirs), *(image.name for image in images)}
    return name not in known and bool(get_close_matches(name, known, 1, _MISSPELT))


def checks_named(recipe: Mapping[str, Any] | None, phase: str) -> tuple[str, ...]:
    """Return the names in a recipe's `validation.<phase>.checks`, empty where the recipe leaves the choice to us."""
    section = section_of(recipe, phase)
    return tuple(str(name) for name in section.get("checks") or ())


def infrastructure_of(recipe: Mapping[str, Any] | None, phase: str) -> str:
    """Return the component that a phase's checks need, empty where the recipe names none."""
    section = section_of(recipe, phase)
    return str(section.get("infrastructure") or "")


def declare_phase(
    phase: str,
    site: Site,
    recipe: Mapping[str, Any] | None,
    *,
    components: tuple[str, ...] = (),
    skip: Collection[str] = (),
    images: Collection[ValidatorImage] = (),
) -> PhaseDeclaration:
    """Return what a phase declares.

    Args:
        phase: its id.
        site: the site.
        recipe: the resolved recipe; its validation section names the checks to judge.
        components: names of the recipe's components, subjects of checks per component.
        skip: names of checks that a person leaves out.
        images: the site's validators. Those that the recipe names are run; where it names none, those of the phase.

    Raises:
        InputError: a name in `skip` is that of no check.
    """
    require_names(skip, "skip_checks", images, site.check_dirs)
    known = names_of_checks(site.check_dirs)
    gate_of = {check.spec.id: check.spec.gate_at(site) for check in all_checks(site.check_dirs)}
    named = checks_named(recipe, phase)
    ids = {name: [i for i in known.get(name, ()) if i in gate_of] for name in named}
    wanted = {i for found in ids.values() for i in found} if named or asks_nothing(recipe, phase) else None
    also = _besides(recipe, phase, named)
    wanted = wanted | also if wanted is not None else None
    # A name of the catalogue belongs to its phase, or to the one where the recipe lists it; elsewhere it has no effect.
    here = {entry["name"] for entry in _entries() if entry["phase"] == phase} | set(named)
    left_out = {i for name in skip for i in known.get(name, ()) if i == name or name in here}
    requested = [image for image in images if (image.phase == phase if wanted is None else image.name in named)]
    gates = dict.fromkeys((*PHASE_GATES[phase], *(gate_of[i] for i in sorted(wanted or ()))))
    parts, skipped = [], []
    for gate in gates:
        whole = declare(gate, site, components, recipe)
        own = {check.spec.id for check in whole.of_gate if _belongs(check.spec, phase, site, wanted)}
        own |= {name for name in also if gate_of[name] == gate}
        left = [check.id for check in whole.checks if check.id in own & left_out]
        skipped += [SkippedCheck(id=name, reason=_LEFT_OUT) for name in left]
        reason = f"the recipe's validation.{phase} does not name it; it names {', '.join(named) or 'none'}"
        unnamed = tuple(
            NotDeclared(id=check.spec.id, title=check.spec.title, reason=reason)
            for check in whole.of_gate
            if check.spec.id not in own and check.spec.phase_at(site) == phase
        )
        not_here = tuple(entry for entry in whole.not_declared if entry.id in own)
        parts.append(replace(whole.only(own - left_out), not_declared=(*not_here, *unnamed)))
    skipped += _not_here({name: found for name, found in ids.items() if _applies(name, site)}, parts, left_out)
    skipped += [SkippedCheck(id=i.name, reason=_LEFT_OUT) for i in requested if i.name in skip]
    theirs = {image.name for image in requested}
    unknown = tuple(name for name in named if not ids[name] and name not in skip and name not in theirs)
    run = tuple(image for image in requested if image.name not in skip)
    return PhaseDeclaration(phase=phase, parts=tuple(parts), skipped=tuple(skipped), unknown=unknown, images=run)


def _besides(recipe: Mapping[str, Any] | None, phase: str, named: Collection[str]) -> set[str]:
    """Return the checks that a phase judges whatever it names.

    They are the health of the components that the named checks need, and the constraints of its section on the cluster
    (bounds of performance are judged by their figures).
    """
    found = {COMPONENT_HEALTH} if named and infrastructure_of(recipe, phase) else set()
    demands = phase in (DEPLOYMENT, CONFORMANCE) and constraints_of(recipe, phase)
    return found | ({RECIPE_CONSTRAINTS} if demands else set())


def _applies(name: str, site: Site) -> bool:
    """Whether a name of the catalogue applies at this site, by its `only_with` and `not_with`."""
    entry: Mapping[str, Any] = next((entry for entry in _entries() if entry["name"] == name), {})
    without, needed = entry.get("not_with"), entry.get("only_with")
    return without not in site.capabilities and (needed is None or needed in site.capabilities)


def _not_here(ids: Mapping[str, list[str]], parts: Iterable[GatePlan], left_out: Collection[str]) -> list[SkippedCheck]:
    """Return the names of the recipe none of whose checks can be judged at this site: that is no pass."""
    requested = {check.id for part in parts for check in part.checks} | set(left_out)
    why = {entry.id: entry.reason for part in parts for entry in part.not_declared}
    lost = {name: found for name, found in ids.items() if found and not set(found) & requested}
    reasons = {name: next((why[i] for i in found if i in why), "not asked here") for name, found in lost.items()}
    return [SkippedCheck(id=name, reason=f"not asked at this site: {reason}") for name, reason in reasons.items()]


def _belongs(spec: Any, phase: str, site: Site, wanted: set[str] | None) -> bool:
    return spec.phase_at(site) == phase if wanted is None else spec.id in wanted


def limits_of(recipe: Mapping[str, Any] | None, phase: str) -> tuple[float, dict[str, float]]:
    """Return the time limit of a phase in seconds (0: no limit), and the limits of its checks by our ids.

    Raises:
        InputError: one of them is no duration.
    """
    section = section_of(recipe, phase)
    whole = seconds_of(str(section.get("timeout") or ""), f"validation.{phase}.timeout")
    known = names_of_checks()
    configured = {
        e["name"]: seconds_of(str(e.get("timeout") or ""), f"timeout of check {e['name']}") for e in _entries()
    }
    return whole, {i: limit for name, limit in configured.items() if limit for i in known[name]}
