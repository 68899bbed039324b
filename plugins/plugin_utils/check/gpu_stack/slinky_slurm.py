# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the Slurm of the recipe responds, has all its nodes, and runs a job at once.

All pods of Slurm can be ready while its controller knows no node, or has them down: slurmctld is ready when it
responds, and slurmd when it has started.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...outcome.errors import InputError
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import first_of
from ...probe.slurm_nodes import SlurmNode
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Components, Disturbance, JudgeContext, needs
from .observe_slurm import (
    CHECK_ID,
    OBSERVER,
    Said,
    SlurmSeen,
    SlurmSettings,
    controllers_in,
    down_in,
    nodes_of,
    ran_on,
    was_busy,
    without_node,
)

SPEC = CheckSpec(
    id=CHECK_ID,
    gate="gpu_stack",
    phase="conformance",
    title="Slurm answers, has all its nodes, and runs a job",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=20.0,
    applies=(needs("kubernetes"), Components(("slinky-slurm",))),
    causes=(
        "slurm-controller-down",
        "slurm-controller-not-ready",
        "slurm-job-failed",
        "slurm-missing",
        "slurm-node-down",
        "slurm-nodes-missing",
    ),
    settings=SlurmSettings,
)
_NAMED = 8
_LOOK = "kubectl get controllers,nodesets,pods -n {place}; the operator's log"


