# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet as its inventory describes it: a source, and a directory with a file for each cluster; and runs of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.digests import keep_digests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

_FILE = "name: {name}\nkubeconfig: {name}.conf\nracks:\n  rack-a1: {{sku: dgx-h100, hosts: ['gpu[01:02]']}}\n{more}"


def write_fleet(directory: Path, clusters: Mapping[str, str], more: str = "") -> Path:
    """Write the files of clusters of two hosts each, and return the source of the inventory.

    Args:
        directory: where they are written.
        clusters: more lines of the file of each cluster, by its name.
        more: more lines of the source.
    """
    (directory / "clusters").mkdir(parents=True, exist_ok=True)
    for name, lines in clusters.items():
        (directory / "clusters" / f"{name}.yml").write_text(_FILE.format(name=name, more=lines), "utf-8")
    source = directory / "clusters.yml"
    source.write_text(f"plugin: gpufleet.bringup.clusters\n{more}", "utf-8")
    return source


def write_run(directory: Path, name: str, started: str, *, passed: bool = True) -> Path:
    """Write a run over all gates, as a bring-up leaves its record and digests."""
    record = new_run(directory.name, name, started, GATE_IDS, rehearsal=False)
    for gate in GATE_IDS if passed else GATE_IDS[:2]:
        record = record.with_gate(replace(record.gate(gate), status=Status.PASSED, started=started))
    directory.mkdir(parents=True)
    (directory / "settings.json").write_text("{}", "utf-8")
    (directory / "state.json").write_text(
        json.dumps({"hosts": {"gpu01": {"driver": "580.105.08"}}, "whole": {"recipe": "gpu-operator v26.7.0"}}), "utf-8"
    )
    (directory / "run.json").write_text(dumps(replace(record, nodes=8, digests=keep_digests(directory))), "utf-8")
    return directory
