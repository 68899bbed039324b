# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate fabric of a world: its InfiniBand fabric is simulated, and one host reads it with the real tools."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

from ansible_collections.gpufleet.bringup.plugins.module_utils.fabric_tools import run_fabric_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    FABRIC,
    HostEvidence,
    ToolRun,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import Moment, fabric_load_kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import fabric_requests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import bound_to_parent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.net import (
    build_net,
    console_growth,
    console_start,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.plan import (
    SimulatedFabric,
    ensure_programs,
    plan_fabric,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

from .hosts import tools_of
from .place import Place

INTERVAL_S = 1.0
_MOST_BYTES = 60_000_000
_COUNTED_S = 1.2


def planned(model: ClusterModel, directory: Path) -> SimulatedFabric | None:
    """Return the fabric of a model; None where no host has InfiniBand.

    Raises:
        UnavailableError: this machine has no InfiniBand simulator and can get none.
    """
    if not model.infiniband.switches:
        return None
    return plan_fabric(model, directory / "fabric", ensure_programs(default_cache(os.environ), Progress(silent)))


def differs(model: ClusterModel, healthy: ClusterModel) -> bool:
    """Whether the tools of gate fabric would see another fabric, or other subnet managers."""
    return _seen(model) != _seen(healthy)


def _seen(model: ClusterModel) -> tuple[object, ...]:
    net = build_net(model)
    reachable = tuple(node.reachable for node in model.nodes)
    return net, console_start(net), console_growth(net), model.infiniband.subnet_managers, reachable


@contextmanager
def running(fabric: SimulatedFabric, log: Path) -> Iterator[None]:
    """Within it, the fabric runs and its subnet managers have brought it up.

    Raises:
        UnavailableError: it does not come up.
    """
    started: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("wb") as output:
            for process in fabric.processes:
                child = subprocess.Popen(
                    process.argv, env={**os.environ, **process.env}, cwd=process.cwd or None, stdout=output,
                    stderr=output, start_new_session=True, preexec_fn=bound_to_parent(),
                )  # fmt: skip
                started.append(child)
                if process.once and child.wait(process.limit_s) != 0:
                    raise UnavailableError("simulated fabric", log.read_text(errors="replace")[-400:])
        yield
    finally:
        for child in started:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def probe_load(place: Place, moment: Moment) -> None:
    """Read links and counters of the running fabric before or after the load of NCCL."""
    if moment == "after":
        # What the load added is counted within a step of the simulator.
        sleep(_COUNTED_S)
    host = place.site.in_scope[0].name
    requests = fabric_requests(ibdiagnet=False, timeout_s=60)
    with tools_of(place.directory, host):
        runs = run_fabric_tools(requests, [], interval_s=0, max_output_bytes=_MOST_BYTES, once=True)
    tools = {name: from_plain(ToolRun, run, name) for name, run in runs.items()}
    kind = fabric_load_kind("fabric_validation", moment)
    # Ten minutes lie between both, as around a real load.
    started = f"2026-01-05T12:{'00' if moment == 'before' else '10'}:00+00:00"
    write_evidence(place.run_dir, HostEvidence(host=host, reached=True, started=started, tools=tools), kind)


def probe(place: Place) -> None:
    """Read the running fabric from the first host in scope and keep what its tools say."""
    host = place.site.in_scope[0].name
    requests = fabric_requests(ibdiagnet=False, timeout_s=60)
    with tools_of(place.directory, host):
        runs = run_fabric_tools(requests, [], interval_s=INTERVAL_S, max_output_bytes=_MOST_BYTES)
    tools = {name: from_plain(ToolRun, run, name) for name, run in runs.items()}
    write_evidence(place.run_dir, HostEvidence(host=host, reached=True, tools=tools), FABRIC)
