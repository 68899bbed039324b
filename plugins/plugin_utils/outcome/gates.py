# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The eight gates, the four phases of a validation and burn-in: their order, their ids and what each one opens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import InputError

# The eight gates: their fixed order, ids and what each one opens.

READINESS, DEPLOYMENT, CONFORMANCE, PERFORMANCE = "readiness", "deployment", "conformance", "performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSpec:
    """One gate. Every list of gates that differ from others follows from it.

    Args:
        number: 1..8.
        id: of its role, tag and CTRF suite.
        depends_on: the gate that must have passed before; empty: none.
        phase: of a validation, for checks that have none of their own; empty: no validation has it.
        loads_hosts: its hosts are read before and after it, and judged by what changed.
        compared_as: its figures are compared with accepted ones and a contract, in checks of this word; empty: not.
    """

    number: int
    id: str
    title: str
    depends_on: str
    phase: str = ""
    loads_hosts: bool = False
    compared_as: str = ""


GATES: tuple[GateSpec, ...] = (
    GateSpec(number=1, id="facility", title="Facility record and budgets", depends_on=""),
    GateSpec(number=2, id="fabric", title="Fabric: subnet manager and links", depends_on="facility"),
    GateSpec(number=3, id="nodes", title="Nodes: GPUs, HCAs, drivers", depends_on="fabric"),
    GateSpec(number=4, id="gpu_stack", title="Kubernetes GPU stack", depends_on="nodes", phase=DEPLOYMENT),
    GateSpec(number=5, id="telemetry", title="Telemetry and alerting", depends_on="gpu_stack", phase=CONFORMANCE),
    GateSpec(
        number=6, id="fabric_validation", title="NCCL fabric validation", depends_on="telemetry",
        phase=PERFORMANCE, loads_hosts=True, compared_as="fabric",
    ),
    GateSpec(
        number=7, id="training_acceptance", title="Training acceptance", depends_on="fabric_validation",
        phase=PERFORMANCE, loads_hosts=True, compared_as="training",
    ),
    # Inference needs the proven fabric, not the trained model.
    GateSpec(
        number=8, id="inference_acceptance", title="Inference acceptance", depends_on="fabric_validation",
        phase=PERFORMANCE, loads_hosts=True, compared_as="inference",
    ),
)  # fmt: skip

GATE_IDS: tuple[str, ...] = tuple(gate.id for gate in GATES)
LOADING_GATES: tuple[str, ...] = tuple(gate.id for gate in GATES if gate.loads_hosts)
COMPARED_GATES: dict[str, str] = {gate.id: gate.compared_as for gate in GATES if gate.compared_as}


def gate_spec(gate_id: str) -> GateSpec:
    """Return the gate of that id.

    Raises:
        InputError: no such gate; the message lists the eight ids.
    """
    for gate in GATES:
        if gate.id == gate_id:
            return gate
    raise InputError(f"gate {gate_id!r}", f"no such gate; there are {', '.join(GATE_IDS)}.", "correct gpufleet_gates")


# The four phases of a validation: their order and the gates of their checks; and burn-in, a phase of its own.

BURN_IN = "burn_in"
ALL = "all"
PHASES = (READINESS, DEPLOYMENT, CONFORMANCE, PERFORMANCE)
# Readiness comes before the first gate that changes a cluster, so its checks are in no gate.
PHASE_GATES: dict[str, tuple[str, ...]] = {
    READINESS: (READINESS,),
    DEPLOYMENT: ("gpu_stack",),
    CONFORMANCE: ("gpu_stack", "telemetry"),
    PERFORMANCE: tuple(gate.id for gate in GATES if gate.phase == PERFORMANCE),
    # Hours of load, which no validation asks for by the way.
    BURN_IN: (BURN_IN,),
}
# The phase of a check that does not say its own.
GATE_PHASE = {
    READINESS: READINESS,
    **{gate.id: gate.phase for gate in GATES if gate.phase},
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
