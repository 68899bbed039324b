# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A real Slurm for tests: controller and four nodes on loopback, this machine's or Debian's packages unpacked. Only its
own processes are ended."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.ports import free_ports
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.packages import (
    Packages,
    ensure_unpacked,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
_CLIENTS = ("scontrol", "sinfo", "squeue", "sbatch", "srun", "scancel")
_LIMIT_S = 60.0
_CONFIG = """ClusterName=gpufleet-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={here}/munge.socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
PluginDir={plugins}
StateSaveLocation={here}/state
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/%n.pid
SlurmdSpoolDir={here}/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_interval=1,defer
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=300
KillWait=2
MinJobAge=300
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=86400
SuspendTimeout=1
ResumeTimeout=30
NodeName=gpu[01-04] NodeHostname={host} NodeAddr=127.0.0.1 Port={ports} CPUs=8 Boards=1 SocketsPerBoard=1 \
CoresPerSocket=8 ThreadsPerCore=1 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class NoSlurmError(Exception):
    """Why there is no Slurm here."""


@dataclass(slots=True)
class Slurm:
    """A Slurm that runs. Programs in `bin` speak to it and to no other."""

    directory: Path
    programs: dict[str, Path]
    libraries: str
    plugins: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def bin(self) -> Path:
        return self.directory / "bin"

    @property
    def scontrol(self) -> str:
        return str(self.bin / "scontrol")

    def run(self, program: str, *words: str) -> str:
        """Run one of Slurm's commands and return what it printed."""
        ran = subprocess.run(
            [str(self.bin / program), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        if ran.returncode != 0:
            raise RuntimeError(f"{program} {shlex.join(words)} ended with {ran.returncode}: {ran.stderr}{ran.stdout}")
        return ran.stdout

    def update(self, node: str, *words: str) -> None:
        """Change a node as an operator does."""
        self.run("scontrol", "update", f"nodename={node}", *words)

    def states(self) -> dict[str, str]:
        """Return the state of every node as scontrol prints it."""
        lines = self.run("scontrol", "-o", "show", "nodes").splitlines()
        words = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return {entry["NodeName"]: entry["State"] for entry in words}

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for it; a Slurm that does not get there says what it does instead."""
        eventually(condition, _LIMIT_S, lambda: f"{what}: {self.states()}\n{self.log('slurmctld')}")

    def wait_state(self, **states: str) -> None:
        """Wait until these nodes are in these states."""
        self.wait(f"waited for {states}", lambda: states.items() <= self.states().items())

    def start_node(self, node: str) -> None:
        """Start the daemon of a node; it says that the node was booted just now."""
        self._start(node, "slurmd", "-D", "-b", "-N", node, "-d", str(self.programs["slurmstepd"]))

    def stop_node(self, node: str) -> None:
        """End the daemon of a node, as if its power had failed."""
        _end(self.running.pop(node))

    def log(self, name: str) -> str:
        """Return the end of the log of a daemon."""
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace")[-4000:] if path.is_file() else "no log"

    def free_all(self) -> None:
        """Bring all nodes back to idle: no job, no reservation, no drain."""
        for line in self.run("scontrol", "-o", "show", "reservations").splitlines():
            if line.startswith("ReservationName="):
                self.run("scontrol", "delete", line.split()[0])
        self.run("scancel", f"--user={getpass.getuser()}")
        for node in NODES:
            if node not in self.running:
                self.start_node(node)
        self.wait("no job is left", lambda: not self.run("squeue", "-h").strip())
        for node, state in self.states().items():
            if state != "IDLE":
                with suppress(RuntimeError):
                    self.update(node, "state=resume")
        self.wait_state(**dict.fromkeys(NODES, "IDLE"))

    def _start(self, name: str, program: str, *words: str) -> None:
        environment = {**os.environ, "SLURM_CONF": str(self.directory / "slurm.conf")}
        if self.libraries:
            environment["LD_LIBRARY_PATH"] = self.libraries
        with (self.directory / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [str(self.programs[program]), *words], env=environment, cwd=self.directory, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip

    def start(self) -> None:
        """Start everything and wait until all nodes are idle."""
        here = self.directory
        (here / "state").mkdir()
        (here / "munge.key").write_bytes(os.urandom(128))
        (here / "munge.key").chmod(0o600)
        self._start(
            "munged", "munged", "--foreground", "--force", f"--socket={here}/munge.socket",
            f"--key-file={here}/munge.key", f"--pid-file={here}/munged.pid", f"--seed-file={here}/munged.seed",
            f"--log-file={here}/munged.said",
        )  # fmt: skip
        eventually((here / "munge.socket").is_socket, _LIMIT_S, lambda: self.log("munged"))
        self._start("slurmctld", "slurmctld", "-D", "-i")
        for node in NODES:
            self.start_node(node)
        self.wait("the controller answers", self._answers)
        self.wait_state(**dict.fromkeys(NODES, "IDLE"))

    def _answers(self) -> bool:
        with suppress(RuntimeError):
            return "is UP" in self.run("scontrol", "ping")
        return False

    def stop(self) -> None:
        """End what was started, the nodes first."""
        for name in [*(node for node in NODES if node in self.running), "slurmctld", "munged"]:
            if name in self.running:
                _end(self.running.pop(name))


@contextmanager
def running_slurm() -> Iterator[Slurm]:
    """Start a Slurm in a directory of its own and stop it at the end.

    Raises:
        NoSlurmError: it cannot be had on this machine, and why.
    """
    with ExitStack() as stack:
        # A path of a socket has at most 107 signs.
        directory = Path(tempfile.mkdtemp(prefix="gpufleet-slurm-", dir="/tmp"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        slurm = _found(directory)
        _configure(slurm)
        stack.callback(slurm.stop)
        slurm.start()
        stack.callback(slurm.run, "scancel", f"--user={getpass.getuser()}")
        yield slurm


def _found(directory: Path) -> Slurm:
    """Return the programs and the plugins, unpacked if this machine does not have them."""
    wanted = ("slurmctld", "slurmd", "slurmstepd", "munged", *_CLIENTS)
    have, plugins = _programs(Path("/"), wanted), _plugins(Path("/"))
    if len(have) == len(wanted) and plugins:
        return Slurm(directory, have, "", plugins)
    hint = f"apt install {' '.join(PACKAGES)}"
    packages = Packages(PACKAGES, default_cache(os.environ) / "slurm" / "root", "Slurm", hint)
    try:
        ensure_unpacked(packages, lambda: packages.problem((), {}), Progress(print))
    except BringupError as error:
        raise NoSlurmError(str(error)) from error
    root = packages.root
    have, plugins = _programs(root, wanted), _plugins(root)
    missing = [name for name in wanted if name not in have]
    if missing or plugins is None:
        raise NoSlurmError(f"{root} has no {', '.join(missing) or 'plugins of Slurm'}")
    libraries = f"{packages.environment()['LD_LIBRARY_PATH']}{os.pathsep}{plugins}"
    return Slurm(directory, have, libraries, plugins)


def _programs(root: Path, wanted: Sequence[str]) -> dict[str, Path]:
    """Return those that are there; Debian's daemons have a suffix until its alternatives are set up."""
    search = os.pathsep.join(str(root / path) for path in ("usr/sbin", "usr/bin"))
    found = {name: shutil.which(name, path=search) or shutil.which(f"{name}-wlm", path=search) for name in wanted}
    return {name: Path(path) for name, path in found.items() if path}


def _plugins(root: Path) -> Path | None:
    return next((path.parent for path in root.glob("usr/lib/*/slurm*/auth_munge.so")), None)


def _configure(slurm: Slurm) -> None:
    here, host = slurm.directory, socket.gethostname().split(".")[0]
    port, *ports = free_ports(("slurmctld", *NODES)).values()
    text = _CONFIG.format(
        host=host, port=port, user=getpass.getuser(), here=here, plugins=slurm.plugins,
        ports=",".join(map(str, ports)),
    )  # fmt: skip
    (here / "slurm.conf").write_text(text)
    (here / "cgroup.conf").write_text("CgroupAutomount=no\n")
    slurm.bin.mkdir()
    words = [f"export SLURM_CONF={here}/slurm.conf"]
    if slurm.libraries:
        words.append(f"export LD_LIBRARY_PATH={slurm.libraries}")
    for name in _CLIENTS:
        script = slurm.bin / name
        script.write_text("\n".join(["#!/bin/sh", *words, f'exec {slurm.programs[name]} "$@"', ""]))
        script.chmod(0o755)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
