# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Telemetry of a rehearsal as files and processes: exporters, a real Prometheus and a real Alertmanager on loopback.

The stand-in of prometheus-operator (controllers/prometheus_operator.py) writes targets, rules and receivers from the
cluster's objects.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

from ..control_plane.ports import free_ports, late_port
from ..places import python_argv
from ..processes.spec import Probe, ProcessSpec
from .programs import Prometheus

PORTS_FILE = "ports.json"
PROMETHEUS_FILE, ALERTMANAGER_FILE = "prometheus.json", "alertmanager.json"
ADAPTER_FILE = "adapter.json"
TARGETS, RULES = "targets", "rules"
_NAMES = ("prometheus", "alertmanager", "exporters", "adapter")
_WAVE = 0
_INTERVAL_S = 2
# One process serves the exporters of all hosts, so they are scraped less often on a large fleet.
_SCRAPES_PER_S = 30


@dataclass(frozen=True, slots=True)
class TelemetryPrograms:
    """Paths of the programs."""

    prometheus: Prometheus
    alertmanager: str


@dataclass(frozen=True, slots=True)
class SimulatedTelemetry:
    """A planned telemetry: its processes, ports by name, directory."""

    processes: tuple[ProcessSpec, ...]
    ports: Mapping[str, int]
    directory: Path


def telemetry_directory(rehearsal: Path) -> Path:
    return rehearsal / "telemetry"


def scrape_interval_s(hosts: int) -> int:
    """Return the scrape interval of the exporters in seconds."""
    return max(_INTERVAL_S, -(-hosts // _SCRAPES_PER_S))


def plan_telemetry(
    directory: Path,
    programs: TelemetryPrograms,
    model_file: Path,
    hosts: int,
    hardware: tuple[Path, ...] = (),
    tls: tuple[str, str] | None = None,
    taken: Collection[int] = (),
) -> SimulatedTelemetry:
    """Write the first configuration and return what to run. It has no targets and no receivers yet.

    Args:
        directory: created anew.
        programs: Prometheus and Alertmanager.
        model_file: the cluster model that the exporters follow.
        hosts: number of hosts.
        hardware: directories of more SKU facts.
        tls: certificate and key files of the server of external metrics; None: there is none.
        taken: ports that were chosen for other servers.

    Raises:
        OSError: the directory cannot be written, or there are no free ports.
    """
    shutil.rmtree(directory, ignore_errors=True)
    for name in (TARGETS, RULES):
        (directory / name).mkdir(mode=0o700, parents=True)
    # A test pod listens on the last one, minutes from here.
    ports = free_ports(_NAMES, taken=taken) | late_port("alert-receiver")
    write_atomic(directory / PORTS_FILE, json.dumps(ports))
    interval = f"{scrape_interval_s(hosts)}s"
    write_atomic(directory / PROMETHEUS_FILE, json.dumps(prometheus_configuration(interval, ports, wired=True)))
    write_atomic(directory / ALERTMANAGER_FILE, json.dumps(alertmanager_configuration((), ())))
    more = [word for path in hardware for word in ("--hardware", str(path))]
    exporters = python_argv("rehearsal.telemetry", "--model", str(model_file), "--port", str(ports["exporters"]), *more)
    if tls is not None:
        served = (str(ports["adapter"]), str(ports["prometheus"]), str(directory / ADAPTER_FILE), *tls)
        exporters += ("--adapter", *served)
    processes = (
        ProcessSpec(
            name="exporters", argv=exporters, wave=_WAVE, probe=Probe(port=ports["exporters"], path="/healthy")
        ),
        _prometheus(directory, programs.prometheus, ports["prometheus"]),
        _alertmanager(directory, programs.alertmanager, ports["alertmanager"]),
    )
    return SimulatedTelemetry(processes, ports, directory)


def _prometheus(directory: Path, program: Prometheus, port: int) -> ProcessSpec:
    # For some seconds after a reload Prometheus has no Alertmanager and drops firing alerts. Then it sends them again.
    argv = (
        program.path, f"--config.file={directory / PROMETHEUS_FILE}", f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--web.enable-lifecycle", "--log.level=warn",
        "--rules.alert.resend-delay=1s",
        "--storage.tsdb.retention.time=2h",
    )  # fmt: skip
    environment = {"GOMAXPROCS": "1", **program.environment}
    probe = Probe(port=port, path="/-/ready")
    return ProcessSpec(name="prometheus", argv=argv, wave=_WAVE, probe=probe, env=environment, cwd=str(directory))


def _alertmanager(directory: Path, program: str, port: int) -> ProcessSpec:
    # Without an address for its cluster it opens no other port.
    argv = (
        program, f"--config.file={directory / ALERTMANAGER_FILE}", f"--storage.path={directory / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=", "--log.level=warn",
    )  # fmt: skip
    environment = {"GOMAXPROCS": "1"}
    probe = Probe(port=port, path="/-/ready")
    return ProcessSpec(name="alertmanager", argv=argv, wave=_WAVE, probe=probe, env=environment, cwd=str(directory))


def prometheus_configuration(interval: str, ports: Mapping[str, int], *, wired: bool) -> dict[str, Any]:
    """Return Prometheus' configuration (JSON is YAML). Targets and rules are files beside it."""
    document: dict[str, Any] = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [f"{RULES}/*.json"],
        "scrape_configs": [
            {
                "job_name": "gpu-metrics",
                "honor_labels": True,
                "file_sd_configs": [{"files": [f"{TARGETS}/*.json"], "refresh_interval": "1s"}],
            }
        ],
    }
    if wired:
        target = {"static_configs": [{"targets": [f"127.0.0.1:{ports['alertmanager']}"]}]}
        document["alerting"] = {"alertmanagers": [target]}
    return document


def alertmanager_configuration(
    routes: tuple[dict[str, Any], ...], receivers: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    """Return Alertmanager's configuration. Alerts without a route are dropped."""
    root = {"receiver": "null", "group_by": ["namespace"], "group_wait": "1s", "group_interval": "2s"}
    return {"route": {**root, "routes": list(routes)}, "receivers": [{"name": "null"}, *receivers]}
