# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run takes from the inventory: settings of several sources, which hosts each play reads, and the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from preflight_options import UNSTATED
from returned import described, misfits

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.app import (
    checked_inventory,
    checked_settings_of,
    tool_options,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory, hosts_to_read
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.app import check_inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.plan import plan_lines, planned
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.settings_sources import (
    held_options,
    merged_settings,
    replaced_options,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import recipe_directories
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.layers import laid_over
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import Work, new_run, with_verb

NAMES = ["gpu01", "gpu02", "gpu03"]
CRITERIA = {"service": "generic", "intent": "training", "os": "ubuntu", "platform": "volcano"}
OPTIONS = UNSTATED | {"criteria": CRITERIA}


def inventory(managers: list[str] | None = None, silent: tuple[str, ...] = (), sku: str = "h100") -> Inventory:
    groups = {"gpu_nodes": NAMES, **({"fabric_managers": managers} if managers else {})}
    variables: dict[str, dict[str, Any]] = {
        name: {
            "gpufleet_sku": sku,
            "gpufleet_rack": "a1",
            "gpufleet_contact": {"reached": name not in silent, "privileged": True},
        }
        for name in [*NAMES, *(managers or [])]
    }
    return Inventory(groups, variables)


def hosts(given: Inventory, fabric_host: str = "", taken: tuple[str, ...] = (), **options: Any) -> dict[str, list[str]]:
    site = checked_inventory(OPTIONS | options, given).site
    return hosts_to_read(site, given, fabric_host, taken)


def test_every_host_is_read_and_the_fabric_from_the_first_that_answers() -> None:
    assert hosts(inventory()) == {
        "contact": NAMES,
        "adapters": NAMES,
        "loaded": NAMES,
        "fabric_loaded": ["gpu01"],
        "nodes": NAMES,
        "fabric": ["gpu01"],
        "nodes_again": [],
        "fabric_again": [],
    }
    assert hosts(inventory(silent=("gpu01",)))["fabric"] == ["gpu02"]
    assert hosts(inventory(managers=["sw1", "sw2"], silent=("sw1",)))["fabric"] == ["sw2"]


def test_the_fabric_is_read_around_nccl_where_that_gate_runs_and_one_host_sees_the_fabric() -> None:
    managers = inventory(managers=["sw1"])
    assert hosts(managers, gates=["fabric_validation"])["fabric_loaded"] == ["sw1"]
    assert hosts(managers, gates=["fabric", "nodes"])["fabric_loaded"] == []
    assert hosts(managers, taken=("fabric_validation",))["fabric_loaded"] == []
    assert hosts(managers, profile="cloud")["fabric_loaded"] == []


def test_the_fabric_is_asked_for_from_a_silent_host_where_all_are_silent() -> None:
    assert hosts(inventory(silent=tuple(NAMES)))["fabric"] == ["gpu01"]


def test_the_host_that_the_user_names_looks_at_the_fabric() -> None:
    assert hosts(inventory(managers=["sw1"]), fabric_host="gpu03")["fabric"] == ["gpu03"]


def test_adapters_are_asked_for_where_gate_nodes_does_not_do_so_before() -> None:
    assert hosts(inventory(), gates=["nodes", "fabric_validation"])["adapters"] == []
    assert hosts(inventory(), gates=["fabric_validation"])["adapters"] == NAMES
    assert hosts(inventory(), gates=["nodes", "gpu_stack"])["adapters"] == []
    assert hosts(inventory(), from_gate="gpu_stack", taken=("fabric", "nodes"))["adapters"] == []


def test_nothing_is_read_for_gates_outside_the_scope() -> None:
    found = hosts(inventory(), gates=["facility"])
    assert not any(found.values())


def test_a_start_in_the_middle_looks_again_and_does_not_read_what_is_taken_over() -> None:
    found = hosts(inventory(), from_gate="gpu_stack", taken=("fabric", "nodes"))
    assert found["nodes_again"] == NAMES and found["fabric_again"] == ["gpu01"]
    assert found["nodes"] == found["fabric"] == []
    assert hosts(inventory(), from_gate="gpu_stack", taken=("fabric",))["nodes"] == NAMES


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"diag_level": 3, "fabric_interval_s": 10.0, "ibdiagnet": False, "fabric_ports": []}),
        ({}, {"fabric_extras": []}),
        (
            {"settings": {"fabric-features": {"sharp": True}, "switch-health": {}}},
            {"fabric_extras": ["ibdiagnet_features", "ibswinfo"]},
        ),
        ({"settings": {"dcgm-diag": {"level": 2}}}, {"diag_level": 2}),
        ({"set": ["dcgm-diag.level=2"], "driver_owner": "operator"}, {"diag_level": 0}),
        ({}, {"disturb": False}),
        ({"set": ["dcgm-diag.disturb=true"]}, {"disturb": True}),
        ({"settings": {"ibdiagnet": {}, "fabric": {"ports": ["mlx5_0:1"]}}}, {"ibdiagnet": True}),
        ({"forced_settings": {"fabric": {"interval_s": 1}}}, {"fabric_interval_s": 1.0}),
    ],
)
def test_the_tools_are_run_as_the_settings_say(options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert tool_options(checked_inventory(OPTIONS | options, inventory())).items() >= expected.items()


def test_simulated_hosts_make_a_rehearsal_whatever_a_variable_says() -> None:
    given = inventory()
    assert not checked_inventory(OPTIONS | {"rehearsal": True}, given).site.rehearsal
    simulated = Inventory(given.groups, given.variables, simulated=True)
    assert checked_inventory(OPTIONS | {"rehearsal": False}, simulated).site.rehearsal


def test_a_variable_about_the_site_that_only_its_hosts_have_is_refused() -> None:
    given = inventory()
    own = {name: {**found, "gpufleet_settings": {"facility": {}}} for name, found in given.variables.items()}
    with pytest.raises(ProblemsError, match="gpufleet_settings: is stated for host gpu01 and not for localhost"):
        checked_inventory(OPTIONS, Inventory(given.groups, own))
    everywhere = own | {"localhost": {"gpufleet_settings": {"facility": {}}}}
    assert checked_inventory(OPTIONS, Inventory(given.groups, everywhere)).site.hosts


def test_what_is_declared_of_hosts_is_refused_before_any_is_contacted() -> None:
    given = inventory()
    for name in NAMES:
        given.variables[name]["gpufleet_converge"] = {"drivr": {"version": "580.95.05"}}  # type: ignore[index]
    with pytest.raises(ProblemsError, match="did you mean 'driver'") as caught:
        checked_inventory(OPTIONS, given)
    assert str(caught.value).count("drivr") == 1
    for name in NAMES:
        given.variables[name]["gpufleet_converge"] = {"driver": {"version": "580.95.05"}}  # type: ignore[index]
    assert checked_inventory(OPTIONS, given).site


def test_default_criteria_count_only_where_none_is_stated() -> None:
    default = {"service": "kind", "intent": "inference"}
    stated = checked_inventory(OPTIONS | {"default_criteria": default}, inventory()).site
    assert stated.criteria == {"accelerator": "h100"} | CRITERIA
    bare = checked_inventory(OPTIONS | {"criteria": {}, "default_criteria": default}, inventory()).site
    assert bare.criteria == {"accelerator": "h100"} | default


def test_settings_are_laid_over_each_other_option_by_option() -> None:
    stated = {"facility": {"record": "r.yaml", "identity": "a"}, "nodes": {"x": 1}}
    merged = merged_settings(stated, ["facility.identity=b", "dcgm-diag.level=2\nhca-state.hcas=[mlx5_0]"], {})
    assert merged == {
        "facility": {"record": "r.yaml", "identity": "b"},
        "nodes": {"x": 1},
        "dcgm-diag": {"level": 2},
        "hca-state": {"hcas": ["mlx5_0"]},
    }
    assert merged_settings(stated, ["facility.record=x"], {"facility": {"record": "forced"}})["facility"] == {
        "record": "forced",
        "identity": "a",
    }
    assert laid_over({"facility": "text"}, {"facility": {"record": "r"}}) == {"facility": {"record": "r"}}
    assert replaced_options(stated, {"facility": {"identity": "b", "record": "r.yaml"}}) == ["facility.identity"]


def test_what_a_rehearsal_holds_at_another_value_is_named() -> None:
    options = {
        "settings": {"burn-in-soak": {"hours": 24, "load_s": 60}}, "set": ["gpu_stack.stays_ready_s=3"],
        "forced_settings": {"burn-in-soak": {"hours": 0.1, "load_s": 60}, "gpu_stack": {"stays_ready_s": 1, "x": 1}},
    }  # fmt: skip
    assert held_options(options) == ["burn-in-soak.hours", "gpu_stack.stays_ready_s"]


def test_recipe_data_that_is_not_there_is_the_one_thing_told(tmp_path: Path) -> None:
    options = OPTIONS | {"recipe_data": [str(tmp_path), str(tmp_path / "nowhere")]}
    with pytest.raises(ProblemsError) as caught:
        checked_inventory(options, inventory())
    (problem,) = caught.value.problems
    assert "gpufleet_recipe_data" in str(problem) and "nowhere is not a directory" in str(problem)


def test_every_assignment_that_cannot_be_read_is_reported() -> None:
    with pytest.raises(ProblemsError) as caught:
        merged_settings({}, ["level=2", "dcgm-diag.level", "dcgm-diag.level=[", "fine.one=1"], {})
    assert len(caught.value.problems) == 3
    assert "check.option=value" in str(caught.value)


def test_the_plan_names_images_of_tests_that_have_a_tag_alone() -> None:
    digest = "registry.example/vllm@sha256:" + "0f" * 32
    stated = OPTIONS | {"gates": ["inference_acceptance", "telemetry"]}
    gates = ["inference_acceptance.image", "inference_acceptance.load_image"]
    pins = [*gates, "pod-autoscaling.image", "telemetry.image"]

    def told(*pinned: str) -> list[str]:
        options = stated | {"set": [f"{name}={digest}" for name in pinned]}
        return [line.rpartition(": ")[2] for line in planned(options, inventory()).notes if "by tag alone" in line]

    assert told() == [", ".join(pins)]
    assert told(*gates, "pod-autoscaling.image") == ["telemetry.image"]
    assert told(*pins) == []
    # A rehearsal pulls none.
    rehearsed = planned(stated, replace(inventory(), simulated=True))
    assert not any("by tag alone" in line for line in rehearsed.notes)


def test_the_plan_names_the_components_and_what_keeps_gate_facility_from_passing(tmp_path: Path) -> None:
    plan = planned(OPTIONS, inventory())
    assert list(misfits(list(plan.gates), described("plan_info", "plan"))) == []
    lines = plan_lines(plan)
    assert "gate facility cannot pass: gpufleet_settings.facility.record is not stated" in plan.warnings
    assert any(line.startswith("recipe: ") and "gpu-operator" in line for line in lines)
    assert lines[-1].startswith("nothing was started")
    record = tmp_path / "record.yaml"
    missing = planned(OPTIONS | {"set": [f"facility.record={record}"]}, inventory())
    assert any("no such file" in text for text in missing.warnings)
    record.write_text("")
    stated = [f"facility.record={record}"]
    (unsigned,) = planned(OPTIONS | {"set": stated}, inventory()).warnings
    assert unsigned == "gate facility cannot pass: gpufleet_settings.facility.allowed_signers is not stated"
    stated.append(f"facility.allowed_signers={tmp_path / 'signers'}")
    assert len(planned(OPTIONS | {"set": stated}, inventory()).warnings) == 2
    (tmp_path / "signers").write_text("")
    (tmp_path / "record.yaml.sig").write_text("")
    assert planned(OPTIONS | {"set": stated}, inventory()).warnings == ()


@pytest.mark.parametrize("by_claim", [False, True])
def test_the_plan_declares_the_checks_of_dra_exactly_where_the_run_does(by_claim: bool) -> None:
    """The plan read the recipe without the values of its charts, where a switch that is not there means yes."""
    values = {"gpuResourcesEnabledOverride": by_claim, "resources": {"gpus": {"enabled": by_claim}}}
    plan = planned(OPTIONS | ({"overrides": {"nvidia-dra-driver-gpu": values}} if by_claim else {}), inventory())
    (gate,) = (gate for gate in plan.gates if gate["gate"] == "gpu_stack")
    declared = {check["id"] for check in gate["checks"]}
    assert "gpu-allocatable" in declared and gate["disturbs"] == ["test pods"]
    assert ({"dra-allocation", "dra-slices"} <= declared) is by_claim


@pytest.mark.parametrize(
    ("stated", "said"),
    [({}, "are not diagnosed"), ({"set": ["dcgm-diag.disturb=true"]}, "are diagnosed all the same")],
)
def test_the_plan_says_whether_users_of_hosts_are_disturbed(stated: dict[str, Any], said: str) -> None:
    (note,) = [note for note in planned(OPTIONS | stated, inventory()).notes if "whose GPUs somebody uses" in note]
    assert said in note


def test_the_plan_says_which_decisions_hold_and_which_have_ended() -> None:
    decision = {"check": "gpu-ecc", "reason": "r", "who": "ada", "subject": NAMES[0]}
    later = datetime.now(UTC).date() + timedelta(days=30)
    waivers = [decision | {"until": "2020-01-31"}, decision | {"until": str(later), "subject": "*"}]
    aside = {"node": NAMES[1], "reason": "r", "ticket": "T-1", "who": "ada"}
    lines = plan_lines(planned(OPTIONS | {"waivers": waivers, "quarantine": [aside]}, inventory()))
    assert [line for line in lines if "applies to nothing" in line or line.startswith("waived until")] == [
        f"waived until {later}: gpu-ecc for *, by ada",
        f"waiver of gpu-ecc for {NAMES[0]} by ada ended on 2020-01-31 and applies to nothing",
    ]
    assert f"1 quarantined ({NAMES[1]}); in scope" in lines[0]


@pytest.mark.parametrize("kind", ["waivers", "acceptances"])
def test_a_decision_holds_for_a_year_at_most(kind: str) -> None:
    decision = {"check": "gpu-ecc", "reason": "r", "who": "ada", "subject": "*"}
    last = datetime.now(UTC).date() + timedelta(days=366)
    planned(OPTIONS | {kind: [decision | {"until": str(last)}]}, inventory())
    with pytest.raises(
        ProblemsError, match=rf"gpufleet_{kind}\[0\].until: is 9999-12-31, and a decision holds for 366"
    ):
        planned(OPTIONS | {kind: [decision | {"until": "9999-12-31"}]}, inventory())


def test_a_start_of_xids_in_the_future_is_refused() -> None:
    now = datetime.now(UTC)
    planned(OPTIONS | {"set": [f"kernel-xid.not_before={(now - timedelta(hours=1)).isoformat()}"]}, inventory())
    with pytest.raises(ProblemsError, match=r"kernel-xid.not_before: is 2099-01-01T00:00:00\+00:00, in the future"):
        planned(OPTIONS | {"settings": {"kernel-xid": {"not_before": "2099-01-01T00:00:00Z"}}}, inventory())


def test_a_sku_that_was_misspelled_is_the_nearest_one_and_one_that_is_near_to_none_has_examples() -> None:
    for sku, hint in (
        ("dgx-h10", "did you mean 'dgx-h100'?"),
        ("zzz", "set gpufleet_sku to one of recipes/hardware/, "),
    ):
        with pytest.raises(ProblemsError) as caught:
            planned(OPTIONS, inventory(sku=sku))
        assert f"which is not in the hardware facts. Fix: {hint}" in str(caught.value)


def test_a_decision_that_is_not_whole_is_looked_up_all_the_same() -> None:
    acceptance = {"check": "clock-sync", "subject": "gpu22", "reason": "r", "who": "ada", "until": "new year"}
    unsigned = {"check": "clock-syn", "subject": "gpu01", "reason": "r", "until": "31.12.2026"}
    aside = {"node": "gpu22", "reason": "r", "ticket": "T-1"}
    with pytest.raises(ProblemsError) as caught:
        planned(OPTIONS | {"acceptances": [acceptance, unsigned], "quarantine": [aside]}, inventory())
    no_day = "expected a day as YYYY-MM-DD. Fix: write for example 2026-12-31"
    like = "Fix: did you mean 'gpu02'?"
    assert sorted(str(problem) for problem in caught.value.problems) == sorted([
        f"gpufleet_acceptances[0]: until is 'new year', {no_day}",
        f"gpufleet_acceptances[0].subject: 'gpu22' matches no host of the group. {like}",
        "gpufleet_acceptances[1]: who: missing. Fix: add who",
        f"gpufleet_acceptances[1]: until is '31.12.2026', {no_day}",
        "gpufleet_acceptances[1].check: 'clock-syn' is not a check. Fix: did you mean 'clock-sync'?",
        "gpufleet_quarantine[0]: who: missing. Fix: add who",
        f"gpufleet_quarantine[0].node: 'gpu22' is not a host of the group. {like}",
    ])  # fmt: skip


def test_the_plan_refuses_what_preflight_refuses() -> None:
    with pytest.raises(
        BringupError, match=r"did you mean nodes\? the gates are facility, fabric, nodes, gpu_stack, telemetry"
    ):
        planned(OPTIONS | {"gates": ["node"]}, inventory())
    with pytest.raises(BringupError, match="gkee"):
        planned(OPTIONS | {"criteria": CRITERIA | {"service": "gkee"}}, inventory())


def test_everything_that_is_wrong_with_settings_and_decisions_comes_in_one_list() -> None:
    waiver = {"check": "clock-syn", "subject": "gpu22", "reason": "r", "who": "ada", "until": "2026-12-31"}
    settings = {
        "hca-state": {"hca_names": ["mlx5_2"]},
        "fabric_validation": {"largst": 5, "timeout_s": "soon", "bad": 1.5},
        "clock-sync": {"clock_offset_s": "0.01"},
        "telemetri": {},
        "link-errors": {"growth_per_hour": {"SymbolErrorCounter": -1}},
    }
    stated = {"settings": settings, "waivers": [waiver, waiver | {"check": "clock-sync"}]}
    with pytest.raises(ProblemsError) as caught:
        planned(OPTIONS | stated, inventory())
    assert [str(problem) for problem in caught.value.problems] == [
        "gpufleet_settings.hca-state.hca_names: unknown setting. Fix: did you mean 'hcas'?",
        "gpufleet_settings.fabric_validation.largst: unknown setting. Fix: did you mean 'largest'?",
        "gpufleet_settings.fabric_validation.timeout_s: is 'soon', expected a number. Fix: correct the value",
        "gpufleet_settings.fabric_validation.bad: is 1.5, expected more than 0 and 1 or less. Fix: correct the value",
        "gpufleet_settings.clock-sync.clock_offset_s: is '0.01', expected a number. Fix: correct the value",
        "gpufleet_settings.telemetri: is no gate, check or test of nodes. Fix: did you mean 'telemetry'?",
        "gpufleet_settings.link-errors.growth_per_hour: is -1, expected 0 or more. Fix: correct the value",
        "gpufleet_waivers[0].check: 'clock-syn' is not a check. Fix: did you mean 'clock-sync'?",
        "gpufleet_waivers[0].subject: 'gpu22' matches no host of the group. Fix: did you mean 'gpu02'?",
        "gpufleet_waivers[1].subject: 'gpu22' matches no host of the group. Fix: did you mean 'gpu02'?",
    ]


def test_an_empty_field_of_an_incomplete_decision_is_in_the_same_list() -> None:
    waiver = {"check": "clock-sync", "subjct": "gpu01", "reason": " ", "who": "ada", "until": "31.12.2026"}
    with pytest.raises(ProblemsError) as caught:
        planned(OPTIONS | {"waivers": [waiver]}, inventory())
    reported = [problem.reason for problem in caught.value.problems]
    assert any("missing reason." in text for text in reported) and any("31.12.2026" in text for text in reported)
    assert any("subjct" in str(problem) for problem in caught.value.problems)


def test_private_thresholds_and_settings_of_a_sku_are_checked_alike(tmp_path: Path) -> None:
    for name, text in (
        ("thresholds/nodes.yaml", "clock-sync: {clock_offset_s: 0.01}\ngpu-ecc: {ecc_dram: 5}\n"),
        ("thresholds/telemetry.yaml", "telemetry: {host_labels: [machine]}\n"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    own = load_hardware(recipe_directories("hardware"))["h100"]
    sku = replace(own, settings={"hca-state": {"rate_gbps": "400"}, "telemetry": {"url": "x"}})
    loaded, problems = checked_settings_of({"clock-sync": {"clock_offset_s": 0.02}}, [str(tmp_path)], [sku])
    assert loaded["clock-sync"]["clock_offset_s"].sources == ("gpufleet_settings",)
    assert loaded["telemetry"]["host_labels"].value == ["machine"]
    texts = [str(problem) for problem in problems]
    assert any(
        text.startswith(f"{tmp_path}/thresholds/nodes.yaml: gpu-ecc.ecc_dram: unknown setting") for text in texts
    )
    assert any("settings of SKU" in text and "hca-state.rate_gbps: is '400', expected" in text for text in texts)
    assert any("settings of SKU" in text and "telemetry: is no gate" in text for text in texts)
    assert len(texts) == 3


def test_files_that_private_thresholds_name_are_those_of_the_site(tmp_path: Path) -> None:
    (tmp_path / "thresholds").mkdir()
    (tmp_path / "thresholds/own.yaml").write_text("nodes: {ctrf: {burn-in: a.json}}\nfacility: {record: r.yaml}\n")
    options = OPTIONS | {"recipe_data": [str(tmp_path)], "set": ["facility.record=s.yaml"]}
    site = checked_inventory(options, inventory()).site
    assert site.settings == {"nodes": {"ctrf": {"burn-in": "a.json"}}, "facility": {"record": "s.yaml"}}
    assert checked_inventory(OPTIONS, inventory()).site.settings == {}


def test_what_is_read_before_a_gate_has_settings_may_come_from_private_thresholds(tmp_path: Path) -> None:
    """Otherwise a check is judged by a promise for which nobody declared it."""
    (tmp_path / "thresholds").mkdir()
    stated = {
        "rdma-allocatable": {"resources": {"rdma/ib": 8}},
        "gpu_stack": {"image_registry": "registry.example", "settle_s": 5.0},
        "dcgm-diag": {"disturb": True},
        "pdu-feeds": {
            "pdus": {"r1-a": {"address": "https://192.0.2.1", "rack": "r1", "feed": "A", "capacity_kw": 17.0}}
        },
    }
    (tmp_path / "thresholds/own.yaml").write_text(json.dumps(stated))
    checked = checked_inventory(OPTIONS | {"recipe_data": [str(tmp_path)]}, inventory())
    found = checked.site.settings
    assert found["rdma-allocatable"] == {"resources": {"rdma/ib": 8}}
    assert found["gpu_stack"] == {"image_registry": "registry.example"}, "what gates read with all layers stays there"
    assert found["dcgm-diag"] == {"disturb": True}
    declaration = declare("gpu_stack", checked.site, ("gpu-operator",), {"componentRefs": [{"name": "gpu-operator"}]})
    assert "rdma-allocatable" in {check.id for check in declaration.checks}
    own = OPTIONS | {"recipe_data": [str(tmp_path)], "set": ["gpu_stack.image_registry=mine.example"]}
    assert checked_inventory(own, inventory()).site.settings["gpu_stack"] == {"image_registry": "mine.example"}


def test_the_inventory_takes_nothing_away_of_what_the_start_wrote(tmp_path: Path) -> None:
    """A playbook that decides no gate lost its verb, and the variable for a report of CTRF did nothing."""
    run = Run(tmp_path)
    started = with_verb(new_run("r1", "lab", "2026-11-22T10:00:00Z", ("nodes",), rehearsal=False), "roll")
    run.save_record(replace(started, ctrf_dest="/out/ctrf.json", command="ansible-playbook x"))
    check_inventory(run, OPTIONS | {"fabric_host": ""}, inventory(), lambda _line: None)
    record = Run(tmp_path).record
    assert record.work == Work(verb="roll") and (record.ctrf_dest, record.command) == (
        "/out/ctrf.json", "ansible-playbook x",
    )  # fmt: skip
