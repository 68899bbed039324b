# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starts a rehearsal: cleanup, toolchain, simulators, control plane with its nodes, controllers."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.layers import laid_over
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress

from ..bmc.plan import SimulatedBmcs, bmc_directory, plan_bmcs
from ..control_plane.plan import WAVE_READY, ControlPlane, plan_control_plane
from ..controllers.pod_ports import exec_shims
from ..hosts.starting import resident_process
from ..places import FILES, python_argv
from ..processes.spec import ProcessId, ProcessSpec, SupervisorSpec
from ..telemetry.plan import SimulatedTelemetry, TelemetryPrograms, plan_telemetry, telemetry_directory
from ..toolchain.ensure import Program, Workshop, ensure_toolchain
from ..workloads.alert_receiver_pods import PORT_VARIABLE
from ..workloads.fio_pods import FIO_VARIABLE, LIBRARIES_VARIABLE
from .child import ending_in_order
from .controller import alive_check, controller_process
from .inventory import fault_notes, write_inventory
from .request import INVENTORY_FILE, Rehearsal, RehearsalRequest, refuse_missing_programs
from .simulators import Simulated, kubernetes_node, prepare_simulators, system_nodes
from .starter import PortClashError, new_id, refuse_second, start, stop

_TRIES = 3


def bring_up(request: RehearsalRequest, progress: Progress) -> Rehearsal:
    """Start a rehearsal and return it when every node is Ready.

    Raises:
        BringupError: something is missing, not valid or did not start. Then nothing is left running.
    """
    refuse_missing_programs()
    if request.full:
        _refuse_missing_sets(request)
    controller = controller_process()
    alive = alive_check(controller)
    _clean(request.directory, progress)
    sources = FILES / "toolchain"
    with ending_in_order(alive) as look:
        programs = ensure_toolchain(Workshop(sources, request.cache, os.environ, progress, look))
        simulated = prepare_simulators(request, progress, look)
    plane, bmcs = _start(request, programs, simulated, controller, progress)
    version = programs["kube-apiserver"].version
    progress.say(f"rehearsal: {len(request.nodes)} nodes Ready, Kubernetes {version} on 127.0.0.1")
    rehearsal = Rehearsal(
        directory=request.directory,
        kubeconfig=plane.kubeconfig,
        chart_mirror=simulated.chart_mirror,
        nodes=request.nodes,
        programs={name: str(program.path) for name, program in programs.items()},
        version=version,
        # Ports of PDUs are known only once the rehearsal is up.
        settings=laid_over(
            request.settings, laid_over(simulated.substitution.settings, {"pdu-feeds": {"pdus": bmcs.pdus}})
        ),
        notes=(*fault_notes(simulated.faults), *request.notes, *simulated.substitution.notes),
        bmcs=bmcs.urls,
    )
    try:
        write_inventory(request, rehearsal)
    except BaseException:
        stop(request.directory)
        raise
    return rehearsal


def _refuse_missing_sets(request: RehearsalRequest) -> None:
    """Refuse a `full` rehearsal without its programs, before anything starts."""
    wanted = sorted(path.stem for path in (request.collection / "requirements").glob("full-*.txt"))
    missing = [name for name in wanted if not (request.collection / ".cache" / name / "bin").is_dir()]
    if missing or not wanted:
        reason = f"not installed: {', '.join(missing) or 'its programs'}."
        raise NotFoundError("rehearsal with FULL", reason, "run make setup-full in a checkout of the collection")
    for name in wanted:
        # tools/setup_full removes a set that was not used for long.
        with suppress(OSError):
            os.utime(request.collection / ".cache" / name / ".stamp")


