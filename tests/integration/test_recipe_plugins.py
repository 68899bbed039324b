# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb, the lookup, the filters and the tests about recipes, as Ansible runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from returned import misfits, returned
from snapshot_api import cluster_of, everything, node

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.formats import to_text

CRITERIA = "{service: generic, accelerator: h100, intent: training, os: ubuntu, platform: volcano}"

# What the play asks; @criteria@ and @directory@ are filled in.
TASKS = """
- name: predicted
  gpufleet.bringup.recipe: {criteria: @criteria@, dest: @directory@/recipe.yaml}
  check_mode: true
  diff: true
- name: absent
  ansible.builtin.stat: {path: @directory@/recipe.yaml}
- name: first
  gpufleet.bringup.recipe:
    criteria: @criteria@
    dest: @directory@/recipe.yaml
    run_dir: @directory@/run
    set: ["gpuoperator:driver.version=570.1"]
    overrides: {gpu-operator: {driver: {repository: mirror.example}, toolkit: {env: [{name: A}]}}}
- name: again
  gpufleet.bringup.recipe:
    criteria: @criteria@
    dest: @directory@/recipe.yaml
    run_dir: @directory@/run
    set: ["gpuoperator:driver.version=570.1"]
    overrides: {gpu-operator: {driver: {repository: mirror.example}, toolkit: {env: [{name: A}]}}}
- name: asked
  gpufleet.bringup.recipe_info:
    {criteria: @criteria@, selector: "constraints[0].name"}
- name: explained
  gpufleet.bringup.recipe_explain_info:
    {criteria: @criteria@, selector: components.volcano.version}
- name: compared
  gpufleet.bringup.recipe_diff_info:
    criteria: @criteria@
    other: {criteria: {service: kind}}
- name: listed
  gpufleet.bringup.recipe_catalogue_info: {criteria: {fabric: efa}}
- name: filled
  gpufleet.bringup.recipe_hydrated_info: {criteria: @criteria@}
  check_mode: true
- name: upgraded
  gpufleet.bringup.recipe_diff_info:
    criteria: @criteria@
    other: {recipe_data: [@directory@/older]}
- name: pooled
  gpufleet.bringup.recipe:
    criteria: {service: generic, intent: training}
    pools:
      - {name: big, criteria: {accelerator: h100}, node_selector: {pool: big}}
      - {name: plain}
    hydrated_dest: @directory@/pools.json
- name: detected
  gpufleet.bringup.recipe:
    criteria: {service: generic, intent: training, os: ubuntu}
    facts:
      server_version: v1.34.0
      nodes:
        - {name: gpu01, gpus: 8, gpu_product: NVIDIA-H100-80GB-HBM3, os_id: rocky, resources: [vpc.amazonaws.com/efa]}
- name: refused
  gpufleet.bringup.recipe: {criteria: {service: gke, accelerator: l40s}}
  ignore_errors: true
- name: warned
  gpufleet.bringup.recipe: {criteria: {service: gke, accelerator: l40s}, unsupported: warn}
- name: missing
  gpufleet.bringup.recipe_info: {criteria: @criteria@, selector: components.nope}
  ignore_errors: true
- name: filtered
  vars:
    recipe: "{{ lookup('ansible.builtin.file', '@directory@/recipe.yaml') | from_yaml }}"
    criteria: @criteria@
    two: {value: ">= 2", nodes: all}
  ansible.builtin.set_fact:
    answers:
      looked: "{{ lookup('gpufleet.bringup.recipe_value', 'components.volcano.chart', criteria=criteria) }}"
      other: "{{ lookup('gpufleet.bringup.recipe_value', 'components.x', criteria=criteria, default='none') }}"
      version: "{{ recipe | gpufleet.bringup.recipe_value('components.volcano.version') }}"
      fallback: "{{ recipe | gpufleet.bringup.recipe_value('components.x.version', default='none') }}"
      passed: "{{ '1.33' | gpufleet.bringup.constraint_result('>= 1.32.4') }}"
      nodes: "{{ {'a': '1', 'b': '3'} | gpufleet.bringup.constraint_result(two) }}"
      unmeasured: "{{ none | gpufleet.bringup.constraint_result('>= 1.32.4') }}"
      ordered: >-
        {{ recipe.componentRefs | reverse | gpufleet.bringup.in_deployment_order | map(attribute='name') }}
      some: "{{ ['volcano', 'nfd'] | gpufleet.bringup.in_deployment_order(recipe) }}"
      driver: >-
        {{ recipe | gpufleet.bringup.hydrate
             | gpufleet.bringup.recipe_value('components.gpu-operator.values.driver.version') }}
      satisfied: "{{ '1.33' is gpufleet.bringup.satisfies('>= 1.32.4') }}"
      unsatisfied: "{{ none is gpufleet.bringup.satisfies('!= 1') }}"
      memory: "{{ '81920 MiB' is gpufleet.bringup.satisfies('>= 80', 'GiB') }}"
      newer: "{{ 'v26.7.0' is gpufleet.bringup.newer_than('v25.10.1') }}"
      older: "{{ 'v25.10.1' is gpufleet.bringup.newer_than('v25.10.1') }}"
"""


