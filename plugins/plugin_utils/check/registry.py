# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds the checks and observers: every file of check/<gate>/ that has a SPEC or a KEY."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ..outcome.errors import BringupError
from ..outcome.gates import GATE_IDS
from ..site.model import Site
from .kit.settings import GateSettings
from .spec import CheckSpec, Judge, ObserveContext


@dataclass(frozen=True, slots=True)
class RegisteredCheck:
    """A check as found: its specification and its pure judge."""

    spec: CheckSpec
    judge: Judge


@dataclass(frozen=True, slots=True)
class Observer:
    """An observer as found: `observe` looks, `restore` turns the saved data into the value that judges get."""

    gate: str
    key: str
    observe: Callable[[ObserveContext], Any]
    restore: Callable[[Any, Path, Site], Any]


def _plain(data: Any, _run_dir: Path, _site: Site) -> Any:
    return data


def _modules(gate: str) -> list[ModuleType]:
    try:
        package = import_module(f"{__package__}.{gate}")
    except ModuleNotFoundError:
        return []
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    return [import_module(f"{package.__name__}.{name}") for name in names]


@cache
def all_checks() -> tuple[RegisteredCheck, ...]:
    """Return every check of every gate, in the order of the gates, then by file name."""
    return tuple(
        RegisteredCheck(module.SPEC, module.judge)
        for gate in GATE_IDS
        for module in _modules(gate)
        if hasattr(module, "SPEC")
    )


@cache
def all_observers() -> dict[tuple[str, str], Observer]:
    """Return every observer by (gate, key)."""
    return {
        (gate, module.KEY): Observer(gate, module.KEY, module.observe, getattr(module, "restore", _plain))
        for gate in GATE_IDS
        for module in _modules(gate)
        if hasattr(module, "KEY")
    }


@cache
def all_settings() -> dict[str, tuple[type[Any], ...]]:
    """Return the settings classes by gate id (`SETTINGS` of check/<gate>/settings.py, and what every gate takes) and by
    check id; a check without settings has none."""
    found: dict[str, tuple[type[Any], ...]] = {}
    for gate in GATE_IDS:
        own = (module.SETTINGS for module in _modules(gate) if module.__name__.endswith(".settings"))
        found[gate] = (*own, GateSettings)
    for check in all_checks():
        found[check.spec.id] = (check.spec.settings,) if check.spec.settings else ()
    return found


def checks_of(gate: str, site: Site) -> tuple[RegisteredCheck, ...]:
    """Return the checks that belong to that gate at that site, declared there or not."""
    return tuple(check for check in all_checks() if check.spec.gate_at(site) == gate)


def observer_for(spec: CheckSpec, gate: str) -> Observer:
    """Return the observer of a check judged in that gate; the gate's own observer of that key comes first.

    Raises:
        BringupError: no observer of that key exists.
    """
    observers = all_observers()
    found = observers.get((gate, spec.observation)) or observers.get((spec.gate, spec.observation))
    if found is None:
        raise BringupError(
            f"check {spec.id}", f"no observer makes {spec.observation!r}.", "this is a defect: report it"
        )
    return found
