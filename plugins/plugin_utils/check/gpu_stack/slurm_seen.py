# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What was seen of a Slurm that Slinky's operator runs: its sets of workers, and what its own commands said.

Names are those of SlinkyProject/slurm-operator at v1.2.0: api/v1beta1, and internal/builder/labels, whose pods have
`app.kubernetes.io/name` slurmctld or login, which is the name of their container, too. What a worker is called as a
node of Slurm is a label of its pod (api/v1beta1/well_known.go, internal/controller/nodeset/utils). A Slurm may have
nodes beside those workers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...clients.kube.conditions import is_true
from ...outcome.errors import InputError
from ...probe.slurm_nodes import SlurmNode, parse

# Of `scontrol ping` (SchedMD/slurm, src/scontrol/scontrol.c); a backup is `backup`, or `backup1` where there are more.
_PING = re.compile(r"^Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)$", re.MULTILINE)
MARK = "gpufleet-node"
# Flags with which a node takes no job although nobody set it aside (SchedMD/slurm, scontrol.1: State).
_DOWN_FLAGS = frozenset({"NOT_RESPONDING", "FAIL", "INVALID_REG", "POWERED_DOWN"})
_WORKER = "nodeset.slinky.slurm.net/pod-hostname"
# Of SchedMD/slurm, src/common/slurm_errno.c: no node is free, or others that wait come first.
_BUSY, _LATER = "Requested nodes are busy", "Immediate execution impossible"
_BLOCK = re.compile(r"^[ \t]*NodeName=(\S+)(.*?)(?=^[ \t]*NodeName=|\Z)", re.MULTILINE | re.DOTALL)
_PARTITIONS = re.compile(r"(?:^|\s)Partitions=(\S+)")
_REASON = re.compile(r"(?:^|\s)Reason=")
_RAN = re.compile(rf"^{MARK} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended in the pod (`rc` is None where it did not), and what it printed."""

    rc: int | None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False

    @property
    def last(self) -> str:
        """Its last words."""
        lines = [line.strip() for line in f"{self.stdout}\n{self.stderr}".splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it said nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSet:
    """A NodeSet: how many workers it is to have, and how many of them are ready."""

    name: str
    desired: int
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSeen:
    """Everything. `problem` is a slug where nothing could be asked, with `reason`.

    `workers` are the ready workers, as Slurm is to call them; `pod` is where the commands ran (`namespace/name`);
    `ping`, `nodes` and `job` are what `scontrol ping`, `scontrol show nodes` and `srun` said, None where they were not
    run. After a job that was refused `nodes` are of then.
    """

    problem: str = ""
    reason: str = ""
    pod: str = ""
    sets: tuple[WorkerSet, ...] = ()
    workers: tuple[str, ...] = ()
    ping: Said | None = None
    nodes: Said | None = None
    job: Said | None = None
    schema_version: int = 1


def worker_set(item: Mapping[str, Any]) -> WorkerSet:
    """Return a NodeSet; one that has a worker on every node that fits has no number of its own to reach."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    by_nodes = str(spec.get("scalingMode") or "").lower() == "daemonset"
    desired = status.get("replicas", 0) if by_nodes else spec.get("replicas", 1)
    return WorkerSet(name=item["metadata"]["name"], desired=int(desired), ready=int(status.get("readyReplicas") or 0))


def workers_in(pods: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of Slurm's nodes of the workers that are ready."""
    ready = [pod["metadata"] for pod in pods if is_true(pod, "Ready")]
    names = [(entry.get("labels") or {}).get(_WORKER) for entry in ready if not entry.get("deletionTimestamp")]
    return tuple(sorted(str(name) for name in names if name))


def without_node(workers: Iterable[str], nodes: Iterable[SlurmNode]) -> list[str]:
    """Return the workers that are no node of Slurm. On the network of their hosts they may have those names, with or
    without a domain."""
    known = {node.name.partition(".")[0] for node in nodes}
    return [name for name in workers if name.partition(".")[0] not in known]


def is_refused(job: Said) -> bool:
    """Whether a job did not run, since no node was free for it or others that wait come first."""
    return job.rc not in (0, None) and not ran_on(job.stdout) and (_BUSY in job.stderr or _LATER in job.stderr)


def was_busy(job: Said, shown: Said, nodes: Iterable[SlurmNode]) -> bool:
    """Whether users explain that a job was refused: others come first, or a partition has no free node, for it is not
    known to which one the job goes."""
    if not is_refused(job):
        return False
    free = {node.name for node in nodes if node.free}
    members: dict[str, set[str]] = {}
    for block in _BLOCK.finditer(shown.stdout):
        found = _PARTITIONS.search(_REASON.split(block.group(2))[0])
        for name in found.group(1).split(",") if found else ():
            members.setdefault(name, set()).add(block.group(1))
    return _LATER in job.stderr or not free or any(not names & free for names in members.values())


def controllers_in(text: str) -> dict[str, bool]:
    """Return by controller (`primary`, `backup1`) whether it answers, as `scontrol ping` prints it."""
    return {f"{match.group(1)} {match.group(2)}": match.group(3) == "UP" for match in _PING.finditer(text)}


def nodes_of(said: Said) -> tuple[SlurmNode, ...]:
    """Return the nodes that `scontrol show nodes` printed; a controller without nodes says so.

    Raises:
        InputError: it printed something else.
    """
    none = said.rc == 0 and (not said.stdout.strip() or said.stdout.startswith("No nodes in the system"))
    return () if none else parse(said.stdout)


def down_in(nodes: Iterable[SlurmNode]) -> list[SlurmNode]:
    """Return the nodes that take no job although nobody set them aside."""
    return [node for node in nodes if node.base not in ("IDLE", "ALLOCATED", "MIXED") or node.flags & _DOWN_FLAGS]


def may_settle(said: Said, sets: Iterable[WorkerSet], workers: Iterable[str] = ()) -> bool:
    """Whether nodes are still to come or to answer: one that was resumed does not respond until it is asked again."""
    try:
        nodes = nodes_of(said)
    except InputError:
        return False
    too_few = len(nodes) < sum(entry.desired for entry in sets)
    return too_few or bool(down_in(nodes) or without_node(workers, nodes))


def ran_on(text: str) -> str:
    """Return the node of Slurm on which a job said that it ran, empty if none did: other lines are of a prolog."""
    match = _RAN.search(text)
    return match.group(1) if match else ""
