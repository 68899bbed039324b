# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a simulated host is set up, as the tools of recipes/tools.yaml read it there."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.load_growth import port_findings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import parser_named
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import node_subject
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.host_record import tools_path
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.loaded import mark_loaded
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import apply_fault, build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Change,
    Fault,
    ModelSpec,
    numbered_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel

DATA = Path(__file__).resolve().parents[6] / "rehearsal" / "recipes"
EFA = build_model(ModelSpec(name="rehearsal", seed=7, nodes=numbered_nodes(1, "p5-48xlarge")), HARDWARE)
H100 = build_model(ModelSpec(name="rehearsal", seed=7, nodes=numbered_nodes(1, "h100")), HARDWARE)


def prepare(model: ClusterModel, root: Path) -> None:
    prepare_hosts(model, root, DATA, kernel_settings=Path("/nonexistent"))


def asked(root: Path, name: str) -> Any:
    """What a tool says on the host, parsed."""
    tool = load_host_tools().named(name)
    env = os.environ | {"PATH": f"{tools_path(root, 'gpu01')}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(tool.commands[0], env=env, capture_output=True, text=True, check=True, timeout=20)
    return parser_named(tool.parser)(done.stdout)


def test_packets_that_an_efa_device_drops_under_load_are_found(tmp_path: Path) -> None:
    device = EFA.nodes[0].hcas[3].name
    changes = (Change(at="node.hurt_by", set="nccl-tests"), Change(at="hca.under_load", set="drops"))
    broken = apply_fault(EFA, Fault(id="efa-drops", kind="hca", subject=f"gpu01/{device}", patch=changes))
    prepare(broken, tmp_path)
    before = asked(tmp_path, "efa_counters")
    assert len(before) == len(EFA.nodes[0].hcas) and {port.counters["rx_drops"] for port in before} == {0}
    mark_loaded(tmp_path / "hosts" / "gpu01")
    (found,) = port_findings(before, asked(tmp_path, "efa_counters"), {"rx_drops": 0}, node_subject)
    assert found.cause == "port-errors-under-load" and found.text == f"{device}:1: rx_drops +311"


def test_healthy_efa_devices_drop_nothing(tmp_path: Path) -> None:
    prepare(replace(EFA, nodes=(replace(EFA.nodes[0], hurt_by="nccl-tests"),)), tmp_path)
    before = asked(tmp_path, "efa_counters")
    mark_loaded(tmp_path / "hosts" / "gpu01")
    assert asked(tmp_path, "efa_counters") == before


@pytest.mark.parametrize("governor", ["powersave", ""])
def test_a_host_tells_how_it_is_set_up(tmp_path: Path, governor: str) -> None:
    node = H100.nodes[0]
    setup = replace(node.setup, memlock="8388608", governor=governor, cgroup="tmpfs")
    prepare(replace(H100, nodes=(replace(node, setup=setup),)), tmp_path)
    units = asked(tmp_path, "systemctl_show")
    assert units["containerd.service"]["ActiveState"] == "active"
    assert units["containerd.service"]["LimitMEMLOCK"] == "8388608"
    assert units["slurmd.service"]["LoadState"] == "not-found"
    assert set(asked(tmp_path, "cpu_governors")) == {governor} - {""}
    assert asked(tmp_path, "cgroup_hierarchy") == "tmpfs"
    assert {port.keys for port in asked(tmp_path, "pkeys")} == {(0xFFFF,)}
