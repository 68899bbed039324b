# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory of a rehearsal, read back by Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.inventory_values import (
    AsWritten,
    StatedInventory,
    plain,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.inventory import (
    note_faults,
    write_inventory,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import (
    INVENTORY_FILE,
    Rehearsal,
    RehearsalRequest,
    kept_lines,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import StatedSite


def written(tmp_path: Path, stated: StatedInventory, *others: str) -> dict[str, Any]:
    """Write the inventory and return what Ansible makes of it, by host."""
    request = RehearsalRequest(
        directory=tmp_path, cache=tmp_path, collection=tmp_path, nodes=numbered_nodes(2, "h100"), site_name="north",
        site=StatedSite(default_criteria={"service": "generic"}, other_hosts=others), inventory=stated,
    )  # fmt: skip
    rehearsal = Rehearsal(
        directory=tmp_path, kubeconfig=tmp_path / "admin.kubeconfig", chart_mirror=tmp_path / "charts",
        nodes=(*request.nodes, replace(request.nodes[0], name="stranger", outside=True)),
        programs={"helm": "/bin/helm"}, version="v1", settings={"fabric": {"interval_s": 2}},
        notes=("rehearsal: hosts: 2 simulated",), bmcs={"gpu01": "https://127.0.0.1:1"},
    )  # fmt: skip
    path = write_inventory(request, rehearsal)
    assert path.stat().st_mode & 0o777 == 0o600
    program = [sys.executable, "-m", "ansible", "inventory", "-i", str(path), "--list"]
    environment = {**os.environ, "ANSIBLE_HOME": str(tmp_path / "ansible")}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found["_meta"]["hostvars"], "groups": {name: group.get("hosts") for name, group in found.items()}}


def test_every_host_is_simulated_and_has_all_that_a_playbook_needs(tmp_path: Path) -> None:
    found = written(tmp_path, StatedInventory(groups={"managers": ["ufm1"]}), "ufm1")
    assert found["groups"]["gpu_nodes"] == ["gpu01", "gpu02"] and found["groups"]["managers"] == ["ufm1"]
    assert {name: found[name]["ansible_connection"] for name in ("gpu01", "gpu02", "ufm1", "localhost")} == {
        "gpu01": "gpufleet.rehearsal.rehearsal", "gpu02": "gpufleet.rehearsal.rehearsal",
        "ufm1": "gpufleet.rehearsal.rehearsal", "localhost": "local",
    }  # fmt: skip
    assert found["ufm1"]["gpufleet_rehearsal_host"] == "gpu01"
    first = found["gpu01"]
    assert first["gpufleet_bmc"] == "https://127.0.0.1:1" and "gpufleet_bmc" not in found["gpu02"]
    assert (first["gpufleet_sku"], first["gpufleet_rack"], first["gpufleet_node_name"]) == ("h100", "rack-a1", "gpu01")
    assert first["ansible_python_interpreter"] == sys.executable
    assert found["localhost"]["gpufleet_kubeconfig"] == str(tmp_path / "admin.kubeconfig")
    assert found["localhost"]["gpufleet_forced_settings"] == {"fabric": {"interval_s": 2}}
    assert found["localhost"]["gpufleet_default_criteria"] == {"service": "generic"}
    assert found["localhost"]["gpufleet_site_name"] == "north"


def test_what_the_site_states_comes_along_and_cannot_reach_a_machine(tmp_path: Path) -> None:
    everywhere = {
        "gpufleet_waivers": [{"check": "gpu-hot", "until": "2026-12-01"}],
        "gpufleet_overrides": {"a": {"text": "{{ .Values.literal }}"}},
        "gpufleet_set": AsWritten("{{ ['gpu-hot.level=' ~ 3] }}"),
        "gpufleet_kubeconfig": "/home/somebody/.kube/config",
        "gpufleet_site_name": "of-the-inventory",
    }
    own = {"gpu01": {"gpufleet_converge": {"driver": "580"}, "gpufleet_sku": "other"}}
    found = written(tmp_path, StatedInventory(everywhere=everywhere, hosts=own))
    first = found["gpu01"]
    assert first["gpufleet_waivers"] == everywhere["gpufleet_waivers"]
    assert first["gpufleet_converge"] == {"driver": "580"} and first["gpufleet_sku"] == "h100"
    assert found["localhost"]["gpufleet_kubeconfig"] == str(tmp_path / "admin.kubeconfig")
    assert "gpufleet_kubeconfig" not in first
    text = (tmp_path / "inventory.yml").read_text(encoding="utf-8")
    assert "!unsafe '{{ .Values.literal }}'" in text and "gpufleet_set: '{{ [''gpu-hot.level='' ~ 3] }}'" in text


def test_group_variables_beside_a_copy_reach_no_machine(tmp_path: Path) -> None:
    beside = tmp_path / "group_vars" / "all.yml"
    beside.parent.mkdir()
    beside.write_text("ansible_connection: ssh\ngpufleet_kubeconfig: /real\nansible_python_interpreter: /real\n")
    found = written(tmp_path, StatedInventory(), "ufm1")
    assert {found[name]["ansible_connection"] for name in ("gpu01", "gpu02", "ufm1")} == {
        "gpufleet.rehearsal.rehearsal"
    }
    assert found["localhost"]["ansible_connection"] == "local"
    assert found["localhost"]["gpufleet_kubeconfig"] == str(tmp_path / "admin.kubeconfig")


def test_the_note_about_faults_is_of_those_that_are_set(tmp_path: Path) -> None:
    written(tmp_path, StatedInventory(everywhere={"mine": "a"}))
    path = tmp_path / INVENTORY_FILE
    healthy = path.read_text(encoding="utf-8")
    # More than a line of the file holds, a quote among it.
    many = tuple(f"gpu-missing@gpu0{number}/gpu'{number}" for number in range(9))
    seen = []
    for faults in (many, many[:1], many[1:3], ()):
        note_faults(tmp_path, faults)
        seen.append(yaml.safe_load(path.read_text(encoding="utf-8"))["all"]["hosts"]["localhost"]["gpufleet_notes"])
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text(encoding="utf-8")), sort_keys=False, width=119))
    usual = "rehearsal: hosts: 2 simulated"
    notes = [f"faults of this rehearsal: {', '.join(faults)}" for faults in (many, many[:1], many[1:3])]
    assert seen == [*([note, usual] for note in notes), [usual]]
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == yaml.safe_load(healthy)


