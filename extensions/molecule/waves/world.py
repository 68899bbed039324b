# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the tools of six healthy simulated hosts: world.py DIRECTORY DRIVER_VERSION."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA

_RECIPES = Path(__file__).resolve().parents[3] / "recipes"
_HOSTS = 6


def main(directory: str, driver_version: str) -> None:
    """Write them."""
    spec = ModelSpec(name="molecule", seed=1, nodes=numbered_nodes(_HOSTS, "hgx-h100"), driver_version=driver_version)
    model = build_model(spec, load_hardware([_RECIPES / "hardware"]))
    # No tool reads the kernel settings of this machine.
    prepare_hosts(model, Path(directory), DATA, kernel_settings=Path("/nonexistent"))


if __name__ == "__main__":
    main(*sys.argv[1:])
