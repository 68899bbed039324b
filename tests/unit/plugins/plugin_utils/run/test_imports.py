# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a process imports: no gate that it does not judge, and after preload nothing more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGE = "ansible_collections.gpufleet.bringup.plugins.plugin_utils"
_GATES_IMPORTED = f"""
import sys
from {PACKAGE}.outcome.gates import GATE_IDS
def gates():
    return " ".join(gate for gate in GATE_IDS if "{PACKAGE}.check." + gate in sys.modules)
"""


def _printed(repository: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _GATES_IMPORTED + code],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(repository / ".cache")},
    )  # fmt: skip
    return done.stdout.strip()


def test_judging_a_gate_imports_no_other_gate(repository: Path) -> None:
    code = f"""
import {PACKAGE}.run.decision
from {PACKAGE}.check.registry import observers_of
observers_of('facility')
"""
    assert _printed(repository, code + "print(gates())") == "facility"


def test_after_preload_nothing_of_the_checks_is_left_to_import(repository: Path) -> None:
    code = f"""
import {PACKAGE}.run.decision, {PACKAGE}.run.observing
from {PACKAGE}.run.preload import preload
preload()
before = set(sys.modules)
import {PACKAGE}.check.comparison.specs, {PACKAGE}.collect.identity, {PACKAGE}.collect.host_facts
import {PACKAGE}.component_stack.render, {PACKAGE}.report.run_report
from {PACKAGE}.check.registry import all_checks, observers_of
all_checks(), [observers_of(gate) for gate in GATE_IDS]
print(sorted(name for name in set(sys.modules) - before if name.startswith("{PACKAGE}.")), "sqlalchemy" in sys.modules)
"""
    assert _printed(repository, code) == "[] True"


def test_preload_leaves_missing_packages_to_preflight(repository: Path) -> None:
    code = f"""
for name in ("cattrs", "jinja2", "junitparser", "sqlalchemy", "yaml"):
    sys.modules[name] = None
from {PACKAGE}.run.preload import preload
preload()
from {PACKAGE}.outcome.gates import GATE_IDS
print(len(gates().split()) - len(GATE_IDS))
"""
    assert _printed(repository, code) == "0"
