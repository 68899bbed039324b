# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the tools of simulated hosts, each once for all hosts on which it is made from the same.

Fifty programs on every host are what judging many of them costs. What a tool prints follows from the files that its
scripts name (rehearsal/hosts/kept_answers.py), or lies on this machine, and only what such tools print is kept here.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.kept_answers import (
    STATE_AT,
    HostFiles,
    seen_below,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.starting import kept_tools

from .small_process import run_host_tools

Runs = dict[str, dict[str, Any]]
# What a tool did before and after the diagnostic, by what it was made from.
_KEPT: dict[str, Runs] = {}
_MOST_KEPT = 2000
_FOLDERS = ("bin", "out")
_OF_MACHINE = ("os_release", "sysctl", "kernel_cmdline", "cgroup_hierarchy")
# Where a simulated fabric runs they ask it.
_OF_FABRIC = ("ibstat", "mlxlink")


def run_or_keep(home: Path, path: str, requests: list[dict[str, Any]], max_output_bytes: int) -> Runs:
    """Return what every tool did on a host, as `run_host_tools` does.

    Args:
        home: the directory of the host.
        path: PATH of the host.
        requests: what is run.
        max_output_bytes: how much of what a tool prints is kept.

    Raises:
        RuntimeError: the process that runs tools ended.
    """
    out = home / "out"
    if (out / "loaded").exists():
        # Its tools print something else as soon as the diagnostic has run.
        return run_host_tools(path, requests, max_output_bytes)
    loads = any(request["alone"] for request in requests)
    kept = {
        *(tool.name for tool in kept_tools()),
        *_OF_MACHINE,
        *(() if any(path.is_fifo() for path in out.iterdir()) else _OF_FABRIC),
    }
    keys = _keys(home, [request for request in requests if request["tool"] in kept], loads, max_output_bytes)
    known = {tool: _KEPT[key] for tool, key in keys.items() if key in _KEPT}
    asked = [request for request in requests if request["tool"] not in known]
    found = run_host_tools(path, asked, max_output_bytes)
    loaded = any(request["alone"] and not found.get(request["tool"], {}).get("missing", True) for request in requests)
    for request in asked:
        tool = request["tool"]
        runs = {name: found[name] for name in (tool, f"{tool}_after") if name in found}
        whole = len(runs) == (2 if loads and request["again"] else 1)
        if tool in keys and whole and not any(run["timed_out"] for run in runs.values()):
            _keep(keys[tool], runs)
    for tool, runs in known.items():
        found |= runs if loaded else {tool: runs[tool]}
    return found


def _keep(key: str, runs: Runs) -> None:
    if len(_KEPT) >= _MOST_KEPT:
        _KEPT.clear()
    _KEPT[key] = runs


def _keys(home: Path, requests: list[dict[str, Any]], loads: bool, max_output_bytes: int) -> dict[str, str]:
    """Return what the output of each tool is made from, by content: other hosts have files of their own."""
    # STATE_AT begins with /run, which of a host that is looked at from outside lies in its directory.
    files = HostFiles(str(home), seen_below(f"{home}{STATE_AT}"))
    digests: dict[str, str] = {}

    def content(folder: str, name: str) -> list[str]:
        place = f"{folder}/{name}"
        if place not in digests:
            digests[place] = sha256((home / place).read_bytes()).hexdigest()
        return [name, digests[place]]

    keys = {}
    for request in requests:
        made_from: list[object] = [request["tool"], request["commands"], loads, max_output_bytes]
        for command in request["commands"]:
            *named, marks, host = files.inputs(command)
            assert isinstance(marks, list)
            for folder, seen in zip(_FOLDERS, named, strict=True):
                assert isinstance(seen, list)
                made_from.append([[*content(folder, one[0]), one[3]] for one in seen])
            made_from.append([[mark[0] for mark in marks], host])
        keys[request["tool"]] = json.dumps(made_from)
    return keys
