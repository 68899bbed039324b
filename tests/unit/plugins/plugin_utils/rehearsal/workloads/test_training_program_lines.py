# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated trainings write the lines of the program: the same events with the same fields, no more and no fewer.

The program's own are read from its source: to run it needs PyTorch (tests/rehearsal/test_training_program.py).
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

from simulated_training import context, fault, outputs

PROGRAM = Path(__file__).resolve().parents[6] / "recipes" / "workloads" / "training"
ALWAYS = {"schema_version", "event"}


def calls_of(tree: ast.AST, name: str) -> list[ast.Call]:
    """The calls of a function or method."""
    called = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [c for c in called if getattr(c.func, "attr", getattr(c.func, "id", "")) == name]


def keys_returned(file: str, function: str) -> set[str]:
    """The keys of the dictionary that a function returns, wherever it is in the file."""
    tree = ast.parse((PROGRAM / file).read_text(encoding="utf-8"))
    (found,) = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function]
    returned = [n.value for n in ast.walk(found) if isinstance(n, ast.Return) and isinstance(n.value, ast.Dict)]
    return {str(key.value) for entry in returned for key in entry.keys if isinstance(key, ast.Constant)}


def written_by_the_program() -> dict[str, set[str]]:
    """Fields by event, with those that other functions give."""
    given = {
        "facts": keys_returned("train.py", "facts"), "line": keys_returned("measuring.py", "line"),
        "taken": keys_returned("device_state.py", "summary"), "digests": keys_returned("arithmetic.py", "digests"),
    }  # fmt: skip
    found: dict[str, set[str]] = {}
    for call in calls_of(ast.parse((PROGRAM / "train.py").read_text(encoding="utf-8")), "say"):
        event = ast.literal_eval(call.args[0])
        fields = {keyword.arg for keyword in call.keywords if keyword.arg}
        for keyword in call.keywords:
            if keyword.arg is None and isinstance(keyword.value, ast.Call):
                function = keyword.value.func
                fields |= given[getattr(function, "attr", getattr(function, "id", ""))]
        found[event] = fields | ALWAYS | {"rank"}
    return found


def written_by_the_simulator(*broken: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for state in ("ok", *broken):
        parts = outputs(context(fault("gpu.training", state, "gpu", "gpu02/gpu3")))
        lines = [text for part in parts.values() for _stream, text in part.lines if text.startswith("{")]
        for line in map(json.loads, lines):
            assert found.setdefault(line["event"], set(line)) == set(line), line["event"]
    return found


def test_each_event_has_the_fields_of_the_program() -> None:
    simulated = written_by_the_simulator("hangs", "crashes")
    pod = simulated.pop("pod")
    assert simulated == written_by_the_program()
    (said,) = calls_of(ast.parse((PROGRAM / "begin.py").read_text(encoding="utf-8")), "dumps")
    assert pod == {"schema_version", "event", "phase", "index", "at"}
    assert said.args


def test_the_workers_of_all_hosts_begin_together_however_late_one_was() -> None:
    """As torchrun has it; so a judge that looked at the workers alone would see nothing."""
    parts = outputs(context(fault("node.training.delay_s", 400.0)))
    lines = [json.loads(text) for part in parts.values() for _stream, text in part.lines]
    workers = [line["started"] for line in lines if line["event"] == "hello"]
    pods = [line["at"] for line in lines if line["event"] == "pod" and line["phase"] == "started"]
    assert max(workers) - min(workers) < 3 < 390 < max(pods) - min(pods)
