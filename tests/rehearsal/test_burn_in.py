# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A burn-in of seconds on simulated hosts, one of which has a slow adapter: killed in the middle, and gone on with.

Its rounds load adapters and NVLinks, and end with the diagnostic in the pods of the GPU operator. What each of them
says of hosts that are not well is tested by value (check/node_tests/test_nccl_node.py, check/nodes/test_dcgm_round.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_site import LiveSite, live_site
from rehearsal_harness import left_behind, rehearse
from waiting import eventually

pytestmark = pytest.mark.long("kills, and a cluster of its own; rounds and resuming are unit tests")

SLOW = "gpu02"
SECONDS = 20.0
# DCGM is asked where the operator has it.
OWNER = "operator"
TESTS = ("nccl_loop", "nccl_node")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    work = tmp_path_factory.mktemp("burn-in")
    with live_site(work, 2, (f"adapter-slow@{SLOW}/mlx5_5",)) as site:
        stack = site.run("gpu_stack", driver_owner=OWNER)
        assert stack.rc == 0, stack.output[-3000:]
        yield site
    assert not left_behind(work)


def stated(site: LiveSite) -> dict[str, Any]:
    return {
        "set": [f"burn-in-soak.hours={SECONDS / 3600}", "burn-in-soak.dcgm_level=1", "nccl_node.enabled=true"],
        "burn_in_tests": list(TESTS), "driver_owner": OWNER,
        "burn_in_log_dir": str(site.directory / "logs"), "when_held": "wait", "wait_s": 120,
    }  # fmt: skip


def outcomes(run_dir: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """Status and cause by check and host."""
    suite = json.loads((run_dir / "ctrf" / "burn_in.json").read_text(encoding="utf-8"))
    found = [test["extra"]["outcome"] for test in suite["results"]["tests"]]
    return {(one["check"], one["subjects"][0]["name"]): (one["status"], one["cause"]) for one in found}


def test_a_burn_in_goes_on_after_a_kill_and_names_the_host_that_failed(site: LiveSite) -> None:
    run = site.controller("1-burn", "bastion", playbook="burn_in.yml", **stated(site))
    assert run.await_text("burn-in, round 1", 400), run.said()[-3000:]
    run.end_by("SIGKILL to its workers and its keeper too")
    first = (run.directory / ".run" / "latest").resolve()
    before = json.loads((first / "burn_in.json").read_text(encoding="utf-8"))
    assert before["rounds"] >= 1 and not (first / "ctrf" / "burn_in.json").exists()
    site.let_lease_expire()
    reading = (first / "evidence/load/burn_in/before/gpu01.json").read_bytes()
    done = rehearse(
        site.directory, playbook="burn_in.yml", inventory=site.inventory, burn_in_run=str(first),
        **stated(site),
    )  # fmt: skip
    after = json.loads((first / "burn_in.json").read_text(encoding="utf-8"))
    assert after["results"][: len(before["results"])] == before["results"], done.output[-3000:]
    soaked = sum(entry["seconds"] for entry in after["results"] if entry["host"] == "gpu01")
    assert after["rounds"] > before["rounds"] and soaked >= SECONDS
    ran = {(entry["test"], entry["status"]) for entry in after["results"] if entry["host"] == "gpu01"}
    assert ran == {(test, "passed") for test in (*TESTS, "dcgm")}, after["results"]
    assert (first / "evidence/load/burn_in/before/gpu01.json").read_bytes() == reading
    assert outcomes(first) == {
        # Adapters and NVLinks were at work for these hours, and no test kept the GPUs at their power.
        ("burn-in-soak", "gpu01"): ("other", "gpus-not-loaded"),
        ("burn-in-soak", SLOW): ("failed", "failed-under-load"),
        ("host-state-after-burn-in", "gpu01"): ("passed", ""),
        ("host-state-after-burn-in", SLOW): ("passed", ""),
    }
    # It failed once, and was left alone from then on.
    assert [entry["status"] for entry in after["results"] if entry["host"] == SLOW] == ["failed"]
    assert done.rc != 0 and done.stats["gpufleet_passed"] is False and "slow-adapter" in done.output
    eventually(lambda: not site.tests() and not site.holder(), 60, what=site.tests)
