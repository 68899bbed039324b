# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare the figures of a gate with the bounds in `validation.performance` of the recipe. Pure."""

from __future__ import annotations

from ...outcome.gates import PERFORMANCE
from ...outcome.model import Outcome
from ...recipe.sections import PHASE_CONSTRAINTS
from ..spec import CheckSpec, JudgeContext
from .model import Compared
from .performance_constraints import judge_bounds, stated_bounds, unasked


def judge(spec: CheckSpec, outcomes: tuple[Outcome, ...], context: JudgeContext) -> Compared:
    """Return whether the figures of the gate keep the recipe's bounds.

    The comparison does not apply where the recipe has no such bound, or where the checks that measure it do not run at
    this site.
    """
    bounds = stated_bounds(context.recipe, PERFORMANCE, context.gate)
    if PHASE_CONSTRAINTS not in context.site.capabilities or not bounds:
        return Compared(reason="the recipe states no bound of this gate below validation.performance.constraints")
    missing = unasked(bounds, {outcome.check for outcome in outcomes})
    kept = tuple(bound for bound in bounds if not unasked([bound], {outcome.check for outcome in outcomes}))
    if missing and not kept:
        named = ", ".join(bound.name for bound in bounds)
        return Compared(reason=f"{', '.join(missing)} is not asked at this site, and measures {named} of the recipe")
    return Compared(outcomes=judge_bounds(kept, outcomes, context.site.name, context.gate, spec.id))
