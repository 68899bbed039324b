# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples that `ansible-doc` shows of the plugins, as tasks; and commands of help texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from both import COLLECTIONS

COLLECTION = "gpufleet.bringup"
OURS = tuple(f"{name}." for name in COLLECTIONS)
# Modules that run on the hosts of an inventory; all others run on the controller.
ON_HOSTS = ("contact_info", "fabric_probe", "host_probe", "node_state_info")


@dataclass(frozen=True)
class Example:
    """The examples of one plugin: the folder of `plugins` that it is in, its name, and what EXAMPLES holds."""

    kind: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """The tasks; of a filter or test a task each that computes its expressions. An inventory has none."""
        if self.kind == "inventory":
            return []
        found = yaml.safe_load(self.text)
        if isinstance(found, dict):
            return [{"ansible.builtin.set_fact": {f"example_{key}": text}} for key, text in found.items()]
        return list(found)


def inventory_of(example: Example, directory: Path) -> Path:
    """Write the source of an inventory that an example is, with the file that its comment shows, and return it."""
    comments = [line[1:] for line in example.text.splitlines() if line.startswith("#")]
    (name,) = re.findall(r"such as (\S+):$", "\n".join(comments), re.MULTILINE)
    shown = directory / name
    shown.parent.mkdir(parents=True, exist_ok=True)
    shown.write_text("\n".join(line.removeprefix("   ") for line in comments if line.startswith("   ")), "utf-8")
    source = directory / f"{example.name}.yml"
    source.write_text(example.text, "utf-8")
    return source


def examples(root: Path) -> list[Example]:
    """Return those of every plugin that people name in plays or inventories and that has some."""
    return [found for found in _all(root) if found.text.strip()]


def _all(root: Path) -> Iterator[Example]:
    for path in sorted([*(root / "plugins").glob("*/*"), *(root / "rehearsal/plugins").glob("*/*")]):
        kind = path.parent.name
        if kind == "modules" or (kind in ("lookup", "inventory", "connection", "callback") and path.suffix == ".py"):
            yield Example(kind, path.stem, _of_python(path))
        elif path.suffix == ".yml":
            documents = yaml.safe_load_all(path.read_text(encoding="utf-8"))
            yield Example(kind, path.stem, "\n".join(each.get("EXAMPLES") or "" for each in documents))


def _of_python(path: Path) -> str:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EXAMPLES":
            return str(ast.literal_eval(node.value))
    return ""


def play_of(example: Example, tasks: list[dict[str, Any]]) -> str:
    """Return a playbook of tasks of an example, on the hosts that it is meant for."""
    hosts = "gpu_nodes" if example.name in ON_HOSTS else "localhost"
    return yaml.safe_dump([{"hosts": hosts, "gather_facts": False, "tasks": tasks}], sort_keys=False)
