# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reports of a plan and its results: rows for the module, a diff for people, a file for the gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..outcome.codec import dumps, to_plain
from ..outcome.errors import BringupError
from ..outcome.wording import first_of
from ..runtime.files import write_atomic
from .install import Done
from .model import INSTALL_RESULT, Action, Plan

# States of a component whose chart was applied.
_APPLIED = ("ready", "not-ready", "degraded")
_MOST = 8


def plan_rows(plan: Plan, checked: Mapping[str, str]) -> list[dict[str, str]]:
    """Return one row for each step."""
    return [
        {
            "component": step.component,
            "action": step.action.value,
            "found": step.found_version,
            "wanted": step.wanted_version,
            "reason": f"{step.reason}; {step.hint}" if step.hint else step.reason,
            "checked": checked.get(step.component, ""),
        }
        for step in plan.steps
    ]


def preview_lines(plan: Plan, checked: Mapping[str, str]) -> list[str]:
    """Return one line for each component that would change, and whether the server computed the change."""
    lines = [
        f"would {step.action.value} {step.component} {step.wanted_version} ({checked.get(step.component, 'predicted')})"
        + (f": {step.reason}" if step.reason else "")
        for step in plan.steps
        if step.action.changes
    ]
    alone = [
        f"{step.component}: {step.reason}" for step in plan.steps if step.action is Action.UNCHANGED and step.reason
    ]
    return [*(lines or ["no component would change"]), *alone]


def result_rows(done: Iterable[Done]) -> list[dict[str, Any]]:
    """Return one row for each component."""
    return [{"component": d.component, "state": d.state, "reason": d.reason, "duration_s": d.duration_s} for d in done]


def plan_diff(plan: Plan) -> dict[str, str]:
    """Return the diff for `--diff`: one line for each component, before and after."""
    before = [f"{step.component} {step.found_version or 'absent'}" for step in plan.steps]
    after = [
        f"{step.component} {step.wanted_version}" + (f"  # {step.reason}" if step.reason else "")
        if step.action.changes
        else line
        for step, line in zip(plan.steps, before, strict=True)
    ]
    return {
        "before": "\n".join(before) + "\n",
        "after": "\n".join(after) + "\n",
        "before_header": "releases on the cluster",
        "after_header": "recipe",
    }


def save_results(run_dir: Path, plan: Plan, done: Iterable[Done], helm: str) -> None:
    """Save the results of the components in the run directory, where the gate's observer reads them."""
    data = {"schema_version": 1, "plan": to_plain(plan), "results": to_plain(list(done)), "helm": helm}
    write_atomic(run_dir / INSTALL_RESULT, dumps(data))


def changed(done: Iterable[Done]) -> bool:
    """Tell whether something was changed. Components that are waiting or refused were not touched."""
    return any(entry.action.changes and entry.state not in ("waiting", "refused") for entry in done)


def put_back(plan: Plan, done: Iterable[Done]) -> tuple[str, ...]:
    """Return a note for each component whose changes by hand were undone because the recipe's chart was applied."""
    applied = {entry.component for entry in done if entry.state in _APPLIED}
    return tuple(
        f"{step.component} was changed by hand and is put back as the recipe has it: {first_of(step.by_hand, _MOST)}"
        for step in plan.steps
        if step.by_hand and step.component in applied
    )


def failure(done: Iterable[Done]) -> BringupError | None:
    """Return the error for components that are not ready. None if all are."""
    bad = [entry for entry in done if entry.state not in ("ready", "foreign")]
    if not bad:
        return None
    # A waiting component is a consequence, not the reason.
    first = min(bad, key=lambda entry: entry.state == "waiting")
    texts = tuple(f"{entry.component}: {entry.state}: {entry.reason}" for entry in bad)
    return BringupError(f"component {first.component}", f"{first.state}: {first.reason}.", first.hint, texts)
