# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The four phases of a validation: their order and the gates of their checks; and burn-in, a phase of its own."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import InputError

READINESS, DEPLOYMENT, CONFORMANCE, PERFORMANCE = "readiness", "deployment", "conformance", "performance"
BURN_IN = "burn_in"
ALL = "all"
PHASES = (READINESS, DEPLOYMENT, CONFORMANCE, PERFORMANCE)
# Readiness comes before the first gate that changes a cluster, so its checks are in no gate.
PHASE_GATES: dict[str, tuple[str, ...]] = {
    READINESS: (READINESS,),
    DEPLOYMENT: ("gpu_stack",),
    CONFORMANCE: ("gpu_stack", "telemetry"),
    PERFORMANCE: ("fabric_validation", "training_acceptance", "inference_acceptance"),
    # Hours of load, which no validation asks for by the way.
    BURN_IN: (BURN_IN,),
}
# The phase of a check that does not say its own.
GATE_PHASE = {
    READINESS: READINESS,
    "gpu_stack": DEPLOYMENT,
    "telemetry": CONFORMANCE,
    **dict.fromkeys(PHASE_GATES[PERFORMANCE], PERFORMANCE),
    BURN_IN: BURN_IN,
}


def asked_phases(names: Sequence[str]) -> tuple[str, ...]:
    """Return the phases of a validation in their order: those that are named, or all; readiness always comes first.

    `all` is upstream's word for every phase.

    Raises:
        InputError: one is none.
    """
    unknown = [name for name in names if name not in (*PHASES, ALL)]
    if unknown:
        there = ", ".join((*PHASES, ALL))
        raise InputError(f"phase {unknown[0]!r}", f"is none; there are {there}.", "correct gpufleet_phases")
    return tuple(phase for phase in PHASES if not names or ALL in names or phase in names or phase == READINESS)
