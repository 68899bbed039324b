# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Serves the exporters' pages from the model file, and external metrics (adapter.py)."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

from ..model.patch import build_model
from ..model.spec import read_spec
from ..model.values import ClusterModel, Gpu, Node
from .adapter import Adapter, serve

# Page of one host's metrics exporter, in the format of dcgm-exporter, computed from the model. Pure.

_OLDEST_S = 120.0
_STRANGER = "GPU-ffffffff-0000-4000-8000-{:012x}"
# The instance that a GPU without MIG slices has in `nvidia-smi mig`.
_MIG_INSTANCE, _MIG_PROFILE = "0", "7g.80gb"


@dataclass(frozen=True, slots=True)
class _Field:
    """One metric: name, help, type, and its value for a GPU, given a number that varies over time."""

    name: str
    help: str
    value: Callable[[Gpu, float], float]
    kind: str = "gauge"


_DEVICE = (
    _Field("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", lambda _gpu, _shake: 345),
    _Field("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", lambda _gpu, _shake: 2619),
    _Field("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", lambda gpu, _shake: gpu.temperature_c + 8),
    _Field("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", lambda gpu, _shake: gpu.temperature_c),
    _Field("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", lambda gpu, shake: round(gpu.power_w + shake, 3)),
    _Field("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", lambda _gpu, _shake: 0),
    _Field("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", lambda _gpu, _shake: 0),
    _Field("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", lambda gpu, _shake: gpu.memory_mib),
)
# Missing for a GPU in MIG mode.
_UTILISATION = _Field("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", lambda _gpu, _shake: 0)
_PROFILING = _Field(
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "Ratio of time the graphics engine is active (in %).",
    lambda _gpu, _shake: 0.0,
)


def metrics_of(node: Node, now_s: float, started_s: float) -> str | None:
    """Return the page of a host's exporter, None if it does not respond.

    Args:
        node: the host.
        now_s: seconds since the epoch.
        started_s: since when it repeats its samples, if it does.
    """
    if node.exporter == "down":
        return None
    # With its own time stamp a sample stays visible after the scrape. A sample older than Prometheus' lookback would
    # only be missing.
    frozen_s = max(started_s, now_s - _OLDEST_S)
    at = f" {round(frozen_s * 1000)}" if node.exporter == "frozen" else ""
    moment = frozen_s if at else now_s
    # A DCGM without an XID reports a blank, which the exporter leaves out (NVIDIA/dcgm-exporter#700).
    device = [field for field in _DEVICE if node.exporter != "no-xids" or field.name != "DCGM_FI_DEV_XID_ERRORS"]
    # The labels of a GPU are the same for all device metrics.
    rows = [(labels, gpu, _shake(gpu, moment)) for labels, gpu in _rows(node, _DEVICE[0])]
    pages = [_page(field, rows, at) for field in device]
    for field in (_UTILISATION, _PROFILING):
        pages.append(_page(field, [(labels, gpu, 0.0) for labels, gpu in _rows(node, field)], at))
    return "".join(pages)


def _page(field: _Field, gpus: Iterable[tuple[str, Gpu, float]], at: str) -> str:
    rows = [f"{field.name}{{{labels}}} {field.value(gpu, shake):g}{at}" for labels, gpu, shake in gpus]
    head = [f"# HELP {field.name} {field.help}", f"# TYPE {field.name} {field.kind}"]
    return "\n".join([*head, *rows, ""]) if rows else ""


def _rows(node: Node, field: _Field) -> Iterable[tuple[str, Gpu]]:
    if field is _PROFILING and node.exporter == "no-profiling":
        return
    for gpu in node.working_gpus:
        if not gpu.exported or (gpu.mig and field is _UTILISATION):
            continue
        slices = {"GPU_I_PROFILE": _MIG_PROFILE, "GPU_I_ID": _MIG_INSTANCE} if gpu.mig else {}
        yield _labels(node, gpu, gpu.uuid, slices), gpu
    if node.exporter == "stranger" and node.gpus:
        number = int(sha256(node.name.encode()).hexdigest()[:10], 16)
        yield _labels(node, node.gpus[0], _STRANGER.format(number), {}, index=len(node.gpus)), node.gpus[0]


