# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The steps of a convergence, each from plain data to plain data: what to ask, the plan, its simulation, the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..converge.converged import converged, simulation_problems
from ..converge.declaration import VARIABLE, Declaration, read_declaration
from ..converge.plan import Plan, plan_host, question
from ..converge.state import HostState, read_state
from ..converge.transaction import Chosen
from ..hardware.sku import Sku, load_hardware
from ..outcome.codec import to_plain
from ..outcome.errors import InputError, ProblemsError
from ..runtime.files import recipe_directories
from ..runtime.strict import nearest_hint


def convergence_step(options: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the answer of module `node_plan_info`.

    Raises:
        BringupError: the declaration is wrong, a part has two owners, packages are not whole, or the package manager
            would do more than was planned.
    """
    declared = read_declaration(options["declaration"], f"{VARIABLE} of {host}")
    state = read_state(options["state"], host)
    sku = _sku(options["sku"], options["recipe_data"], host)
    if options["step"] == "ask":
        asked = to_plain(question(declared, state, sku))
        return {"ask": {**asked, "mig_config": declared.mig.config if declared.mig else ""}}
    plan = _planned(declared, state, sku, options, host)
    if options["step"] == "simulated":
        problems = simulation_problems(plan, state)
        if problems:
            raise ProblemsError(f"packages of {host}", tuple(problems))
    result: dict[str, Any] = {"plan": _for_tasks(plan, state), "reboot": list(plan.reboot)}
    if options["step"] == "plan":
        result["simulate"] = _simulation(plan, state)
    if options["step"] == "verify":
        result["wrong"] = list(converged(declared, plan, state, sku).wrong)
    return result


def _planned(declared: Declaration, state: HostState, sku: Sku | None, options: Mapping[str, Any], host: str) -> Plan:
    try:
        return plan_host(declared, state, sku=sku, labels=options["labels"], driver_owner=options["driver_owner"])
    except ProblemsError as error:
        raise ProblemsError(f"{VARIABLE} of {host}", error.problems) from None


def _sku(name: str, extra: list[str], host: str) -> Sku | None:
    if not name:
        return None
    hardware = load_hardware(recipe_directories("hardware", extra))
    if name not in hardware:
        raise InputError(f"gpufleet_sku of {host}", f"{name!r} is not known.", nearest_hint(name, hardware))
    return hardware[name]


def spec_of(package: Chosen, family: str) -> str:
    """Return a package with its version as the package manager takes it."""
    if not package.version:
        return package.name
    return f"{package.name}={package.version}" if family == "debian" else f"{package.name}-{package.version}"


def _simulation(plan: Plan, state: HostState) -> dict[str, Any]:
    packages = [package for one in plan.transactions for package in one.packages]
    return {
        "simulate": [spec_of(package, state.family) for package in packages],
        "preferences": plan.preferences,
        "stream": next((one.stream for one in plan.transactions if one.stream), ""),
    }


def _for_tasks(plan: Plan, state: HostState) -> dict[str, Any]:
    """The plan as tasks read it: with packages written as the package manager takes them."""
    data: dict[str, Any] = to_plain(plan)
    for plain, one in zip(data["transactions"], plan.transactions, strict=True):
        plain["specs"] = [spec_of(package, state.family) for package in one.packages]
    return data
