# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gate inference_acceptance on a kept rehearsal, whose servers can be broken and mended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gate_bench import HARDWARE, GateBench, KeptRehearsal, not_passed
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Change, Fault, read_spec
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import (
    inference_settings,
)

INFERENCE = "inference_acceptance"


class InferenceBench(GateBench):
    """Gate inference_acceptance, with `full` over the real AIPerf."""

    gate, looks = INFERENCE, ("inference",)

    def __init__(self, kept: KeptRehearsal, *, full: bool = False) -> None:
        super().__init__(kept)
        self.full = full

    def site(self, **settings: Any) -> Site:
        healthy = healthy_cluster(replace(read_spec(self.kept.model), faults=()), HARDWARE)
        stated = {**inference_settings(healthy, full=self.full), **settings}
        capabilities = ("kubernetes", "multi_node")
        return make_site(self.kept.hosts(), name="rehearsal", capabilities=capabilities, settings={INFERENCE: stated})

    def recipe_of(self, look: str) -> dict[str, Any] | None:
        """It reads none."""
        return None

    def patched(self, patch: dict[str, Any], *nodes: str, **settings: Any) -> tuple[Outcome, ...]:
        """Look at servers with a change that is in no catalogue."""
        changes = tuple(Change(at=f"node.serving.{name}", set=value) for name, value in patch.items())
        faults = tuple(Fault(id=f"own-{node}", kind="node", subject=node, patch=changes) for node in nodes)
        with self.modelled(replace(read_spec(self.kept.model), faults=faults)):
            return self.observed(**settings)


def inference_findings(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str, str]]:
    """Check, cause, status and server of what is not passed."""
    return [(o.check, o.cause, o.status.value, o.subjects[0].name) for o in not_passed(outcomes)]
