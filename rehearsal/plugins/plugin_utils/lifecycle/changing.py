# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sets and lifts faults of a running rehearsal: in the cluster model, and on the hosts that it changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    InputError,
    NotFoundError,
    ProblemsError,
    UnavailableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

from ..bmc.plan import asked_of, bmc_directory
from ..fabric.net import build_net, console_growth, console_start, net_text
from ..fabric.plan import running_fabric
from ..facility.room import Margins
from ..faults.catalogue import FAULTS_VARIABLE, choose_faults, load_catalogue, refuse_unshown
from ..hosts.refresh import refresh_hosts
from ..model.patch import apply_fault, healthy_cluster
from ..model.spec import Fault, ModelSpec, applied_file, file_version, read_spec, write_spec
from ..model.values import ClusterModel
from ..places import DATA
from ..processes.spec import SPEC_FILE, SupervisorSpec
from .inventory import note_faults
from .simulators import MODEL_FILE, kubernetes_node, room_state
from .starter import read_state

ALL = "all"
_LIFT = "gpufleet_rehearsal_lift"
_IN_CHARTS = ("never-ready", "image-missing", "install-fails")
_APPLIED_S = 60.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Changed:
    """All current faults of a rehearsal, and those that were just set and lifted."""

    faults: tuple[str, ...]
    set: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()


def faults_of(directory: Path) -> tuple[str, ...]:
    """Return the faults of the rehearsal in a directory; empty unless it is up."""
    return tuple(map(_name, read_spec(directory / MODEL_FILE).faults)) if is_up(directory) else ()


def change_faults(directory: Path, wanted: Sequence[str], lifted: Sequence[str]) -> Changed:
    """Set and lift faults, and return once cluster and hosts have them.

    Args:
        directory: directory of the rehearsal.
        wanted: as in `FAULTS=`.
        lifted: `id`, `id@subject`, or `all`.

    Raises:
        NotFoundError: no rehearsal is up there.
        ProblemsError: every fault that is unknown, is not set, or can be set or lifted only at the start.
        UnavailableError: the simulated operators do not apply it.
    """
    if not is_up(directory):
        raise NotFoundError(f"rehearsal in {directory}", "none is up.", f"start one: {_start_of()}")
    path = directory / MODEL_FILE
    spec, hardware = read_spec(path), load_hardware(_hardware(directory))
    healthy = healthy_cluster(spec, hardware)
    gone = _lifted(spec.faults, lifted)
    left = tuple(fault for fault in spec.faults if fault not in gone)
    # Another seed for each fault: a fault without a subject hits another one every time.
    fresh = choose_faults(wanted, healthy, load_catalogue(), spec.seed + len(left))
    if twice := sorted({*map(_name, left)} & {*map(_name, fresh)}):
        raise InputError(
            FAULTS_VARIABLE, f"set already: {', '.join(twice)}.", f"lift it first (-e {_LIFT}=<fault>), or leave it out"
        )
    requested = asked_of(bmc_directory(directory))
    refuse_unshown(fresh, load_catalogue(), healthy, hardware, dra=True, requested=requested)
    _refuse_what_a_start_needs(healthy, (*fresh, *gone))
    changed = replace(spec, faults=(*left, *fresh))
    before, after = _model(healthy, spec.faults), _model(healthy, changed.faults)
    refresh_hosts(before, after, directory, DATA, running_fabric(directory))
    _write(changed, path)
    note_faults(directory, tuple(map(_name, changed.faults)))
    return Changed(tuple(map(_name, changed.faults)), tuple(map(_name, fresh)), tuple(map(_name, gone)))


def _start_of(of_make: str = "", variables: str = "") -> str:
    """Return the commands that start a rehearsal that stays up, in a checkout and in an installed collection."""
    installed = f"ansible-playbook gpufleet.bringup.rehearse {variables}-e gpufleet_rehearsal_keep=true"
    return f"make rehearse {of_make}KEEP=1, or {installed}"


def is_up(directory: Path) -> bool:
    """Return whether a rehearsal is up in a directory, so that its faults can be set and lifted."""
    state = read_state(directory)
    return state is not None and state.supervisor.alive() and state.phase in ("ready", "degraded")


