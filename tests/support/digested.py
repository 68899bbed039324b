# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives a saved run of the first form what this release writes beside it: declared checks, digests, simulated nodes,
today's facts of hardware."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES


def as_of_this_release(run_dir: Path) -> Run:
    """Return the run in the form of this release, as far as its gates were decided."""
    run = Run(run_dir)
    cluster = json.loads((run_dir / "cluster.json").read_text(encoding="utf-8"))
    told = {"simulated_nodes": run.record.nodes, "rehearsal": True} | cluster
    (run_dir / "cluster.json").write_text(json.dumps(told), encoding="utf-8")
    shipped = load_hardware([RECIPES / "hardware"])
    run.save_hardware({name: shipped.get(name, sku) for name, sku in run.hardware.items()})
    for verdict in run.record.gates:
        if verdict.status is not Status.PENDING:
            run.save_declared(verdict.gate, sorted({outcome.check for outcome in run.own_outcomes(verdict.gate)}))
    run.save_record(replace(run.record, schema_version=2))
    return Run(run_dir)
