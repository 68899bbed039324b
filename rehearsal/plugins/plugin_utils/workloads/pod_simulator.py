# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The interface of a pod simulator: output and exit code of the pods of one kind of program.

A simulator is one file, `<program>_pods.py`, with a constant `SIMULATOR`, and is listed in registry.py. It is called
when a pod that it handles runs (and again until it returns a result), with all pods of that pod's job. It returns an
output for each pod: lines computed from the model, or, in a rehearsal with FULL, a program of this machine whose output
becomes the pod's log while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError

from ..model.values import ClusterModel

Json = dict[str, Any]
STDOUT, STDERR = "stdout", "stderr"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
MPI_LABEL, ROLE_LABEL = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"
REPLICA_LABEL = "training.kubeflow.org/replica-index"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealProcess:
    """A program of this machine that runs for a pod: command, additional environment variables, working directory."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOutput:
    """Output and end of one pod.

    Args:
        lines: pairs of stream and line.
        exit_code: exit code; None: it runs until it is removed.
        run_s: seconds from the start of the run to its end.
        process: a program to run instead; its output is the log and its exit code the pod's.
        fault: reason for which its container keeps failing (CrashLoopBackOff); `lines` are then the previous log.
        recovers_s: seconds from the start of the run until it stops failing; 0: it never does.
        message: content of /dev/termination-log.
    """

    lines: tuple[tuple[str, str], ...] = ()
    exit_code: int | None = 0
    run_s: float = 0.0
    process: RealProcess | None = None
    fault: str = ""
    recovers_s: float = 0.0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods of one job, or one pod without a job, from the API server, in the order of their indices.

    A launcher with a separate role (MPIJob) is the first one.
    """

    name: str
    pods: tuple[Json, ...]

    @property
    def running(self) -> tuple[Json, ...]:
        """The pods in phase Running."""
        return tuple(pod for pod in self.pods if (pod.get("status") or {}).get("phase") == "Running")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimContext:
    """Input of simulators: the cluster model, SKU facts and the time.

    - `full`: directory with the installed requirement sets of real programs; None: none really runs.
    - `claimed`: by namespace and name of a ResourceClaim its allocated devices (`gpu-3`).
    - `ports`: by namespace and name of a Service the port of its simulated server on 127.0.0.1.
    - `directory`: where real programs may write.
    """

    model: ClusterModel
    skus: Mapping[str, Sku]
    now: datetime
    full: Path | None = None
    ports: Mapping[tuple[str, str], int] = field(default_factory=dict)
    claimed: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    directory: Path = Path()

    def program(self, set_name: str, name: str) -> str:
        """Return the path of a program of an installed requirement set.

        Raises:
            NotFoundError: the set is not installed, or `full` is None.
        """
        path = (self.full or Path()) / f"full-{set_name}" / "bin" / name
        if self.full is None or not path.is_file():
            raise NotFoundError(f"program {name}", f"requirement set {set_name} is not installed.", "make setup-full")
        return str(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSimulator:
    """The simulator of one kind of program.

    Args:
        name: the program.
        handles: tells whether a pod runs the program, by command and labels.
        simulate: returns the outputs by name of pod; None: not yet, call again at the next change. Computed outputs are
            pure: the same group in the same context gives the same. KeyError (no such node in the model) and
            NotFoundError end the job.
    """

    name: str
    handles: Callable[[Json], bool]
    simulate: Callable[[PodGroup, SimContext], Mapping[str, PodOutput] | None]


def words_of(pod: Json) -> list[str]:
    """Return command and arguments of a pod's first container."""
    container = (pod["spec"].get("containers") or [{}])[0]
    return [str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])]]


def env_of(pod: Json) -> dict[str, str]:
    """Return the environment variables of the pod's first container."""
    container = (pod["spec"].get("containers") or [{}])[0]
    return {entry["name"]: str(entry.get("value", "")) for entry in container.get("env") or []}


def labels_of(pod: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return found
