# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a rehearsal replaces: one list, from which settings and notes are made.

Everything that is not in REPLACEMENTS is rehearsed as the site has configured it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..model.values import ClusterModel
from ..workloads.llm_http import serving_data
from ..workloads.performance import performance

# Settings of the gates on simulated hardware: short time limits, and bounds for programs that really run here.

# Seconds between the two readings of link counters. The simulated ones grow fast.
COUNTER_INTERVAL_S = 2
# Nothing restarts by itself here, so a short window shows as much as a long one.
GPU_STACK = {"stays_ready_s": 1.0}
STORAGE = "storage-integrity"
AT_ONCE = ("parallel", "downloads")
# With more nodes than that, hosts one after the other would take most of gate inference_acceptance.
_MANY, _SERVING = 16, 64
# Long enough for some rounds.
BURN_IN = {"hours": 20 / 3600}
# A small cluster on one machine delays no alert.
TELEMETRY = {"settle_s": 20.0, "load_s": 10.0, "fire_s": 10.0, "arrive_s": 15.0, "rule_interval_s": 1}


def nccl_settings(nodes: int) -> dict[str, Any]:
    """Return the settings of gate fabric_validation. A run takes seconds here, so a hanging one is ended soon."""
    return {"timeout_s": 60.0 + 0.1 * nodes, "schedule_s": 30.0}


def dl_unit_settings(nodes: int) -> dict[str, Any]:
    """Return the settings of the DL unit test, which takes seconds here."""
    return {"timeout_s": 60.0 + 0.1 * nodes, "pull_s": 120.0}


def training_settings(nodes: int, *, full: bool) -> dict[str, Any]:
    """Return the settings of gate training_acceptance: short time limits.

    With `full` there is a model that a CPU can train. Its speed depends on the load of this machine, so times hardly
    count.
    """
    waits: dict[str, Any] = {"timeout_s": 60.0 + 0.1 * nodes, "schedule_s": 20.0, "total_s": 600.0 + nodes}
    if not full:
        return waits
    shape = {"layers": 2, "hidden": 128, "heads": 4, "sequence": 64, "batch": 4, "vocabulary": 128}
    model = {
        "device": "cpu",
        "dtype": "float32",
        "steps": 50,
        # One window after the first steps. Each second takes every core.
        "load_s": 12.0,
        "shape": {**shape, "learning_rate": 0.001},
    }
    # Roughly the peak of one core, which many ranks share.
    times = {"peak_tflops": 0.05, "mfu": 0.0001, "step_time_cv": 9.0, "step_time_cv_bad": 9.0, "growth": 9.0}
    peers = {"peer_marginal": 0.7, "peer_bad": 0.8, "repeats": 1, "start_s": 120.0, "data_factor": 100.0}
    return {**waits, "timeout_s": 300.0 + 60.0 * nodes, "total_s": 3600.0, "stuck_s": 120.0, **model, **times, **peers}


def storage_settings(nodes: int) -> dict[str, Any]:
    """Return the settings of check storage-integrity.

    All hosts write a small part of the simulated volume at once. The bounds stand for what a site would know of its
    storage: a third of the speed in performance.yaml, and three times its latency.
    """
    floor = {name: round(speed.mib_s / 3, 1) for name, speed in performance().storage.items()}
    late = {name: round(speed.p99_ms * 3, 3) for name, speed in performance().storage.items()}
    return {
        "volume": {"hostPath": {"path": "/mnt/shared"}}, "claim": {}, "size_mib": 1, "threads": 2, "seconds": 0.05,
        "rate_mib_s": 0, "parallel": nodes, "timeout_s": 60.0 + 0.1 * nodes, "schedule_s": 30.0, "pull_s": 120.0,
        "floor_mib_s": floor, "p99_ms": late,
    }  # fmt: skip