def judge(seen: SlurmSeen, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes. The order is controller, nodes, job: a fault of one explains the next."""
    answer = Answer.about_cluster(SPEC, context)
    hint = _LOOK.format(place=seen.pod.partition("/")[0] or "slurm")
    if seen.problem in SPEC.causes:
        return (answer.failed(seen.problem, seen.reason, hint, **_facts(seen, ())),)
    if seen.problem or seen.ping is None or seen.nodes is None:
        return (answer.unknown(seen.problem or "no-data", seen.reason or "Slurm was not asked", "run the gate again"),)
    silent = _controller(answer, seen, seen.ping)
    if silent is not None:
        return (silent,)
    try:
        nodes = nodes_of(seen.nodes)
    except InputError as error:
        return (_unread(answer, seen, seen.nodes, "scontrol show nodes", error.reason),)
    if seen.nodes.rc != 0:
        return (_unread(answer, seen, seen.nodes, "scontrol show nodes", seen.nodes.last),)
    bad = _nodes(answer, seen, nodes)
    if any(outcome.cause != "slurm-node-drained" for outcome in bad):
        return bad
    failed = _job(answer, seen, nodes)
    if failed is not None:
        return (*bad, failed)
    if bad:
        return bad
    if len(nodes) > _wanted(seen) and len(seen.workers) < _wanted(seen):
        text = f"Slurm has {len(nodes)} nodes for {_wanted(seen)} workers: which of them are the workers is not known"
        look = f"kubectl get pods -n {seen.pod.partition('/')[0]} -L nodeset.slinky.slurm.net/pod-hostname"
        return (answer.unknown("slurm-workers-unseen", text, look, **_facts(seen, nodes)),)
    where = ran_on(seen.job.stdout) if seen.job else ""
    text = f"Slurm answers in {seen.pod}, has {len(nodes)} nodes, and ran a job on {where} at once"
    return (answer.passed(text, **_facts(seen, nodes)),)


def _controller(answer: Answer, seen: SlurmSeen, said: Said) -> Outcome | None:
    found = controllers_in(said.stdout)
    if not found:
        return _unread(answer, seen, said, "scontrol ping", said.last)
    down = [name for name, up in found.items() if not up]
    hint = f"kubectl logs -n {seen.pod.partition('/')[0]} -l app.kubernetes.io/name=slurmctld"
    if len(down) == len(found):
        text = f"Slurm's controller does not answer: {', '.join(down)}"
        return answer.failed("slurm-controller-down", text, hint, **_facts(seen, ()))
    if down:
        text = f"one controller of Slurm answers, and another does not: {', '.join(down)}"
        return answer.marginal("slurm-controller-degraded", text, hint, **_facts(seen, ()))
    return None


def _unread(answer: Answer, seen: SlurmSeen, said: Said, command: str, why: str) -> Outcome:
    cause = "timeout" if said.timed_out else "slurm-unread"
    how = "did not end in time" if said.timed_out else f"says nothing that can be judged: {why}"
    hint = f"kubectl exec -n {seen.pod.partition('/')[0]} {seen.pod.partition('/')[2]} -- {command}"
    return answer.unknown(cause, f"`{command}` in {seen.pod} {how}", hint, **_facts(seen, ()))


def _nodes(answer: Answer, seen: SlurmSeen, nodes: tuple[SlurmNode, ...]) -> tuple[Outcome, ...]:
    """Return what is wrong with the nodes. Empty: all of them are there and take jobs."""
    facts, wanted = _facts(seen, nodes), _wanted(seen)
    behind = [f"{entry.name} {entry.ready} of {entry.desired}" for entry in seen.sets if entry.ready < entry.desired]
    down, missing = down_in(nodes), without_node(seen.workers, nodes)
    found = []
    if not nodes or len(nodes) < wanted or behind or missing:
        text = f"Slurm has {len(nodes)} of {wanted} nodes"
        text += f"; ready workers: {first_of(behind, _NAMED)}" if behind else "" if wanted else ": it has no workers"
        text += f"; no node of it: {first_of(missing, _NAMED)}" if missing else ""
        hint = "kubectl get nodesets,pods -A -l app.kubernetes.io/component=worker; what do pending workers wait for?"
        found.append(answer.failed("slurm-nodes-missing", text, hint, **facts))
    if down:
        text = f"nodes of Slurm are down: {_named(down)}"
        hint = f"read the log of slurmd in their pods, then {_resume(seen, down)}"
        found.append(answer.failed("slurm-node-down", text, hint, **facts))
    drained = [node for node in nodes if node.draining and node not in down]
    if drained and not found:
        text = f"nodes of Slurm take no jobs: {_named(drained)}"
        hint = f"accept it for nodes that are set aside, or {_resume(seen, drained)}"
        found.append(answer.marginal("slurm-node-drained", text, hint, **facts))
    return tuple(found)


def _wanted(seen: SlurmSeen) -> int:
    return sum(entry.desired for entry in seen.sets)


def _resume(seen: SlurmSeen, nodes: Sequence[SlurmNode]) -> str:
    """Return the command that resumes nodes in Slurm."""
    namespace, _slash, pod = seen.pod.partition("/")
    names = ",".join(node.name for node in nodes)
    return f"kubectl exec -n {namespace} {pod} -- scontrol update nodename={names} state=resume"


def _named(nodes: list[SlurmNode]) -> str:
    return first_of(
        [f"{node.name} {node.state}" + (f" ({node.reason})" if node.reason else "") for node in nodes], _NAMED
    )


def _job(answer: Answer, seen: SlurmSeen, nodes: tuple[SlurmNode, ...]) -> Outcome | None:
    """Return what is wrong with the job. None: it ran on a node of this Slurm."""
    job, facts = seen.job, _facts(seen, nodes)
    if job is None:
        return answer.unknown("no-job", "no job was run", "run the gate again, without check mode", **facts)
    where = ran_on(job.stdout)
    if job.rc == 0 and where in {node.name for node in nodes}:
        return None
    if was_busy(job, nodes):
        text = f"no node is free for a job of a second, or others that wait come first: {_named(list(nodes))}"
        return answer.unknown("slurm-busy", text, "run the gate again when a node is idle", **facts)
    said = f"it ran on {where}, which is no node of this Slurm" if where else job.last
    how = "did not end in time" if job.timed_out else f"failed: {said}"
    hint = (
        "run srun hostname in the pod; account, partition or QOS: gpufleet_settings: {slinky-slurm: {options: [...]}}"
    )
    return answer.failed("slurm-job-failed", f"a job of one task {how}", hint, **facts)


def _facts(seen: SlurmSeen, nodes: tuple[SlurmNode, ...]) -> dict[str, Any]:
    asked = {"scontrol ping": seen.ping, "scontrol show nodes": seen.nodes, "srun": seen.job}
    return {
        "measured": (
            Measure("nodes of Slurm", len(nodes), "count"),
            Measure("idle nodes", sum(node.free for node in nodes), "count"),
        ),
        "expected": (Expectation("nodes of Slurm", ">=", _wanted(seen), Basis.RECIPE, "count"),),
        "evidence": tuple(
            Evidence(command, seen.pod, f"{said.stdout}\n{said.stderr}".strip()[:1200])
            for command, said in asked.items()
            if said is not None
        ),
    }


CHECK = Check(SPEC, OBSERVER, judge)
