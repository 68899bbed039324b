# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How checks are found: one gate at a time, and never a judge with an observer that makes something else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check import registry
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import (
    Check,
    CheckSpec,
    JudgeContext,
    Observer,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner

SPEC = CheckSpec(id="probe", gate="telemetry", title="t", per=SubjectKind.NODE)
OBSERVER = Observer("things", list, lambda _context: [], lambda data, _run_dir, _site: data)
SITE = make_site()
_LOADS = """
import json, sys
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check import registry
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site, SiteProfile
registry.checks_of("telemetry", Site(name="lab", profile=SiteProfile.ON_PREMISES, hosts=()))
room = registry.__package__ + "."
print(json.dumps(sorted({name.removeprefix(room).partition(".")[0] for name in sys.modules if name.startswith(room)})))
"""


def takes_lists(_value: list[str], _context: JudgeContext) -> tuple[Outcome, ...]:
    return ()


def takes_list(_value: list, _context: JudgeContext) -> tuple[Outcome, ...]:
    return ()


def takes_text(_value: str, _context: JudgeContext) -> tuple[Outcome, ...]:
    return ()


def module(check: object) -> tuple[ModuleType, ...]:
    made = ModuleType("made")
    vars(made).update(SPEC=SPEC, CHECK=check)
    return (made,)


@pytest.fixture
def with_check(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], tuple[Check[Any], ...]]:
    def load(check: object) -> tuple[Check[Any], ...]:
        monkeypatch.setattr(registry, "_modules", lambda _gate: module(check))
        return registry._checks.__wrapped__("telemetry")

    return load


def test_loading_one_gate_imports_no_other_gate() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run([sys.executable, "-c", _LOADS], env=env, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == ["kit", "registry", "site_checks", "spec", "telemetry"]


def test_a_judge_that_takes_what_its_observer_makes_is_loaded(with_check: Callable[[object], Any]) -> None:
    check = Check(SPEC, OBSERVER, takes_list)
    assert with_check(check) == (check,)


@pytest.mark.parametrize("judge", [takes_text, takes_lists])
def test_a_judge_that_takes_something_else_is_refused(with_check: Callable[[object], Any], judge: Any) -> None:
    with pytest.raises(BringupError, match="observer 'things' makes list"):
        with_check(Check(SPEC, OBSERVER, judge))


def test_a_specification_without_a_check_is_refused(with_check: Callable[[object], Any]) -> None:
    with pytest.raises(BringupError, match="no CHECK"):
        with_check(None)


def test_checks_that_need_the_driver_move_to_the_gate_whose_operator_brings_it() -> None:
    operator = make_site(driver_owner=DriverOwner.OPERATOR)
    moved = {check.spec.id for check in registry.checks_of("gpu_stack", operator)}
    assert {"gpu-census", "node-ready"} <= moved
    assert "gpu-census" not in {check.spec.id for check in registry.checks_of("nodes", operator)}
    assert "gpu-census" not in {check.spec.id for check in registry.checks_of("gpu_stack", SITE)}


def test_the_gate_that_asks_in_pods_uses_its_own_observer_of_the_same_facts() -> None:
    census = next(check for check in registry.all_checks() if check.spec.id == "gpu-census")
    own = registry.observer_for(census, "gpu_stack")
    assert own is not census.observer and own.result is census.observer.result
    assert registry.observer_for(census, "nodes") is census.observer


def test_an_observer_of_the_same_key_that_makes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    census = next(check for check in registry.all_checks() if check.spec.id == "gpu-census")
    monkeypatch.setattr(registry, "observers_of", lambda _gate: {census.observer.key: OBSERVER})
    with pytest.raises(BringupError, match="makes list"):
        registry.observer_for(census, "gpu_stack")


def test_every_observer_names_what_it_saves() -> None:
    """What it saves is then read whole, and not by the defaults of what is missing."""
    unnamed = [
        f"{gate}/{key}"
        for gate in GATE_IDS
        for key, observer in registry.observers_of(gate).items()
        if observer.saved is None
    ]
    assert unnamed == []
