# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples of `ansible-doc` are tasks that Ansible loads, and their arguments are those of the module."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from examples import Example, examples

ROOT = Path(__file__).resolve().parents[3]
FOUND = examples(ROOT)
WRONG = {
    "keyword": "- name: x\n  gpufleet.bringup.recipe_info: {selector: x}\n  registre: asked\n",
    "option": "- name: x\n  gpufleet.bringup.recipe_info: {selecter: x}\n",
    "type": "- name: x\n  gpufleet.bringup.plan_info: {group: gpu_nodes, minimum_nodes: seven}\n",
    "required": "- name: x\n  gpufleet.bringup.gate: {gate: nodes}\n",
    "module": "- name: x\n  gpufleet.bringup.recipe_value: {}\n",
}
# In a process of its own: Ansible's collection loader replaces the plain imports of the tests. A value that comes from
# a variable is known by its type alone.
_PRINT_PROBLEMS = """
import json, sys
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.arguments import argument_spec
SOME = {"dict": {}, "list": [], "int": 1, "float": 1.0, "bool": True, "str": "text", "path": "/a/path", "raw": "text"}
OURS = "gpufleet.bringup."

def known(value, option):
    if isinstance(value, str) and "{{" in value:
        return (option.get("choices") or [SOME[option.get("type", "str")]])[0]
    return value

def problems(task):
    action = Task.load(dict(task), loader=DataLoader()).action
    if not action.startswith(OURS):
        return []
    spec = argument_spec(action.removeprefix(OURS))
    given = {name: known(value, spec.get(name, {})) for name, value in (task[action] or {}).items()}
    return ArgumentSpecValidator(spec).validate(given).error_messages

found = {}
for name, tasks in json.load(sys.stdin).items():
    found[name] = []
    for task in tasks:
        try:
            found[name] += problems(task)
        # Whatever an example meets is its own problem, told by its name; the others are looked at as well.
        except Exception as error:
            found[name].append(f"{type(error).__name__}: {error}")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def problems() -> dict[str, list[str]]:
    """What is wrong with the tasks of each example."""
    asked = [*FOUND, *(Example("wrong", name, text) for name, text in WRONG.items())]
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_PROBLEMS, str(ROOT / ".cache")], capture_output=True, text=True, check=True,
        input=json.dumps({str(example): example.tasks for example in asked}),
    )  # fmt: skip
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_module_filter_test_and_lookup_has_an_example() -> None:
    documented = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")} - {"__init__"}
    documented |= {path.stem for kind in ("filter", "test") for path in (ROOT / "plugins" / kind).glob("*.yml")}
    documented |= {path.stem for path in (ROOT / "plugins" / "lookup").glob("*.py")} - {"__init__"}
    assert documented - {example.name for example in FOUND} == set()


@pytest.mark.parametrize("example", FOUND, ids=str)
def test_an_example_is_tasks_with_arguments_of_their_modules(example: Example, problems: dict[str, list[str]]) -> None:
    assert problems[str(example)] == []
    if example.kind == "modules":
        assert any(f"gpufleet.bringup.{example.name}" in task for task in example.tasks)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_example_is_found(name: str, problems: dict[str, list[str]]) -> None:
    assert problems[f"wrong/{name}"] != []
