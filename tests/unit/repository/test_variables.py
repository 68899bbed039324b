# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's variables carry its name, and the globals are documented: there is no third kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from both import of_both

SET_FACT = ("ansible.builtin.set_fact", "set_fact")
ROLE_ACTIONS = ("ansible.builtin.include_role", "ansible.builtin.import_role")
BLOCKS = ("block", "rescue", "always")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8")) if path.is_file() else None


def task_variables(tasks: Any, role: str) -> Iterator[tuple[str, str]]:
    """Every variable that tasks set, with the name of the role that it belongs to."""
    for task in tasks or ():
        for block in BLOCKS:
            yield from task_variables(task.get(block), role)
        owner = next((task[action]["name"].rpartition(".")[2] for action in ROLE_ACTIONS if action in task), role)
        yield from ((name, owner) for name in task.get("vars", {}))
        for action in SET_FACT:
            yield from ((name, role) for name in task.get(action, {}) if name != "cacheable")
        loop_variable = task.get("loop_control", {}).get("loop_var")
        yield from ((name, role) for name in (task.get("register"), loop_variable) if name)


def allowed(name: str, role: str) -> bool:
    return name.lstrip("_") == role or name.startswith((f"{role}_", f"__{role}_", "gpufleet_", "ansible_"))


def badly_named(role: Path) -> list[str]:
    found = [(name, role.name) for part in ("defaults", "vars") for name in load(role / part / "main.yml") or {}]
    for part in ("tasks", "handlers"):
        for path in sorted((role / part).glob("*.yml")):
            found += task_variables(load(path), role.name)
    return sorted({name for name, owner in found if not allowed(name, owner)})


@pytest.mark.parametrize(
    "task",
    [
        {"register": "result"},
        {"vars": {"other": 1}},
        {"ansible.builtin.set_fact": {"fact": 1}},
        {"block": [{"loop_control": {"loop_var": "item_name"}}]},
    ],
    ids=["register", "vars", "fact", "loop variable"],
)
def test_a_name_without_owner_is_seen(tmp_path: Path, task: dict[str, Any]) -> None:
    role = tmp_path / "nodes"
    (role / "tasks").mkdir(parents=True)
    (role / "tasks/main.yml").write_text(yaml.safe_dump([task]), "utf-8")
    assert len(badly_named(role)) == 1


def test_variables_carry_the_name_of_their_role() -> None:
    roles = [path.parent for path in of_both("roles/*/tasks")]
    assert roles
    assert {role.name: names for role in roles if (names := badly_named(role))} == {}


def test_defaults_are_documented() -> None:
    missing = []
    for defaults in of_both("roles/*/defaults/main.yml"):
        role = defaults.parent.parent
        specs = load(role / "meta/argument_specs.yml") or {"argument_specs": {}}
        options = {name for entry in specs["argument_specs"].values() for name in entry.get("options", {})}
        missing += [f"{role.name}: {name}" for name in load(defaults) or {} if name not in options]
    assert missing == []
