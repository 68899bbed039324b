# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A test job as values: what to run and how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..outcome.errors import InputError

# The kinds of jobs, the roles of their pods and the states in which jobs end.

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

CONFIG_DIR = "/etc/program"
DATA_DIR = "/data"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
# Time to create and bind one pod. The job controller creates 20 objects a second (kube-controller-manager
# --kube-api-qps) and the scheduler binds 50 (its clientConnection.qps): the defaults of Kubernetes' reference pages,
# 0.07 s a pod.
_PLACE_ONE_S = 0.1
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A container that runs beside the ranks of a pod and ends with them.

    `mounts` are paths by name of a volume. The container writes `ready_file` when it is ready, and no rank starts
    before that; it is empty for a container that does not signal readiness.
    """

    name: str
    image: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    ready_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What the pods of a run need beside adapters.

    `host_paths` are directories of the node by name of a volume. `mounts` are the paths of these volumes in the
    containers of the ranks.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    host_paths: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    sidecar: Sidecar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job: `command` runs once for every GPU of the nodes, and all of these ranks are one MPI world.

    Args:
        name: DNS label of at most 40 characters, unique within a namespace.
        nodes: nodes that it runs on, one pod each.
        gpus_per_node: GPUs, and so ranks, of every node.
        image: image with the benchmark, Open MPI and sshd; with PyTorch for `torchrun`.
        command: the benchmark and its arguments (`all_reduce_perf`, `-b`, `8`, ...), without mpirun or torchrun.
        env: environment of every rank (`NCCL_DEBUG`, `NCCL_IB_HCA`, ...).
        kind: how its pods are made. `gang-job` is an indexed Job whose pods are a gang. `mpijob` is an MPIJob
            (kubeflow.org/v2beta1). `plain-job` is a Job with one pod that runs `command` itself, once. `torchrun` is a
            gang whose pods each start and log their own ranks. `ranks` is a Job whose pods each run `command` once,
            without GPUs.
        timeout_s: time limit, from when all of its pods run to its end.
        pull_s: time limit for its pods from being bound to a node to their start, mostly the pull of the image.
        schedule_s: how long the scheduler may report that the job does not fit before that is final. The time that a
            cluster needs to create and bind so many pods is added (`placing_s`).
        gang: what admits the gang (`native`, `volcano`, `kai-scheduler`), as the recipe has it; `none` for nothing.
        queue: queue of Volcano and KAI; empty for the scheduler's default.
        limits: further resources of every pod by name, such as its network adapters. A name with CLASS_PREFIX of
            capacity.py is a DRA device class.
        privileged: pods see all devices of their node, for nodes that offer no resource for adapters.
        host_network: pods are in the network of their node.
        device_class: DRA device class of whole GPUs; empty takes them from the device plugin (`nvidia.com/gpu`).
        compute_domain: pods share GPU memory across hosts (IMEX), by a ComputeDomain of the DRA driver.
        annotations: annotations of the pods, such as the networks of Multus.
        needs: further volumes and containers of its pods; its annotations and environment are those above.
        shm_gib: size limit of /dev/shm.
        volume: volume source that a plain Job has at /models, read-only; empty for none.
        data: volume source that a plain Job has at DATA_DIR, writable; empty for none.
        user: numeric user of a plain Job.
        secret_env: environment of a plain Job from secrets of its namespace, as `secret/key`.
        files: files by name that every pod of a `torchrun`, `ranks` or plain Job has in CONFIG_DIR; `begin.py` starts
            torchrun.
        requests: cpu and memory requests of every pod of a `torchrun` or plain Job.
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
            # Each becomes a word of mpirun's command line.
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
        """Number of its ranks, the size of its MPI world."""
        return len(self.nodes) * self.gpus_per_node

    @property
    def pods(self) -> int:
        """Number of its pods: one for each node, and the launcher of an MPIJob."""
        return len(self.nodes) + (self.kind == "mpijob")

    @property
    def placing_s(self) -> float:
        """Seconds from its creation until every pod must be bound to a node."""
        return self.schedule_s + _PLACE_ONE_S * len(self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResult:
    """One pod of a job: its log, and its exit code if it ended by itself.

    The launcher's log has the output of every rank, except for `torchrun` and `ranks`. `index` is its place among the
    pods of the job. `hostname` is the host name that its ranks print (`pair-1-0`), `node` is the node that it ran on.
    `reason` is the kubelet's. `problem` is why its log could not be read.
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
        state: `succeeded`, or what made it fail. `failed`: the command. `unschedulable`: the scheduler found no place.
            `image`: the image cannot be pulled. `refused`: quota or admission. `held`: a queue does not admit it.
            `lost-node`: a node went away. `preempted`: a user's pod took its place. `slow-start`: containers did not
            start in time. `timeout`: its time limit. `aborted`: the whole run ended. `no-program`: with Slurm, the
            program to start is missing. `unknown`: its end or its log is not known.
        reason: one sentence, with the message of the scheduler, the API server or the kubelet.
        pods: its pods, the launcher first; empty when none was made.
        started: when it was created, RFC 3339.
        duration_s: from its creation to its end.
        nodes: the nodes that it was to run on.
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
        """The launcher's log. Empty if there was none."""
        return self.launcher.log if self.launcher else ""

    @property
    def exit_code(self) -> int | None:
        """The launcher's exit code. None if it has none."""
        return self.launcher.exit_code if self.launcher else None
