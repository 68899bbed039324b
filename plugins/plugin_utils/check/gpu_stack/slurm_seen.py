# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What was seen of a Slurm that Slinky's operator runs: its sets of workers, and what its own commands said.

Names are those of SlinkyProject/slurm-operator at v1.2.0: api/v1beta1, and internal/builder/labels, whose pods have
`app.kubernetes.io/name` slurmctld or login, which is the name of their container, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...outcome.errors import InputError
from ...probe.slurm_nodes import SlurmNode, parse

# Of `scontrol ping` (SchedMD/slurm, src/scontrol/scontrol.c); a backup is `backup`, or `backup1` where there are more.
_PING = re.compile(r"^Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)$", re.MULTILINE)
MARK = "gpufleet-node"
# Flags with which a node takes no job although nobody set it aside (SchedMD/slurm, scontrol.1: State).
_DOWN_FLAGS = frozenset({"NOT_RESPONDING", "FAIL", "INVALID_REG", "POWERED_DOWN"})
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

    `pod` is where the commands ran (`namespace/name`); `ping`, `nodes` and `job` are what `scontrol ping`,
    `scontrol show nodes` and `srun` said, None where they were not run.
    """

    problem: str = ""
    reason: str = ""
    pod: str = ""
    sets: tuple[WorkerSet, ...] = ()
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


def may_settle(said: Said, sets: Iterable[WorkerSet]) -> bool:
    """Whether nodes are still to come or to answer: one that was resumed does not respond until it is asked again."""
    try:
        nodes = nodes_of(said)
    except InputError:
        return False
    return bool(down_in(nodes)) or len(nodes) < sum(entry.desired for entry in sets)


def ran_on(text: str) -> str:
    """Return the node of Slurm on which a job said that it ran, empty if none did: other lines are of a prolog."""
    match = _RAN.search(text)
    return match.group(1) if match else ""