def _labels(node: Node, gpu: Gpu, uuid: str, slices: dict[str, str], index: int | None = None) -> str:
    place = gpu.index if index is None else index
    values = {
        "gpu": str(place), "UUID": uuid, "pci_bus_id": gpu.pci_bus_id, "device": f"nvidia{place}",
        "modelName": gpu.product, **slices, node.exporter_label: node.name,
        "DCGM_FI_DRIVER_VERSION": node.driver_version,
    }  # fmt: skip
    # Hostname until 2026-05, hostname since (NVIDIA/dcgm-exporter d5e5f51), none with --no-hostname.
    values.pop("", None)
    return ",".join(f'{name}="{value}"' for name, value in values.items())


def _shake(gpu: Gpu, moment: float) -> float:
    """Return a variation of power readings, which are never the same twice."""
    # A prime number, so that readings one scrape interval apart differ, too.
    return (int(moment * 1000) * 7919 + gpu.index * 104729) % 1999 / 1000 - 1.0


def pages(model: ClusterModel, now_s: float, started_s: float) -> dict[str, str | None]:
    """Return the page of every host's exporter by the host's name."""
    return {node.name: metrics_of(node, now_s, started_s) for node in model.nodes}


_HARDWARE = RECIPES / "hardware"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Exporters:
    """Hosts of the model file, which is read again when it changes."""

    def __init__(self, model: Path, hardware: Sequence[Path]) -> None:
        """Read the model.

        Raises:
            BringupError: it cannot be read.
        """
        self._path, self._skus = model, load_hardware([_HARDWARE, *hardware])
        self._lock = threading.Lock()
        self._stamp, self._nodes = 0, dict[str, Node]()
        # By host, since when it repeats itself.
        self._since: dict[str, float] = {}
        self._read()

    def page(self, host: str) -> str | None:
        """Return the page of a host's exporter, None without a response."""
        with self._lock:
            if self._path.stat().st_mtime_ns != self._stamp:
                try:
                    self._read()
                except BringupError as error:
                    print(f"model: {error}", file=sys.stderr, flush=True)
            node, now = self._nodes.get(host), time.time()
            if node is None:
                return None
            # Not before this scrape: Prometheus marks a series whose samples had no time stamp before as stale at that
            # time.
            since = self._since.setdefault(host, now) if node.exporter == "frozen" else now
            return metrics_of(node, now, since)

    def _read(self) -> None:
        self._stamp = self._path.stat().st_mtime_ns
        model = build_model(read_spec(self._path), self._skus)
        self._nodes = {node.name: node for node in model.nodes}
        frozen = {node.name for node in model.nodes if node.exporter == "frozen"}
        self._since = {name: at for name, at in self._since.items() if name in frozen}


class Handler(BaseHTTPRequestHandler):
    """Serves a scrape. A refused one gets a closed connection."""

    exporters: Exporters
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Serve `/hosts/<host>/metrics`, and `/healthy` for the supervisor."""
        words = self.path.strip("/").split("/")
        if words == ["healthy"]:
            self._send("ok\n")
            return
        known = len(words) == 3 and (words[0], words[2]) == ("hosts", "metrics")
        page = self.exporters.page(words[1]) if known else None
        if page is None:
            self.close_connection = True
            return
        self._send(page)

    def _send(self, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", _TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Log nothing: a line per scrape is of no use."""


def main(argv: Sequence[str]) -> int:
    """Serve until killed; return the exit code."""
    parser = argparse.ArgumentParser(prog="telemetry", description="Metrics exporters of simulated hosts.")
    parser.add_argument("--model", required=True, type=Path, help="cluster model (YAML); read again when it changes")
    parser.add_argument("--port", required=True, type=int, help="port of 127.0.0.1")
    parser.add_argument("--hardware", action="append", default=[], type=Path, help="more SKU facts (repeatable)")
    words = ("PORT", "PROMETHEUS", "RULES", "CERT", "KEY")
    parser.add_argument("--adapter", nargs=len(words), metavar=words, help="serve external metrics of Prometheus, too")
    given = parser.parse_args(list(argv))
    try:
        Handler.exporters = Exporters(given.model, given.hardware)
    except BringupError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    if given.adapter:
        port, prometheus, rules, *files = given.adapter
        serve(int(port), Adapter(Path(rules), int(prometheus)), files)
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Handler)
    server.daemon_threads = True
    server.serve_forever()
    return 0
