# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the simulated operators know of two healthy nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    ClusterFacts,
    cluster_facts_of,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes


@pytest.fixture(scope="module")
def facts(repository: Path) -> ClusterFacts:
    skus = load_hardware([repository / "recipes" / "hardware"])
    return cluster_facts_of(build_model(ModelSpec(name="t", seed=3, nodes=numbered_nodes(2, "dgx-h100")), skus), skus)