def _hardware(directory: Path) -> list[Path]:
    """Return the directories of SKU facts with which the simulated operators were started."""
    spec = load(SupervisorSpec, directory / SPEC_FILE)
    argv = next(process.argv for process in spec.processes if process.name == "controllers")
    return [RECIPES / "hardware", *(Path(argv[n + 1]) for n, word in enumerate(argv) if word == "--hardware")]


def _lifted(faults: Sequence[Fault], texts: Iterable[str]) -> tuple[Fault, ...]:
    found: list[Fault] = []
    problems: list[BringupError] = []
    for text in (part.strip() for entry in texts for part in entry.split(",")):
        fitting = [fault for fault in faults if text in (ALL, fault.id, _name(fault))]
        found += [fault for fault in fitting if fault not in found]
        if text and not fitting and text != ALL:
            there = ", ".join(map(_name, faults)) or "none"
            problems.append(NotFoundError(f"{_LIFT} {text!r}", "is not set.", f"set are: {there}; all lifts all"))
    if problems:
        raise ProblemsError(_LIFT, tuple(problems))
    return tuple(found)


def _refuse_what_a_start_needs(healthy: ClusterModel, faults: Iterable[Fault]) -> None:
    """Refuse faults in data that is read, signed or built when a rehearsal starts, as ProblemsError."""
    problems: list[BringupError] = []
    usual = dict(_read_at_start(healthy, healthy))
    for fault in faults:
        found = dict(_read_at_start(apply_fault(healthy, fault), healthy))
        reasons = [reason for reason, value in found.items() if value != usual[reason]]
        if reasons:
            start = _start_of(f"FAULTS={_name(fault)} ", f"-e gpufleet_rehearsal_faults={_name(fault)} ")
            hint = f"stop the rehearsal (playbook rehearse_stop) and start it with the fault: {start}"
            problems.append(InputError(f"fault {_name(fault)}", f"{reasons[0]}.", hint))
    if problems:
        raise ProblemsError(FAULTS_VARIABLE, tuple(problems))


def _read_at_start(model: ClusterModel, healthy: ClusterModel) -> Iterator[tuple[str, Any]]:
    if model.infiniband.switches:
        net = build_net(model)
        cables = (net_text(net), console_start(net), console_growth(net))
        managers = (model.infiniband.subnet_managers, model.infiniband.priorities)
        yield "the fabric simulator reads its cables and subnet managers when it starts", (cables, managers)
    state = room_state(model, healthy)
    unchanged = Margins().power
    margins = {rack: found for rack, found in state["margins"].items() if {*found.values()} != {unchanged}}
    yield "the record of the room is drawn and signed when a rehearsal starts", state | {"margins": margins}
    charts = {name: word for name, word in model.stack.components.items() if word in _IN_CHARTS}
    yield "it is in a chart, and charts are built when a rehearsal starts", charts
    members = [kubernetes_node(node) for node in model.nodes if node.kubernetes.member]
    images = (model.stack.image_pull_s, model.stack.system_nodes)
    yield "nodes are put into the cluster when a rehearsal starts", (members, images)


def _model(healthy: ClusterModel, faults: Iterable[Fault]) -> ClusterModel:
    model = healthy
    for fault in faults:
        model = apply_fault(model, fault)
    return model


def _write(spec: ModelSpec, path: Path) -> None:
    write_spec(spec, path)
    deadline = Deadline.after(_APPLIED_S)
    wanted, applied = file_version(path), applied_file(path)
    while not applied.is_file() or applied.read_text(encoding="utf-8") != wanted:
        if deadline.left_s <= 0:
            hint = f"look into {path.parent}/logs/controllers.log, or start the rehearsal again"
            raise UnavailableError("rehearsal", f"its operators did not take up the faults in {_APPLIED_S:g} s.", hint)
        sleep(_POLL_S)


def _name(fault: Fault) -> str:
    return fault.id if fault.kind == "cluster" else f"{fault.id}@{fault.subject}"
