# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A simulated fabric as files, processes for the supervisor, and the files that bind every host to its own adapters."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress

from ..hosts.host_record import host_directory
from ..model.values import ClusterModel, Hca, Node
from ..places import python_argv
from ..processes.spec import ProcessSpec
from ..toolchain.packages import Packages, ensure_unpacked, library_path, nothing_to_watch
from .net import (
    MANAGERS,
    adapter_ident,
    build_net,
    console_growth,
    console_start,
    console_under_load,
    manager_ident,
    net_text,
    table_sizes,
)
from .simulator import ANSWER, ASK, LOADED, NET_FILE, SCRIPT, make_pipes

# Finds ibsim, opensm and infiniband-diags: on the machine, or in packages unpacked into the rehearsal's cache. They are
# unpacked and not installed, which needs no administrator, changes nothing on the machine, and starts no service.

DIAGNOSTICS = (
    "ibstat", "iblinkinfo", "ibnetdiscover", "ibqueryerrors", "perfquery", "sminfo", "saquery", "smpquery",
)  # fmt: skip
PACKAGES = ("ibsim-utils", "opensm", "infiniband-diags", "libumad2sim0")
_SIMULATION = "umad2sim/libumad2sim.so"
_SUBJECT = "InfiniBand simulator"
_HINT = f"apt-get install {' '.join(PACKAGES)} (and systemctl disable --now opensm), or the like of this distribution"


