# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the inventory of a site and the command line give to the inventory of its rehearsal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated_inventory import stated_inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.inventory_values import (
    AsWritten,
    StatedInventory,
)

HOSTS = """
all:
  hosts:
    localhost: {ansible_connection: local}
    ufm1: {ansible_host: ufm.example.org}
  children:
    managers: {hosts: {ufm1: {}}}
    gpu_nodes:
      hosts:
        gpu01: {ansible_host: 10.0.0.1, ansible_user: root, gpufleet_rack: a1}
        gpu02: {gpufleet_rack: a2}
  vars:
    gpufleet_site_name: north
    gpufleet_kubeconfig: "{{ inventory_dir }}/admin.conf"
    gpufleet_context: prod
    gpufleet_overrides: {a: "{{ own_word }}-1"}
    gpufleet_quarantine: "{{ known_at_the_run }}"
    own_word: word
    gpufleet_waivers: [{check: gpu-hot, until: 2026-12-01}]
"""


def stated(tmp_path: Path, extra: dict[str, Any]) -> tuple[StatedInventory, list[str]]:
    path = tmp_path / "hosts.yml"
    path.write_text(HOSTS, encoding="utf-8")
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(path)])
    manager = VariableManager(loader=loader, inventory=inventory)
    manager._extra_vars = extra
    said: list[str] = []
    task_vars = {"hostvars": HostVars(inventory, manager, loader), "groups": inventory.get_groups_dict()}
    return stated_inventory("gpu_nodes", task_vars, {"gpufleet_settings": {"a": 1}}, said.append), said


def test_what_the_site_states_comes_along_with_its_values(tmp_path: Path) -> None:
    found, said = stated(tmp_path, {})
    assert found.everywhere["gpufleet_site_name"] == "north" and found.everywhere["own_word"] == "word"
    assert found.everywhere["gpufleet_kubeconfig"] == f"{tmp_path}/admin.conf"
    assert found.everywhere["gpufleet_overrides"] == {"a": "word-1"}
    assert found.everywhere["gpufleet_settings"] == {"a": 1}
    assert found.everywhere["gpufleet_waivers"] == [{"check": "gpu-hot", "until": "2026-12-01"}]
    # What is not known yet is for the run that does know it.
    late = found.everywhere["gpufleet_quarantine"]
    assert late == "{{ known_at_the_run }}" and isinstance(late, AsWritten)
    assert found.hosts["gpu02"] == {"gpufleet_rack": "a2"} and found.groups == {"managers": ["ufm1"]}
    assert said == []


@pytest.mark.parametrize("where", ["everywhere", "gpu01", "ufm1"])
def test_nothing_that_reaches_a_machine_or_another_cluster_comes_along(tmp_path: Path, where: str) -> None:
    found, _said = stated(tmp_path, {})
    names = found.everywhere if where == "everywhere" else found.hosts[where]
    assert not [name for name in names if name.startswith("ansible_") or name in ("gpufleet_context", "groups")]


def test_the_scope_of_the_first_run_stays_behind_and_its_place_does_not(tmp_path: Path) -> None:
    extra = {"gpufleet_gates": "nodes", "gpufleet_rehearsal_nodes": 4, "gpufleet_run_dir": "/runs", "gpufleet_set": "x"}
    found, _said = stated(tmp_path, extra)
    assert not {"gpufleet_gates", "gpufleet_rehearsal_nodes"} & set(found.everywhere)
    assert found.everywhere["gpufleet_run_dir"] == "/runs" and found.everywhere["gpufleet_set"] == "x"


def test_a_vaulted_value_is_named_and_left_out(tmp_path: Path) -> None:
    class EncryptedString(str):
        """What Ansible has of a text in a vault, by name."""

    found, said = stated(tmp_path, {"gpufleet_store": {"url": EncryptedString("secret")}})
    assert "gpufleet_store" not in found.everywhere
    assert said == ["rehearsal: left out of its inventory, for they are vaulted: gpufleet_store"]
