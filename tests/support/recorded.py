# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs with nothing but a recipe, and their gates in a history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import GateVerdict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

SITE = make_site((Host(name="gpu01", sku="h100", node_name="gpu01"),), name="island", gates=("gpu_stack", "telemetry"))


def made(base: Path, name: str, recipe: Mapping[str, Any], site: str = "island", **gates: Status) -> Run:
    """Return a run of that site with that recipe, its gates in `base`/history in the order of the calls."""
    path = base / "runs" / name
    path.mkdir(parents=True)
    (path / "site.json").write_text(dumps(SITE))
    (path / "hardware.json").write_text("{}")
    (path / "recipe.json").write_text(json.dumps(recipe))
    record = new_run(name, site, "2026-11-20T10:00:00Z", SITE.gates, rehearsal=False)
    Run(path).save_record(record)
    for gate, status in gates.items():
        verdict = GateVerdict(gate=gate, status=status, message="as told")
        open_store(base / "history").record_gate(record, verdict, (), SITE)
    return Run(path)
