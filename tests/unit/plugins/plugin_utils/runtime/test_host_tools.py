# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the tools that are run on hosts, and that everything it names exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import NODE_READINGS, READINGS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import parser_named
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import (
    FAILURE_KINDS,
    HostTool,
    load_host_tools,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA

TABLE = load_host_tools()
# Tools of the operating system itself: the simulated hosts have the real ones, which read the hosts' own files.
REAL = {"cat", "grep", "sh"}
KEPT = {*READINGS, *NODE_READINGS}


@pytest.mark.parametrize("tool", TABLE.tools, ids=lambda tool: tool.name)
def test_everything_that_a_tool_names_exists(tool: HostTool) -> None:
    specs = {check.spec.id: check.spec for check in all_checks()}
    gate = {"host_probe": "nodes", "fabric_probe": "fabric", "node_pod": ""}[tool.used_by]
    assert not tool.owner or (tool.owner in specs and specs[tool.owner].gate == gate)
    assert tool.owner or tool.fact in KEPT, "what no check judges is in a snapshot"
    assert callable(parser_named(tool.parser))
    assert set(tool.advice) == set(FAILURE_KINDS) and "{" not in "".join(tool.advice.values())
    assert not tool.asks_driver or specs[tool.owner].needs_driver


def test_every_tool_of_a_node_is_simulated() -> None:
    simulated = {path.stem for path in (DATA / "tools").glob("*.sh")}
    programs = {Path(program).name for tool in TABLE.used_by("host_probe") for program in tool.programs}
    samples = {program for tool in TABLE.used_by("host_probe") if tool.healthy for program in tool.programs}
    assert programs - REAL <= simulated | samples


def write(tmp_path: Path, **changes: str) -> Path:
    fields = {
        "name": "toy", "used_by": "host_probe", "commands": "[[toy, list]]", "parser": "word", "owner": "clock-sync",
        "cause": "toy", "reports": "toys", "package": "toys",
    } | changes  # fmt: skip
    advice = "".join(f"  {kind}: do\n" for kind in FAILURE_KINDS)
    lines = "".join(f"    {name}: {value}\n" for name, value in fields.items())
    path = tmp_path / "tools.yaml"
    path.write_text(f"advice:\n{advice}tools:\n  -\n{lines}")
    return tmp_path


def test_defaults_are_filled_in(tmp_path: Path) -> None:
    tool = load_host_tools(write(tmp_path)).named("toy")
    assert (tool.fact, tool.shown, tool.timeout_s, tool.programs) == ("toy", "toy list", 60.0, ("toy",))
    assert tool.advice["timeout"] == "do" and not tool.asks_driver


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"commands": "[]"}, "has no command"),
        ({"used_by": "nobody"}, "expected one of host_probe, fabric_probe, node_pod"),
        ({"owner": '""'}, "state both"),
        ({"used_by": "fabric_probe"}, "expected those of adapter and port"),
        ({"advice": "{timeouts: wait}"}, "did you mean 'timeout'"),
        ({"after": "nothing"}, "there is no tool 'nothing'"),
        ({"parsr": "word"}, "did you mean 'parser'"),
    ],
)
def test_a_mistake_in_the_table_is_refused(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    with pytest.raises(BringupError, match=reason):
        load_host_tools(write(tmp_path, **changes))


def test_an_unknown_tool_or_parser_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'lspci'"):
        TABLE.named("lspc")
    for name, place in (
        ("no_such_parser", "parse in plugins/plugin_utils/probe/no_such_parser.py"),
        ("nodes.no_such_check", "parse in plugins/plugin_utils/check/nodes/no_such_check.py"),
        ("nodes.clock_sync.sundial", "parse_sundial in plugins/plugin_utils/check/nodes/clock_sync.py"),
    ):
        with pytest.raises(InputError, match=place):
            parser_named(name)
