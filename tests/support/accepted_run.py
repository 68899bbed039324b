# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes of a saved rehearsal the run that a real cluster would have left: what says that it was one is taken out, and
its digests are made again. It is what a forger with all rights can do, and what tests of acceptances need."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run


def as_of_a_real_cluster(run_dir: Path) -> Run:
    """Return the run, in the form of this release (digested.py), as one of real hardware."""
    for path in run_dir.rglob("*.json"):
        text = path.read_text("utf-8")
        path.write_text(text.replace('"rehearsal": true', '"rehearsal": false'), encoding="utf-8")
    cluster = run_dir / "cluster.json"
    told = json.loads(cluster.read_text("utf-8")) | {"simulated_nodes": 0, "rehearsal": False}
    cluster.write_text(json.dumps(told), encoding="utf-8")
    run = Run(run_dir)
    kept = tuple(note for note in run.record.notes if not note.startswith("rehearsal:"))
    command = "ansible-playbook gpufleet.bringup.site -i inventory.yml"
    run.save_record(replace(run.record, rehearsal=False, notes=kept, command=command, kept_command=""))
    return Run(run_dir)
