# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values of variables that do not fit: of a list of entries, which one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleUndefinedVariable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.arguments import plain_spec, value_problems
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.call import Stated, option_problems
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.registry import node_tests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.variables import options

NAME = "gpufleet_quarantine"
ROOT = Path(__file__).resolve().parents[5]
WHOLE = {"node": "gpu01", "reason": "fan", "ticket": "T-1", "who": "ada"}


def said(value: list[Any]) -> list[str]:
    spec = plain_spec({NAME: options()[NAME]})[NAME]
    return [str(problem) for problem in value_problems(NAME, NAME, spec, {NAME: value})]


def test_an_entry_of_a_list_that_lacks_a_field_is_named_by_its_number() -> None:
    (line,) = said([WHOLE, {key: text for key, text in WHOLE.items() if key != "ticket"}, WHOLE])
    assert line.startswith("gpufleet_quarantine[1]: does not fit: missing required arguments: ticket.")
    assert said([WHOLE, WHOLE]) == [] and said([]) == []
    assert all(line.startswith("gpufleet_quarantine: ") for line in said([WHOLE, "gpu02"]))


@pytest.mark.parametrize(
    ("hosts", "where"),
    [
        (("localhost", "gpu01", "gpu02", "head", "gpu03"), "stated for all hosts"),
        (("gpu01", "gpu02", "gpu03"), "stated for group gpu_nodes"),
        (("gpu02",), "stated for host gpu02"),
        (("localhost",), "stated for host localhost"),
        (("gpu01", "head"), "stated for hosts gpu01, head"),
    ],
)
def test_a_name_that_nothing_reads_is_told_where_it_is_stated(hosts: tuple[str, ...], where: str) -> None:
    stated = Stated.__new__(Stated)
    every = ("localhost", "gpu01", "gpu02", "gpu03", "head")
    stated.extra, stated.hostvars = {}, {}
    stated.raw = {host: {"gpufleet_minimun_nodes": 1} if host in hosts else {} for host in every}
    stated.groups = {"all": list(every[1:]), "gpu_nodes": ["gpu01", "gpu02", "gpu03"], "one": ["gpu02"]}
    (problem,) = stated.problems()
    assert f"({where})" in problem.reason


def stated_of(raw: dict[str, Any], values: Any) -> Stated:
    stated = Stated.__new__(Stated)
    stated.extra, stated.groups = {}, {}
    stated.raw, stated.hostvars = raw, values
    return stated


def test_a_word_of_a_playbook_alone_is_one_that_it_knows_or_the_nearest_is_named() -> None:
    choices, name = {"gpufleet_recipe_command": ["resolve", "explain"]}, "gpufleet_recipe_command"
    for value, hint in (("explane", f"did you mean -e {name}=explain? choose one: resolve, explain"),
                        ("qqq", "choose one: resolve, explain"), ("explain", "")):  # fmt: skip
        stated = stated_of({"localhost": {name: value}}, {"localhost": {name: value}})
        assert [problem.hint for problem in stated.of_choices(choices)] == ([hint] if hint else [])
    assert list(stated_of({"localhost": {}}, {}).of_choices(choices)) == []


@pytest.mark.parametrize(("role", "name"), [("continuous_validation", "continuous"), ("burn_in", "burn_in")])
def test_tests_of_nodes_are_those_of_the_registry_and_a_misspelled_one_is_refused_before_contact(
    role: str, name: str
) -> None:
    spec = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text("utf-8"))
    variable = f"gpufleet_{name}_tests"
    assert spec["argument_specs"]["main"]["options"][variable]["choices"] == list(node_tests())
    for value in (["nccl_lop", "storage_io"], "nccl_lop,storage_io"):
        (problem,) = stated_of({"localhost": {variable: value}}, {"localhost": {variable: value}}).problems()
        assert str(problem) == f"{variable}: 'nccl_lop' is none of its values. Fix: did you mean 'nccl_loop'?"
    for value in (["nccl_pair"], "nccl_loop,dl_unit", "", []):
        assert not list(stated_of({"localhost": {variable: value}}, {"localhost": {variable: value}}).problems())


