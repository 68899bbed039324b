# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The simulated part of a rehearsal, written before its cluster starts: model, hosts, facility record, chart mirror."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

from ..bmc.plan import bmc_directory, write_access
from ..charts.mirror import build_mirror
from ..control_plane.kwok import NodeSpec
from ..fabric.net import write_cabling
from ..fabric.plan import SimulatedFabric, ensure_programs, plan_fabric
from ..facility.room import Margins, day_of_record, write_facility
from ..faults.catalogue import choose_faults, load_catalogue, refuse_unshown
from ..hosts.prepare import prepare_hosts
from ..model.patch import build_model, healthy_cluster
from ..model.spec import ModelSpec, write_spec
from ..model.values import ClusterModel, Node
from ..places import DATA
from ..storage.programs import Fio, ensure_fio
from ..substitution.replacements import Simulation, Substitution, substitution_for
from ..telemetry.programs import Prometheus, ensure_prometheus
from .request import RehearsalRequest

# All charts that a recipe of the catalog may need, for the chart mirror of a rehearsal.

_LAYERS = ("overlays", "mixins")


def charts_of(directories: Sequence[Path]) -> list[dict[str, Any]]:
    """Return a reference for every chart and Kustomize component, in every version that registries and layers name.

    All recipes and not only the resolved one, so that the charts are there for any criteria and upgrade.

    Args:
        directories: recipe data directories; a later registry entry replaces an earlier one of the same name.

    Raises:
        InputError: a file is not valid YAML.
    """
    registry = {str(entry["name"]): entry for entry in _registered(directories)}
    found = {
        (name, _chart(entry), str(entry.get("helm", {}).get("defaultVersion", ""))) for name, entry in registry.items()
    }
    for reference in _references(directories):
        name = str(reference["name"])
        chart = str(reference.get("chart") or _chart(registry.get(name, {})) or name)
        found.add((name, chart, str(reference.get("version") or "")))
    rows = sorted((name, chart, version) for name, chart, version in found if chart and version)
    charts: list[dict[str, Any]] = [
        {"name": name, "chart": chart, "version": version, "type": "Helm", "workloads": _workloads(registry.get(name))}
        for name, chart, version in rows
    ]
    return charts + _built(directories, registry)


def _workloads(entry: dict[str, Any] | None) -> list[dict[str, str]]:
    """Return the workloads that a registry entry lists. The stand-in of an unknown chart creates these."""
    return [dict(configured) for configured in _list(entry or {}, "workloads")]


def _built(directories: Sequence[Path], registry: dict[str, dict[str, Any]]) -> list[dict[str, str]]:
    """Return a reference for every tag of every Kustomize component."""
    found = {(name, str((entry.get("kustomize") or {}).get("defaultTag") or "")) for name, entry in registry.items()}
    found |= {(str(reference["name"]), str(reference.get("tag") or "")) for reference in _references(directories)}
    return [{"name": name, "tag": tag, "type": "Kustomize"} for name, tag in sorted(found) if tag]


