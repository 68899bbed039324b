# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory of a running rehearsal: with it every playbook works on its cluster, without further variables."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.inventory_values import AsWritten, plain

from .request import CONNECTION, INVENTORY_FILE, Rehearsal, RehearsalRequest, ansible_playbook, shown

_HEADER = """\
# The inventory of a rehearsal: its cluster and its simulated hosts. Written when it starts, removed when it stops.
#   {playbook} gpufleet.bringup.validate -i {inventory}
---
"""
_TEMPLATES = ("{{", "{%", "{#")
_OF_FAULTS = "faults of this rehearsal: "
# The list of notes, and in it the one about faults with its continuation lines.
_NOTES = re.compile(rf"^( +)gpufleet_notes:\n(?:\1- ['\"]?{_OF_FAULTS}.*\n(?:\1  .*\n)*)?", re.MULTILINE)


def fault_notes(faults: tuple[str, ...]) -> tuple[str, ...]:
    """Return the note about the faults of a rehearsal.

    Without it a report with "passed" would not show what was broken.
    """
    return (f"{_OF_FAULTS}{', '.join(faults)}",) if faults else ()


def inventory_of(request: RehearsalRequest, rehearsal: Rehearsal) -> dict[str, Any]:
    """Return the inventory as plain data."""
    configured = request.inventory
    # As variables of hosts, which override group variables beside a copy of the file.
    simulation = {
        "ansible_connection": CONNECTION,
        "ansible_python_interpreter": sys.executable,
        "gpufleet_rehearsal_dir": str(rehearsal.directory),
    }
    controller = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "gpufleet_rehearsal_dir": str(rehearsal.directory),
        "gpufleet_group": configured.group,
        "gpufleet_site_name": request.site_name,
        "gpufleet_kubeconfig": str(rehearsal.kubeconfig),
        "gpufleet_context": "",
        "gpufleet_chart_mirror": str(rehearsal.chart_mirror),
        "gpufleet_helm": rehearsal.programs["helm"],
        "gpufleet_forced_settings": rehearsal.settings,
        "gpufleet_notes": list(rehearsal.notes),
        "gpufleet_default_criteria": request.site.default_criteria,
        "gpufleet_recipe_data": [str(path) for path in request.recipe_data],
        # Baselines of rehearsals, and not of a cluster that may have the same name.
        "gpufleet_baseline_rehearsal": True,
    }
    hosts = {}
    for node in rehearsal.hosts:
        own: dict[str, Any] = {"gpufleet_sku": node.sku, "gpufleet_rack": node.rack, "gpufleet_node_name": node.name}
        own |= {"gpufleet_hcas": list(node.hcas)} if node.hcas else {}
        own |= {"gpufleet_bmc": rehearsal.bmcs[node.name]} if rehearsal.bmcs.get(node.name) else {}
        hosts[node.name] = {**configured.hosts.get(node.name, {}), **own, **simulation}
    others = {
        # No task reaches them, so they connect to the first simulated host.
        name: {**configured.hosts.get(name, {}), **simulation, "gpufleet_rehearsal_host": rehearsal.hosts[0].name}
        for name in request.site.other_hosts
    }
    groups = {name: {"hosts": dict.fromkeys(members)} for name, members in configured.groups.items()}
    everywhere = {name: value for name, value in configured.everywhere.items() if name not in controller}
    everywhere["gpufleet_group"] = configured.group
    return {
        "all": {"vars": everywhere, "hosts": {"localhost": controller, **others}},
        **groups,
        configured.group: {"hosts": hosts},
    }


def write_inventory(request: RehearsalRequest, rehearsal: Rehearsal) -> Path:
    """Write the inventory into the directory of the rehearsal, atomically, readable by its owner only."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Safe dumper whose texts stay texts for Ansible, too."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> Any:
        literal = any(mark in value for mark in _TEMPLATES)
        return dumper.represent_scalar("!unsafe" if literal else "tag:yaml.org,2002:str", value)

    Dumper.add_representer(str, text)
    Dumper.add_representer(AsWritten, lambda dumper, value: dumper.represent_str(str(value)))
    path = rehearsal.directory / INVENTORY_FILE
    header = _HEADER.format(playbook=ansible_playbook(), inventory=shown(path))
    body = yaml.dump(
        plain(inventory_of(request, rehearsal)), Dumper=Dumper, sort_keys=False, width=119, allow_unicode=True
    )
    write_atomic(path, header + body, 0o600)
    return path


def note_faults(directory: Path, faults: tuple[str, ...]) -> None:
    """Update the faults in the inventory of a running rehearsal."""
    path = directory / INVENTORY_FILE
    if not path.is_file():
        return
    body = path.read_text(encoding="utf-8")
    notes = [json.dumps(note, ensure_ascii=False) for note in fault_notes(faults)]
    write_atomic(path, _NOTES.sub(lambda found: _with_notes(found[1], notes), body), 0o600)


def _with_notes(indent: str, notes: list[str]) -> str:
    return "".join((f"{indent}gpufleet_notes:\n", *(f"{indent}- {note}\n" for note in notes)))
