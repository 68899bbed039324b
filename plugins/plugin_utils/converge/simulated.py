# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the package manager would do beyond a plan, as it says itself before anything is touched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..outcome.errors import BringupError, InputError
from .plan import Plan
from .state import HostState

# Packages that bring a kernel; EL has it in several page sizes, Oracle its own.
_KERNELS = re.compile(r"linux-image-|kernel-default$|kernel(-rt|-64k|-64k-rt|-uek)?(-debug)?-(core|modules-core)$")


def simulation_problems(plan: Plan, state: HostState) -> list[BringupError]:
    """Return what the package manager would do beyond the plan; nothing simulated is a problem of its own."""
    if not any(one.packages for one in plan.transactions):
        return []
    simulated = state.simulation
    fix = "see what the repositories of the host offer, `apt-get -s install` or `dnf --assumeno install` shows it"
    if simulated is None or simulated.error:
        said = simulated.error if simulated else "it was not asked"
        return [InputError("simulation of the packages", f"the package manager refuses: {said}", fix)]
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


def _headers_missing(plan: Plan, brings: Mapping[str, str], state: HostState) -> Iterator[BringupError]:
    """DKMS cannot build without the headers of the running kernel; a package manager may bring those of the newest."""
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
