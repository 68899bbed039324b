# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe a Slurm that Slinky's operator runs, by Slurm's own commands in its login pod or that of its controller."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.objects import PODS, Kind, is_true
from ...clients.kube.streams import run_in_pod
from ...component_stack.facts import stack_facts
from ...component_stack.model import components_of
from ...outcome.errors import BringupError, InputError
from ...probe.slurm_nodes import SlurmNode, parse
from ...runtime.clock import Deadline
from ...runtime.redaction import redact
from ..kit.settings import setting
from ..spec import ObserveContext, observer_of

# What was observed of a Slurm that Slinky's operator runs: its sets of workers, and the output of its own commands.
# Names are those of SlinkyProject/slurm-operator at v1.2.0: api/v1beta1, and internal/builder/labels, whose pods have
# `app.kubernetes.io/name` slurmctld or login, which is the name of their container, too. The node name of a worker in
# Slurm is a label of its pod (api/v1beta1/well_known.go, internal/controller/nodeset/utils). A Slurm may have nodes in
# addition to those workers.

# Output of `scontrol ping` (SchedMD/slurm, src/scontrol/scontrol.c). A backup is `backup`, or `backup1` if there are
# more.
_PING = re.compile(r"^Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)$", re.MULTILINE)
MARK = "gpufleet-node"
_WORKER = "nodeset.slinky.slurm.net/pod-hostname"
# Messages of SchedMD/slurm, src/common/slurm_errno.c: no node is free, or other waiting jobs come first.
BUSY, LATER = "Requested nodes are busy", "Immediate execution impossible"
_RAN = re.compile(rf"^{MARK} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended in the pod (`rc` is None: it did not), and what it printed."""

    rc: int | None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False

    @property
    def last(self) -> str:
        """The last line that it printed."""
        lines = [line.strip() for line in f"{self.stdout}\n{self.stderr}".splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it said nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSet:
    """A NodeSet: how many workers it should have, and how many of them are ready."""

    name: str
    desired: int
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSeen:
    """The whole observation. `problem` is the slug of why nothing could be queried, with `reason`.

    `workers` are the ready workers by their node name in Slurm. `pod` is where the commands ran (`namespace/name`).
    `ping`, `nodes` and `job` are the results of `scontrol ping`, `scontrol show nodes` and `srun`; None: not run. After
    a job that was refused, `nodes` was read again.
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
    """Return a NodeSet. One with a worker on every matching node has no desired number of its own."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    by_nodes = str(spec.get("scalingMode") or "").lower() == "daemonset"
    desired = status.get("replicas", 0) if by_nodes else spec.get("replicas", 1)
    return WorkerSet(name=item["metadata"]["name"], desired=int(desired), ready=int(status.get("readyReplicas") or 0))


def workers_in(pods: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the Slurm node names of the ready workers."""
    ready = [pod["metadata"] for pod in pods if is_true(pod, "Ready")]
    names = [(entry.get("labels") or {}).get(_WORKER) for entry in ready if not entry.get("deletionTimestamp")]
    return tuple(sorted(str(name) for name in names if name))


def without_node(workers: Iterable[str], nodes: Iterable[SlurmNode]) -> list[str]:
    """Return the workers that are not a node of Slurm.

    On the network of their hosts, workers can have the names of those, with or without a domain.
    """
    known = {node.name.partition(".")[0] for node in nodes}
    return [name for name in workers if name.partition(".")[0] not in known]


def is_refused(job: Said) -> bool:
    """Return whether a job did not run because no node was free for it, or other waiting jobs come first."""
    return job.rc not in (0, None) and not ran_on(job.stdout) and (BUSY in job.stderr or LATER in job.stderr)


def was_busy(job: Said, nodes: Collection[SlurmNode]) -> bool:
    """Return whether the work of users explains that a job was refused.

    Other jobs come first, or a partition has no free node; it is not known to which partition the job goes.
    """
    if not is_refused(job):
        return False
    everywhere, free = set[str](), set[str]()
    for node in nodes:
        everywhere |= node.partitions
        free |= node.partitions if node.free else set()
    return LATER in job.stderr or not any(node.free for node in nodes) or everywhere != free


def controllers_in(text: str) -> dict[str, bool]:
    """Return by controller (`primary`, `backup1`) whether it responds, from the output of `scontrol ping`."""
    return {f"{match.group(1)} {match.group(2)}": match.group(3) == "UP" for match in _PING.finditer(text)}


def nodes_of(reported: Said) -> tuple[SlurmNode, ...]:
    """Return the nodes in the output of `scontrol show nodes`. A controller without nodes prints a message instead.

    Raises:
        InputError: the output is something else.
    """
    none = reported.rc == 0 and (not reported.stdout.strip() or reported.stdout.startswith("No nodes in the system"))
    return () if none else parse(reported.stdout)


def down_in(nodes: Iterable[SlurmNode]) -> list[SlurmNode]:
    """Return the nodes that take no job although they are not drained."""
    return [node for node in nodes if node.down]


def may_settle(reported: Said, sets: Iterable[WorkerSet], workers: Iterable[str] = ()) -> bool:
    """Return whether nodes may still appear or respond.

    A resumed node does not respond until slurmctld polls it again.
    """
    try:
        nodes = nodes_of(reported)
    except InputError:
        return False
    too_few = len(nodes) < sum(entry.desired for entry in sets)
    return too_few or bool(down_in(nodes) or without_node(workers, nodes))


def ran_on(text: str) -> str:
    """Return the Slurm node on which a job reported to run. Empty: none. Other lines are of a prolog."""
    match = _RAN.search(text)
    return match.group(1) if match else ""


CHECK_ID = "slinky-slurm"
_MOST, _AGAIN_S = 200_000, 2.0
# If a node is idle at this many checks, yet never free for the job in between, users did not take it each time.
_JOBS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Settings of check slinky-slurm."""

    options: tuple[str, ...] = setting(
        "More options of srun for the test's job, such as --partition=gpu or --account=test.", default=[], use="run"
    )
    immediate_s: int = setting("How long the job may wait for a node.", default=5, unit="s", minimum=1, use="run")
    settle_s: float = setting("How long nodes may take to be up.", default=60.0, unit="s", minimum=0, use="run")
    timeout_s: float = setting("How long a command in the pod may take.", default=30.0, unit="s", above=0, use="run")


def observe(context: ObserveContext) -> SlurmSeen:
    """Query Slurm, and run one job of a second.

    Raises:
        InputError: no recipe is resolved.
        BringupError: the API server does not respond.
    """
    if context.recipe is None:
        raise InputError("recipe", "none is resolved.", "resolve it before the gate runs (role gpu_stack does)")
    facts, settings = stack_facts().slurm, context.settings_of(CHECK_ID, SlurmSettings)
    component = next((entry for entry in components_of(context.recipe) if entry.name == facts.component), None)
    if component is None:
        return SlurmSeen(problem="not-in-recipe", reason=f"the recipe has no {facts.component}")
    with Cluster(connection_from(context.connections)) as cluster:
        versions = cluster.served_versions(facts.group)
        if not versions:
            return SlurmSeen(problem="slurm-missing", reason=f"{facts.group} is not served")
        place = component.namespace
        found = {word: _listed(cluster, facts.group, versions[0], word, place) for word in ("Controller", "NodeSet")}
        observed = SlurmSeen(sets=tuple(map(worker_set, found["NodeSet"])))
        if not found["Controller"]:
            return replace(observed, problem="slurm-missing", reason=f"there is no Controller in {place}")
        pods = cluster.list_objects(PODS, place)
        observed, pod = replace(observed, workers=workers_in(pods)), _pod(pods)
        if pod is None:
            reason = f"no pod of slurmctld or login in {place} is ready"
            return replace(observed, problem="slurm-controller-not-ready", reason=reason)
        return _requested(cluster, context, observed, pod, settings)


def _listed(cluster: Cluster, group: str, version: str, word: str, namespace: str) -> list[dict[str, Any]]:
    kind = Kind(f"{group}/{version}", word, f"{word.lower()}s")
    return [item for item in cluster.find_all(kind, namespace) or () if not item["metadata"].get("deletionTimestamp")]


def _pod(pods: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return a ready pod with Slurm's commands: the login pod, else that of the controller."""
    ready = [pod for pod in pods if is_true(pod, "Ready") and not pod["metadata"].get("deletionTimestamp")]
    by_app: dict[str, dict[str, Any]] = {}
    for pod in sorted(ready, key=lambda pod: str(pod["metadata"]["name"])):
        labels = pod["metadata"].get("labels") or {}
        by_app.setdefault(str(labels.get("app.kubernetes.io/name", "")), pod)
    return by_app.get("login") or by_app.get("slurmctld")


def _requested(
    cluster: Cluster, context: ObserveContext, observed: SlurmSeen, pod: dict[str, Any], settings: SlurmSettings
) -> SlurmSeen:
    metadata = pod["metadata"]
    app = metadata["labels"]["app.kubernetes.io/name"]
    names = [entry["name"] for entry in pod["spec"]["containers"]]
    container = app if app in names else names[0]

    def ask(*argv: str, looks: bool = True) -> Said:
        try:
            done = run_in_pod(
                cluster, metadata["name"], metadata["namespace"], argv, settings.timeout_s,
                container=container, repeatable=looks,
            )  # fmt: skip
        except BringupError as error:
            return Said(rc=None, stderr=redact(str(error)))
        out, err = redact(done.stdout[:_MOST]), redact(done.stderr[:_MOST])
        return Said(rc=done.rc, stdout=out, stderr=err, timed_out=done.timed_out)

    observed = replace(observed, pod=f"{metadata['namespace']}/{metadata['name']}", ping=ask("scontrol", "ping"))
    deadline = Deadline.after(0.0 if context.check_mode else settings.settle_s)
    while True:
        observed = replace(observed, nodes=ask("scontrol", "show", "nodes"))
        if (
            observed.nodes is None
            or not may_settle(observed.nodes, observed.sets, observed.workers)
            or deadline.left_s <= 0
        ):
            break
        time.sleep(min(_AGAIN_S, max(deadline.left_s, 0.0)))
    if context.check_mode or observed.nodes is None or observed.nodes.rc != 0:
        return observed
    return _with_job(observed, ask, settings)


def _with_job(observed: SlurmSeen, ask: Callable[..., Said], settings: SlurmSettings) -> SlurmSeen:
    """Run the job. If it was refused for lack of a node, and so did not run, run it again while there is an idle one.

    The state of the nodes afterwards is what is judged: users may have taken the idle node just before the job.
    """
    for _job in range(_JOBS):
        job = ask(*job_words(settings), looks=False)
        observed = replace(observed, job=job)
        if not is_refused(job):
            break
        observed = replace(observed, nodes=ask("scontrol", "show", "nodes"))
        if not _has_free(observed.nodes):
            break
    return observed


def _has_free(reported: Said | None) -> bool:
    try:
        return reported is not None and any(node.free for node in nodes_of(reported))
    except InputError:
        return False


def job_words(settings: SlurmSettings) -> tuple[str, ...]:
    """Return the command of the job: one task that prints on which Slurm node it runs."""
    return (
        "srun", f"--immediate={settings.immediate_s}", "--time=1", "--ntasks=1", "--job-name=gpufleet-test",
        *settings.options, "sh", "-c", f'echo "{MARK} $SLURMD_NODENAME"',
    )  # fmt: skip


OBSERVER = observer_of("slurm", SlurmSeen, observe)
