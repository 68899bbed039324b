# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check with a new tool costs four places: its file, a fault, a test, and its entry in tools.yaml.

They are added to a copy of both collections, in which the simulated hosts have the tool and the gate finds the fault.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = '''"""Check fan-trays: every fan tray of the host works.

Parser of `fantrays list`: a line a tray."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...outcome.model import Outcome, SubjectKind
from ...probe.text import plain, unreadable
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TRAY = re.compile(r"tray (\\d{1,3}) (ok|off)")


def parse(text: str) -> dict[int, bool]:
    """Return by tray whether it works.

    Raises:
        InputError: no tray, or a line of another kind.
    """
    rows = [(line, _TRAY.fullmatch(line)) for line in plain(text).strip().splitlines()] or [("", None)]
    for line, match in rows:
        if match is None:
            raise unreadable("fantrays list", line, "`tray 1 ok`")
    return {int(match[1]): match[2] == "ok" for _line, match in rows if match}


@dataclass(frozen=True, slots=True, kw_only=True)
class FanTraySettings:
    """Settings of check fan-trays."""

    # A site's own figure.
    least: int = setting("How many fan trays must work.", default=2, minimum=1)


SPEC = CheckSpec(
    id="fan-trays",
    gate="nodes",
    title="Fan trays work",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("fan-tray-off",),
    settings=FanTraySettings,
)


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Count the trays that work."""
    return per_host(SPEC, seen, context, _judge, needs=("fan_trays",))


def _judge(host: NodeContext) -> Report | Outcome:
    working = sum(host.facts.read("fan_trays", dict).values())
    least = host.settings(FanTraySettings).least
    text = f"{working} fan trays work, expected {least}"
    found = (Finding(cause="fan-tray-off", text=text, hint="replace the tray"),) if working < least else ()
    return Report(summary=f"{working} fan trays work", findings=found, evidence=host.evidence("fan_trays"))


CHECK = Check(SPEC, OBSERVER, judge)
'''
FAULT = """
- id: fan-tray-off
  kind: node
  description: a fan tray of the node is off
  expect: {gate: nodes, check: fan-trays, cause: fan-tray-off}
  patch: [{at: node.printed.fantrays, set: "tray 1 ok\\ntray 2 off"}]
"""
TOOL = """
- name: fan_trays
  used_by: host_probe
  commands: [[fantrays, list]]
  parser: nodes.fan_trays
  owner: fan-trays
  cause: fan-trays
  reports: which fan trays work
  package: fantrays
  healthy: |
    tray 1 ok
    tray 2 ok
"""
TEST = """
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import fan_trays
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import release_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import load_worlds
from tools.world_bench.draws import Drawn, until_found
from tools.world_bench.judge import judge_gates

WORLD, directory = "azure-nd-a100", Path(sys.argv[1])


def of_check(gates):
    outcomes = dict(gates)["nodes"]
    return sorted((o.subjects[0].name, o.status.value, o.cause) for o in outcomes if o.check == "fan-trays")


assert fan_trays.parse("tray 7 off") == {7: False}
for text in ("", "tray", "tray 1 ok and more"):
    with pytest.raises(InputError):
        fan_trays.parse(text)
assert release_settings()["fan-trays"] == {"least": 2}
healthy = judge_gates(load_worlds(DATA)[WORLD], directory / "healthy")
found = of_check([next(pair for pair in healthy if pair[0] == "nodes")])
assert [status for _host, status, _cause in found] == ["passed", "passed"], found
found = of_check(until_found(Drawn(WORLD, "fan-tray-off", 1), directory / "fault"))
assert sorted((status, cause) for _host, status, cause in found) == [("failed", "fan-tray-off"), ("passed", "")], found
"""


@pytest.fixture
def copied(repository: Path, tmp_path: Path) -> Path:
    """Both collections, without their tests."""
    home = tmp_path / "ansible_collections" / "gpufleet"
    skipped = shutil.ignore_patterns("__pycache__")
    for part in ("plugins", "recipes"):
        shutil.copytree(repository / part, home / "bringup" / part, ignore=skipped)
    shutil.copytree(repository / "rehearsal", home / "rehearsal", ignore=skipped)
    shutil.copy(repository / "galaxy.yml", home / "bringup")
    return home / "bringup"


def test_a_check_with_a_new_tool_costs_four_places(repository: Path, copied: Path, tmp_path: Path) -> None:
    (copied / "plugins/plugin_utils/check/nodes/fan_trays.py").write_text(CHECK)
    for name, more in (("faults.yaml", FAULT), ("tools.yaml", TOOL)):
        with (copied / "recipes/gates/nodes" / name).open("a") as file:
            file.write(more)
    (tmp_path / "test_fan_trays.py").write_text(TEST)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{repository}"}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "test_fan_trays.py"), str(tmp_path / "runs")],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
