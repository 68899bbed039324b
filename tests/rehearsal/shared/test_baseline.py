# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A baseline end to end: a healthy run is accepted; the next, in which NVLink of every node is slower, fails once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from rehearsal_harness import Rehearsed, rehearse
from shared_site import NODES, SECRETS, SharedSite

GATE = "fabric_validation"
# No check of a single run finds this: the ceiling allows it, and peers agree.
SLOWER = 0.88


def answers(run: Rehearsed) -> list[tuple[str, str, str]]:
    tests = json.loads((run.run_dir / "ctrf" / f"{GATE}.json").read_text())["results"]["tests"]
    found = [test["extra"]["outcome"] for test in tests]
    mine = [outcome for outcome in found if outcome["check"] == "fabric-baseline"]
    return [(outcome["status"], outcome["cause"], outcome["subjects"][0]["name"]) for outcome in mine]


@pytest.mark.drawn(1, of="verbs after an accepted run")
def test_what_every_node_lost_since_the_accepted_run_is_told_once(site: SharedSite, tmp_path: Path) -> None:
    healthy = site.first
    # A history of its own: what is accepted here is no baseline for other tests.
    words = {"store": str(shutil.copy(healthy.run_dir.parent / "history.sqlite", tmp_path))}
    accepted = rehearse(
        tmp_path / "accept", playbook="baseline.yml", run=str(healthy.run_dir), who="Ada", why="ticket 1", **words
    )
    assert accepted.rc == 0 and "accepted by Ada" in accepted.output, accepted.output[-3000:]
    faults = tmp_path / "faults.yaml"
    patch = [{"at": "node.performance.nvlink", "set": SLOWER}]
    names = [f"gpu{number:02}" for number in range(1, NODES + 1)]
    faults.write_text(
        yaml.safe_dump([{"id": "nvlink-tired", "kind": "node", "subject": name, "patch": patch} for name in names])
    )
    with site.broken(str(faults)):
        slow = site.play(tmp_path, gates=["nodes", GATE], **words, **SECRETS)
    assert slow.rc != 0 and slow.status(GATE) == "failed", slow.output[-4000:]
    assert answers(slow) == [("failed", "regression", "rehearsal")]
    assert {finding.check for finding in slow.findings()} == {"fabric-baseline"}
