# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cabling plan that the site of a rehearsal keeps: where every cable should sit, whatever sits where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...runtime.files import write_atomic
from ..model.values import Node
from ..model.wiring import wire


def write_cabling(nodes: Sequence[Node], path: Path) -> None:
    """Write the plan as a person would: YAML, one line a host.

    Raises:
        OSError: it cannot be written.
    """
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(cabling_document(nodes), Dumper=dumper, sort_keys=False, width=200, default_flow_style=None)
    write_atomic(path, f"# Cabling plan of the simulated fabric. The simulator stops at HDR.\n---\n{text}")


def cabling_document(nodes: Sequence[Node]) -> dict[str, Any]:
    """Return the plan as plain data."""
    wiring = wire(nodes)
    hosts: dict[str, dict[str, str]] = {}
    for adapter, port in wiring.hosts.items():
        host, _mark, hca = adapter.partition("/")
        hosts.setdefault(host, {})[hca] = str(port)
    return {
        "schema_version": 1,
        "width": "4x",
        "speed": "HDR",
        "switches": dict(wiring.switches),
        "hosts": hosts,
        "trunks": [f"{lower} - {upper}" for lower, upper in wiring.uplinks],
    }
