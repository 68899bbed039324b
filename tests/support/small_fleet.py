# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet in small: the playbook of each cluster is a script that leaves a run that was prepared."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cluster_files import write_run

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.app import (
    FleetOptions,
    FleetPlace,
    FleetRequest,
    Ring,
    fleet_lock,
    opened_place,
    run_fleet,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import RunRecord

# A playbook in small: it notes that it ran, and leaves a copy of a run that was prepared.
_PLAY = """
import os, shutil, signal, sys, time
run_dir, saved, seconds, status = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
def end(*_):
    open(os.path.join(run_dir, "ended"), "a").write("x")
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
open(os.path.join(run_dir, "begun"), "a").write("x")
time.sleep(seconds)
if saved:
    shutil.copytree(saved, os.path.join(run_dir, str(time.time_ns())))
sys.exit(status)
"""
OPTIONS = FleetOptions(concurrency=2, budget=0, timeout_s=60)


class Fleet:
    """A directory with prepared runs, and what clusters are asked."""

    def __init__(self, path: Path) -> None:
        self.path, self.base = path, path / "fleet"
        self.asked: dict[str, FleetRequest] = {}
        if (path / "good").exists():
            return
        good = write_run(path / "good", "good", "2026-11-01T10:00:00Z")
        write_run(path / "bad", "bad", "2026-11-01T10:00:00Z", passed=False)
        record = load(RunRecord, good / "run.json")
        bad = record.with_gate(replace(record.gate("nodes"), status=Status.FAILED))
        (path / "bad/run.json").write_text(dumps(bad), "utf-8")

    def cluster(self, name: str, saved: str, seconds: float = 0, status: int = 0, digest: str = "d") -> None:
        """Add a cluster whose playbook leaves that run (`good`, `bad`, or none)."""
        run_dir = self.path / "runs" / name
        run_dir.mkdir(parents=True, exist_ok=True)
        argv = (
            sys.executable,
            "-c",
            _PLAY,
            str(run_dir),
            str(self.path / saved) if saved else "",
            str(seconds),
            str(status),
        )
        self.asked[name] = FleetRequest(cluster=name, argv=argv, env=dict(os.environ), run_dir=run_dir, digest=digest)

    def begun(self, name: str) -> int:
        """How often the playbook of that cluster began."""
        path = self.path / "runs" / name / "begun"
        return path.stat().st_size if path.is_file() else 0

    def run(self, rings: Sequence[Sequence[str]], options: FleetOptions = OPTIONS, how: str = "auto") -> FleetPlace:
        """Run it, rings given by their clusters."""
        found = [Ring(f"r{number}", tuple(names)) for number, names in enumerate(rings)]
        with fleet_lock(self.base, "fleet", silent):
            place, asked = opened_place(self.base, "site", how, self._asked, silent)
            run_fleet(place, found, asked, options, silent)
        return place

    def _asked(self, _place: FleetPlace) -> Mapping[str, FleetRequest]:
        return self.asked
