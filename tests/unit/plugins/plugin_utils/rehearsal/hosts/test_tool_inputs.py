# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a tool prints follows from no file that is not among its inputs, and hosts share what they have in common."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.enclosure import HOST_VARIABLE
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.kept_answers import HostFiles
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.starting import kept_tools
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA

ALL = [(tool.name, command) for tool in kept_tools() for command in tool.commands]
# A path of another place than the host's tools is started from there.
COMMANDS = [(tool, command) for tool, command in ALL if not command[0].startswith("/")]
SKUS = ("dgx-h100", "gb200-nvl72", "p5-48xlarge")
HURT = "gpu01"
LIMIT_S = 30.0


def _hosts(root: Path, sku: str) -> None:
    hardware = load_hardware([RECIPES / "hardware"])
    model = build_model(ModelSpec(name="inputs", seed=3, nodes=numbered_nodes(3, sku)), hardware)
    hurt = replace(model.nodes[0], hurt_by="dcgmi")
    prepare_hosts(replace(model, nodes=(hurt, *model.nodes[1:])), root, DATA)


@pytest.fixture(scope="module", params=SKUS)
def hosts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hosts")
    _hosts(root, request.param)
    return root / "hosts"


def _said(home: Path, command: Sequence[str], *, loaded: bool = False) -> tuple[int, bytes]:
    marks = home / "run/gpu-node"
    shutil.rmtree(marks, ignore_errors=True)
    if loaded:
        marks.mkdir(parents=True)
        (marks / "loaded").touch()
    search = f"{home}/bin:/usr/bin:/bin"
    done = subprocess.run(
        command, env={"PATH": search, "LC_ALL": "C", HOST_VARIABLE: home.name}, stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    # The line with the time, which nothing that is kept has.
    lines = [line for line in done.stdout.splitlines() if b"<timestamp>" not in line]
    return done.returncode, b"\n".join(lines)


@pytest.mark.drawn(40)
@pytest.mark.parametrize(("tool", "command"), COMMANDS, ids=[f"{tool}-{len(words)}" for tool, words in COMMANDS])
@pytest.mark.parametrize("loaded", [False, True], ids=["before", "after-a-load"])
def test_a_file_that_is_no_input_changes_nothing(
    hosts: Path, tmp_path: Path, tool: str, command: Sequence[str], loaded: bool
) -> None:
    own = hosts / HURT
    found = HostFiles(str(own), []).inputs(command)
    tools, files = ({seen[0] for seen in kind} for kind in found[:2] if isinstance(kind, list))
    other = tmp_path / HURT
    shutil.copytree(own, other, ignore=shutil.ignore_patterns("layers"), copy_function=os.link)
    for path in [*other.joinpath("bin").iterdir(), *other.joinpath("out").rglob("*")]:
        name = str(path.relative_to(other / path.relative_to(other).parts[0]))
        if path.is_file() and name not in (tools if "bin" in path.parts else files):
            path.unlink()
            path.write_text("#!/bin/sh\necho changed\n")
    assert _said(other, command, loaded=loaded) == _said(own, command, loaded=loaded), tool


def test_hosts_share_the_answers_that_are_the_same_on_each(hosts: Path) -> None:
    shared = set()
    for tool, command in COMMANDS:
        keys = [json.dumps(HostFiles(str(hosts / name), []).inputs(command)) for name in ("gpu02", "gpu03")]
        if keys[0] == keys[1]:
            assert _said(hosts / "gpu02", command) == _said(hosts / "gpu03", command), tool
            shared.add(tool)
    assert {"lspci", "lsmod", "timedatectl", "systemctl_show", "waiting_processes"} <= shared
    assert not shared & {"nvidia_smi_xml", "dmidecode"}


def _host(home: Path, **scripts: str) -> Path:
    for name in ("bin", "out"):
        (home / name).mkdir(parents=True)
    for name, text in scripts.items():
        (home / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
    return home


def _inputs(home: Path, *command: str) -> tuple[list[str], list[str], str]:
    tools, files, _marks, name = HostFiles(str(home), []).inputs(command)
    assert isinstance(tools, list) and isinstance(files, list)
    return [seen[0] for seen in tools], [seen[0] for seen in files], str(name)


def test_a_script_that_a_script_calls_counts_with_all_that_it_names(tmp_path: Path) -> None:
    home = _host(tmp_path, one='cat "$out/a.txt" | two', two='cat "$out/b-$1.json"', nvme="cat x")
    for name in ("a.txt", "b-1.json", "b-2.json", "c.txt"):
        (home / "out" / name).write_text(name)
    assert _inputs(home, "one", "/sys/class/nvme") == (["one", "two"], ["a.txt", "b-1.json", "b-2.json"], "")
    assert _inputs(home, "sh", "-c", "for d in 1; do two $d; done")[0] == ["two"]


def test_a_file_of_the_host_after_a_load_counts_like_the_one_before(tmp_path: Path) -> None:
    home = _host(tmp_path, one='cat "$out/a.txt"')
    (home / "out/loaded").mkdir()
    for name in ("a.txt", "loaded/a.txt"):
        (home / "out" / name).write_text(name)
    assert _inputs(home, "one")[1] == ["a.txt", "loaded/a.txt"]


def test_a_tool_that_asks_where_it_is_has_an_answer_for_each_host(tmp_path: Path) -> None:
    home = _host(tmp_path, one="uname -n", two=f"echo ${HOST_VARIABLE}", three="echo")
    name = os.uname().nodename
    assert [_inputs(home, tool)[2] for tool in ("one", "two", "three")] == [name, name, ""]


def test_of_what_is_no_script_every_file_counts(tmp_path: Path) -> None:
    home = _host(tmp_path)
    (home / "bin/one").write_bytes(b"\x7fELF")
    (home / "out/a.txt").write_text("a")
    assert _inputs(home, "one")[1] == ["a.txt"]
