# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run would do: per gate its checks, what they disturb, how long they take, and what is not declared."""

from __future__ import annotations

from typing import Any

from ..check.declare import declare
from ..check.registry import checks_of, observer_for
from ..outcome.gates import GATES
from ..runtime.clock import elapsed_text
from ..site.model import Site


def plan_of(site: Site) -> list[dict[str, Any]]:
    """Return one entry per gate: number, id, in scope or not, checks, seconds, what it disturbs, what is left out."""
    return [_entry(gate.number, gate.id, site) for gate in GATES]


def _entry(number: int, gate: str, site: Site) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "number": number,
        "gate": gate,
        "in_scope": gate in site.gates,
        "before_start": gate in site.before_from_gate,
        "checks": [],
        "not_declared": [],
    }
    if gate not in site.gates:
        return entry
    declaration = declare(gate, site)
    ids = {check.id for check in declaration.checks}
    # Several checks judge one observation: its time counts once.
    longest: dict[str, float] = {}
    for check in checks_of(gate, site):
        if check.spec.id in ids:
            key = observer_for(check, gate).key
            longest[key] = max(longest.get(key, 0.0), check.spec.duration_s)
    return entry | {
        "checks": [{"id": c.id, "title": c.title, "disturbs": c.disturbs} for c in declaration.checks],
        "not_declared": [{"id": left.id, "reason": left.reason} for left in declaration.not_declared],
        "duration_s": sum(longest.values()),
        "disturbs": sorted({check.disturbs for check in declaration.checks}),
    }


def plan_lines(plan: list[dict[str, Any]]) -> list[str]:
    """Return the plan for a terminal."""
    lines: list[str] = []
    for entry in plan:
        head = f"{entry['number']}. {entry['gate']}"
        if not entry["in_scope"]:
            lines.append(f"{head}: outside the scope of this run")
            continue
        disturbs = ", ".join(entry["disturbs"]) or "nothing"
        if entry["before_start"]:
            lines.append(f"{head}: not run if earlier passes stand for it, else as follows")
        lines.append(
            f"{head}: {len(entry['checks'])} checks, about {elapsed_text(entry['duration_s'])}; disturbs: {disturbs}"
        )
        lines.extend(f"     {check['id']:22} {check['title']} ({check['disturbs']})" for check in entry["checks"])
        lines.extend(f"     not declared: {left['id']}: {left['reason']}" for left in entry["not_declared"])
    return lines
