# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The steps of a convergence, each from plain data to plain data: what to query on the host, the plan, what the package
manager would do beyond it, and whether the host is as declared afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...hardware.sku import Sku, load_hardware
from ...outcome.codec import to_plain
from ...outcome.errors import BringupError, InputError, ProblemsError
from ...runtime.files import recipe_directories
from ...runtime.strict import nearest_hint
from .declaration import VARIABLE, Declaration, read_declaration
from .plan import HostPlan, plan_host, question
from .reboot import other_modules
from .state import HostState, nvlink_parts, read_state, services_of
from .transaction import Chosen

# Whether a host is as declared: judged by what is loaded, installed and running, not by what a task reported as
# changed.

# A100 has no such state (nvidia-smi prints N/A). From the fourth NVLink generation on it has to be there.
_FABRIC_STATE_GENERATION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Converged:
    """The result for a host: `wrong` is not as declared, `reboot` says why it will be only after a reboot."""

    wrong: tuple[str, ...]
    reboot: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether the host is as declared, without a reboot."""
        return not self.wrong and not self.reboot


def converged(declared: Declaration, plan: HostPlan, state: HostState, sku: Sku | None) -> Converged:
    """Return what is not as declared; `plan` and `state` are made anew after everything was done.

    A part that waits for a reboot is reported only with the reboot.
    """
    wrong = [f"not as planned: {line}" for line in plan.changes]
    if not plan.reboot:
        wrong += _driver(declared, state)
        wrong += _fabric(declared, state, sku)
        if declared.mig and state.mig_as_declared is not True:
            wrong.append(f"MIG geometry is not {declared.mig.config}: `nvidia-mig-parted assert` does not say so")
        if declared.gpu_direct == "peermem" and "nvidia_peermem" not in state.modules:
            wrong.append("module nvidia_peermem is not loaded")
    return Converged(wrong=tuple(dict.fromkeys(wrong)), reboot=plan.reboot)


def _driver(declared: Declaration, state: HostState) -> Iterator[str]:
    driver = declared.driver
    if driver is None:
        return
    for what, version in (("module", state.loaded_driver), ("library", state.library_driver)):
        if version != driver.version:
            yield f"{what} of the driver is {version or 'not there'}, declared is {driver.version}"
    if other_modules(declared, state):
        yield f"the {state.loaded_modules} modules of the driver are loaded, {driver.modules} is declared"


def _fabric(declared: Declaration, state: HostState, sku: Sku | None) -> Iterator[str]:
    if "fabric-manager" not in nvlink_parts(declared, services_of(sku), state.architecture):
        return
    without = sku is not None and (sku.nvlink_generation or _FABRIC_STATE_GENERATION) < _FABRIC_STATE_GENERATION
    if without:
        return
    if not state.fabric_states:
        yield "fabric state of the GPUs was not seen: `nvidia-smi --query-gpu=fabric.state --format=csv,noheader`"
    elif {text.lower() for text in state.fabric_states} != {"completed"}:
        yield f"fabric state of the GPUs is {', '.join(sorted(set(state.fabric_states)))}, expected Completed on all"


# What the package manager would do beyond a plan, from its own simulation before anything is touched.

# Packages that contain a kernel; EL has it in several page sizes, Oracle has its own.
_KERNELS = re.compile(r"linux-image-|kernel-default$|kernel(-rt|-64k|-64k-rt|-uek)?(-debug)?-(core|modules-core)$")


def simulation_problems(plan: HostPlan, state: HostState) -> list[BringupError]:
    """Return what the package manager would do beyond the plan. A missing simulation is a problem as well."""
    if not any(one.packages for one in plan.transactions):
        return []
    simulated = state.simulation
    fix = "see what the repositories of the host offer, `apt-get -s install` or `dnf --assumeno install` shows it"
    if simulated is None or simulated.error:
        reported = simulated.error if simulated else "it was not asked"
        return [InputError("simulation of the packages", f"the package manager refuses: {reported}", fix)]
    may_remove = {name for one in plan.transactions for name in one.may_remove}
    moved = {package.name: package.version for one in plan.transactions for package in one.packages}
    found: list[BringupError] = list(_headers_missing(plan, simulated.install, state))
    for name in simulated.remove:
        if name not in may_remove and name not in simulated.install:
            found.append(InputError(f"package {name}", "would be removed by the transaction.", fix))
    for name, version in simulated.install.items():
        if moved.get(name) and version != moved[name]:
            reason = f"would become {version}, {moved[name]} is planned."
            found.append(InputError(f"package {name}", reason, fix))
        if _KERNELS.match(name):
            found.append(
                InputError(f"package {name}", "would change the kernel.", "change the kernel on its own first")
            )
    return found


def _headers_missing(plan: HostPlan, brings: Mapping[str, str], state: HostState) -> Iterator[BringupError]:
    """Yield a problem where the headers of the running kernel are missing, without which DKMS cannot build.

    A package manager may bring the headers of the newest kernel instead.
    """
    # 5.14.0-570.el9.aarch64+64k comes from kernel-64k-devel 5.14.0-570.el9.
    release = state.kernel.partition(f".{state.architecture}")[0]
    fitting = {name for name, version in brings.items() if name.endswith("-devel") and version.endswith(f":{release}")}
    if not plan.needs_headers or fitting or f"linux-headers-{state.kernel}" in brings:
        return
    where = f"are not there (/lib/modules/{state.kernel}/build), and nothing brings them"
    command = f"apt-get install linux-headers-{state.kernel}"
    if state.family == "redhat":
        command = f"dnf install 'kernel-devel-uname-r == {state.kernel}'"
    fix = f"`{command}`, or start the host with a kernel whose headers it has"
    yield InputError(f"headers of kernel {state.kernel}", f"{where}: DKMS cannot build {plan.needs_headers}.", fix)


def convergence_step(options: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the result of module `node_plan_info`.

    Raises:
        BringupError: the declaration is wrong, a part has two owners, packages are not whole, or the package manager
            would do more than was planned.
    """
    declared = read_declaration(options["declaration"], f"{VARIABLE} of {host}")
    state = read_state(options["state"], host)
    sku = _sku(options["sku"], options["recipe_data"], host)
    if options["step"] == "ask":
        requested = to_plain(question(declared, state, sku))
        return {"ask": {**requested, "mig_config": declared.mig.config if declared.mig else ""}}
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


def _planned(
    declared: Declaration, state: HostState, sku: Sku | None, options: Mapping[str, Any], host: str
) -> HostPlan:
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
    """Return a package with its version in the syntax of the package manager."""
    if not package.version:
        return package.name
    return f"{package.name}={package.version}" if family == "debian" else f"{package.name}-{package.version}"


def _simulation(plan: HostPlan, state: HostState) -> dict[str, Any]:
    packages = [package for one in plan.transactions for package in one.packages]
    return {
        "simulate": [spec_of(package, state.family) for package in packages],
        "preferences": plan.preferences,
        "stream": next((one.stream for one in plan.transactions if one.stream), ""),
    }


def _for_tasks(plan: HostPlan, state: HostState) -> dict[str, Any]:
    """Return the plan for the tasks, with packages in the syntax of the package manager."""
    data: dict[str, Any] = to_plain(plan)
    for plain, one in zip(data["transactions"], plan.transactions, strict=True):
        plain["specs"] = [spec_of(package, state.family) for package in one.packages]
    return data
