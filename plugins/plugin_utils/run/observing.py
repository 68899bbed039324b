# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Running the observers of a gate, each once, with progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..check.declare import Declaration
from ..check.observation import Observation, observe
from ..check.registry import AnyObserver, checks_of, observer_for
from ..check.spec import DRIVER_GATE, Disturbance, ObserveContext
from ..outcome.errors import BringupError
from ..runtime.progress import Progress
from ..runtime.time_limit import time_limit
from ..site.model import Site

_LONGER = (
    "see what it waited for in the progress lines; the recipe's validation section states the time that a phase has"
)


def disturbs_cluster(declaration: Declaration, site: Site) -> bool:
    """Tell whether a declared check of the gate makes test pods, or loads GPUs in pods that are there."""
    if "kubernetes" not in site.capabilities:
        return False
    return any(check.disturbs == Disturbance.TEST_PODS.value for check in declaration.checks) or (
        declaration.gate == DRIVER_GATE
    )


def observe_gate(
    declaration: Declaration,
    context: ObserveContext,
    *,
    check_mode: bool,
    refused: BringupError | None = None,
    limit_s: Callable[[AnyObserver], float] | None = None,
) -> list[Observation]:
    """Let every observer that a declared check needs look once, and return what was saved.

    With `refused` nobody looks: that is why nothing could be seen. `limit_s` gives the seconds that an observer may
    take, 0 for no limit; what does not end in time is saved as such.
    """
    progress = Progress(context.emit)
    context = replace(context, check_mode=check_mode)
    seen = []
    for observer, disturbs in _needed(declaration, context):
        progress.say(f"{declaration.gate}: looking at {observer.key}")
        problem = refused or (_check_mode(observer) if check_mode and disturbs else None)
        chosen = _refusing(observer, problem) if problem else _limited(observer, limit_s(observer) if limit_s else 0.0)
        entry = observe(chosen, declaration.gate, context)
        if entry.error is not None:
            progress.say(f"{declaration.gate}: {observer.key} could not be seen: {entry.error['reason']}")
        seen.append(entry)
    return seen


def _needed(declaration: Declaration, context: ObserveContext) -> list[tuple[AnyObserver, bool]]:
    declared = {check.id for check in declaration.checks}
    needed: dict[str, tuple[AnyObserver, bool]] = {}
    for check in checks_of(declaration.gate, context.site):
        if check.spec.id in declared:
            observer = observer_for(check, declaration.gate)
            pods = check.spec.disturbs is Disturbance.TEST_PODS or needed.get(observer.key, (observer, False))[1]
            needed[observer.key] = (observer, pods)
    return list(needed.values())


def _check_mode(observer: AnyObserver) -> BringupError:
    return BringupError(f"observer {observer.key}", "makes test pods, and this is check mode.", "run without --check")


def _limited(observer: AnyObserver, limit_s: float) -> AnyObserver:
    if not limit_s:
        return observer

    def look(context: ObserveContext) -> Any:
        with time_limit(f"observer {observer.key}", limit_s, _LONGER):
            return observer.observe(context)

    return replace(observer, observe=look)


def _refusing(observer: AnyObserver, problem: BringupError) -> AnyObserver:
    def refuse(_context: ObserveContext) -> None:
        raise problem

    return replace(observer, observe=refuse)