def play(repository: Path, directory: Path, tasks: str, *arguments: str, expect: int = 0) -> dict[str, Any]:
    """Run tasks in a play on localhost and return the result of each by its name."""
    directory.mkdir(parents=True, exist_ok=True)
    playbook = directory / "play.yml"
    documents = [{"hosts": "localhost", "gather_facts": False, "tasks": yaml.safe_load(tasks)}]
    playbook.write_text(yaml.safe_dump(documents), encoding="utf-8")
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"),
        "ANSIBLE_CONFIG": str(directory / "none.cfg"),
        "ANSIBLE_HOME": str(directory),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
    }
    (directory / "none.cfg").write_text("[defaults]\n", encoding="utf-8")
    register = directory / "out.json"
    for task in documents[0]["tasks"]:
        task.setdefault("register", task["name"])
    names = [task["register"] for task in documents[0]["tasks"]]
    content = "{{ {" + ", ".join(f"'{name}': {name} | default({{}})" for name in names) + "} | to_json }}"
    saving = {
        "name": "save",
        "ansible.builtin.copy": {"dest": str(register), "content": content, "mode": "0600"},
        "check_mode": False,
        "diff": False,
        "no_log": True,
    }
    documents[0]["tasks"].append(saving)
    playbook.write_text(yaml.safe_dump(documents), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "-c", "local"]
    interpreter = ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(
        [*command, *interpreter, *arguments, str(playbook)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    results: dict[str, Any] = json.loads(register.read_text(encoding="utf-8"))
    return results


@pytest.fixture(scope="module")
def results(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything that one play asks, and its directory."""
    directory = tmp_path_factory.mktemp("recipe")
    older = directory / "older"
    shutil.copytree(repository / "recipes", older)
    registry = (older / "registry.yaml").read_text(encoding="utf-8")
    (older / "registry.yaml").write_text(registry.replace("v26.7.0", "v26.3.1"), encoding="utf-8")
    tasks = TASKS.replace("@criteria@", CRITERIA).replace("@directory@", str(directory))
    return {**play(repository, directory, tasks), "directory": directory}


def test_check_mode_writes_nothing_and_shows_the_difference(results: dict[str, Any]) -> None:
    assert results["predicted"]["changed"]
    assert "RecipeResult" in results["predicted"]["diff"][0]["after"]
    assert not results["absent"]["stat"]["exists"]


def test_resolving_writes_once(results: dict[str, Any]) -> None:
    assert results["first"]["changed"]
    assert not results["again"]["changed"]
    assert results["first"]["recipe"]["components"]["volcano"]
    recipe = yaml.safe_load((results["directory"] / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["kind"] == "RecipeResult"
    run = json.loads((results["directory"] / "run/recipe.json").read_text(encoding="utf-8"))
    values = {entry["name"]: entry["values"] for entry in run["componentRefs"]}
    # A version that looks like a number stays a text.
    assert values["gpu-operator"]["driver"]["version"] == "570.1"


def test_questions(results: dict[str, Any]) -> None:
    assert results["asked"]["value"] == "K8s.server.version"
    # A layer brings the component, the registry pins its version.
    assert results["explained"]["msg"][-1].startswith("  registry (")
    # What mine does against the other one, as git diff and kubectl diff tell it.
    assert "volcano" in results["compared"]["difference"]["components_added"]
    assert results["listed"]["listing"]["combinations"]
    assert [entry["service"] for entry in results["listed"]["listing"]["environments"]] == ["eks"]
    filled = {entry["name"]: entry["values"] for entry in results["filled"]["recipe"]["componentRefs"]}
    assert filled["gpu-operator"]["driver"]["enabled"] is True


def test_the_playbook_answers_for_the_hosts_of_the_inventory(repository: Path, tmp_path: Path) -> None:
    hosts = {
        "a": {"gpufleet_sku": "dgx-h100"},
        "b": {"gpufleet_sku": "{{ 'dgx-' + 'h100' }}"},
        "c": {"gpufleet_sku": "l4"},
    }
    stated = {
        "gpufleet_criteria": {"service": "generic", "os": "ubuntu", "intent": "training"},
        "gpufleet_quarantine": [{"node": "c", "reason": "another kind", "ticket": "T-1", "who": "ada"}],
    }
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"vars": stated, "children": {"gpu_nodes": {"hosts": hosts}}}}))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "gpufleet.bringup.recipe", "-i", str(inventory),
         "-e", "gpufleet_recipe_command=explain"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "generic-infiniband" in done.stdout


def test_the_playbook_explains_what_the_run_of_an_inventory_lays_over(repository: Path, tmp_path: Path) -> None:
    """U113: `query` with an inventory said true, recipe.json of the run of that inventory false."""
    stated = {
        "gpufleet_criteria": {"service": "generic", "os": "ubuntu", "intent": "training"},
        "gpufleet_overrides": '{"gpu-operator": {"driver": {"version": "0.0.1"}}}',
    }
    inventory = tmp_path / "hosts.yml"
    hosts = {"a": {"gpufleet_sku": "dgx-h100"}}
    inventory.write_text(json.dumps({"all": {"vars": stated, "children": {"gpu_nodes": {"hosts": hosts}}}}))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_NOCOLOR": "1"}
    said = {}
    for words in ("driver.enabled", "driver.version"):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("ansible-playbook")), "gpufleet.bringup.recipe", "-i", str(inventory),
             "-e", "gpufleet_recipe_command=explain",
             "-e", f"gpufleet_recipe_selector=components.gpu-operator.values.{words}"],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        said[words] = done.stdout
    assert "components.gpu-operator.values.driver.enabled = false" in said["driver.enabled"]
    assert "gpufleet_driver_owner: host (the inventory) set false, replacing true" in said["driver.enabled"]
    assert "overrides (built in) set" in said["driver.version"] and "0.0.1" in said["driver.version"]


def test_the_playbook_writes_through_a_link_and_never_to_standard_output(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("old\n")
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_NOCOLOR": "1"}
    codes, said = [], ""
    for dest in (tmp_path / "link.yaml", "/dev/stdout"):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("ansible-playbook")), "gpufleet.bringup.recipe",
             "-e", "gpufleet_criteria=service=kind,accelerator=a100", "-e", f"gpufleet_recipe_dest={dest}"],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        codes.append(done.returncode)
        said += done.stdout + done.stderr
    assert codes == [0, 2], said
    assert (tmp_path / "link.yaml").is_symlink()
    assert yaml.safe_load((tmp_path / "real.yaml").read_text(encoding="utf-8"))["kind"] == "RecipeResult"
    assert "/dev/stdout: is a device or a file of the kernel, which is never written. Fix: name a regular file" in said


def test_the_playbook_reads_a_snapshot_and_says_what_it_detected(repository: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json"
    taken = collect_cluster(cluster_of(everything([node("gpu01")], [])), "gpufleet.bringup 0.0.0")
    snapshot.write_text(to_text(taken), encoding="utf-8")
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "gpufleet.bringup.recipe",
         "-e", f"gpufleet_recipe_snapshot={snapshot}", "-e", "gpufleet_criteria=service=eks,os=rhel"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accelerator: h100 (node gpu01: gpu_product is NVIDIA-H100" in done.stdout
    assert "criteria os: rhel is stated and counts; the cluster says ubuntu" in " ".join(done.stderr.split())


def test_two_versions_of_the_catalogue_are_compared(results: dict[str, Any]) -> None:
    found = results["upgraded"]["difference"]
    assert [(change["path"], change["left"], change["right"]) for change in found["changes"]] == [
        ("components.gpu-operator.version", "v26.3.1", "v26.7.0")
    ]
    assert not results["upgraded"]["same"]


def test_pools(results: dict[str, Any]) -> None:
    data = json.loads((results["directory"] / "pools.json").read_text(encoding="utf-8"))
    assert [pool["name"] for pool in data["pools"]] == ["big", "plain"]
    assert data["pools"][1]["components"] == {}


def test_what_is_not_stated_is_read_off_the_cluster(results: dict[str, Any]) -> None:
    criteria = results["detected"]["recipe"]["criteria"]
    assert (criteria["accelerator"], criteria["os"]) == ("h100", "ubuntu")
    sources = {found["dimension"]: found["source"] for found in results["detected"]["detection"]["findings"]}
    assert (sources["accelerator"], sources["os"], sources["platform"]) == ("detected", "stated", "unknown")
    warnings = " ".join(results["detected"]["warnings"])
    assert "criteria os: ubuntu is stated and counts; the cluster says rocky (node gpu01: os_id is rocky" in warnings
    assert "criteria fabric: efa was detected (node gpu01: resource is vpc.amazonaws.com/efa" in warnings
    assert "no layer honours it; it is left out" in warnings


def test_results_are_as_the_modules_describe_them(results: dict[str, Any]) -> None:
    told = {"changed", "failed", "msg", "error", "warnings", "diff", "exception"}
    for name, module in re.findall(r"^- name: (\w+)\n  gpufleet\.bringup\.(\w+):", TASKS, flags=re.MULTILINE):
        said, found = returned(module), results[name]
        assert {key for key in found if not key.startswith("_")} - said.keys() - told == set(), name
        for key in said.keys() & found.keys():
            # RETURN cannot list `values` of a component: as an attribute it is a method of every dictionary.
            wrong = [
                text for text in misfits(found[key], said[key], key) if not text.endswith("].values: not described")
            ]
            assert wrong == [], name


def test_errors_have_a_code_and_say_what_to_do(results: dict[str, Any]) -> None:
    assert results["refused"]["failed"]
    assert results["refused"]["exit_code"] == 2
    assert "Nearest supported" in results["refused"]["msg"]
    assert "Nearest supported" in results["warned"]["warnings"][0]
    assert results["missing"]["exit_code"] == 3


def test_lookup_filters_and_tests(results: dict[str, Any]) -> None:
    answers = results["filtered"]["ansible_facts"]["answers"]
    assert answers["looked"] == "volcano"
    assert answers["other"] == answers["fallback"] == "none"
    assert re.fullmatch(r"\d+\.\d+\.\d+", answers["version"])
    assert answers["passed"]["status"] == "pass"
    assert (answers["nodes"]["status"], answers["nodes"]["nodes"]) == ("fail", ["a"])
    assert (answers["unmeasured"]["status"], answers["unmeasured"]["blocks"]) == ("missing", True)
    assert answers["ordered"] == results["first"]["recipe"]["order"]
    assert answers["some"] == ["nfd", "volcano"]
    assert answers["driver"] == "570.1"
    flags = [answers[name] for name in ("satisfied", "unsatisfied", "memory", "newer", "older")]
    assert flags == [True, False, True, True, False]