class Undefined:
    """A host with a template that names something undefined."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, _variable: str) -> Any:
        raise AnsibleUndefinedVariable(f"'{self.name}' is undefined")


@pytest.mark.parametrize(
    ("host", "undefined", "way_on"),
    [
        ("localhost", "inventory_dir", "add localhost to the inventory"),
        ("localhost", "inventory_file", "without it localhost has no inventory_file"),
        ("localhost", "my_dir", "correct the template"),
        ("gpu01", "inventory_dir", "correct the template"),
    ],
)
def test_what_the_implicit_localhost_lacks_is_mended_in_the_inventory(host: str, undefined: str, way_on: str) -> None:
    stated = stated_of({host: {NAME: "{{ x }}"}}, {host: Undefined(undefined)})
    (problem,) = stated.problems()
    assert problem.reason.startswith(f"cannot be resolved for {host}") and way_on in problem.hint


@pytest.mark.parametrize(
    ("tag", "way_on"),
    [
        ("plna", "did you mean --tags plan?"),
        ("noodes", "-e gpufleet_gates=nodes limits the scope"),
        ("nodes", "-e gpufleet_gates=nodes limits the scope"),
    ],
)
def test_a_tag_that_was_misspelled_is_the_nearest_tag_or_gate(tag: str, way_on: str) -> None:
    (problem,) = option_problems({"ansible_run_tags": [tag]}, (), ["plan"])
    assert problem.hint == way_on


def test_a_wrong_word_is_mended_where_it_is_stated() -> None:
    name = "gpufleet_driver_owner"
    stated = stated_of({"localhost": {name: "hosts"}}, {"localhost": {name: "hosts"}})
    (problem,) = stated.problems()
    assert problem.hint.startswith("did you mean host? choose one: ") and problem.hint.endswith("in the inventory")
    stated.extra = {name: "hosts"}
    (problem,) = stated.problems()
    assert problem.hint.startswith(f"did you mean -e {name}=host? choose one: ") and "inventory" not in problem.hint


def test_a_misspelled_variable_whose_value_the_near_one_would_refuse_is_told_with_what_that_takes() -> None:
    for value, way_on in (
        ("3", "did you mean gpufleet_waivers, which is a list of mappings"),
        ([], "did you mean gpufleet_waivers?"),
    ):
        stated = stated_of({"localhost": {}}, {})
        stated.extra = {"gpufleet_waivrs": value}
        (problem,) = stated.problems()
        assert problem.hint.startswith(way_on), problem.hint


def test_a_file_that_is_named_and_not_there_is_refused_and_what_is_asked_elsewhere_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "accepted.json").touch()
    monkeypatch.chdir(tmp_path)

    def said(place: Any) -> list[str]:
        values = {"localhost": {"gpufleet_drift_before": place}}
        return [str(problem) for problem in stated_of(values, values).of_places(["gpufleet_drift_before", "unset"])]

    assert said("acepted.json") == [
        "gpufleet_drift_before: names 'acepted.json', which does not exist. Fix: did you mean 'accepted.json'?"
    ]
    (line,) = said("/no/such.json")
    assert line.endswith(f"-e gpufleet_drift_before=FILE; paths count from {tmp_path}")
    for place in ("accepted.json", str(tmp_path / "accepted.json"), "cm://ns/name", "https://host/x", "", 7):
        assert said(place) == []


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (["gpu01", "gpu02"], []),
        ("gpu01,gpu02", []),
        ("", []),
        (["gpu1"], ["names 'gpu1', which is not in group gpu_nodes of the inventory. Fix: did you mean 'gpu01'?"]),
        ("gpu02, head", ["names 'head', which is not in group gpu_nodes of the inventory. Fix: known: gpu01, gpu02"]),
    ],
)
def test_hosts_that_are_not_in_the_group_are_refused_before_contact(value: Any, lines: list[str]) -> None:
    values = {"localhost": {"gpufleet_burn_in_nodes": value}}
    stated = stated_of(values, values)
    stated.groups = {"all": ["gpu01", "gpu02", "head"], "gpu_nodes": ["gpu01", "gpu02"]}
    found = [str(problem) for problem in stated.of_hosts(["gpufleet_burn_in_nodes", "unset"])]
    assert found == [f"gpufleet_burn_in_nodes: {line}" for line in lines]
    stated.groups = {}
    assert not [*stated.of_hosts(["gpufleet_burn_in_nodes"])]


def test_a_change_that_no_ansible_finds_is_refused_before_contact(tmp_path: Path) -> None:
    (tmp_path / "driver.yml").touch()

    def found(value: Any) -> list[str]:
        values = {"localhost": {"gpufleet_wave_change": value}}
        return [str(problem) for problem in stated_of(values, values).of_tasks(["gpufleet_wave_change", "unset"])]

    for there in ("", "none", "operator", "my_role", "gpufleet.bringup.converge", str(tmp_path / "driver.yml")):
        assert not found(there)
    assert found("gpufleet.bringup.converg") == [
        "gpufleet_wave_change: names 'gpufleet.bringup.converg', which is no role. "
        "Fix: did you mean 'gpufleet.bringup.converge'?"
    ]
    (line,) = found("nowhere.at_all.driver")
    assert "nowhere.at_all is not installed" in line
    (line,) = found(str(tmp_path / "drivr.yml"))
    assert line.endswith(f"did you mean '{tmp_path}/driver.yml'?")


def test_a_playbook_that_keeps_something_needs_one_of_its_variables() -> None:
    stated = Stated.__new__(Stated)
    stated.extra, stated.raw = {}, {"localhost": {}}
    names = ["gpufleet_snapshot", "gpufleet_snapshot_source"]
    (problem,) = stated.missing(names, {"gpufleet_snapshot": ""})
    assert "gpufleet_snapshot: is not set" in str(problem) and "-e gpufleet_snapshot_source=..." in problem.hint
    assert list(stated.missing([], {})) == []
    # A rehearsal of the playbook sets one as a variable of the play.
    assert list(stated.missing(names, {"gpufleet_snapshot": "accepted.json"})) == []
    stated.raw = {"localhost": {"gpufleet_snapshot_source": "snapshot.json"}}
    assert list(stated.missing(names, {})) == []