def at_once(nodes: int) -> dict[str, int]:
    """Return how many hosts of a large fleet serve, and fetch weights, at the same time.

    There is no model hub to spare here. A simulated server is ready in a second, where a real one takes minutes.
    """
    return {} if nodes <= _MANY else {"parallel": max(_SERVING, nodes), "downloads": nodes // 4}


def inference_settings(model: ClusterModel, *, full: bool) -> dict[str, Any]:
    """Return the settings of gate inference_acceptance: short time limits, and bounds for GPUs without their own.

    With `full` a real AIPerf makes a small load, with bounds for it, since this machine is no GPU server.
    """
    nodes, data = len(model.nodes), serving_data()
    waits: dict[str, Any] = {"ready_s": 60.0 + 0.1 * nodes, "schedule_s": 30.0, "timeout_s": 60.0 + 0.1 * nodes}
    waits |= at_once(nodes)
    if full:
        # A host with the real server has simulated hosts as peers, whose speed no real one here reaches.
        load = {
            "concurrency_per_gpu": 1, "output_tokens": 16, "least_requests": 32, "requests_per_concurrency": 4,
            "uncached_per_concurrency": 2, "light_per_gpu": 0,
        }  # fmt: skip
        judged = {"dataset_entries": 16, "repeats": 1, "peer_tolerance": 0.95, "slo": data["slo"]["full"]}
        return {**waits, "timeout_s": 300.0, **load, **judged}
    known = all(node.accelerator.name in data["published"] for node in model.nodes)
    return waits if known else {**waits, "slo": data["slo"]["default"]}


# Fastest links of the InfiniBand simulator: HDR, four lanes.
_SIMULATED_GBPS = 200
_MANY_NAMES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSite:
    """Configuration of the site: `gpufleet_criteria`, `gpufleet_settings`, and hosts of its inventory without GPUs.

    - `default_criteria`: those of the rehearsal, for a site without criteria.
    - `node_names`: whether a host has its own `gpufleet_node_name`.
    """

    criteria: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    default_criteria: Mapping[str, Any] = field(default_factory=dict)
    other_hosts: tuple[str, ...] = ()
    node_names: bool = False

    def option(self, gate: str, name: str) -> Any:
        """Return a configured option, None without one."""
        options = self.settings.get(gate)
        return options.get(name) if isinstance(options, Mapping) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What was simulated for the site.

    Args:
        site: configuration of the site.
        model: the healthy cluster.
        facility: settings of the generated facility record.
        facility_fault: whether a fault of this rehearsal is in the facility record.
        cabling: file with the plan of the simulated fabric; empty without one.
        fabric: whether there is a simulated fabric.
        full: whether programs really run where they can.
        bmc_access: settings of check bmc-reached for the simulated BMCs.
        bmcs: number of simulated BMCs.
        storage: whether there is a simulated shared volume.
    """

    site: StatedSite
    model: ClusterModel
    facility: Mapping[str, str]
    facility_fault: bool = False
    cabling: str = ""
    fabric: bool = False
    full: bool = False
    bmc_access: Mapping[str, Any] = field(default_factory=dict)
    bmcs: int = 0
    storage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """One replacement: its note, and its settings."""

    note: str
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitution:
    """Settings and notes of a run on the simulated cluster: `gpufleet_forced_settings` and `gpufleet_notes`."""

    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def substitution_for(simulation: Simulation) -> Substitution:
    """Return everything that is replaced in a run on the simulated cluster."""
    found = [entry for replace_one in REPLACEMENTS if (entry := replace_one(simulation)) is not None]
    settings: dict[str, dict[str, Any]] = {}
    for entry in found:
        for gate, options in entry.settings.items():
            settings[gate] = settings.get(gate, {}) | dict(options)
    return Substitution(settings=settings, notes=tuple(f"rehearsal: {entry.note}" for entry in found))


def _hosts(simulation: Simulation) -> Replacement:
    nodes = simulation.model.nodes
    skus = sorted({node.sku for node in nodes})
    adapters = sorted({", ".join(hca.name for hca in node.hcas) for node in nodes if node.hcas})
    shown = f", adapters {adapters[0]}" if len(adapters) == 1 else ""
    drivers = sorted({node.driver_version for node in nodes})
    shown += f", driver {', '.join(drivers)} whatever version the recipe has"
    note = f"hosts: {len(nodes)} simulated, SKU {', '.join(skus)}{shown}; no machine of the inventory is contacted"
    if simulation.site.other_hosts:
        names = list(simulation.site.other_hosts)
        more = f" and {len(names) - _MANY_NAMES} more" if len(names) > _MANY_NAMES else ""
        note += f". {', '.join(names[:_MANY_NAMES])}{more}: simulated by {nodes[0].name}"
    return Replacement(note=note)


def _node_names(simulation: Simulation) -> Replacement | None:
    if not simulation.site.node_names:
        return None
    return Replacement(note="Kubernetes nodes: named as the hosts of the inventory, not by gpufleet_node_name")


def _facility_record(simulation: Simulation) -> Replacement:
    configured = simulation.site.option("facility", "record")
    drawn = {"facility": dict(simulation.facility)}
    if not configured:
        note = "facility record: drawn for this rehearsal, because gpufleet_settings.facility.record is not stated"
        return Replacement(note=note, settings=drawn)
    # A missing record is not replaced: the gate fails on it, as it does on real hosts.
    problem = _unreadable(Path(str(configured)).expanduser())
    if problem:
        return Replacement(note=f"facility record: the site's own, {configured}, which cannot be read: {problem}")
    if simulation.facility_fault:
        note = (
            f"facility record: drawn for this rehearsal and not {configured}, because a fault of this "
            "rehearsal is in it"
        )
        return Replacement(note=note, settings=drawn)
    return Replacement(note=f"facility record: the site's own, {configured}")


def _bmcs(simulation: Simulation) -> Replacement | None:
    # PDUs in the site's settings are real, so none is queried.
    not_reporting: dict[str, Mapping[str, Any]] = {"pdu-feeds": {"pdus": {}}}
    if not simulation.bmcs:
        return (
            Replacement(note="BMCs and PDUs: none is asked", settings=not_reporting)
            if _states_pdus(simulation)
            else None
        )
    note = f"BMCs: {simulation.bmcs} simulated, Redfish over TLS on 127.0.0.1; no BMC or PDU of the site is contacted"
    return Replacement(note=note, settings={"bmc-reached": simulation.bmc_access, **not_reporting})


def _states_pdus(simulation: Simulation) -> bool:
    return bool(simulation.site.option("pdu-feeds", "pdus"))


def _unreadable(path: Path) -> str:
    try:
        path.read_bytes()
    except OSError as error:
        return str(error.strerror)
    return ""


def _cabling_plan(simulation: Simulation) -> Replacement | None:
    if not simulation.cabling:
        return None
    configured = simulation.site.option("fabric", "plan")
    other = str(configured) if configured else "the one generated from the inventory"
    fastest = max((hca.rate_gbps for node in simulation.model.nodes for hca in node.hcas), default=0)
    slower = f", with HDR links ({_SIMULATED_GBPS} Gb/s; the simulator has none of {fastest} Gb/s)"
    return Replacement(
        note=f"cabling plan: that of the simulated fabric and not {other}{slower if fastest > _SIMULATED_GBPS else ''}",
        settings={"fabric": {"plan": simulation.cabling}},
    )


def _criteria(simulation: Simulation) -> Replacement:
    configured, usual = simulation.site.criteria, simulation.site.default_criteria
    if not configured:
        note = f"criteria: {_listed(usual)}, because gpufleet_criteria is empty"
        return Replacement(note=note)
    unused = {key: value for key, value in usual.items() if configured.get(key) != value}
    differs = f"; the rehearsal's own are not used: {_listed(unused)}" if unused else ""
    return Replacement(note=f"criteria: as the site states them, {_listed(configured)}{differs}")


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items()) or "none"


def _time_limits(simulation: Simulation) -> Replacement:
    nodes = len(simulation.model.nodes)
    settings: dict[str, Mapping[str, Any]] = {
        "gpu_stack": GPU_STACK,
        "fabric_validation": nccl_settings(nodes),
        "dl_unit": dl_unit_settings(nodes),
        "training_acceptance": training_settings(nodes, full=simulation.full),
        "inference_acceptance": _inference(simulation),
        "telemetry": TELEMETRY,
        "burn-in-soak": BURN_IN,
    }
    if simulation.fabric or simulation.cabling:
        settings = {"fabric": {"interval_s": COUNTER_INTERVAL_S}, **settings}
    replaced = [
        f"{gate}.{name} {configured}"
        for gate, options in settings.items()
        for name, value in options.items()
        if (configured := simulation.site.option(gate, name)) is not None and configured != value
    ]
    words = "time limits and sizes that this machine can do" if simulation.full else "short ones"
    if any(name in settings["inference_acceptance"] for name in AT_ONCE):
        words += ", and more hosts than usual that serve and fetch weights at a time"
    instead = f" and not {', '.join(replaced)}" if replaced else ""
    return Replacement(note=f"time limits of gates {', '.join(settings)}: {words}{instead}", settings=settings)


def _inference(simulation: Simulation) -> Mapping[str, Any]:
    found = inference_settings(simulation.model, full=simulation.full)
    own = {name for name in AT_ONCE if simulation.site.option("inference_acceptance", name) is not None}
    if simulation.site.option("inference_acceptance", "slo") is not None and not simulation.full:
        own.add("slo")
    return {name: value for name, value in found.items() if name not in own}


def _shared_volume(simulation: Simulation) -> Replacement:
    volume = simulation.site.option(STORAGE, "volume") or simulation.site.option(STORAGE, "claim")
    site = " and not the site's own" if volume else ""
    if not simulation.storage:
        note = "shared volume: none is measured, for there is no fio on this machine"
        return Replacement(note=note, settings={STORAGE: {"volume": {}, "claim": {}}})
    note = f"shared volume: a simulated one{site}, a little of which the real fio writes and reads once"
    return Replacement(note=note, settings={STORAGE: storage_settings(len(simulation.model.nodes))})


def _software(_simulation: Simulation) -> Replacement:
    return Replacement(note="charts: stand-ins with the names and versions of the recipe's, which control no hardware")


REPLACEMENTS: tuple[Callable[[Simulation], Replacement | None], ...] = (
    _hosts,
    _node_names,
    _facility_record,
    _bmcs,
    _cabling_plan,
    _criteria,
    _time_limits,
    _shared_volume,
    _software,
)
"""Everything that a rehearsal replaces, in the order of the notes."""
