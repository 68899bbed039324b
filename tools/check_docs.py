# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/reference/checks.md, the table of all checks, from their specifications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import CheckSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import (
    BURN_IN,
    GATE_PHASE,
    GATES,
    READINESS,
)

_HEAD = """<!--
SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
SPDX-License-Identifier: GPL-3.0-or-later
-->
<!-- Generated from the checks (make reference). -->
# Checks

Every check of every gate: what it proves, about what, and the causes with which it fails. A check that needs
the driver belongs to gate gpu_stack where `gpufleet_driver_owner` is `operator`. A check is declared only where
the site has what it requires (`recipes/site_profiles.yaml` and the inventory); the report names those that are
not. What is not known is `other` with a cause of its own, and never passes.
"""


def page(specs: Sequence[CheckSpec]) -> str:
    """Return the page, in the order of the gates."""
    gates = "".join(line for gate in GATES for line in _gate(f"{gate.number}. {gate.id}", gate.id, gate.id, specs))
    readiness = "".join(_gate("Before gate 4: readiness", READINESS, "validate", specs))
    return _HEAD + gates + readiness + "".join(_gate("Hours of load: burn-in", BURN_IN, "burn_in", specs))


def _gate(title: str, gate: str, guide: str, specs: Sequence[CheckSpec]) -> Iterator[str]:
    own = [spec for spec in specs if spec.gate == gate]
    yield f"\n## {title}\n\nGuide: [{guide}.md](../{guide}.md)\n\n"
    columns = ("check", "phase", "proves", "of each", "disturbs", "driver", "requires", "fails with")
    yield f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"
    for spec in own:
        causes = ", ".join(f"`{cause}`" for cause in spec.causes)
        driver = "yes" if spec.needs_driver else ""
        phase = spec.phase or GATE_PHASE.get(spec.gate, "")
        requires = ", ".join(word.replace("|", " or ") for word in spec.requires)
        yield (
            f"| `{spec.id}` | {phase} | {spec.title} | {spec.per.value} | {spec.disturbs.value} | {driver} "
            f"| {requires} | {causes} |\n"
        )
