# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rehearsal refuses a fault that its cluster cannot show, and says what the cluster lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.choose import choose_faults
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.shown import (
    gives_out_by_claims,
    refuse_unshown,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.patch import healthy_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.spec import ModelSpec, numbered_nodes

ROOT = Path(__file__).resolve().parents[6]
CATALOGUE = load_catalogue(ROOT / "recipes" / "rehearsal")
# Of networks, services and hardware that hosts of a DGX H100 on InfiniBand have not.
NOT_THERE = {"roce", "efa", "imex", "dra"}


def refuse(fault: str, sku: str = "dgx-h100", *, nodes: int = 4, dra: bool = False) -> None:
    healthy = healthy_cluster(ModelSpec(name="rehearsal", seed=1, nodes=numbered_nodes(nodes, sku)), HARDWARE)
    refuse_unshown(choose_faults(fault, healthy, CATALOGUE), CATALOGUE, healthy, HARDWARE, dra=dra)


@pytest.mark.parametrize(
    ("fault", "lacks"),
    [
        ("roce-ecn-differs", "roce"),
        ("imex-not-running", "imex"),
        ("efa-device-missing", "efa"),
        ("dra-devices-fewer", "dra"),
        ("dra-not-allocating", "dra"),
    ],
)
def test_what_a_cluster_cannot_show_is_refused_with_the_word_that_it_lacks(fault: str, lacks: str) -> None:
    with pytest.raises(ProblemsError) as error:
        refuse(fault)
    assert f"needs {lacks}, which this cluster has not" in str(error.value) and fault in str(error.value)


@pytest.mark.parametrize("fault", [f.id for f in CATALOGUE.values() if not NOT_THERE.intersection(f.needs)])
def test_the_standard_cluster_can_have_every_fault_of_what_it_has(fault: str) -> None:
    refuse(fault)


def test_faults_fit_where_the_cluster_has_what_they_need() -> None:
    refuse("roce-ecn-differs", "bm-gpu-h100-8")
    refuse("dra-devices-fewer", dra=True)
    # Fewer hosts than it takes to name the odd one show the fault all the same.
    refuse("driver-differs", nodes=2)


def test_claims_are_given_out_where_the_values_of_the_driver_say_so() -> None:
    values = {"nvidia-dra-driver-gpu": {"resources": {"gpus": {"enabled": True}}}}
    assert gives_out_by_claims(values)
    assert not any(gives_out_by_claims(found) for found in ({}, {"nvidia-dra-driver-gpu": {}}, {"gpu-operator": {}}))