def _registered(directories: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for directory in directories:
        path = directory / "registry.yaml"
        document = read_yaml(path) if path.is_file() else {}
        yield from (entry for entry in _list(document, "components") if entry.get("name"))


def _references(directories: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for directory in directories:
        for layer in _LAYERS:
            for path in sorted((directory / layer).glob("**/*.yaml")):
                document = read_yaml(path)
                spec = document.get("spec") if isinstance(document, dict) else None
                yield from (entry for entry in _list(spec, "componentRefs") if entry.get("name"))


def _list(document: Any, key: str) -> list[dict[str, Any]]:
    rows = document.get(key) if isinstance(document, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _chart(entry: dict[str, Any]) -> str:
    helm = entry.get("helm")
    return str(helm.get("defaultChart") or "") if isinstance(helm, dict) else ""


MODEL_FILE = "model.yaml"
_DAY_FILE = "facility-day"
_SEED = 1


@dataclass(frozen=True, slots=True)
class Simulated:
    """Output of the simulators in the directory, and the replacements in a run on it."""

    model: ClusterModel
    model_file: Path
    chart_mirror: Path
    substitution: Substitution
    fabric: SimulatedFabric | None = None
    prometheus: Prometheus | None = None
    fio: Fio | None = None
    faults: tuple[str, ...] = ()


def prepare_simulators(request: RehearsalRequest, progress: Progress, alive: Callable[[], None]) -> Simulated:
    """Write the input of the simulated part of a rehearsal.

    Args:
        alive: raises AbortedError once the controller is gone.

    Raises:
        BringupError: a SKU, fault or recipe file is not valid; the directory cannot be written.
    """
    hardware = load_hardware([RECIPES / "hardware", *request.hardware])
    plain = ModelSpec(name=request.site_name, seed=_SEED, nodes=request.nodes, shapes=request.shapes)
    healthy = healthy_cluster(plain, hardware)
    catalogue = load_catalogue()
    spec = replace(plain, faults=choose_faults(request.faults, healthy, catalogue))
    requested = {*request.bmcs, *(rack.name for rack in healthy.racks if request.pdus)}
    refuse_unshown(spec.faults, catalogue, healthy, hardware, dra=request.dra, requested=requested)
    model = build_model(spec, hardware)
    model_file = request.directory / MODEL_FILE
    write_spec(spec, model_file)
    fabric = _fabric(request, model, progress, alive)
    prepare_hosts(model, request.directory, DATA, fabric=fabric)
    facility = draw_facility(request, model, healthy, hardware, datetime.now(UTC).date())
    cabling = request.directory / "cabling.yaml"
    planned = fabric is not None and request.plan
    if planned:
        write_cabling([node for node in healthy.nodes if node.kubernetes.member], cabling)
    fio = _fio(request, progress, alive)
    substitution = substitution_for(
        Simulation(
            site=request.site, model=healthy, facility=facility,
            facility_fault=room_state(model, healthy) != room_state(healthy, healthy),
            cabling=str(cabling) if planned else "", fabric=fabric is not None, full=request.full,
            bmc_access=write_access(bmc_directory(request.directory)), bmcs=len(request.bmcs), storage=fio is not None,
        )
    )  # fmt: skip
    prometheus = _prometheus(request, progress, alive)
    carried = tuple(f"{fault.id}@{fault.subject}" for fault in spec.faults)
    return Simulated(model, model_file, _mirror(request, model), substitution, fabric, prometheus, fio, carried)


def _prometheus(request: RehearsalRequest, progress: Progress, alive: Callable[[], None]) -> Prometheus | None:
    """Find Prometheus. Without it the rehearsal continues, and reports what is missing."""
    try:
        return ensure_prometheus(request.cache, progress, alive)
    except UnavailableError as error:
        progress.say(f"rehearsal: no Prometheus, so gate telemetry cannot look: {error}")
        return None


def _fio(request: RehearsalRequest, progress: Progress, alive: Callable[[], None]) -> Fio | None:
    """Find fio. Without it the rehearsal continues, and reports what is missing."""
    try:
        return ensure_fio(request.cache, progress, alive)
    except UnavailableError as error:
        progress.say(f"rehearsal: no fio, so no shared volume is measured: {error}")
        return None


def _fabric(
    request: RehearsalRequest, model: ClusterModel, progress: Progress, alive: Callable[[], None]
) -> SimulatedFabric | None:
    """Plan the InfiniBand fabric.

    Without the simulator's programs the rehearsal continues, and reports what is missing.
    """
    if not model.infiniband.switches:
        return None
    try:
        programs = ensure_programs(request.cache, progress, alive)
    except UnavailableError as error:
        progress.say(f"rehearsal: no InfiniBand fabric, so gate fabric cannot look: {error}")
        return None
    return plan_fabric(model, request.directory / "fabric", programs)


def _mirror(request: RehearsalRequest, model: ClusterModel) -> Path:
    directory = request.directory / "charts"
    shutil.rmtree(directory, ignore_errors=True)
    build_mirror(directory, charts_of(request.recipes), model.stack.components)
    return directory


def draw_facility(
    request: RehearsalRequest, model: ClusterModel, healthy: ClusterModel, hardware: dict[str, Sku], today: date
) -> dict[str, str]:
    """Write the room's documents and return `gpufleet_settings.facility` for them.

    Args:
        today: the day of the run. A record of an earlier day is written again with that day.
    """
    racks: dict[str, list[str]] = {}
    for node in request.nodes:
        racks.setdefault(node.rack, []).append(node.sku)
    directory = request.directory / "facility"
    shutil.rmtree(directory, ignore_errors=True)
    # The validity of a record with such a fault counts from the day of the run.
    usual = model.facility.valid_days == healthy.facility.valid_days
    day = day_of_record(request.directory / _DAY_FILE, today) if usual else today
    return write_facility(
        site=request.site_name, racks=racks, hardware=hardware, directory=directory, today=day,
        state=room_state(model, healthy),
    )  # fmt: skip


def room_state(model: ClusterModel, healthy: ClusterModel) -> dict[str, Any]:
    """Return the state of the room's documents in the model (see facility.room.RoomState)."""
    record = model.facility
    before = {rack.name: rack for rack in healthy.racks}
    margins = {
        rack.name: {
            "power": _margin(rack.power_w, before[rack.name].power_w),
            "cooling": _margin(rack.cooling_w, before[rack.name].cooling_w),
            "floor_load": _margin(rack.floor_load_kg, before[rack.name].floor_load_kg),
        }
        for rack in model.racks
        if rack != before[rack.name]
    }
    return {
        "signer": "allowed" if record.signer == "facility" else record.signer,
        "tampered": record.tampered,
        "issued_days_ago": record.issued_days_ago,
        "expires_in_days": record.valid_days,
        "changed_evidence": ["load-bank-test.txt"] if record.evidence_changed else [],
        "missing_evidence": ["load-bank-test.txt"] if record.evidence_missing else [],
        "evidence_listed": record.evidence_listed,
        "site": record.site,
        "dead_pdus": [f"{rack.name}-pdu-b" for rack in model.racks if rack.pdus == "dead"],
        "bare_racks": [rack.name for rack in model.racks if rack.pdus == "unlisted"],
        "margins": margins,
    }


def _margin(granted: float, granted_when_healthy: float) -> float:
    return Margins().power * granted / granted_when_healthy if granted_when_healthy else Margins().power


def kubernetes_node(node: Node) -> NodeSpec:
    """Return the Kubernetes node of a simulated host."""
    info = {
        "kernelVersion": node.kernel,
        "osImage": f"{node.os_name} {node.os_version} LTS",
        "machineID": node.machine_id,
        "systemUUID": node.serial,
    }
    labels = {"topology.kubernetes.io/rack": node.rack}
    return NodeSpec(name=node.name, labels=labels, taints=node.kubernetes.taints, info=info)


def system_nodes(count: int) -> tuple[NodeSpec, ...]:
    """Return `count` Kubernetes nodes without GPUs, for the cluster's own software."""
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    return tuple(NodeSpec(name=f"system{number:02d}", capacity=capacity) for number in range(1, count + 1))
