# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The record draft states needs and grants nothing; the example inventory is complete but for its signature."""

from __future__ import annotations

import hashlib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.draft import Draft, draft_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.load import POWER, WEIGHT, rack_load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.record import EvidenceFile, parse_record
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.settings import Allowance
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

ROOT = Path(__file__).resolve().parents[6]
EXAMPLE = ROOT / "inventories" / "example"


def _draft(**changes: Any) -> Draft:
    values: dict[str, Any] = {
        "site": "north: 1",
        "signed_by": "facility@example.org",
        "issued": date(2026, 6, 1),
        "expires": date(2027, 6, 1),
        "racks": {"rack-a1": ["h100", "dgx-h100"], "17": ["hgx-h100"]},
    }
    return Draft(**{**values, **changes})


def test_a_draft_states_the_need_and_is_refused_until_completed() -> None:
    text = draft_text(_draft(), HARDWARE)
    assert "# hosts draw 2 x dgx-h100 at 10.2 kW = 20.4 kW" in text
    assert "# hosts weigh 2 x dgx-h100 at 130.45 kg = 260.9 kg" in text
    assert "not known: SKU hgx-h100" in text
    with pytest.raises(InputError) as caught:
        parse_record(text, "draft")
    problem = caught.value
    assert not isinstance(problem, ProblemsError)
    fields = [
        f"racks.{rack}.{name}" for rack in ("17", "rack-a1") for name in ("power_kw", "cooling_kw", "floor_load_kg")
    ]
    assert problem.reason.startswith("is empty in ") and "signs it" in problem.hint
    assert sorted(problem.reason.removeprefix("is empty in ").rstrip(".").split(", ")) == sorted(fields)


def test_what_else_is_wrong_in_a_draft_is_told_beside_its_empty_fields() -> None:
    text = draft_text(_draft(), HARDWARE).replace("signed_by:", "signedby:")
    with pytest.raises(ProblemsError) as caught:
        parse_record(text, "draft")
    told = [problem.reason for problem in caught.value.problems]
    assert told[0].startswith("is empty in ") and len(told) > 1 and not any("None" in reason for reason in told)


def test_a_draft_states_what_the_gate_will_demand_with_what_stands_beside_the_hosts() -> None:
    """A draft said 40.8 kW, its owner granted 42, and the gate demanded 44.3: the switches were only in the gate."""
    allowances = {"rack-a1": Allowance(power_kw=3.5, weight_kg=40)}
    text = draft_text(_draft(allowances=allowances, racks={"rack-a1": ["dgx-h100"] * 4, "b": ["dgx-h100"]}), HARDWARE)
    assert "# hosts draw 4 x dgx-h100 at 10.2 kW + 3.5 kW beside the hosts = 44.3 kW" in text
    assert "+ 40 kg beside the hosts = 561.8 kg" in text and "at 10.2 kW = 10.2 kW" in text
    assert rack_load(POWER, ["dgx-h100"] * 4, HARDWARE, 3.5).arithmetic in text


def test_a_completed_draft_is_a_record() -> None:
    budget = {"power_kw": 30, "cooling_kw": 30.5, "floor_load_kg": 900}
    evidence = (EvidenceFile(path="evidence/a b.txt", sha256="0" * 64, what='test: "loads"'),)
    draft = _draft(budgets={"rack-a1": budget, "17": budget}, pdus={"rack-a1": ["left", "right"]}, evidence=evidence)
    record = parse_record(draft_text(draft, HARDWARE), "draft")
    assert (record.site, record.racks["17"].cooling_kw, record.evidence) == ("north: 1", 30.5, evidence)
    assert [(pdu.name, pdu.energized) for pdu in record.racks["rack-a1"].pdus] == [("left", False), ("right", False)]


def test_the_example_record_fits_its_inventory() -> None:
    record = parse_record((EXAMPLE / "facility" / "record.yaml").read_text(encoding="utf-8"), "example")
    for entry in record.evidence:
        assert hashlib.sha256((EXAMPLE / "facility" / entry.path).read_bytes()).hexdigest() == entry.sha256
    group = read_yaml(EXAMPLE / "hosts.yml")["all"]["children"]["gpu_nodes"]
    settings = read_yaml(EXAMPLE / "group_vars" / "all.yml")
    allowance = settings["gpufleet_settings"]["facility"]["switch_allowance"]
    racks = {facts["gpufleet_rack"] for facts in group["hosts"].values()}
    assert racks == set(record.racks)
    assert record.site == settings["gpufleet_site_name"]
    for rack in racks:
        skus = [group["vars"]["gpufleet_sku"] for facts in group["hosts"].values() if facts["gpufleet_rack"] == rack]
        budget = record.racks[rack]
        assert rack_load(POWER, skus, HARDWARE, allowance["power_kw"]).value <= budget.power_kw
        assert rack_load(WEIGHT, skus, HARDWARE, allowance["weight_kg"]).value <= budget.floor_load_kg