def test_values_are_plain() -> None:
    class Text(str):
        """What Ansible makes of a text."""

    made = plain({Text("a"): [Text("b"), 1, 1.5, True, None], "day": date(2026, 12, 1)})
    assert made == {"a": ["b", 1, 1.5, True, None], "day": "2026-12-01"}
    assert {made["a"][0].__class__, next(iter(made)).__class__} == {str}
    with pytest.raises(TypeError):
        plain(object())


def test_the_last_lines_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = kept_lines(tmp_path / ".run" / "rehearsal", "/k")
    assert lines[0] == "the rehearsal stays up: export KUBECONFIG=/k"
    program = f"{Path(sys.executable).parent}/ansible-playbook"
    assert [line for line in lines if " -i " in line] == [
        f"  {program} gpufleet.bringup.site -i .run/rehearsal/inventory.yml",
        f"  {program} gpufleet.bringup.validate -i .run/rehearsal/inventory.yml",
        f"  {program} gpufleet.bringup.continuous -i .run/rehearsal/inventory.yml --check",
        f"  {program} gpufleet.bringup.snapshot -i .run/rehearsal/inventory.yml -e gpufleet_snapshot=snapshot.json "
        "-e gpufleet_run=.run/latest",
    ]
    assert lines[-2] == f"  {program} gpufleet.bringup.rehearse_faults -e gpufleet_rehearsal_lift=all"
    assert lines[-1] == f"stop it: {program} gpufleet.bringup.rehearse_stop"
    assert kept_lines(Path("/elsewhere"), "/k")[-1].endswith("rehearse_stop -e gpufleet_rehearsal_dir=/elsewhere")
