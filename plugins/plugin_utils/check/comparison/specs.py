# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The comparisons of each gate: with the accepted baseline, the contract and the recipe."""

from __future__ import annotations

from ...outcome.gates import COMPARED_GATES
from ...outcome.model import SubjectKind
from ..spec import CheckSpec, Disturbance
from . import against_baseline, contract, recipe_bounds
from .against_baseline import BASELINE_SETTINGS, BaselineSettings, ContractSettings
from .model import Comparison
from .performance_constraints import BOUND_GATES


def _against_baseline(gate: str, word: str) -> Comparison:
    spec = CheckSpec(
        id=f"{word}-baseline",
        gate=gate,
        title="Figures as good as those that were accepted",
        per=SubjectKind.CLUSTER,
        disturbs=Disturbance.NOTHING,
        causes=("regression", "slower-than-baseline"),
        settings=BASELINE_SETTINGS.get(word, BaselineSettings),
    )
    return Comparison(spec, against_baseline.judge)


def _against_contract(gate: str, word: str) -> Comparison:
    spec = CheckSpec(
        id=f"{word}-contract",
        gate=gate,
        title="Figures as a contract demands",
        per=SubjectKind.CLUSTER,
        disturbs=Disturbance.NOTHING,
        causes=("contract-not-kept",),
        settings=ContractSettings,
    )
    return Comparison(spec, contract.judge)


def _against_recipe(gate: str, word: str) -> Comparison:
    spec = CheckSpec(
        id=f"{word}-recipe-bounds",
        gate=gate,
        title="Figures as the recipe demands",
        per=SubjectKind.CLUSTER,
        disturbs=Disturbance.NOTHING,
        causes=("constraint-not-met",),
    )
    return Comparison(spec, recipe_bounds.judge)


COMPARISONS: tuple[Comparison, ...] = (
    *(make(gate, word) for gate, word in COMPARED_GATES.items() for make in (_against_baseline, _against_contract)),
    *(_against_recipe(gate, word) for gate, word in COMPARED_GATES.items() if gate in BOUND_GATES),
)
BASELINE_CHECKS: frozenset[str] = frozenset(f"{word}-baseline" for word in COMPARED_GATES.values())


def baseline_spec(gate: str) -> CheckSpec:
    """Return the specification of the check that compares a gate with its baseline."""
    return next(entry.spec for entry in comparisons_of(gate) if entry.spec.id in BASELINE_CHECKS)


def comparisons_of(gate: str) -> tuple[Comparison, ...]:
    """Return the comparisons of a gate."""
    return tuple(entry for entry in COMPARISONS if entry.spec.gate == gate)
