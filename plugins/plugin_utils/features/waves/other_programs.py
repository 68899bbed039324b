# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs beside a roll that take nodes of the cluster out of service or reboot them: which, by which mark, since
when."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal

from ...clients.kube.cluster import Cluster
from ...clients.kube.objects import DAEMON_SETS, NODES, PODS
from ...clients.kube.permission import Permission
from ...runtime.files import RECIPES
from ...runtime.strict import decode_file

# Whether kured may reboot a node, by the lock that it keeps as an annotation of its DaemonSet. Source:
# kubereboot/kured, cmd/kured/main.go and pkg/daemonsetlock. Each kured looks for `/run/reboot-required` on its own
# node; the one that takes the lock drains the node by force, reboots it, and lifts the cordon unless the node was
# cordoned before (`metadata.unschedulable` of the lock). A driver's package leaves that file behind, so kured would
# reboot a node in the middle of its change. As its README says, it is paused by a lock with a name that no node has.
# With `--concurrency` more than 1 the annotation has another form, and as many such locks are needed.

Json = Mapping[str, Any]
LOCK = "weave.works/kured-node-lock"
_PROGRAM = "kured"
_NANOSECONDS = 1_000_000_000
# A timestamp of Go has up to nine digits after the second.
_FRACTION = re.compile(r"\.(\d{1,6})\d*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kured:
    """One DaemonSet of kured: the nodes that hold its lock now, how many may, and why its lock cannot be read."""

    namespace: str
    name: str
    annotation: str = LOCK
    holders: tuple[str, ...] = ()
    most: int = 1
    problem: str = ""
    selector: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        """The name as text."""
        return f"kured (DaemonSet {self.namespace}/{self.name})"

    def holds(self, node: str) -> str:
        """Return that kured is at work on a node, by its lock; empty if it is not."""
        return f"{self.title} holds its lock for it (annotation {self.annotation})" if node in self.holders else ""

    def may_reboot(self, nodes: Collection[str]) -> str:
        """Return why kured may reboot any node that has one of its pods; empty if it is paused.

        Args:
            nodes: every node of the cluster.
        """
        if self.problem:
            return f"{self.title} may reboot it: {self.problem}"
        if sum(holder not in nodes for holder in self.holders) >= self.most:
            return ""
        on_hold = f"its lock is held by {', '.join(self.holders)}" if self.holders else "its lock is free"
        return f"{self.title} may reboot it, {on_hold}; pause it for the roll: {self.pause}"

    @property
    def pause(self) -> str:
        """The command that pauses kured."""
        lock: Any = {"nodeID": "gpufleet"}
        if self.most > 1:
            lock = {"maxOwners": self.most, "locks": [{"nodeID": f"gpufleet-{n}"} for n in range(self.most)]}
        text = json.dumps(lock, separators=(",", ":"))
        return f"`kubectl -n {self.namespace} annotate --overwrite daemonset {self.name} {self.annotation}='{text}'`"


def kureds(daemon_sets: Sequence[Json], now: datetime | None = None) -> tuple[Kured, ...]:
    """Return those of these DaemonSets that are kured, each with its lock."""
    found = []
    for item in daemon_sets:
        args = _arguments(item)
        if args is not None:
            found.append(_kured(item, args, now or datetime.now(UTC)))
    return tuple(found)


def _arguments(item: Json) -> list[str] | None:
    """Return the arguments of kured in a DaemonSet, None if it runs no kured."""
    annotations = item["metadata"].get("annotations") or {}
    pod = ((item.get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in pod.get("containers") or []:
        command = [str(word) for word in (container.get("command") or [])]
        image = str(container.get("image") or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
        if image == _PROGRAM or any(word.rpartition("/")[2] == _PROGRAM for word in command):
            return [*command, *(str(word) for word in container.get("args") or [])]
    return [] if LOCK in annotations else None


def _kured(item: Json, args: Sequence[str], now: datetime) -> Kured:
    metadata = item["metadata"]
    annotation = _option(args, "lock-annotation") or LOCK
    most = _option(args, "concurrency")
    text = str((metadata.get("annotations") or {}).get(annotation) or "")
    count = int(most) if most.isdecimal() and int(most) else 1
    holders, problem = _holders(text, count, now)
    wanted = (((item.get("spec") or {}).get("selector") or {}).get("matchLabels")) or {}
    return Kured(
        namespace=metadata.get("namespace", ""), name=metadata["name"], annotation=annotation, holders=holders,
        most=count, problem=problem, selector=tuple(sorted((str(k), str(v)) for k, v in wanted.items())),
    )  # fmt: skip


def _option(args: Sequence[str], name: str) -> str:
    """Return the value of an option, `--name=value` or `--name value`."""
    for at, word in enumerate(args):
        if word.lstrip("-").startswith(f"{name}="):
            return word.partition("=")[2].strip("'\"")
        if word in (f"--{name}", f"-{name}") and at + 1 < len(args):
            return args[at + 1]
    return ""


def _holders(text: str, most: int, now: datetime) -> tuple[tuple[str, ...], str]:
    """Return the holders of the lock now, or why they cannot be read."""
    if not text:
        return (), ""
    try:
        lock = json.loads(text)
        # With a concurrency of more than one kured reads only this form, and takes any other for no lock at all.
        entries = (lock.get("locks") or []) if most > 1 else [lock]
        return tuple(str(entry["nodeID"]) for entry in entries if _valid(entry, now)), ""
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError):
        return (), f"its lock is not readable: {text[:120]!r}"


def _valid(entry: Json, now: datetime) -> bool:
    """Whether a lock is still valid. Its TTL is in nanoseconds, 0 means for ever."""
    ttl = entry.get("TTL") or 0
    if not ttl:
        return True
    created = datetime.fromisoformat(_FRACTION.sub(r".\1", str(entry["created"])))
    created = created if created.tzinfo else created.replace(tzinfo=UTC)
    return created + timedelta(seconds=float(ttl) / _NANOSECONDS) > now


# Which other programs are at work on a node of a Kubernetes cluster, by the marks that they leave on it. The marks and
# their owners are in recipes/node_agents.yaml. A program that leaves no mark (node auto repair of GKE and EKS) shows
# only by what it does: a changed boot id, a node that is gone, a cordon that is not ours.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMark:
    """One mark of one agent; the fields are described in recipes/node_agents.yaml."""

    agent: str
    source: str
    annotation: str = ""
    label: str = ""
    taint: str = ""
    values: tuple[str, ...] = ()
    driver: bool = False

    def on(self, node: Json) -> str:
        """Return the mark on a node as text; empty if the node does not have it."""
        metadata = node["metadata"]
        if self.taint:
            taints = (node.get("spec") or {}).get("taints") or []
            return f"taint {self.taint}" if any(taint.get("key") == self.taint for taint in taints) else ""
        kind, key = ("annotation", self.annotation) if self.annotation else ("label", self.label)
        value = str((metadata.get("annotations" if self.annotation else "labels") or {}).get(key) or "")
        if not value or (self.values and value not in self.values):
            return ""
        # NVSentinel writes the whole event there.
        return f"{kind} {key}{f'={value}' if self.values else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marks:
    marks: tuple[ProgramMark, ...]


@cache
def marks() -> tuple[ProgramMark, ...]:
    """Return the known marks.

    Raises:
        InputError: the file does not have the expected form.
    """
    return decode_file(_Marks, RECIPES / "node_agents.yaml").marks


def at_work_on(node: Json, *, own_upgrade: bool = False) -> str:
    """Return which other programs are at work on a node, and by which mark; empty for none.

    Args:
        node: the object of the API server.
        own_upgrade: the roll itself has the GPU operator upgrade drivers.
    """
    shown: dict[str, list[str]] = {}
    for mark in marks():
        reported = "" if own_upgrade and mark.driver else mark.on(node)
        if reported:
            shown.setdefault(mark.agent, []).append(reported)
    return "; ".join(f"{agent} is at work on it ({', '.join(reported)})" for agent, reported in shown.items())


# refuse: a node on which another program is at work, or which kured may reboot, is spared. wait: the same, after a wait
# of at most the drain timeout. allow: kured may run; a node on which a program is at work is still left to it.
OthersPolicy = Literal["refuse", "wait", "allow"]
OTHERS_RIGHTS = (Permission("list", "daemonsets", "apps"),)
# A wave looks at its nodes one after the other.
_FRESH_S = 5.0


@dataclass(frozen=True, slots=True)
class _Running:
    """One kured and the nodes that have a pod of it."""

    kured: Kured
    nodes: frozenset[str]
    why: str


class Others:
    """Finds other programs at work, with a query to the API server at most every few seconds."""

    def __init__(
        self, cluster: Cluster, policy: OthersPolicy = "refuse", *, own_upgrade: bool = False,
        locks: bool = True, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Query that cluster.

        Args:
            cluster: the cluster.
            policy: see OthersPolicy.
            own_upgrade: the roll itself has the GPU operator upgrade drivers.
            locks: kured is looked for, which needs OTHERS_RIGHTS; without, only marks of the nodes count.
            clock: seconds.
        """
        self.policy, self._locks = policy, locks
        self._cluster, self._own_upgrade, self._clock = cluster, own_upgrade, clock
        self._seen: tuple[_Running, ...] = ()
        self._until = float("-inf")

    def at_work(self, node: Json) -> str:
        """Return which other programs are at work on a node now, and by which mark; empty for none.

        Raises:
            BringupError: the API server does not respond.
        """
        name = node["metadata"]["name"]
        locks = [text for running in self._running() if (text := running.kured.holds(name))]
        return "; ".join(filter(None, (at_work_on(node, own_upgrade=self._own_upgrade), *locks)))

    def in_the_way(self, node: Json) -> str:
        """Return why a node is not taken into a wave: what is at work on it, or may reboot it at any moment.

        Raises:
            BringupError: the API server does not respond.
        """
        found = self.at_work(node)
        if found or self.policy == "allow":
            return found
        name = node["metadata"]["name"]
        return "; ".join(running.why for running in self._running() if running.why and name in running.nodes)

    def _running(self) -> tuple[_Running, ...]:
        if self._clock() >= self._until:
            self._seen = self._look()
            self._until = self._clock() + _FRESH_S
        return self._seen

    def _look(self) -> tuple[_Running, ...]:
        found = kureds(self._cluster.list_objects(DAEMON_SETS)) if self._locks else ()
        if not found:
            return ()
        nodes = frozenset(item["metadata"]["name"] for item in self._cluster.list_objects(NODES))
        return tuple(_Running(one, self._nodes_of(one) or nodes, one.may_reboot(nodes)) for one in found)

    def _nodes_of(self, kured: Kured) -> frozenset[str]:
        """Return the nodes with a pod of it.

        Empty if its pods cannot be identified; then it may be on every node.
        """
        if not kured.selector:
            return frozenset()
        wanted = ",".join(f"{key}={value}" for key, value in kured.selector)
        pods = self._cluster.list_objects(PODS, kured.namespace, labels=wanted)
        return frozenset(str((pod.get("spec") or {}).get("nodeName") or "") for pod in pods)
