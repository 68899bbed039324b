# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person or a survey states on the way into a run, as Ansible brings it to preflight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

HOST = {"gpufleet_sku": "h100", "gpufleet_rack": "r1", "ansible_connection": "local"}
SETTINGS = {"facility": {"record": "/nowhere/record.yaml"}, "dcgm-diag": {"level": 3}}

CORE = "ansible_collections.gpufleet.bringup.plugins.plugin_utils"
SERIAL = f"""
from {CORE}.check.nodes.observe_hosts import OBSERVER
from {CORE}.check.spec import Check, CheckSpec
from {CORE}.outcome.model import SubjectKind

SPEC = CheckSpec(id="gpu-serial", gate="nodes", title="Every GPU has a serial number", per=SubjectKind.NODE)


def judge(value: OBSERVER.result, context):
    return ()


CHECK = Check(SPEC, OBSERVER, judge)
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    variables = {"gpufleet_settings": SETTINGS, "gpufleet_gates": ["facility", "nodes"]}
    path.write_text(yaml.safe_dump({"all": {"vars": variables}, "gpu_nodes": {"hosts": {"n1": HOST, "n2": HOST}}}))
    return path


def play(repository: Path, inventory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run site.yml with an inventory and more words."""
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(repository / "playbooks/site.yml")]
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(repository / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"),
        "ANSIBLE_HOME": str(inventory.parent),
        "ANSIBLE_NOCOLOR": "1",
    }
    return subprocess.run(
        [*command, "-i", str(inventory), "-e", f"gpufleet_run_dir={inventory.parent / 'runs'}", *arguments],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_an_extra_variable_is_laid_over_the_settings_of_the_inventory(repository: Path, inventory: Path) -> None:
    own = inventory.parent / "checks" / "nodes" / "gpu_serial.py"
    own.parent.mkdir(parents=True)
    own.write_text(SERIAL, encoding="utf-8")
    stated = {"gpufleet_settings": {"dcgm-diag": {"level": 2}}, "gpufleet_check_dirs": [str(own.parent.parent)]}
    done = play(repository, inventory, "--tags", "plan", "-e", json.dumps(stated))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gpu-serial" in done.stdout, "a check of the site is planned like ours"
    assert "the extra variable gpufleet_settings replaces dcgm-diag.level of the inventory" in done.stdout
    assert "leaves the inventory's facility as they are" in done.stdout
    assert "gpufleet_settings.facility.record is /nowhere/record.yaml, and there is no such file" in done.stdout
    assert not (inventory.parent / "runs").exists()


def test_flat_variables_of_a_survey_reach_the_checked_site(repository: Path, inventory: Path) -> None:
    survey = {
        "gpufleet_gates": "facility,nodes",
        "gpufleet_minimum_nodes": "2",
        "gpufleet_criteria": "service=generic,intent=training",
        "gpufleet_settings": '{"dcgm-diag": {"level": 1}}',
        "gpufleet_set": "dcgm-diag.level=2\nfacility.expiry_warning_days=3",
    }
    done = play(repository, inventory, "-e", json.dumps(survey))
    assert done.returncode != 0 and "Traceback" not in done.stdout + done.stderr
    (path,) = (inventory.parent / "runs").glob("2*/site.json")
    site = json.loads(path.read_text("utf-8"))
    assert (site["gates"], site["minimum_nodes"], site["rehearsal"]) == (["facility", "nodes"], 2, False)
    assert site["criteria"] == {"accelerator": "h100", "service": "generic", "intent": "training"}
    assert site["settings"] == {
        "facility": {"record": "/nowhere/record.yaml", "expiry_warning_days": 3},
        "dcgm-diag": {"level": 2},
    }
    end = done.stdout.rstrip().splitlines()[-2:]
    assert end[0] == "read, not tested: nodes"
    assert end[1].startswith("again: ") and "site.yml -i" in end[1] and "gpufleet_from_gate" not in end[1]


@pytest.mark.drawn(3, of="words that leave out a part")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-e", "gpufleet_settings='quick and dirty'"), "gpufleet_settings: is text, expected a mapping."),
        (
            ("-e", '{"gpufleet_waivers": [{"check": "gpu-census"}]}'),
            "gpufleet_waivers[0]: who: missing. Fix: add who",
        ),
        (("--limit", "n1"), "leaves localhost, n2 out"),
        (("--tags", "plan,nodes"), "asks for a plan and for a run"),
        (("--skip-tags", "facility,nodes"), "--skip-tags facility: would leave out a part in silence."),
        (("--tags", "telemetry", "-e", "gpufleet_gates=facility"), "--tags telemetry: is no tag of this playbook."),
    ],
    ids=["settings", "waiver", "limit", "plan and run", "skipped tags", "other tags"],
)
def test_what_cannot_be_meant_is_refused(
    repository: Path, inventory: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = play(repository, inventory, *arguments)
    assert done.returncode != 0
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_check_mode_goes_through_all_gates_and_decides_none(repository: Path, inventory: Path) -> None:
    secret = {"inference_acceptance": {"env": {"HF_TOKEN": "cAnArY1"}}}
    extra = json.dumps({"gpufleet_settings": secret, "vault_password": "cAnArY2"})
    done = play(repository, inventory, "--check", "-e", extra, "-v")
    said = done.stdout + done.stderr
    # Only a run in which every gate was decided and passed ends with 0.
    assert done.returncode != 0 and "Traceback" not in said
    assert "check mode: facility: not decided" in said and "check mode: nodes: not decided" in said
    assert "check mode: no gate was decided, so nothing is passed" in said
    runs = inventory.parent / "runs"
    assert not (runs / "latest").exists() and not list(runs.rglob("ctrf")) and not list(runs.rglob("*.sqlite*"))
    (run,) = runs.iterdir()
    for name in ("report.html", "report.md"):
        assert "CHECK MODE" in (run / name).read_text("utf-8")
    assert not (run / "metrics.prom").exists()
    record = json.loads((run / "run.json").read_text("utf-8"))
    assert record["check_mode"] and {gate["status"] for gate in record["gates"]} == {"pending"}
    # What a run writes is for its owner, and without the secrets of the inventory.
    files = [path for path in runs.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o077 for path in (run, *files)} == {0}
    assert [path for path in files if b"cAnArY" in path.read_bytes()] == [] and "cAnArY" not in said
