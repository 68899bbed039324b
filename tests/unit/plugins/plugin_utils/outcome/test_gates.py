# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate is one value: lists follow from it, and what files by hand must have for it is there."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.doc_fragments import gate as gate_fragment
from ansible_collections.gpufleet.bringup.plugins.modules import host_probe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.specs import COMPARISONS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings import settings_in
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import shipped
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks, all_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import every_choice, gate_permissions
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import (
    BURN_IN,
    GATE_IDS,
    GATES,
    LOADING_GATES,
    PERFORMANCE,
    Gate,
)

# As a ninth one would be of which nothing else was written.
NINTH = Gate(
    number=9, id="ninth", title="Ninth", depends_on="inference_acceptance", phases=(PERFORMANCE,), needs_api=True,
    loads_hosts=True, loads_fabric=True, compared_as="ninth", fingerprint=("recipe",), not_judging=("timeout_s",),
)  # fmt: skip
PACKAGE = "ansible_collections.gpufleet.bringup.plugins.plugin_utils"
DERIVED = f"""
import importlib.util, json, sys
spec = importlib.util.find_spec("{PACKAGE}.outcome.gates")
gates = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
end = "\\n)  # fmt: skip\\n"
source = open(spec.origin, encoding="utf-8").read()
exec(source.replace(end, "\\n    " + sys.argv[1] + "," + end, 1), vars(gates))
from {PACKAGE}.check.comparison.specs import BASELINE_CHECKS
from {PACKAGE}.fingerprint.dependencies import NOT_JUDGING
from {PACKAGE}.features.inventory.app import _READ_FROM_SITE
print(json.dumps([gates.GATE_IDS, gates.API_GATES, gates.LOADING_GATES, gates.PHASE_GATES["performance"],
    sorted(BASELINE_CHECKS), sorted(NOT_JUDGING), sorted(_READ_FROM_SITE)]))
"""


@cache
def document(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}


def steps(playbook: Path) -> Iterator[tuple[str, str]]:
    """What a playbook does of gates: the gate, and its moment before or after a load, the load itself, or the end."""
    around_fabric = document(playbook.parent.parent / "roles" / "fabric" / "tasks" / "around_load.yml")[0]
    (fabric_gate,) = (task["around_gate"] for task in around_fabric.values() if isinstance(task, dict))
    for task in (task for play in document(playbook) for task in play.get("tasks", [])):
        words, role = task.get("vars") or {}, next((task[name] for name in task if name.endswith("_role")), {})
        name, part = str(role.get("name", "")).rpartition(".")[2], role.get("tasks_from", "main")
        if "nodes_around_gate" in words:
            yield words["nodes_around_gate"], f"hosts {words['nodes_moment']}"
        elif "fabric_moment" in words:
            yield fabric_gate, f"fabric {words['fabric_moment']}"
        elif "validate_gate" in words:
            yield words["validate_gate"], words["validate_step"]
        elif part in ("main", "observe", "decide"):
            yield name, "decide" if part == "main" else part


def around(gate: Gate, repository: Path, what: str) -> bool:
    wanted = [f"{what} before", "observe", f"{what} after"]
    found = (
        [step for name, step in steps(repository / "playbooks" / playbook) if name == gate.id and step in wanted]
        for playbook in ("site.yml", "validate.yml")
    )
    return all(order == wanted for order in found)


def in_order(gate: Gate, repository: Path) -> bool:
    ends = [name for name, step in steps(repository / "playbooks" / "site.yml") if step == "decide"]
    return gate.id in ends and gate.depends_on in ["", *ends[: ends.index(gate.id)]]


def role_decides(gate: Gate, repository: Path) -> bool:
    texts = [path.read_text(encoding="utf-8") for path in (repository / "roles" / gate.id / "tasks").glob("*.yml")]
    return any(f"gate_id: {gate.id}\n" in text for text in texts)


def observed_by(gate: Gate, key: str = "") -> bool:
    return any(check.spec.gate == gate.id and key in check.observer.key for check in all_checks())


def complete(gate: Gate) -> bool:
    kinds = all_settings().get(gate.id, ())
    names = {name for kind in kinds for name in settings_in(kind)}
    return bool(kinds) and names == shipped(gate.id, *kinds).keys()


def choices(documentation: str, option: str) -> list[str]:
    found: list[str] = yaml.safe_load(documentation)["options"][option]["choices"]
    return found


def compared(gate: Gate) -> bool:
    specs = {entry.spec.id for entry in COMPARISONS if entry.spec.gate == gate.id}
    return {f"{gate.compared_as}-baseline", f"{gate.compared_as}-contract"} <= specs


def always(_gate: Gate) -> bool:
    return True


