# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples of `ansible-doc` and the tasks of roles and playbooks are tasks that Ansible loads, and their arguments are
those of the module."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from both import of_both
from examples import OURS, Example, examples

ROOT = Path(__file__).resolve().parents[3]
FOUND = examples(ROOT)
FILES = of_both("playbooks/**/*.yml", "roles/**/*.yml")
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
FIRST, SECOND = "gpufleet.bringup.", "gpufleet.rehearsal."

def known(value, option):
    if isinstance(value, str) and "{{" in value:
        return (option.get("choices") or [SOME[option.get("type", "str")]])[0]
    return value

def problems(task):
    action = Task.load(dict(task), loader=DataLoader()).action
    if not action.startswith((FIRST, SECOND)):
        return []
    spec = argument_spec(action.removeprefix(FIRST))
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


def tasks_in(data: Any) -> Iterator[dict[str, Any]]:
    """Yield every task somewhere in it that calls a module of ours."""
    if isinstance(data, dict) and any(str(key).startswith(OURS) for key in data):
        yield data
    elif isinstance(data, dict | list):
        for part in data.values() if isinstance(data, dict) else data:
            yield from tasks_in(part)


@pytest.fixture(scope="module")
def shipped() -> dict[str, list[dict[str, Any]]]:
    """The tasks with modules of ours of each file of a role and of each playbook."""
    read = {path: [*tasks_in(yaml.safe_load(path.read_text(encoding="utf-8")))] for path in FILES}
    return {str(path.relative_to(ROOT)): tasks for path, tasks in read.items() if tasks}


@pytest.fixture(scope="module")
def problems(shipped: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """What is wrong with the tasks of each example and of each file."""
    asked = [*FOUND, *(Example("wrong", name, text) for name, text in WRONG.items())]
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_PROBLEMS, str(ROOT / ".cache")], capture_output=True, text=True, check=True,
        input=json.dumps({str(example): example.tasks for example in asked} | shipped),
    )  # fmt: skip
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_module_filter_test_and_lookup_has_an_example() -> None:
    wanted = of_both("plugins/modules/[!_]*.py", "plugins/filter/*.yml", "plugins/test/*.yml")
    wanted += of_both("plugins/lookup/[!_]*.py", "plugins/inventory/[!_]*.py")
    assert len(wanted) > 50 and {path.stem for path in wanted} - {example.name for example in FOUND} == set()


@pytest.mark.parametrize("example", FOUND, ids=str)
def test_an_example_is_tasks_with_arguments_of_their_modules(example: Example, problems: dict[str, list[str]]) -> None:
    assert problems[str(example)] == []
    if example.kind == "modules":
        assert any(f"{ours}{example.name}" in task for task in example.tasks for ours in OURS)


def test_tasks_of_roles_and_playbooks_have_arguments_of_their_modules(
    problems: dict[str, list[str]], shipped: dict[str, list[dict[str, Any]]]
) -> None:
    assert len(shipped) > 25 and "roles/validate/tasks/phase.yml" in shipped
    # What is demanded may come from the defaults of a block, which variables hold; a run without it ends at once.
    wrong = {file: [text for text in problems[file] if not text.startswith("missing required")] for file in shipped}
    assert {file: texts for file, texts in wrong.items() if texts} == {}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_example_is_found(name: str, problems: dict[str, list[str]]) -> None:
    assert problems[f"wrong/{name}"] != []
