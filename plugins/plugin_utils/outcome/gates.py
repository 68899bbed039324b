# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The eight gates: their fixed order, ids and what each one opens."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSpec:
    """One gate: `number` 1..8, `id` (role, tag and CTRF suite), `title`, and the gate that must have passed before."""

    number: int
    id: str
    title: str
    depends_on: str


GATES: tuple[GateSpec, ...] = (
    GateSpec(number=1, id="facility", title="Facility record and budgets", depends_on=""),
    GateSpec(number=2, id="fabric", title="Fabric: subnet manager and links", depends_on="facility"),
    GateSpec(number=3, id="nodes", title="Nodes: GPUs, HCAs, drivers", depends_on="fabric"),
    GateSpec(number=4, id="gpu_stack", title="Kubernetes GPU stack", depends_on="nodes"),
    GateSpec(number=5, id="telemetry", title="Telemetry and alerting", depends_on="gpu_stack"),
    GateSpec(number=6, id="fabric_validation", title="NCCL fabric validation", depends_on="telemetry"),
    GateSpec(number=7, id="training_acceptance", title="Training acceptance", depends_on="fabric_validation"),
    # Inference needs the proven fabric, not the trained model.
    GateSpec(number=8, id="inference_acceptance", title="Inference acceptance", depends_on="fabric_validation"),
)

GATE_IDS: tuple[str, ...] = tuple(gate.id for gate in GATES)


def gate_spec(gate_id: str) -> GateSpec:
    """Return the gate of that id.

    Raises:
        InputError: no such gate; the message lists the eight ids.
    """
    for gate in GATES:
        if gate.id == gate_id:
            return gate
    raise InputError(f"gate {gate_id!r}", f"no such gate; there are {', '.join(GATE_IDS)}.", "correct gpufleet_gates")
