# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Playbook facility_record as a user runs it: draft from the example inventory, complete, sign, be judged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility import observe_facility_record
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.facility_signature import judge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.signature.ssh_keygen import make_key
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome

ROOT = Path(__file__).resolve().parents[2]
SIGNER = "facility@example.org"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    copy = tmp_path / "inventory"
    shutil.copytree(ROOT / "inventories" / "example", copy)
    (copy / "facility" / "record.yaml").unlink()
    public = make_key(copy / "key", SIGNER)
    (copy / "facility" / "allowed_signers").write_text(f"{SIGNER} {public}\n", encoding="utf-8")
    return copy


def _play(inventory: Path, *variables: str) -> subprocess.CompletedProcess[str]:
    extra = [word for variable in variables for word in ("-e", variable)]
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory / "hosts.yml"), *extra]
    return subprocess.run(
        [*command, "playbooks/facility_record.yml"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(inventory / "tmp"), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
    )  # fmt: skip


def _judged(inventory: Path) -> Outcome:
    folder = inventory / "facility"
    settings: dict[str, Any] = {
        "record": str(folder / "record.yaml"),
        "allowed_signers": str(folder / "allowed_signers"),
        "identity": SIGNER,
    }
    site = make_site(name="example", settings={"facility": settings})
    today = datetime.now(UTC).date()
    data = observe_facility_record.observe(ObserveContext(site=site, run_dir=inventory, today=today))
    value = observe_facility_record.restore(data, inventory, site)
    return judge(value, JudgeContext(gate="facility", site=site, today=today))[0]


def test_draft_complete_sign(inventory: Path) -> None:
    signers = inventory / "facility" / "allowed_signers"
    kept = signers.rename(inventory / "kept")
    drafted = _play(inventory, f"gpufleet_facility_record_signed_by={SIGNER}")
    assert drafted.returncode == 0, drafted.stdout + drafted.stderr
    record = inventory / "facility" / "record.yaml"
    text = record.read_text(encoding="utf-8")
    # How to sign it is the last that is printed, once.
    sign = f"ssh-keygen -Y sign -f KEY -n gpufleet-facility {record}"
    end = drafted.stdout[drafted.stdout.index("PLAY RECAP") :]
    assert f"do: complete it, then sign it: {sign}" in end and drafted.stdout.count(sign) == 1, drafted.stdout
    assert f"do: list who may sign, one line each: `{SIGNER} namespaces=" in end and f", in {signers}" in end, end
    kept.rename(signers)
    # What stands beside the hosts is in the inventory's settings, and the gate demands it, too.
    assert text.count("# hosts draw 4 x dgx-h100 at 10.2 kW + 3.5 kW beside the hosts = 44.3 kW") == 2
    again = _play(inventory, f"facility_record_signed_by={SIGNER}")
    assert again.returncode != 0
    assert "is already there" in again.stdout + again.stderr
    assert _judged(inventory).cause == "signature-missing"

    record.write_text(re.sub(r": null$", ": 500", text, flags=re.MULTILINE), encoding="utf-8")
    signed = _play(inventory, f"gpufleet_facility_record_key={inventory / 'key'}")
    assert signed.returncode == 0, signed.stdout + signed.stderr
    assert _judged(inventory).status.value == "passed"
