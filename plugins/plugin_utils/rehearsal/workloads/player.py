# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a player is: it knows the pods of one kind of program and says what each of them writes and how it ends.

A player is one file, `<program>_player.py`, with a constant `PLAYER`, and stands in the table of players.py. It is
asked when a pod that it knows runs (and again until it answers), with all pods of that pod's job. Its answer has a part
for every pod that takes one: lines that are computed from the model, or, in a rehearsal with FULL, a program of this
machine whose output becomes the pod's log while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ...hardware.sku import Sku
from ...outcome.errors import NotFoundError
from ..model.values import ClusterModel

Json = dict[str, Any]
STDOUT, STDERR = "stdout", "stderr"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
MPI_LABEL, ROLE_LABEL = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"
REPLICA_LABEL = "training.kubeflow.org/replica-index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A program of this machine that plays a pod: command, what is added to its environment, where it runs."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one pod does.

    Args:
        lines: what it writes, by stream.
        exit_code: how it ends; None: it goes on until somebody removes it.
        run_s: when it ends, counted from the beginning of the run.
        process: plays it for real instead; its output is the log, its exit code the pod's.
        fault: the reason for which its container keeps failing (CrashLoopBackOff); the log is the one before the last.
    """

    lines: tuple[tuple[str, str], ...] = ()
    exit_code: int | None = 0
    run_s: float = 0.0
    process: Process | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The pods of one job, or one pod that belongs to none, in the order of their indices, as the API server has them.

    A launcher with a role of its own (MPIJob) stands first.
    """

    name: str
    pods: tuple[Json, ...]

    @property
    def running(self) -> tuple[Json, ...]:
        """Those that run."""
        return tuple(pod for pod in self.pods if (pod.get("status") or {}).get("phase") == "Running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where it is played: the cluster as it is, facts of its machines, the time.

    `full` is the directory below which the sets of real programs are installed, None: nothing runs for real.
    `ports`: port of 127.0.0.1 where a server stands in, by namespace and name of its Service. `directory` is where real
    programs may write.
    """

    model: ClusterModel
    skus: Mapping[str, Sku]
    now: datetime
    full: Path | None = None
    ports: Mapping[tuple[str, str], int] = field(default_factory=dict)
    directory: Path = Path()

    def program(self, set_name: str, name: str) -> str:
        """Return the path of a program of an installed requirement set.

        Raises:
            NotFoundError: the set is not installed, or nothing is to run for real.
        """
        path = (self.full or Path()) / f"full-{set_name}" / "bin" / name
        if self.full is None or not path.is_file():
            raise NotFoundError(f"program {name}", f"requirement set {set_name} is not installed.", "make setup-full")
        return str(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """One kind of program.

    Args:
        name: what it plays.
        knows: whether a pod is one of its own, by command and labels.
        play: parts by name of pod; None: not yet, ask again at the next change. Pure for what is computed: the same
            cast in the same scene says the same. KeyError (no such node in the model) and NotFoundError end the job.
    """

    name: str
    knows: Callable[[Json], bool]
    play: Callable[[Cast, Scene], Mapping[str, Part] | None]


def words_of(pod: Json) -> list[str]:
    """Return command and arguments of a pod's first container."""
    container = (pod["spec"].get("containers") or [{}])[0]
    return [str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])]]


def env_of(pod: Json) -> dict[str, str]:
    """Return the environment of a pod's first container, as far as it is stated in the pod."""
    container = (pod["spec"].get("containers") or [{}])[0]
    return {entry["name"]: str(entry.get("value", "")) for entry in container.get("env") or []}


def labels_of(pod: Json) -> Mapping[str, str]:
    """Return the labels of a pod."""
    found: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return found