@dataclass(frozen=True, slots=True)
class FabricPrograms:
    """Paths of the programs by name.

    - `simulation`: the library that connects tools to the simulator.
    - `libraries`: directories of their libraries; empty where the system has them.
    """

    paths: dict[str, str]
    simulation: str
    libraries: str = ""

    def environment(self) -> dict[str, str]:
        """Return the environment variables of these programs.

        No other program may get them, since it has other libraries.
        """
        return {"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}

    def client(self, socket_name: str, ident: str) -> dict[str, str]:
        """Return the environment in which a program uses that adapter."""
        speaking = {"LD_PRELOAD": self.simulation, "IBSIM_SOCKNAME": socket_name, "SIM_HOST": ident}
        return {**speaking, **self.environment()}


def ensure_programs(cache: Path, progress: Progress, alive: Callable[[], None] = nothing_to_watch) -> FabricPrograms:
    """Return the programs, unpacked into the cache if the machine does not have them.

    Raises:
        UnavailableError: they are not there and cannot be fetched; the hint has the command that installs them.
    """
    packages = Packages(PACKAGES, cache / "infiniband" / "root", _SUBJECT, _HINT)
    installed = find_programs(Path("/"))
    if installed is not None:
        return installed
    ensure_unpacked(packages, lambda: _problem(packages), progress, alive)
    found = find_programs(packages.root)
    if found is None:
        raise UnavailableError(_SUBJECT, f"{packages.root} is not complete: programs are missing.", _HINT)
    return found


def _problem(packages: Packages) -> str:
    """Return why the unpacked programs cannot run, empty if they can."""
    found = find_programs(packages.root)
    if found is None:
        return "programs are missing"
    environment = {**found.environment(), "LD_PRELOAD": found.simulation}
    return packages.problem(list(found.paths.values()), environment)


def find_programs(root: Path) -> FabricPrograms | None:
    """Return the programs below a root directory, None unless all are there."""
    own = root == Path("/")
    places = [root / name for name in ("usr/sbin", "usr/bin", "sbin", "bin")]
    path = os.pathsep.join([str(place) for place in places] + ([os.environ.get("PATH", "")] if own else []))
    paths = {name: shutil.which(name, path=path) for name in ("ibsim", "opensm", *DIAGNOSTICS)}
    libraries = library_path(root)
    known = (Path(directory) / _SIMULATION for directory in libraries.split(os.pathsep))
    simulation = next((path for path in known if path.is_file()), None)
    if simulation is None or not all(paths.values()):
        return None
    return FabricPrograms(
        {name: str(place) for name, place in paths.items()}, str(simulation), "" if own else libraries
    )  # fmt: skip


_WAVE_START, _WAVE_READY = 0, 4
_DIRECTORY = "fabric"
_ADAPTERS, _WAY = "hcas.tsv", ("fabric.env", "fabric.lock")
_SM_CONFIGURATION = "sminfo_polling_timeout 1000\npolling_retry_number 3\nlog_max_size 8\n"


@dataclass(frozen=True, slots=True)
class SimulatedFabric:
    """A planned fabric: its processes, its socket's name, and its programs."""

    processes: tuple[ProcessSpec, ...]
    socket_name: str
    programs: FabricPrograms
    directory: Path

    def host_files(self, node: Node) -> dict[str, str]:
        """Return the files of a host's tools: the connection to the simulator, and the host's adapters."""
        client = self.programs.client(self.socket_name, "")
        settings = {**client, "DIAGNOSTICS": str(Path(self.programs.paths["ibstat"]).parent), "FABRIC_HOST": node.name}
        return {
            _WAY[0]: "".join(f"{name}={quote(value)}\n" for name, value in settings.items() if name != "SIM_HOST"),
            _ADAPTERS: _adapter_rows(node),
            # The same file for every host: links to it share one lock.
            _WAY[1]: "One tool at a time: process ids of two hosts can be the same.\n",
        }

    @property
    def pipes(self) -> tuple[Path, ...]:
        """Pipes over which a tool requests results that the simulator already has."""
        return _pipes(self.directory)

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the real tools that hosts have."""
        return DIAGNOSTICS


@dataclass(frozen=True, slots=True)
class RunningFabric:
    """The fabric of a running rehearsal. Its hosts keep the connection, and get new adapter rows from the model."""

    root: Path

    def host_files(self, node: Node) -> dict[str, str]:
        """Return the files of a host's tools."""
        out = host_directory(self.root, node.name) / "out"
        return {name: (out / name).read_text(encoding="utf-8") for name in _WAY} | {_ADAPTERS: _adapter_rows(node)}

    @property
    def pipes(self) -> tuple[Path, ...]:
        """Pipes over which a tool requests results that the simulator already has."""
        return _pipes(self.root / _DIRECTORY)

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the real tools that hosts have."""
        return DIAGNOSTICS


def running_fabric(root: Path) -> RunningFabric | None:
    """Return the fabric of the rehearsal in a directory, None without one."""
    return RunningFabric(root) if (root / _DIRECTORY / SCRIPT).is_file() else None


def mark_fabric_loaded(root: Path) -> None:
    """Raise the counters that grow under load in the fabric of a rehearsal, if it has one."""
    if (root / _DIRECTORY / SCRIPT).is_file():
        (root / _DIRECTORY / LOADED).touch()


def _adapter_rows(node: Node) -> str:
    rows = (
        "\t".join((hca.name, _ident(node, hca), hca.model, hca.firmware, "" if hca.state == "Down" else hca.state))
        for hca in node.all_hcas
    )
    return "".join(f"{row}\n" for row in rows)


def _pipes(directory: Path) -> tuple[Path, ...]:
    return tuple(directory / name for name in (ASK, ANSWER))


def _ident(node: Node, hca: Hca) -> str:
    """Return its name in the simulator; `-` for an adapter that is not on the fabric."""
    return adapter_ident(hca) if hca.link_layer == "InfiniBand" and (hca in node.hcas or hca.cable.up) else "-"


def plan_fabric(model: ClusterModel, directory: Path, programs: FabricPrograms) -> SimulatedFabric | None:
    """Write the files of the model's fabric and return what to run; None if no host has InfiniBand.

    Args:
        model: the cluster with its faults.
        directory: created anew.
        programs: the simulator's programs.

    Raises:
        OSError: the directory cannot be written.
    """
    net = build_net(model)
    if not model.infiniband.switches:
        return None
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700, parents=True)
    make_pipes(directory)
    socket_name = f"gpufleet-{secrets.token_hex(6)}"
    write_atomic(directory / NET_FILE, net_text(net))
    write_atomic(directory / "opensm.conf", _SM_CONFIGURATION)
    wanted = {"both": 2, "no-standby": 1, "none": 0}[model.infiniband.subnet_managers]
    idents = [manager_ident(model.seed, name) for name in MANAGERS]
    script = {
        "ibsim": programs.paths["ibsim"], "environment": programs.environment(), "sizes": table_sizes(net),
        "start": console_start(net),
        "growth": [asdict(growth) for growth in console_growth(net)],
        "under_load": console_under_load(net), "tools": programs.paths,
        "client": programs.client(socket_name, idents[-1]), "managers": wanted,
        "active_ends": net.active_ends if wanted else 0,
    }  # fmt: skip
    write_atomic(directory / SCRIPT, json.dumps(script))
    environment = {"IBSIM_SOCKNAME": socket_name, "OSM_TMP_DIR": str(directory), "OSM_CACHE_DIR": str(directory)}
    simulator = python_argv("rehearsal.fabric.simulator", str(directory))
    ready = python_argv("rehearsal.fabric.ready", str(directory))
    processes = (
        ProcessSpec(name="ibsim", argv=simulator, wave=_WAVE_START, env=environment, cwd=str(directory)),
        *(
            _manager(number, idents, directory, programs, environment, model.infiniband.priorities[number])
            for number in range(wanted)
        ),
        ProcessSpec(name="fabric-ready", argv=ready, wave=_WAVE_READY, once=True, limit_s=120),
    )
    return SimulatedFabric(processes, socket_name, programs, directory)


def _manager(
    number: int, idents: list[str], directory: Path, programs: FabricPrograms, environment: dict[str, str],
    priority: int,
) -> ProcessSpec:  # fmt: skip
    """Return a subnet manager.

    The standby starts once there is a master, or both would claim the fabric for a while.
    """
    client = programs.client(environment["IBSIM_SOCKNAME"], idents[number])
    within = " ".join(["env", *(quote(f"{name}={value}") for name, value in client.items())])
    wait = f"until [ -e {quote(str(directory / 'told'))} ]; do sleep 0.05; done"
    if number:
        requested = f"{within} {quote(programs.paths['sminfo'])} 2>/dev/null | grep -q MASTER"
        wait += f"; until {requested}; do sleep 0.2; done"
    name = "opensm-standby" if number else "opensm-master"
    run = (
        f"exec {within} {quote(programs.paths['opensm'])} -p {priority} -s 10 -D 0x82 -F opensm.conf "
        f"-f {quote(str(directory / f'{name}.log'))}"
    )
    argv = ("/bin/sh", "-c", f"{wait}; {run}")
    return ProcessSpec(name=name, argv=argv, wave=_WAVE_START, env=environment, cwd=str(directory))