def _clean(directory: Path, progress: Progress) -> None:
    """Clean up after a dead run; refuse to touch a live one."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        hint = "set gpufleet_rehearsal_dir to a directory that you can write"
        raise UnavailableError(f"rehearsal directory {directory}", f"cannot be made: {error}.", hint) from error
    refuse_second(directory)
    found = stop(directory)
    if found:
        progress.say(f"rehearsal: removed what an earlier run left: {', '.join(found)}")


def _start(
    request: RehearsalRequest, programs: dict[str, Program], simulated: Simulated, controller: ProcessId,
    progress: Progress,
) -> tuple[ControlPlane, SimulatedBmcs]:  # fmt: skip
    paths = {name: program.path for name, program in programs.items()}
    hosts = [kubernetes_node(node) for node in simulated.model.nodes if node.kubernetes.member]
    nodes = (*hosts, *system_nodes(simulated.model.stack.system_nodes))
    stages = FILES / "kwok" / "stages.yaml.tpl"
    for attempt in range(1, _TRIES + 1):
        pull_s = simulated.model.stack.image_pull_s
        audit = request.directory / "audit.log" if request.audit else None
        # Their ports stay the same in this directory, so the other ports avoid them.
        bmcs = _bmcs(simulated, request)
        plane = plan_control_plane(
            request.directory / "cluster", paths, nodes, stages, pull_s, audit=audit, taken=bmcs.ports
        )
        taken = {*bmcs.ports, *plane.ports.values()}
        telemetry = _telemetry(simulated, request, paths, plane, taken)
        spec = SupervisorSpec(
            rehearsal_id=new_id(request.directory), directory=str(request.directory), controller_pid=controller.pid,
            controller_start=controller.start_ticks, keep=request.keep,
            processes=(
                resident_process(request.directory), *_fabric(simulated), *bmcs.processes,
                *(telemetry.processes if telemetry else ()), *_with_exec_shims(plane, request),
                *_controllers(plane, simulated, request, telemetry),
            ),
            volatile=(str(plane.directory), str(request.directory / INVENTORY_FILE)), simulated=True,
            ports=plane.ports, kubeconfig=str(plane.kubeconfig),
            # A kept rehearsal may be used to try out a death of a process. A caller without a playbook checks the
            # processes itself.
            ends_run=not request.keep and controller.pid != os.getpid(),
        )  # fmt: skip
        try:
            start(spec, progress, alive_check(controller))
            return plane, bmcs
        except PortClashError as error:
            if attempt == _TRIES:
                raise
            progress.say(f"rehearsal: a port was taken meanwhile ({error.reason}), choosing others")
    raise AssertionError("unreachable: the last attempt returns or raises")


def _with_exec_shims(plane: ControlPlane, request: RehearsalRequest) -> tuple[ProcessSpec, ...]:
    """Return the control plane in which KWOK's PATH has what `kubectl exec` runs: the tools of the pod's host."""
    path = {"PATH": str(exec_shims(request.directory))}
    return tuple(
        replace(process, env=process.env | path) if process.name == "kwok" else process for process in plane.processes
    )


def _bmcs(simulated: Simulated, request: RehearsalRequest) -> SimulatedBmcs:
    racks = tuple(rack.name for rack in simulated.model.racks) if request.pdus else ()
    return plan_bmcs(bmc_directory(request.directory), request.bmcs, simulated.model_file, request.hardware, racks)


def _fabric(simulated: Simulated) -> tuple[ProcessSpec, ...]:
    return simulated.fabric.processes if simulated.fabric is not None else ()


def _telemetry(
    simulated: Simulated, request: RehearsalRequest, paths: dict[str, Path], plane: ControlPlane, taken: set[int]
) -> SimulatedTelemetry | None:
    if simulated.prometheus is None:
        return None
    programs = TelemetryPrograms(simulated.prometheus, str(paths["alertmanager"]))
    directory, hosts = telemetry_directory(request.directory), len(request.nodes)
    return plan_telemetry(directory, programs, simulated.model_file, hosts, request.hardware, plane.tls, taken)


def _controllers(
    plane: ControlPlane, simulated: Simulated, request: RehearsalRequest, telemetry: SimulatedTelemetry | None
) -> tuple[ProcessSpec, ...]:
    """Return the process of the simulated operators, which follow the model file."""
    env = {PORT_VARIABLE: str(telemetry.ports["alert-receiver"])} if telemetry else {}
    if simulated.fio is not None:
        env |= {FIO_VARIABLE: simulated.fio.path, LIBRARIES_VARIABLE: simulated.fio.libraries}
    hardware = [word for path in request.hardware for word in ("--hardware", str(path))]
    full = ("--full", str(request.full_sets)) if request.full_sets else ()
    arguments = ("--kubeconfig", str(plane.kubeconfig), "--model", str(simulated.model_file), *hardware, *full)
    argv = python_argv("rehearsal.controllers", *arguments)
    return (ProcessSpec(name="controllers", argv=argv, wave=WAVE_READY + 1, env=env, grace_s=0.5),)
