# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes a Slurm that Slinky's operator runs: asks it by its own commands, in its login pod or its controller's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.conditions import is_true
from ...clients.kube.connection import connection_from
from ...clients.kube.exec import run_in_pod
from ...clients.kube.kinds import PODS, Kind
from ...component_stack.facts import stack_facts
from ...component_stack.model import components_of
from ...outcome.errors import BringupError, InputError
from ...runtime.clock import Deadline
from ...runtime.redaction import redact
from ..kit.settings import setting
from ..spec import ObserveContext, observer_of
from .slurm_seen import MARK, Said, SlurmSeen, is_refused, may_settle, nodes_of, worker_set, workers_in

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
