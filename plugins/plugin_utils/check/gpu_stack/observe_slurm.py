# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes a Slurm that Slinky's operator runs: asks it by its own commands, in its login pod or its controller's."""

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

# What was seen of a Slurm that Slinky's operator runs: its sets of workers, and what its own commands said. Names are
# those of SlinkyProject/slurm-operator at v1.2.0: api/v1beta1, and internal/builder/labels, whose pods have
# `app.kubernetes.io/name` slurmctld or login, which is the name of their container, too. What a worker is called as a
# node of Slurm is a label of its pod (api/v1beta1/well_known.go, internal/controller/nodeset/utils). A Slurm may have
# nodes beside those workers.

# Of `scontrol ping` (SchedMD/slurm, src/scontrol/scontrol.c); a backup is `backup`, or `backup1` where there are more.
_PING = re.compile(r"^Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)$", re.MULTILINE)
MARK = "gpufleet-node"
_WORKER = "nodeset.slinky.slurm.net/pod-hostname"
# Of SchedMD/slurm, src/common/slurm_errno.c: no node is free, or others that wait come first.
BUSY, LATER = "Requested nodes are busy", "Immediate execution impossible"
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
    return job.rc not in (0, None) and not ran_on(job.stdout) and (BUSY in job.stderr or LATER in job.stderr)


def was_busy(job: Said, nodes: Collection[SlurmNode]) -> bool:
    """Whether users explain that a job was refused: others come first, or a partition has no free node, for it is not
    known to which one the job goes."""
    if not is_refused(job):
        return False
    everywhere, free = set[str](), set[str]()
    for node in nodes:
        everywhere |= node.partitions
        free |= node.partitions if node.free else set()
    return LATER in job.stderr or not any(node.free for node in nodes) or everywhere != free


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
    return [node for node in nodes if node.down]


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


CHECK_ID = "slinky-slurm"
_MOST, _AGAIN_S = 200_000, 2.0
# A node that is idle at so many looks, and never free for the job between them, was not taken by users each time.
_JOBS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Settings of check slinky-slurm."""

    options: tuple[str, ...] = setting(
        "More options of srun for the test's job, such as --partition=gpu or --account=test.", use="run"
    )
    immediate_s: int = setting("How long the job may wait for a node.", unit="s", minimum=1, use="run")
    settle_s: float = setting("How long nodes may take to be up.", unit="s", minimum=0, use="run")
    timeout_s: float = setting("How long a command in the pod may take.", unit="s", above=0, use="run")


def observe(context: ObserveContext) -> SlurmSeen:
    """Ask, and run one job of a second.

    Raises:
        BringupError: the API server does not answer.
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
        seen = SlurmSeen(sets=tuple(map(worker_set, found["NodeSet"])))
        if not found["Controller"]:
            return replace(seen, problem="slurm-missing", reason=f"there is no Controller in {place}")
        pods = cluster.list_objects(PODS, place)
        seen, pod = replace(seen, workers=workers_in(pods)), _pod(pods)
        if pod is None:
            reason = f"no pod of slurmctld or login in {place} is ready"
            return replace(seen, problem="slurm-controller-not-ready", reason=reason)
        return _asked(cluster, context, seen, pod, settings)


def _listed(cluster: Cluster, group: str, version: str, word: str, namespace: str) -> list[dict[str, Any]]:
    kind = Kind(f"{group}/{version}", word, f"{word.lower()}s")
    return [item for item in cluster.find_all(kind, namespace) or () if not item["metadata"].get("deletionTimestamp")]


def _pod(pods: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return a ready pod with Slurm's commands: where users log in, else the controller's."""
    ready = [pod for pod in pods if is_true(pod, "Ready") and not pod["metadata"].get("deletionTimestamp")]
    by_app: dict[str, dict[str, Any]] = {}
    for pod in sorted(ready, key=lambda pod: str(pod["metadata"]["name"])):
        labels = pod["metadata"].get("labels") or {}
        by_app.setdefault(str(labels.get("app.kubernetes.io/name", "")), pod)
    return by_app.get("login") or by_app.get("slurmctld")


def _asked(
    cluster: Cluster, context: ObserveContext, seen: SlurmSeen, pod: dict[str, Any], settings: SlurmSettings
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

    seen = replace(seen, pod=f"{metadata['namespace']}/{metadata['name']}", ping=ask("scontrol", "ping"))
    deadline = Deadline.after(0.0 if context.check_mode else settings.settle_s)
    while True:
        seen = replace(seen, nodes=ask("scontrol", "show", "nodes"))
        if seen.nodes is None or not may_settle(seen.nodes, seen.sets, seen.workers) or deadline.left_s <= 0:
            break
        time.sleep(min(_AGAIN_S, max(deadline.left_s, 0.0)))
    if context.check_mode or seen.nodes is None or seen.nodes.rc != 0:
        return seen
    return _with_job(seen, ask, settings)


def _with_job(seen: SlurmSeen, ask: Callable[..., Said], settings: SlurmSettings) -> SlurmSeen:
    """Run the job; one that was refused for want of a node, and so did not run, again while there is an idle one.

    What the nodes say afterwards is what is judged: users may have taken the idle one between the look and the job.
    """
    for _job in range(_JOBS):
        job = ask(*job_words(settings), looks=False)
        seen = replace(seen, job=job)
        if not is_refused(job):
            break
        seen = replace(seen, nodes=ask("scontrol", "show", "nodes"))
        if not _has_free(seen.nodes):
            break
    return seen


def _has_free(said: Said | None) -> bool:
    try:
        return said is not None and any(node.free for node in nodes_of(said))
    except InputError:
        return False


def job_words(settings: SlurmSettings) -> tuple[str, ...]:
    """Return the command of the job: one task that says on which node of Slurm it runs."""
    return (
        "srun", f"--immediate={settings.immediate_s}", "--time=1", "--ntasks=1", "--job-name=gpufleet-test",
        *settings.options, "sh", "-c", f'echo "{MARK} $SLURMD_NODENAME"',
    )  # fmt: skip


OBSERVER = observer_of("slurm", SlurmSeen, observe)
