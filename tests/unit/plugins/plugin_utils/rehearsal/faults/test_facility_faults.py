# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every facility fault of the catalogue: the room is written as the model says, and the gate must find just that."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from bmc_fleet import fleet
from bmcs import LOGIN, running_bmcs
from known_hardware import HARDWARE
from seeds import run_seed
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility import (
    observe_facility_record,
    observe_pdus,
    pdu_feeds,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import Bmc, JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.facility.room import write_facility
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    FaultDefinition,
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.simulators import room_state
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import apply_fault, build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel

ROOT = Path(__file__).resolve().parents[6]
CATALOGUE = load_catalogue()
FACILITY_FAULTS = [fault for fault in CATALOGUE.values() if fault.expect.gate == "facility"]
OF_BMCS = {check.spec.id for check in all_checks() if Bmc() in check.spec.applies}
BMC_FAULTS = [fault for fault in FACILITY_FAULTS if fault.expect.check in OF_BMCS]
PDU_FAULTS = [fault for fault in FACILITY_FAULTS if fault.expect.check == "pdu-feeds"]
RECORD_FAULTS = [fault for fault in FACILITY_FAULTS if fault not in (*BMC_FAULTS, *PDU_FAULTS)]
TODAY = date(2026, 6, 15)
SEED = run_seed()
SITE = "rehearsal"


def cluster(sku: str) -> ClusterModel:
    return build_model(ModelSpec(name=SITE, seed=7, nodes=numbered_nodes(12, sku)), HARDWARE)


def held(model: ClusterModel, healthy: ClusterModel, directory: Path) -> list[Outcome]:
    racks = {rack.name: [model.node(name).sku for name in rack.nodes] for rack in model.racks}
    paths = write_facility(
        site=SITE, racks=racks, hardware=HARDWARE, directory=directory / "room", today=TODAY,
        state=room_state(model, healthy),
    )  # fmt: skip
    hosts = tuple(Host(name=node.name, sku=node.sku, node_name=node.name, rack=node.rack) for node in model.nodes)
    site = make_site(hosts, name=SITE, settings={"facility": {**paths}})
    seen = observe_facility_record.observe(ObserveContext(site=site, run_dir=directory, today=TODAY))
    value = observe_facility_record.restore(seen, directory, site)
    context = JudgeContext(gate="facility", site=site, today=TODAY, hardware=dict(HARDWARE))
    checks = [check for check in all_checks() if check.observer.key == "facility-record"]
    outcomes = [outcome for check in checks for outcome in check.judge(value, context)]
    return [outcome for outcome in outcomes if outcome.status is not Status.PASSED]


def test_a_healthy_room_passes(tmp_path: Path) -> None:
    assert held(cluster("h100"), cluster("h100"), tmp_path) == []


@pytest.mark.parametrize("definition", RECORD_FAULTS, ids=lambda definition: definition.id)
def test_the_named_check_finds_the_fault_and_no_other_does(definition: FaultDefinition, tmp_path: Path) -> None:
    healthy = cluster("h100")
    (fault,) = choose_faults(definition.id, healthy, CATALOGUE, SEED)
    outcomes = held(apply_fault(healthy, fault), healthy, tmp_path)
    found = {(outcome.check, outcome.cause, outcome.status.value, outcome.subjects[0].name) for outcome in outcomes}
    expect = definition.expect
    subject = fault.subject if definition.kind == "rack" else SITE
    assert found == {(expect.check, expect.cause, expect.status, subject)}, f"seed {SEED}"


def test_a_rack_of_hosts_without_figures_of_their_own_can_be_over_budget(tmp_path: Path) -> None:
    systems = sorted({sku.name for sku in HARDWARE.values() if sku.power_max_w is None and sku.rack_power_max_w})
    assert systems
    healthy = cluster(systems[0])
    (fault,) = choose_faults("power-over-budget@rack-a2", healthy, CATALOGUE)
    outcomes = held(apply_fault(healthy, fault), healthy, tmp_path)
    assert ("facility-power", "over-budget", "rack-a2") in {(o.check, o.cause, o.subjects[0].name) for o in outcomes}


@pytest.mark.parametrize("definition", BMC_FAULTS, ids=lambda definition: definition.id)
def test_the_named_check_finds_the_fault_of_a_bmc_and_no_other_does(
    definition: FaultDefinition, tmp_path: Path
) -> None:
    healthy = build_model(ModelSpec(name=SITE, seed=7, nodes=numbered_nodes(4, "h100")), HARDWARE)
    (fault,) = choose_faults(definition.id, healthy, CATALOGUE, SEED)
    model = apply_fault(healthy, fault)
    with fleet(tmp_path, **{node.name: node.bmc for node in model.nodes}) as hosts:
        waiting = "blocked-by-bmc-reached"
        found = [entry for entry in hosts.held() if entry[3] != waiting]
    expect = definition.expect
    told = [(expect.check, fault.subject, expect.status, expect.cause)]
    assert found == ([] if expect.status == "passed" else told), f"seed {SEED}"


@pytest.mark.parametrize("definition", PDU_FAULTS, ids=lambda definition: definition.id)
def test_the_fault_of_a_pdu_is_found_about_its_rack(definition: FaultDefinition, tmp_path: Path) -> None:
    healthy = cluster("h100")
    (fault,) = choose_faults(definition.id, healthy, CATALOGUE, SEED)
    racks = apply_fault(healthy, fault).racks
    units = {f"{rack.name}-{number}": unit for rack in racks for number, unit in enumerate(rack.units)}
    hosts = tuple(Host(name=node.name, sku=node.sku, node_name=node.name, rack=node.rack) for node in healthy.nodes)
    with running_bmcs(tmp_path / "certificates", units) as running:
        pdus = {
            name: {"address": url, "rack": name.rpartition("-")[0], "capacity_kw": 60}
            for name, url in running.urls.items()
        }
        access = {"user": LOGIN.user, "password": LOGIN.password, "ca_cert": running.ca_cert}
        site = make_site(hosts, name=SITE, settings={"bmc-reached": access, "pdu-feeds": {"pdus": pdus}})
        seen = observe_pdus.observe(ObserveContext(site=site, run_dir=tmp_path, today=TODAY, hardware=HARDWARE))
        context = JudgeContext(gate="facility", site=site, today=TODAY, hardware=dict(HARDWARE))
        outcomes = pdu_feeds.judge(seen, context)
    held = [(o.subjects[0].name, o.status.value, o.cause) for o in outcomes if o.status is not Status.PASSED]
    assert held == [(fault.subject, definition.expect.status, definition.expect.cause)], f"seed {SEED}"
    assert len(outcomes) == len(racks)
