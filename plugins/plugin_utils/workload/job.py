# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A test job as values: what is to run, how it ended, and the words for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..outcome.errors import InputError

# The words for jobs: how they are made, what their pods are for, and how they stand.

JobKind = Literal["gang-job", "mpijob", "plain-job", "torchrun", "ranks"]
PodRole = Literal["launcher", "worker"]
JobState = Literal[
    "succeeded",
    "failed",
    "unschedulable",
    "image",
    "refused",
    "held",
    "lost-node",
    "no-program",
    "preempted",
    "slow-start",
    "timeout",
    "aborted",
    "unknown",
]


# A test job as values: what is to run, and how it ended.

CONFIG_DIR = "/etc/program"
DATA_DIR = "/data"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
# The job controller makes 20 objects a second (kube-controller-manager --kube-api-qps), the scheduler binds 50 (its
# clientConnection.qps): the defaults of Kubernetes' reference pages, 0.07 s a pod.
_PLACE_ONE_S = 0.1
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A container that runs beside the ranks of a pod and ends with them. `mounts` are paths by name of a volume;
    `ready_file` is written once it is ready, before which no rank starts, empty where it does not say so."""

    name: str
    image: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    ready_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What the pods of a run need beside adapters. `host_paths` are directories of the node by name of a volume,
    `mounts` where the ranks have those that they see."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    host_paths: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    sidecar: Sidecar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job: `command` runs once for every GPU of the nodes, all of them one world of ranks.

    Args:
        name: DNS label of at most 40 characters, unique within a namespace.
        nodes: nodes that it runs on, one pod each.
        gpus_per_node: GPUs, and so ranks, of every node.
        image: image with the benchmark, Open MPI and sshd; with PyTorch for `torchrun`.
        command: the benchmark and its arguments (`all_reduce_perf`, `-b`, `8`, ...), without mpirun or torchrun.
        env: environment of every rank (`NCCL_DEBUG`, `NCCL_IB_HCA`, ...).
        kind: an indexed Job whose pods are a gang, an MPIJob (kubeflow.org/v2beta1), a plain Job (one pod that runs
            `command` itself, once), for `torchrun` a gang whose pods each start their own ranks and log them, or for
            `ranks` a Job whose pods each run `command` once, without GPUs.
        timeout_s: limit from when all of its pods run to its end.
        pull_s: how long its pods may take from their nodes to their start, which is mostly their image.
        schedule_s: how long the scheduler may say that it does not fit before that is final, beside the time that a
            cluster needs to make and to bind so many pods (`placing_s`).
        gang: who admits the gang (`native`, `volcano`, `kai-scheduler`), as the recipe has it; `none` for nobody.
        queue: queue of Volcano and KAI; empty for the scheduler's own.
        limits: further resources of every pod, such as those that give it its network adapters, by name; names with
            CLASS_PREFIX of claims.py are DRA device classes.
        privileged: pods see all devices of their node, for nodes that offer no resource for adapters.
        host_network: pods are in the network of their node.
        device_class: DRA device class of whole GPUs; empty takes them from the device plugin (`nvidia.com/gpu`).
        compute_domain: pods share GPU memory across hosts (IMEX), by a ComputeDomain of the DRA driver.
        annotations: annotations of the pods, such as the networks of Multus.
        needs: further volumes and containers of its pods; its annotations and environment are those above.
        shm_gib: size limit of /dev/shm.
        volume: volume source that a plain Job has at /models, read-only; empty for none.
        data: volume source that a plain Job has at DATA_DIR and may write to; empty for none.
        user: user, by number, that a plain Job is.
        secret_env: environment of a plain Job from secrets of its namespace, as `secret/key`.
        files: files for every pod of a `torchrun`, `ranks` or plain Job, in CONFIG_DIR, by name; `begin.py` starts
            torchrun.
        requests: cpu and memory that every pod of a `torchrun` or plain Job asks for.
        config_map: ConfigMap of its namespace that a plain Job has in CONFIG_DIR; empty for none.
    """

    name: str
    nodes: tuple[str, ...]
    gpus_per_node: int
    image: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    kind: JobKind = "gang-job"
    timeout_s: float = 600.0
    schedule_s: float = 30.0
    pull_s: float = 900.0
    gang: str = "native"
    queue: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)
    privileged: bool = False
    host_network: bool = False
    device_class: str = ""
    compute_domain: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    needs: PodNeeds = field(default_factory=PodNeeds)
    shm_gib: int = 16
    volume: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    user: int = 65534
    secret_env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    config_map: str = ""

    def __post_init__(self) -> None:
        subject = f"job {self.name!r}"
        if not _NAME.fullmatch(self.name):
            raise InputError(subject, "is not a DNS label of at most 40 characters.", "use letters, digits and '-'")
        for key in (*self.env, *self.secret_env):
            # One becomes a word of mpirun's command line.
            if not _VARIABLE.fullmatch(key):
                raise InputError(subject, f"{key[:80]!r} is no name of an environment variable.", "correct the setting")
        if not self.nodes or len(set(self.nodes)) != len(self.nodes):
            raise InputError(subject, "needs at least one node, and every node once.")
        least = 0 if self.kind in ("plain-job", "ranks") else 1
        if self.gpus_per_node < least or not self.command or not self.image:
            raise InputError(subject, "needs GPUs, a command and an image.")
        if self.kind == "plain-job" and len(self.nodes) != 1:
            raise InputError(subject, "a plain job has one pod, so one node.")

    @property
    def ranks(self) -> int:
        """Size of its world."""
        return len(self.nodes) * self.gpus_per_node

    @property
    def pods(self) -> int:
        """Number of its pods: one a node, and the launcher of an MPIJob."""
        return len(self.nodes) + (self.kind == "mpijob")

    @property
    def placing_s(self) -> float:
        """Seconds from its creation until every pod must have its node."""
        return self.schedule_s + _PLACE_ONE_S * len(self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResult:
    """One pod of a job: what it wrote, and its exit code if it ended by itself.

    The launcher's log has the output of every rank, except for `torchrun` and `ranks`. `index` is its place among the
    pods of a job. `hostname` is what its ranks call the machine in their output
    (`pair-1-0`), `node` the machine that it is. `problem` says why a log could not be read.
    """

    name: str
    node: str
    hostname: str
    exit_code: int | None
    log: str
    role: PodRole = "worker"
    reason: str = ""
    problem: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """How a job ended.

    Args:
        name: the job's name.
        state: `succeeded`, or what it failed of: the command (`failed`), the scheduler (`unschedulable`), an image that
            cannot be had (`image`), quota or admission (`refused`), a queue (`held`), a node that went away
            (`lost-node`), a user's pod that took the place (`preempted`), containers that did not start in time
            (`slow-start`), its time limit (`timeout`), the end of the whole run (`aborted`); with Slurm what it was to
            start (`no-program`), and `unknown` where its end or its log is not known.
        reason: one sentence, with the message of the scheduler, the API server or the kubelet.
        pods: its pods, the launcher first; empty when none was made.
        started: when it was created, RFC 3339.
        duration_s: from its creation to its end.
        nodes: the nodes that it was meant for.
    """

    name: str
    state: JobState
    reason: str
    pods: tuple[PodResult, ...]
    started: str
    duration_s: float
    nodes: tuple[str, ...] = ()

    @property
    def launcher(self) -> PodResult | None:
        """The pod whose log has the output of every rank."""
        return next((pod for pod in self.pods if pod.role == "launcher"), None)

    @property
    def log(self) -> str:
        """The launcher's log; empty when there was none."""
        return self.launcher.log if self.launcher else ""

    @property
    def exit_code(self) -> int | None:
        """The launcher's exit code; None where it has none."""
        return self.launcher.exit_code if self.launcher else None
