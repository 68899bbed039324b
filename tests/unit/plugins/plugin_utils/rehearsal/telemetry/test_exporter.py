# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What simulated exporters say: labels and lines as dcgm-exporter's, and each fault as it would look."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import Node
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry.plan import (
    alertmanager_configuration,
    prometheus_configuration,
    scrape_interval_s,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry.server import metrics_of

LINE = re.compile(r"^(DCGM_\w+)\{([^}]*)\} (\S+)(?: (\d+))?$")
NOW = 1_700_000_000.0


@pytest.fixture(scope="module")
def node(repository: Path) -> Node:
    skus = load_hardware([repository / "recipes" / "hardware"])
    return build_model(ModelSpec(name="t", seed=3, nodes=numbered_nodes(1, "dgx-h100")), skus).nodes[0]


def samples(node: Node, now: float = NOW) -> list[tuple[str, dict[str, str], str, str]]:
    """Name, labels, value and time of every sample."""
    page = metrics_of(node, now, NOW - 10)
    assert page is not None
    rows = [LINE.match(line) for line in page.splitlines() if not line.startswith("#")]
    assert all(rows)
    return [
        (row[1], dict(re.findall(r'(\w+)="([^"]*)"', row[2])), row[3], row[4] or "") for row in rows if row is not None
    ]


def of(name: str, rows: list[tuple[str, dict[str, str], str, str]]) -> list[tuple[dict[str, str], str, str]]:
    return [row[1:] for row in rows if row[0] == f"DCGM_FI_{name}"]


def test_labels_are_those_of_a_real_exporter(node: Node, shared: Path) -> None:
    path = shared / "captures" / "dcgm-exporter" / "h100-8gpu-metrics-no-help-lines.prom"
    real = LINE.match(path.read_text().splitlines()[1])
    assert real is not None
    labels = re.findall(r'(\w+)="', real[2])
    assert [list(row[0]) for row in of("DEV_GPU_UTIL", samples(node))] == [labels] * 8


def test_every_gpu_is_there_and_power_is_never_the_same_twice(node: Node) -> None:
    uuids = [row[0]["UUID"] for row in of("DEV_GPU_UTIL", samples(node))]
    assert uuids == [gpu.uuid for gpu in node.gpus]
    assert of("DEV_POWER_USAGE", samples(node)) != of("DEV_POWER_USAGE", samples(node, NOW + 2.0))


def test_each_fault_looks_as_it_would(node: Node) -> None:
    assert metrics_of(replace(node, exporter="down"), NOW, NOW) is None
    frozen = samples(replace(node, exporter="frozen"))
    assert {row[3] for row in frozen} == {str(round((NOW - 10) * 1000))}
    assert frozen == samples(replace(node, exporter="frozen"), NOW + 5)
    assert len(of("DEV_GPU_UTIL", samples(replace(node, exporter="stranger")))) == 9
    assert of("PROF_GR_ENGINE_ACTIVE", samples(replace(node, exporter="no-profiling"))) == []
    hidden = replace(node, gpus=(replace(node.gpus[0], exported=False), *node.gpus[1:]))
    assert len(of("DEV_GPU_UTIL", samples(hidden))) == 7
    sliced = samples(replace(node, gpus=(replace(node.gpus[0], mig=True), *node.gpus[1:])))
    assert len(of("DEV_GPU_UTIL", sliced)) == 7
    assert [row[0].get("GPU_I_ID") for row in of("PROF_GR_ENGINE_ACTIVE", sliced)] == ["0", *[None] * 7]


def test_a_big_fleet_is_scraped_less_often() -> None:
    assert [scrape_interval_s(hosts) for hosts in (1, 16, 60, 120, 1000)] == [2, 2, 2, 4, 34]


def test_configurations_say_what_they_should() -> None:
    ports = {"alertmanager": 9}
    assert "alerting" in prometheus_configuration("2s", ports, wired=True)
    assert "alerting" not in prometheus_configuration("2s", ports, wired=False)
    assert alertmanager_configuration(({"receiver": "x"},), ({"name": "x"},))["route"]["receiver"] == "null"