# What a gate must have beside its value: which gates, and whether it is there.
PLACES: dict[str, tuple[Callable[[Gate], Any], Callable[[Gate, Path], bool]]] = {
    "checks": (always, lambda gate, _root: observed_by(gate)),
    "defaults of its settings": (
        always, lambda gate, _root: complete(gate)
    ),
    "faults": (
        always, lambda gate, root: (root / "recipes/gates" / gate.id / "faults.yaml").is_file()
    ),
    "a role that decides it": (always, role_decides),
    "arguments of the role": (
        always, lambda gate, root: (root / "roles" / gate.id / "meta" / "argument_specs.yml").is_file()
    ),
    "a play behind the gate that it depends on": (always, in_order),
    "a choice of modules": (
        always, lambda gate, _root: gate.id in choices(gate_fragment.ModuleDocFragment.DOCUMENTATION, "gate")
    ),
    "a key figure": (always, lambda gate, root: gate.id in document(root / "recipes" / "key_figures.yaml")),
    "a guide": (always, lambda gate, root: (root / "docs" / f"{gate.id}.md").is_file()),
    "rights": (
        lambda gate: gate.needs_api, lambda gate, _root: bool(gate_permissions(gate.id, "observe", every_choice()))
    ),
    "a place in validations": (
        lambda gate: gate.phases,
        lambda gate, root: f"'{gate.id}'" in (root / "playbooks" / "validate.yml").read_text(encoding="utf-8"),
    ),
    "readings of hosts around its load": (
        lambda gate: gate.loads_hosts, lambda gate, root: around(gate, root, "hosts")
    ),
    "a choice of the module that reads hosts": (
        lambda gate: gate.loads_hosts, lambda gate, _root: gate.id in choices(host_probe.DOCUMENTATION, "around_gate")
    ),
    "a check of what its load left": (
        lambda gate: gate.loads_hosts, lambda gate, _root: observed_by(gate, "host_state")
    ),
    "readings of the fabric around its load": (
        lambda gate: gate.loads_fabric, lambda gate, root: around(gate, root, "fabric")
    ),
    "comparisons": (lambda gate: gate.compared_as, lambda gate, _root: compared(gate)),
    "figures that are compared": (
        lambda gate: gate.compared_as,
        lambda gate, root: gate.id in {rule["gate"] for rule in document(root / "recipes" / "figures.yaml").values()},
    ),
}  # fmt: skip


def lacking(gate: Gate, repository: Path) -> list[str]:
    return [place for place, (wanted, there) in PLACES.items() if wanted(gate) and not there(gate, repository)]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.id)
def test_a_gate_has_everything_that_its_value_asks_for(repository: Path, gate: Gate) -> None:
    assert lacking(gate, repository) == []


def test_of_a_gate_that_is_only_a_value_everything_else_is_named(repository: Path) -> None:
    assert lacking(NINTH, repository) == list(PLACES)


def test_every_list_of_gates_has_a_ninth_one_as_soon_as_there_is_its_value(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DERIVED, repr(NINTH)],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(repository / ".cache")},
    )  # fmt: skip
    lists = json.loads(done.stdout)
    assert [("ninth" in found or "ninth-baseline" in found) for found in lists] == [True] * 7
    assert lists[0] == [*GATE_IDS, "ninth"]


def test_a_gate_with_figures_loads_hosts_and_belongs_to_the_phase_performance() -> None:
    performance = [gate for gate in GATES if PERFORMANCE in gate.phases]
    assert performance == [gate for gate in GATES if gate.loads_hosts] == [gate for gate in GATES if gate.compared_as]
    assert all(gate.phases == (PERFORMANCE,) for gate in performance)


def test_a_gate_that_loads_hosts_holds_them() -> None:
    assert not [gate.id for gate in GATES if gate.only_looks and (gate.needs_api or gate.loads_hosts or gate.installs)]


def test_the_module_that_reads_hosts_knows_the_gates_that_load_them_alone() -> None:
    assert choices(host_probe.DOCUMENTATION, "around_gate") == [*LOADING_GATES, BURN_IN]
    assert choices(gate_fragment.ModuleDocFragment.DOCUMENTATION, "gate") == list(GATE_IDS)


def gate_lists(tree: ast.AST) -> Iterator[list[str]]:
    """The gates in literals that have several, of a mapping in its keys; nodes and fabric are words of others, too."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    names = [node.value for node in assigned if isinstance(node.targets[0], ast.Tuple)]
    for node in (node for node in ast.walk(tree) if node not in names):
        parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        words = [part.value for part in parts if isinstance(part, ast.Constant)]
        gates = [word for word in words if word in GATE_IDS]
        if len(gates) > 1 and (len(gates) == len(parts) or len({*gates} - {"nodes", "fabric"}) > 1):
            yield gates


def test_what_is_true_of_gates_stands_in_their_values_alone(repository: Path) -> None:
    core = repository / "plugins" / "plugin_utils"
    found = {}
    for path in core.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "rehearsal" not in path.parts and sum(f'"{gate}"' in text for gate in GATE_IDS) > 1:
            lists = list(gate_lists(ast.parse(text)))
            found |= {str(path.relative_to(core)): lists} if lists else {}
    # The functions that say what each gate asks of the API server, of which "rights" above misses none.
    assert found == {"check/rights.py": [[gate.id for gate in GATES if gate.needs_api]]}
