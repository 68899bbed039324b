# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rehearsal refuses a fault that its cluster cannot show, and says what the cluster lacks."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    gives_out_by_claims,
    load_catalogue,
    refuse_unshown,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes

ROOT = Path(__file__).resolve().parents[6]
CATALOGUE = load_catalogue()
# Of networks, services and hardware that hosts of a DGX H100 on InfiniBand have not.
NOT_THERE = {"roce", "efa", "imex", "dra"}


def refuse(
    fault: str, sku: str = "dgx-h100", *, nodes: int = 4, dra: bool = False, asked: Collection[str] | None = None
) -> None:
    """Refuse faults of a cluster; `asked` are the hosts and racks that are asked by Redfish, all if not given."""
    healthy = healthy_cluster(ModelSpec(name="rehearsal", seed=1, nodes=numbered_nodes(nodes, sku)), HARDWARE)
    if asked is None:
        asked = {part.name for part in (*healthy.nodes, *healthy.racks)}
    refuse_unshown(choose_faults(fault, healthy, CATALOGUE), CATALOGUE, healthy, HARDWARE, dra=dra, requested=asked)


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


OF_BMCS = [f for f in CATALOGUE.values() if any(".bmc." in change.at for change in f.patch)]
OF_PDUS = [f for f in CATALOGUE.values() if any(change.at.startswith("rack.units") for change in f.patch)]


@pytest.mark.parametrize("fault", [f.id for f in OF_BMCS])
def test_a_fault_of_a_bmc_is_refused_for_a_host_without_one(fault: str) -> None:
    """Its checks are not declared for such a host, and gate facility passed."""
    for asked, way in (((), "state gpufleet_bmc"), (("gpu02",), f"name a host that has one: {fault}@gpu02")):
        with pytest.raises(ProblemsError) as error:
            refuse(f"{fault}@gpu01", asked=asked)
        assert "needs a BMC (gpufleet_bmc), which gpu01 has not here" in str(error.value) and way in str(error.value)
    refuse(f"{fault}@gpu02", asked=("gpu02",))


@pytest.mark.parametrize("fault", [f.id for f in OF_PDUS])
def test_a_fault_of_a_pdu_is_refused_where_none_is_simulated(fault: str) -> None:
    with pytest.raises(ProblemsError, match="needs a simulated PDU, which rack-a1 has not here"):
        refuse(f"{fault}@rack-a1", asked=("gpu01",))


def test_faults_of_bmcs_and_of_pdus_are_both_known() -> None:
    assert len(OF_BMCS) > 15 and {fault.id for fault in OF_PDUS} >= {"pdu-breaker-tripped", "pdu-overload"}
    # The paper of the room is drawn, whatever hosts have.
    refuse("pdu-dead@rack-a1", asked=())


def test_faults_fit_where_the_cluster_has_what_they_need() -> None:
    refuse("roce-ecn-differs", "bm-gpu-h100-8")
    refuse("dra-devices-fewer", dra=True)
    # Fewer hosts than it takes to name the odd one show the fault all the same.
    refuse("driver-differs", nodes=2)


def test_claims_are_given_out_where_the_values_of_the_driver_say_so() -> None:
    values = {"nvidia-dra-driver-gpu": {"resources": {"gpus": {"enabled": True}}}}
    assert gives_out_by_claims(values)
    assert not any(gives_out_by_claims(found) for found in ({}, {"nvidia-dra-driver-gpu": {}}, {"gpu-operator": {}}))
