# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site may declare of a host, and what is refused before any host is contacted."""

from __future__ import annotations

from typing import Any

import pytest
from converging import declared

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.declaration import (
    PARTS,
    Declaration,
    declaration_problems,
    read_declaration,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError

DRIVER = {"version": "580.95.05"}
WHOLE: dict[str, Any] = {
    "driver": DRIVER,
    "nvlink": {"services": "fabric-manager"},
    "ofed": {"kind": "doca", "version": "3.2.1"},
    "dcgm": {"version": "4.5.2"},
    "mig": {"config": "all-1g.10gb", "text": "version: v1\n"},
    "persistence": True,
    "power_limit_w": 650,
    "kernel_arguments": ["iommu=pt", "pci=realloc=off"],
    "sysctl": {"net.core.rmem_max": "536870912"},
    "limits": [{"domain": "*", "item": "memlock", "value": "unlimited"}],
    "service_limits": {"kubelet": {"LimitMEMLOCK": "infinity"}},
    "hugepages": {"size_2m": 5128, "size_1g": 2},
    "gpu_direct": "dma-buf",
    "module_options": {"nvidia": {"NVreg_RestrictProfilingToAdminUsers": "0"}},
    "time_source": {"kind": "chrony", "servers": ["ntp1.example"]},
    "container_toolkit": {"version": "1.18.0"},
}


def test_every_part_can_be_declared_and_stands_in_the_order_of_convergence() -> None:
    found = read_declaration(WHOLE, "gpu01")
    assert found.parts == PARTS
    assert set(WHOLE) == set(PARTS)


def test_nothing_stated_declares_nothing_and_reboots_nothing() -> None:
    assert read_declaration(None, "gpu01") == Declaration()
    assert (Declaration().parts, Declaration().reboot, Declaration().reload_driver) == ((), "never", False)


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"fabric_manger": True}, "fabric_manger"),
        ({"drivers": DRIVER}, "did you mean 'driver'"),
        ({"driver": {"version": "580.95.05", "flavour": "open"}}, "flavour"),
        ({"driver": {"version": "580"}}, "a branch is no pin"),
        ({"driver": {"version": "580.95.05", "modules": "opened"}}, "did you mean 'open'"),
        ({"driver": {"version": "615.71.09", "modules": "proprietary"}}, "open modules only"),
        ({"driver": {"version": "470.256.02"}}, "proprietary modules only"),
        ({"driver": {**DRIVER, "modules": "proprietary"}, "gpu_direct": "dma-buf"}, "needs the open modules"),
        ({"nvlink": {"services": "fabric-manager"}}, "without driver"),
        ({"dcgm": {"version": "4.5.2"}}, "without driver"),
        ({"driver": DRIVER, "nvlink": {"services": "imex"}}, "nvlink.imex_nodes"),
        ({"ofed": {"kind": "doca"}}, "ofed.version"),
        ({"power_limit_w": 0}, "above 0"),
        ({"sysctl": {"net.core.rmem_max": 536870912}}, "expected text"),
        ({"sysctl": {"rmem_max": "1"}}, "no name and value of sysctl"),
        ({"sysctl": {"net.core.rmem_max": "1\nkernel.panic = 1"}}, "no name and value of sysctl"),
        ({"kernel_arguments": ["iommu=pt quiet"]}, "not one argument"),
        ({"kernel_arguments": ['x="$(reboot)"']}, "not one argument"),
        ({"service_limits": {"kubelet": {"ExecStart": "/bin/sh"}}}, "no limit of a unit"),
        ({"service_limits": {"../kubelet": {"LimitMEMLOCK": "infinity"}}}, "no name of a unit"),
        ({"time_source": {"kind": "chrony"}}, "time_source.servers"),
        ({"time_source": {"kind": "ptp"}}, "time_source.interface"),
        ({"hugepages": {"size_2m": -1}}, "negative"),
    ],
)
def test_what_does_not_fit_is_refused_and_says_where(parts: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        declared(**parts)
    assert wanted in str(caught.value)
    assert "gpufleet_converge of gpu01" in str(caught.value)


def test_a_declaration_that_a_group_shares_is_told_once() -> None:
    wrong = {"drivers": DRIVER}
    problems = declaration_problems({"gpu01": wrong, "gpu02": wrong, "gpu03": None, "gpu04": {"driver": DRIVER}})
    assert len(problems) == 1
    assert "gpu01" in str(problems[0])
