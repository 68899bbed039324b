# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An inventory with a server, adapter names and a recipe layer of its own is rehearsed as it is stated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rehearsal_harness import ROOT, Rehearsed, left_behind, rehearse

pytestmark = pytest.mark.drawn(1, of="runs from elsewhere", whole=True)

INVENTORY = ROOT / "tests" / "data" / "own_site" / "hosts.yml"
ADAPTERS = ("mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_8", "mlx5_9", "mlx5_10", "mlx5_11")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    """One run of all gates but the last two on the inventory."""
    return rehearse(
        tmp_path_factory.mktemp("own"),
        inventory=INVENTORY,
        gates=["facility", "fabric", "nodes", "gpu_stack", "telemetry", "fabric_validation"],
        settings={"fabric": {"interval_s": 3}},
    )


def test_a_healthy_site_passes(run: Rehearsed) -> None:
    assert run.rc == 0, run.output[-4000:]
    assert run.record["site"] == "acme" and run.record["quarantined"] == 1
    assert not run.failed()
    assert not left_behind(run.run_dir.parents[1])


def test_the_adapters_are_those_that_the_site_names(run: Rehearsed) -> None:
    records = [path.read_text() for path in (run.run_dir / "observations").rglob("*.json")]
    assert any(all(f'"{name}' in text or f"{name}:" in text for name in ADAPTERS) for text in records)
    named = {name for text in records for name in ("mlx5_0:1", "mlx5_1:1", "mlx5_6:1", "mlx5_7:1") if name in text}
    assert not named


def test_the_recipe_is_that_of_the_site(run: Rehearsed) -> None:
    recipe = json.loads((run.run_dir / "recipe.json").read_text())
    names = {entry["name"] for entry in recipe["componentRefs"]}
    assert "volcano" not in names and "kai-scheduler" in names
    operator = next(entry for entry in recipe["componentRefs"] if entry["name"] == "gpu-operator")
    assert operator["overrides"]["operator"]["logging"]["timeEncoding"] == "iso8601"


def test_output_and_report_say_what_was_replaced(run: Rehearsed) -> None:
    lines = run.record["notes"]
    assert any(f"SKU acme-g8, adapters {', '.join(ADAPTERS)}" in line for line in lines)
    assert any("acme-sm01: simulated by acme01" in line for line in lines)
    assert any("service=rke2" in line and "not used" in line for line in lines)
    assert any(line.endswith("and not fabric.interval_s 3") for line in lines)
    report = (run.run_dir / "report.html").read_text()
    for line in lines:
        assert line in run.output
    assert "adapters mlx5_2" in report and "REHEARSAL" in report


def test_a_fault_is_found_under_the_name_that_the_site_gives(tmp_path: Path) -> None:
    run = rehearse(tmp_path, inventory=INVENTORY, gates=["nodes"], rehearsal_faults=["hca-down@acme02/mlx5_9"])
    ((gate, check, subjects, cause),) = run.failed()
    assert (gate, check, cause) == ("nodes", "hca-state", "hca-down")
    assert "acme02/mlx5_9" in subjects, subjects


def test_the_record_of_the_site_is_judged_if_it_states_one(tmp_path: Path) -> None:
    """The example's record is of other racks and not signed: a rehearsal must say so and not draw another one."""
    facility = tmp_path / "facility"
    shutil.copytree(ROOT / "inventories" / "example" / "facility", facility)
    stated = {
        "facility": {"record": str(facility / "record.yaml"), "allowed_signers": str(facility / "allowed_signers")}
    }
    run = rehearse(tmp_path / "run", inventory=INVENTORY, gates=["facility"], settings=stated)
    assert run.rc != 0 and run.status("facility") == "failed", run.output[-3000:]
    assert any(line.endswith(f"the site's own, {facility / 'record.yaml'}") for line in run.record["notes"])
    assert "signature-missing" in {cause for _gate, _check, _subjects, cause in run.failed()}
