# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the fleet's objectives, evaluated by Prometheus' own tool: who is called when, and who is not."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from real_toolchain import build_toolchain
from rehearsal_harness import ROOT

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

RULES = ROOT / "recipes" / "components" / "kube-prometheus-stack" / "manifests" / "slo-rules.yaml"
NODES = 4


@pytest.fixture(scope="module")
def promtool() -> Path:
    build_toolchain()
    return next(default_cache(os.environ).glob("telemetry*/**/promtool"))


def _gpus(name: str, values: dict[str, str]) -> list[dict[str, str]]:
    labels = 'resource="nvidia_com_gpu", unit="integer"'
    return [{"series": f'{name}{{node="{node}", {labels}}}', "values": text} for node, text in values.items()]


def _cluster(*, allocatable: str = "8x400", ready: str = "1x400", up: str = "1x400") -> list[dict[str, str]]:
    """Four nodes with eight GPUs for 400 minutes, of which the first is as told."""
    names = [f"gpu{number:02}" for number in range(NODES)]
    first = [*(("8x400", "1x400", "1x400"),) * NODES][1:]
    told = dict(zip(names, [(allocatable, ready, up), *first], strict=True))
    condition = 'condition="Ready", status="true"'
    return [
        *_gpus("kube_node_status_capacity", dict.fromkeys(names, "8x400")),
        *_gpus("kube_node_status_allocatable", {node: entry[0] for node, entry in told.items()}),
        *({"series": f'kube_node_status_condition{{node="{node}", {condition}}}', "values": entry[1]}
          for node, entry in told.items()),
        *({"series": f'up{{job="nvidia-dcgm-exporter", instance="{node}"}}', "values": entry[2]}
          for node, entry in told.items()),
    ]  # fmt: skip


def _judged(promtool: Path, directory: Path, alert: str, windows: set[str], series: list[dict[str, str]]) -> str:
    """Return what promtool has against those windows, and no others, of an alert firing after six hours."""
    groups = yaml.safe_load(RULES.read_text())["spec"]
    (directory / "rules.json").write_text(json.dumps(groups))
    expected = [
        {"exp_labels": rule["labels"], "exp_annotations": rule["annotations"]}
        for rule in groups["groups"][0]["rules"]
        if rule.get("alert") == alert and rule["labels"]["long"] in windows
    ]
    asked = [{"eval_time": "390m", "alertname": alert, "exp_alerts": expected}]
    test = {"interval": "1m", "input_series": series, "alert_rule_test": asked}
    said = {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": [test]}
    (directory / "test.json").write_text(json.dumps(said))
    argv = [str(promtool), "test", "rules", "test.json"]
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


GPUS, EXPORTERS = "GpusNotSchedulable", "GpuExportersDown"


@pytest.mark.parametrize(
    ("alert", "first", "windows"),
    [
        (GPUS, {}, set()),
        (EXPORTERS, {}, set()),
        # An eighth of a node of four for all the time: three times what the budget allows, for a ticket.
        (GPUS, {"allocatable": "7x400"}, {"3d"}),
        # A whole node for all the time, and one that is not ready whatever it offers: somebody is called.
        (GPUS, {"allocatable": "0x400"}, {"1h", "6h", "3d"}),
        (GPUS, {"ready": "0x400"}, {"1h", "6h", "3d"}),
        (EXPORTERS, {"up": "0x400"}, {"1h", "6h", "3d"}),
        # Its target is gone altogether, as where the pod is.
        (EXPORTERS, {"up": "1x0 _x400"}, {"1h", "6h", "3d"}),
        # Away for two minutes: nobody is called.
        (GPUS, {"allocatable": "8x386 0x1 8x20"}, set()),
        # It is over: the short windows say so.
        (GPUS, {"allocatable": "0x200 8x30 8x170"}, {"3d"}),
    ],
)
def test_who_is_called_when_a_node_is_as_told(
    alert: str, first: dict[str, str], windows: set[str], promtool: Path, tmp_path: Path
) -> None:
    assert _judged(promtool, tmp_path, alert, windows, _cluster(**first)) == ""


@pytest.mark.parametrize("alert", [GPUS, EXPORTERS])
def test_a_fleet_of_which_nothing_is_known_is_not_called_bad(alert: str, promtool: Path, tmp_path: Path) -> None:
    assert _judged(promtool, tmp_path, alert, set(), []) == ""


def test_a_fleet_without_any_exporter_and_any_ready_node_is_bad(promtool: Path, tmp_path: Path) -> None:
    series = [entry for entry in _cluster() if not entry["series"].startswith(("up{", "kube_node_status_condition"))]
    for alert in (GPUS, EXPORTERS):
        assert _judged(promtool, tmp_path, alert, {"1h", "6h", "3d"}, series) == ""
