# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a host is as declared: what is loaded, installed and running, not what a task said that it changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..hardware.sku import Sku
from .declaration import Declaration
from .nvlink import nvlink_parts, services_of
from .plan import Plan
from .reboot import other_modules
from .state import HostState

# A100 has no such state (nvidia-smi prints N/A); from the fourth NVLink generation on it has to be there.
_FABRIC_STATE_GENERATION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Converged:
    """What became of a host: `wrong` is not as declared, `reboot` says why it only will be after a reboot."""

    wrong: tuple[str, ...]
    reboot: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether the host is as declared, now."""
        return not self.wrong and not self.reboot


def converged(declared: Declaration, plan: Plan, state: HostState, sku: Sku | None) -> Converged:
    """Return what is not as declared; `plan` and `state` are made anew after everything was done.

    A part that waits for a reboot is told by the reboot alone.
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
