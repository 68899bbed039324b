# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds the checks and observers: every file of check/<gate>/ that has a CHECK, CHECKS or an OBSERVER."""

from __future__ import annotations

import pkgutil
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from ..outcome.errors import BringupError, ProblemsError
from ..outcome.gates import BURN_IN, GATE_IDS, READINESS, STACK_GATE
from ..site.model import Site
from .kit.settings import GateSettings
from .kit.settings_layers import shipped
from .site_checks import AnyCheck, AnyObserver, SiteChecks, clashes, load_site_checks, verified, verified_checks
from .spec import CheckSpec, Observer

__all__ = [
    "AnyCheck",
    "AnyObserver",
    "all_checks",
    "all_settings",
    "all_specs",
    "checks_of",
    "observer_for",
    "observers_of",
    "release_settings",
]


# Directories of checks: the gates in their order, readiness before the gate that changes the cluster, then burn-in.
_PLACES = (*GATE_IDS[: GATE_IDS.index(STACK_GATE)], READINESS, *GATE_IDS[GATE_IDS.index(STACK_GATE) :], BURN_IN)


@cache
def _modules(gate: str) -> tuple[ModuleType, ...]:
    try:
        package = import_module(f"{__package__}.{gate}")
    except ModuleNotFoundError:
        return ()
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    return tuple(import_module(f"{package.__name__}.{name}") for name in names)


@cache
def _checks(gate: str) -> tuple[AnyCheck, ...]:
    """Return the checks in that gate's directory, by id.

    A module has one check (SPEC and CHECK), or several of one topic in CHECKS.
    """
    found = [verified(module) for module in _modules(gate) if isinstance(getattr(module, "SPEC", None), CheckSpec)]
    found += [check for module in _modules(gate) for check in verified_checks(module)]
    return tuple(sorted(found, key=lambda check: check.spec.id))


@cache
def observers_of(gate: str) -> dict[str, AnyObserver]:
    """Return the observers in that gate's directory by key."""
    # A module with checks only imports its observer; another module defines it.
    found = [module for module in _modules(gate) if not (hasattr(module, "CHECK") or hasattr(module, "CHECKS"))]
    observers = [getattr(module, "OBSERVER", None) for module in found]
    return {observer.key: observer for observer in observers if isinstance(observer, Observer)}


@cache
def all_checks(directories: tuple[str, ...] = ()) -> tuple[AnyCheck, ...]:
    """Return every check of every gate, in the order of the gates, then by id.

    The checks of readiness come before the gate that changes the cluster, those of burn-in last. The checks of a site's
    own directories follow.

    Raises:
        ProblemsError: all problems of the site's own checks.
    """
    ours = tuple(check for place in _PLACES for check in _checks(place))
    return (*ours, *_site_checks(directories))


@cache
def site_checks(directories: tuple[str, ...]) -> SiteChecks:
    """Return the checks of a site's own directories, with all problems found in them."""
    found = load_site_checks(directories)
    observers = {gate: observers_of(gate) for gate in GATE_IDS}
    return replace(found, problems=(*found.problems, *clashes(found, all_checks(), observers)))


def _site_checks(directories: tuple[str, ...]) -> tuple[AnyCheck, ...]:
    if not directories:
        return ()
    found = site_checks(directories)
    if found.problems:
        raise ProblemsError("checks of the site", found.problems)
    return found.checks


def checks_of(gate: str, site: Site) -> tuple[AnyCheck, ...]:
    """Return the checks that belong to that gate at that site, whether or not they apply there. Modules of other gates
    are not imported.

    Raises:
        ProblemsError: all problems of the site's own checks.
    """
    # Checks that need the driver move from the earlier gates to this one.
    sources = GATE_IDS[: GATE_IDS.index(gate) + 1] if gate == STACK_GATE else (gate,)
    own = tuple(check for check in _site_checks(site.check_dirs) if check.spec.gate in sources)
    ours = (check for source in sources for check in _checks(source))
    here = ("", site.orchestrator)
    return tuple(check for check in (*ours, *own) if check.spec.gate_at(site) == gate and check.spec.only_on in here)


@cache
def all_settings(directories: tuple[str, ...] = ()) -> dict[str, tuple[type[Any], ...]]:
    """Return the settings classes by gate id, by check id, and for continuous validation and each of its tests.

    A gate has the `SETTINGS` of check/<gate>/settings.py and those that every gate takes. A check without settings has
    an empty tuple.
    """
    # Settings modules import what several gates share; a caller that loads one gate should import no other gate.
    from .comparison.specs import COMPARISONS
    from .node_tests.registry import node_tests
    from .node_tests.settings import CONTINUOUS, ContinuousSettings

    found: dict[str, tuple[type[Any], ...]] = {}
    for gate in GATE_IDS:
        own = (module.SETTINGS for module in _modules(gate) if module.__name__.endswith(".settings"))
        found[gate] = (*own, GateSettings)
    for check in all_checks(directories):
        found[check.spec.id] = (check.spec.settings,) if check.spec.settings else ()
    for spec in (comparison.spec for comparison in COMPARISONS):
        found[spec.id] = (spec.settings,) if spec.settings else ()
    found[CONTINUOUS] = (ContinuousSettings,)
    return found | {name: (test.settings_type,) for name, test in node_tests().items()}


@cache
def release_settings() -> dict[str, dict[str, Any]]:
    """Return every setting as this release ships it, by gate or check id and name."""
    return {key: shipped(key, *kinds) for key, kinds in all_settings().items() if kinds}


def all_specs(directories: tuple[str, ...] = ()) -> tuple[CheckSpec, ...]:
    """Return the specification of everything that a gate can judge: all checks (see all_checks), then comparisons."""
    from .comparison.specs import COMPARISONS

    checks = (check.spec for check in all_checks(directories))
    return (*checks, *(comparison.spec for comparison in COMPARISONS))


def observer_for(check: AnyCheck, gate: str) -> AnyObserver:
    """Return the observer of a check judged in that gate: the gate's own observer of that key, else the check's.

    Raises:
        BringupError: the gate's own observer returns another type than the judge takes.
    """
    own = observers_of(gate).get(check.observer.key, check.observer)
    if own.result is not check.observer.result:
        text = f"observer {own.key!r} of gate {gate} makes {own.result.__name__}, its judge takes another type."
        raise BringupError(f"check {check.spec.id}", text, "this is a defect: report it")
    return own
