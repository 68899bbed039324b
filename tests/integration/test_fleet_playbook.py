# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook fleet over clusters in three rings: a healthy one, a bad one and one that does not answer, the rest."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster_files import write_fleet
from first_commands import ROOT, Said, play
from signed_record import sign_record
from waiting import eventually

CLUSTERS = (
    ("lab1", "lab", "facility"),
    ("can-2", "canary", "facility"),
    ("can-3", "canary", "nodes"),
    ("prod4", "", "facility"),
)
CRASHES = ("Traceback", "this is a defect", "is undefined", "Unexpected failure")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A directory with the source of the inventory; each cluster has an inventory of its own.

    Gate facility needs no cluster: one record is signed, one is not. The hosts of can-3 listen nowhere.
    """
    write_fleet(tmp_path, {})
    for name, ring, gate in CLUSTERS:
        own = tmp_path / "own" / name
        shutil.copytree(ROOT / "inventories/example", own)
        variables = own / "group_vars/all.yml"
        text = variables.read_text("utf-8").replace("gpufleet_site_name: example\n", "")
        variables.write_text(text.replace("gpufleet_minimum_nodes: 7", "gpufleet_minimum_nodes: 1"), "utf-8")
        record = own / "facility/record.yaml"
        record.write_text(record.read_text("utf-8").replace("site: example\n", f"site: {name}\n"), "utf-8")
        lines = [f"name: {name}", f"ring: '{ring}'", f"kubeconfig: {name}.conf", f"inventory: ../own/{name}/hosts.yml"]
        lines += [f"vars: {{gpufleet_gates: {gate}, ansible_host: 127.0.0.1, ansible_port: 1}}"]
        (tmp_path / f"clusters/{name}.yml").write_text("\n".join(lines), "utf-8")
    sign_record(tmp_path / "own/lab1/facility")
    return tmp_path


def run(fleet: Path, *words: str) -> Said:
    said = play(fleet, "fleet", "-i", "clusters.yml", *words, inventory=False)
    assert [word for word in CRASHES if word in said.output] == [], said.output[-4000:]
    return said


def state(fleet: Path) -> dict[str, Any]:
    """The newest run over the fleet."""
    found: dict[str, Any] = json.loads(max((fleet / ".run/fleet").glob("*/fleet.json")).read_text("utf-8"))
    return found


def statuses(fleet: Path) -> dict[str, str]:
    return {name: result["status"] for name, result in state(fleet)["results"].items()}


def runs(fleet: Path, cluster: str) -> int:
    return len([path for path in (fleet / ".run" / cluster).glob("*/run.json") if not path.parent.is_symlink()])


def table(said: Said) -> dict[str, str]:
    """The rows behind the recap, by cluster."""
    end = said.output[said.output.index("PLAY RECAP") :]
    return {
        line.split()[0]: " ".join(line.split())
        for line in end.splitlines()
        if re.match(r"(lab1|can-2|can-3|prod4)  ", line)
    }


def test_killed_in_the_second_ring_and_stopped_by_the_budget_before_the_third(fleet: Path) -> None:
    began = subprocess.Popen(
        [sys.executable, "-m", "ansible", "playbook", "gpufleet.bringup.fleet", "-i", "clusters.yml"],
        cwd=fleet, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PWD": str(fleet), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache")},
    )  # fmt: skip
    try:
        assert eventually(lambda: {"can-2", "can-3"} <= {*state(fleet)["running"]} if _begun(fleet) else False, 200)
    finally:
        began.kill()
        began.wait()
    assert statuses(fleet) == {"lab1": "passed"}
    # The same command goes on, with what has no result. The second ring exceeds the budget, so the third is not begun.
    said = run(fleet)
    assert said.rc != 0 and runs(fleet, "lab1") == 1 and runs(fleet, "prod4") == 0
    assert statuses(fleet) == {"lab1": "passed", "can-2": "failed", "can-3": "other"}
    assert len(list((fleet / ".run/fleet").glob("*/fleet.json"))) == 1
    rows = table(said)
    assert rows["lab1"].startswith("lab1 lab passed 1 of 1 passed for facility")
    assert rows["can-2"].startswith("can-2 canary failed 0 of 1 ") and "facility-signature" in rows["can-2"]
    assert rows["can-3"].startswith("can-3 canary other ") and rows["prod4"] == "prod4 rest - - not begun"
    assert "1 not begun: prod4; 2 clusters not passed, and the budget between rings is 0" in said.output
    assert "again: " in said.output and "-e gpufleet_fleet_resume=failed" in said.output.splitlines()[-1]


def _begun(fleet: Path) -> bool:
    return any((fleet / ".run/fleet").glob("*/fleet.json"))


def test_a_plan_shows_the_rings_and_starts_nothing(fleet: Path) -> None:
    said = run(fleet, "--check", "-e", "gpufleet_fleet_rings=rest,lab")
    assert said.rc == 0 and not (fleet / ".run").exists()
    end = said.output[said.output.index("PLAY RECAP") :]
    assert "ring rest: can-2, can-3, prod4\nring lab: lab1\n" in end and "CHECK MODE: site would be run" in end


@pytest.mark.drawn(2, of="calls of a fleet that are refused")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-e", "gpufleet_fleet_play=sit"), "did you mean"),
        (("-e", "gpufleet_fleet_clusters=lab2"), "is no cluster, ring or group with one. Fix: did you mean"),
        (("-e", "gpufleet_fleet_rings=labs,canary"), "gpufleet_fleet_rings labs: is the ring of no cluster. Fix: did"),
        (("--limit", "lab1"), "--limit lab1"),
        (("--limit", "lab1,localhost"), "does not choose clusters"),
        (("-e", "gpufleet_fleet_budget=-1"), "gpufleet_fleet_budget: is -1, expected 0 or more."),
        (("-e", "gpufleet_fleet_concurency=2"), "did you mean gpufleet_fleet_concurrency"),
    ],
)
def test_a_wrong_call_begins_nothing(fleet: Path, words: tuple[str, ...], told: str) -> None:
    said = run(fleet, *words)
    assert said.rc != 0 and told in said.output, said.output[-3000:]
    assert not (fleet / ".run").exists()


def test_an_inventory_that_cannot_be_read_is_no_fleet(fleet: Path) -> None:
    (fleet / "clusters/bad.yml").write_text("rnig: x\n", "utf-8")
    said = run(fleet)
    assert said.rc != 0
    # Whole, as the last lines, and not in a warning far above alone.
    end = said.output[said.output.rindex("PLAY RECAP") :]
    assert "clusters/bad.yml:1: rnig: unknown key. Fix: did you mean 'ring'?" in end, said.output[-3000:]
