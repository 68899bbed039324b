# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bounds of a recipe, judged by the gates of a bring-up from what they measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from figure_rows import GATE, SITE, context, fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.gate import ComparedGate, compare_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.sections import PHASE_CONSTRAINTS

CHECK = "fabric-recipe-bounds"
CAPABLE = replace(SITE, capabilities=(*SITE.capabilities, PHASE_CONSTRAINTS))


def compared(outcomes: tuple[Outcome, ...], *entries: dict[str, Any], **more: Any) -> ComparedGate:
    stated = {"validation": {"performance": {"constraints": list(entries)}}}
    return compare_gate(GATE, outcomes, context(None, **{"site": CAPABLE, "recipe": stated, **more}))


def bound(value: str, name: str = "nccl-all-reduce-bw") -> dict[str, Any]:
    return {"name": name, "value": value}


def own(found: ComparedGate) -> list[Outcome]:
    return [outcome for outcome in found.outcomes if outcome.check == CHECK]


def test_a_bound_that_is_kept_passes_and_one_that_is_not_fails_the_gate() -> None:
    (kept,) = own(compared(fleet(), bound(">= 300")))
    assert kept.status is Status.PASSED and "390" in kept.summary
    found = compared(fleet(), bound(">= 400"))
    (missed,) = own(found)
    assert (missed.status, missed.cause) == (Status.FAILED, "constraint-not-met")
    # The gate is not passed without its answer.
    assert CHECK in found.declared


def reason(found: ComparedGate) -> str:
    assert not own(found)
    return {entry.id: entry.reason for entry in found.not_declared}[CHECK]


def test_where_there_is_nothing_to_compare_it_is_told_and_holds_nothing() -> None:
    assert "states no bound" in reason(compared(fleet()))
    assert "states no bound" in reason(compared(fleet(), bound(">= 1", "inference-throughput")))
    assert "states no bound" in reason(compared(fleet(), bound(">= 400"), site=SITE))
    alone = tuple(outcome for outcome in fleet() if outcome.check != "nccl-all-nodes-bw")
    assert "nccl-all-nodes-bw is not asked at this site" in reason(compared(alone, bound(">= 400")))


def test_a_bound_that_was_not_measured_is_no_pass() -> None:
    silent = tuple(replace(outcome, measured=()) for outcome in fleet())
    (outcome,) = own(compared(silent, bound(">= 300")))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "constraint-unmeasured")
