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


def judge(observed: SlurmSeen, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes. The order is controller, nodes, job: a fault of one explains the next."""
    answer = Answer.about_cluster(SPEC, context)
    hint = _LOOK.format(place=observed.pod.partition("/")[0] or "slurm")
    if observed.problem in SPEC.causes:
        return (answer.failed(observed.problem, observed.reason, hint, **_facts(observed, ())),)
    if observed.problem or observed.ping is None or observed.nodes is None:
        return (
            answer.unknown(
                observed.problem or "no-data", observed.reason or "Slurm was not asked", "run the gate again"
            ),
        )
    not_reporting = _controller(answer, observed, observed.ping)
    if not_reporting is not None:
        return (not_reporting,)
    try:
        nodes = nodes_of(observed.nodes)
    except InputError as error:
        return (_unread(answer, observed, observed.nodes, "scontrol show nodes", error.reason),)
    if observed.nodes.rc != 0:
        return (_unread(answer, observed, observed.nodes, "scontrol show nodes", observed.nodes.last),)
    bad = _nodes(answer, observed, nodes)
    if any(outcome.cause != "slurm-node-drained" for outcome in bad):
        return bad
    failed = _job(answer, observed, nodes)
    if failed is not None:
        return (*bad, failed)
    if bad:
        return bad
    if len(nodes) > _wanted(observed) and len(observed.workers) < _wanted(observed):
        text = (
            f"Slurm has {len(nodes)} nodes for {_wanted(observed)} workers: which of them are the workers is not known"
        )
        look = f"kubectl get pods -n {observed.pod.partition('/')[0]} -L nodeset.slinky.slurm.net/pod-hostname"
        return (answer.unknown("slurm-workers-unseen", text, look, **_facts(observed, nodes)),)
    where = ran_on(observed.job.stdout) if observed.job else ""
    text = f"Slurm answers in {observed.pod}, has {len(nodes)} nodes, and ran a job on {where} at once"
    return (answer.passed(text, **_facts(observed, nodes)),)


def _controller(answer: Answer, observed: SlurmSeen, reported: Said) -> Outcome | None:
    found = controllers_in(reported.stdout)
    if not found:
        return _unread(answer, observed, reported, "scontrol ping", reported.last)
    down = [name for name, up in found.items() if not up]
    hint = f"kubectl logs -n {observed.pod.partition('/')[0]} -l app.kubernetes.io/name=slurmctld"
    if len(down) == len(found):
        text = f"Slurm's controller does not answer: {', '.join(down)}"
        return answer.failed("slurm-controller-down", text, hint, **_facts(observed, ()))
    if down:
        text = f"one controller of Slurm answers, and another does not: {', '.join(down)}"
        return answer.marginal("slurm-controller-degraded", text, hint, **_facts(observed, ()))
    return None


def _unread(answer: Answer, observed: SlurmSeen, reported: Said, command: str, why: str) -> Outcome:
    cause = "timeout" if reported.timed_out else "slurm-unread"
    how = "did not end in time" if reported.timed_out else f"says nothing that can be judged: {why}"
    hint = f"kubectl exec -n {observed.pod.partition('/')[0]} {observed.pod.partition('/')[2]} -- {command}"
    return answer.unknown(cause, f"`{command}` in {observed.pod} {how}", hint, **_facts(observed, ()))


def _nodes(answer: Answer, observed: SlurmSeen, nodes: tuple[SlurmNode, ...]) -> tuple[Outcome, ...]:
    """Return what is wrong with the nodes. Empty: all of them are there and take jobs."""
    facts, wanted = _facts(observed, nodes), _wanted(observed)
    behind = [
        f"{entry.name} {entry.ready} of {entry.desired}" for entry in observed.sets if entry.ready < entry.desired
    ]
    down, missing = down_in(nodes), without_node(observed.workers, nodes)
    found = []
    if not nodes or len(nodes) < wanted or behind or missing:
        text = f"Slurm has {len(nodes)} of {wanted} nodes"
        text += f"; ready workers: {first_of(behind, _NAMED)}" if behind else "" if wanted else ": it has no workers"
        text += f"; no node of it: {first_of(missing, _NAMED)}" if missing else ""
        hint = "kubectl get nodesets,pods -A -l app.kubernetes.io/component=worker; what do pending workers wait for?"
        found.append(answer.failed("slurm-nodes-missing", text, hint, **facts))
    if down:
        text = f"nodes of Slurm are down: {_named(down)}"
        hint = f"read the log of slurmd in their pods, then {_resume(observed, down)}"
        found.append(answer.failed("slurm-node-down", text, hint, **facts))
    drained = [node for node in nodes if node.draining and node not in down]
    if drained and not found:
        text = f"nodes of Slurm take no jobs: {_named(drained)}"
        hint = f"accept it for nodes that are set aside, or {_resume(observed, drained)}"
        found.append(answer.marginal("slurm-node-drained", text, hint, **facts))
    return tuple(found)


def _wanted(observed: SlurmSeen) -> int:
    return sum(entry.desired for entry in observed.sets)


def _resume(observed: SlurmSeen, nodes: Sequence[SlurmNode]) -> str:
    """Return the command that resumes nodes in Slurm."""
    namespace, _slash, pod = observed.pod.partition("/")
    names = ",".join(node.name for node in nodes)
    return f"kubectl exec -n {namespace} {pod} -- scontrol update nodename={names} state=resume"


def _named(nodes: list[SlurmNode]) -> str:
    return first_of(
        [f"{node.name} {node.state}" + (f" ({node.reason})" if node.reason else "") for node in nodes], _NAMED
    )


def _job(answer: Answer, observed: SlurmSeen, nodes: tuple[SlurmNode, ...]) -> Outcome | None:
    """Return what is wrong with the job. None: it ran on a node of this Slurm."""
    job, facts = observed.job, _facts(observed, nodes)
    if job is None:
        return answer.unknown("no-job", "no job was run", "run the gate again, without check mode", **facts)
    where = ran_on(job.stdout)
    if job.rc == 0 and where in {node.name for node in nodes}:
        return None
    if was_busy(job, nodes):
        text = f"no node is free for a job of a second, or others that wait come first: {_named(list(nodes))}"
        return answer.unknown("slurm-busy", text, "run the gate again when a node is idle", **facts)
    reported = f"it ran on {where}, which is no node of this Slurm" if where else job.last
    how = "did not end in time" if job.timed_out else f"failed: {reported}"
    hint = (
        "run srun hostname in the pod; account, partition or QOS: gpufleet_settings: {slinky-slurm: {options: [...]}}"
    )
    return answer.failed("slurm-job-failed", f"a job of one task {how}", hint, **facts)


def _facts(observed: SlurmSeen, nodes: tuple[SlurmNode, ...]) -> dict[str, Any]:
    requested = {"scontrol ping": observed.ping, "scontrol show nodes": observed.nodes, "srun": observed.job}
    return {
        "measured": (
            Measure("nodes of Slurm", len(nodes), "count"),
            Measure("idle nodes", sum(node.free for node in nodes), "count"),
        ),
        "expected": (Expectation("nodes of Slurm", ">=", _wanted(observed), Basis.RECIPE, "count"),),
        "evidence": tuple(
            Evidence(command, observed.pod, f"{reported.stdout}\n{reported.stderr}".strip()[:1200])
            for command, reported in requested.items()
            if reported is not None
        ),
    }


CHECK = Check(SPEC, OBSERVER, judge)
