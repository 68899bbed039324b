# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The passive checks of a cycle by the real readers and judges of gate nodes: each fault fails its node alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import write_evidence
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import NodeLogs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.passive import passive_results

DAY = date(2026, 11, 21)
# What playbook continuous asks for.
ASKED = ("lspci", "ibstat", "kernel_log", "nvidia_smi_xml", "nvidia_smi_topo", "nvidia_smi_nvlink")


def passive(fleet: Any) -> dict[str, tuple[str, str]]:
    """Status and cause of every node after a cycle that read these hosts."""
    for host in fleet.hosts.values():
        write_evidence(fleet.run_dir, host.evidence(ASKED))
    context = {"site": fleet.site, "today": DAY, "hardware": {"h100": fleet.sku}}
    run = SimpleNamespace(
        path=fleet.run_dir,
        site=fleet.site,
        record=SimpleNamespace(run_id="", started=f"{DAY}T10:15:00Z"),
        declaration=lambda gate: declare(gate, fleet.site),
        judge_context=lambda gate, _today: JudgeContext(gate=gate, **context),
    )
    looks = ObserveContext(run_dir=fleet.run_dir, **context)
    found = passive_results(cast(Any, run), looks, "c1", {}, NodeLogs(fleet.run_dir / "logs"), 1795000000.0)
    return {result.node: (result.status.value, result.cause) for result in found}


def _xid(host: Any) -> None:
    host.kernel.append("NVRM: Xid (PCI:0000:10:00): 48, pid=71412, name=python3, DBE (double bit error) on FB")


FAULTS: dict[str, Callable[[Any], None]] = {
    "xid-fatal": _xid,
    "ecc-uncorrectable": lambda host: host.gpus[1].values.update(unc="5"),
    "row-remap-pending": lambda host: host.gpus[2].values.update(remap_pending="Yes"),
    "row-remap-failure": lambda host: host.gpus[2].values.update(remap_failure="Yes"),
    "nvlink-inactive": lambda host: setattr(host.gpus[3], "links", 16),
    "hca-down": lambda host: host.hcas["mlx5_1"].update(state="Down", physical="Polling"),
    "gpu-missing": lambda host: setattr(host.gpus[0], "listed", False),
}


def test_healthy_nodes_pass_by_what_a_cycle_reads(fleet: Any) -> None:
    assert passive(fleet) == dict.fromkeys(fleet.hosts, ("passed", ""))


@pytest.mark.parametrize("cause", sorted(FAULTS))
def test_a_fault_fails_its_node_alone(fleet: Any, cause: str) -> None:
    FAULTS[cause](fleet.hosts["gpu02"])
    found = passive(fleet)
    assert found.pop("gpu02") == ("failed", cause)
    assert found == dict.fromkeys(("gpu01", "gpu03"), ("passed", ""))


def test_a_node_that_is_not_reached_is_other(fleet: Any) -> None:
    fleet.hosts["gpu02"].unreachable = "no route to host"
    found = passive(fleet)
    assert found.pop("gpu02") == ("other", "host-unreachable")
    assert found == dict.fromkeys(("gpu01", "gpu03"), ("passed", ""))
