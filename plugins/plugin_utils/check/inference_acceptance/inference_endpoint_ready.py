# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every host's vLLM server becomes ready, is healthy and serves the requested model."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import no_capacity, no_run, of_problem
from ..benchmark.problem import Problem, launch_problem
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .model import PlannedHost, Results, Server
from .observe_inference import OBSERVER
from .preconditions import READY
from .rendering import command_evidence

SPEC = CheckSpec(
    id=READY,
    gate="inference_acceptance",
    title="vLLM serves the model",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=1800.0,
    applies=(needs("kubernetes"),),
    causes=(
        "kv-cache-out-of-memory", "gpu-out-of-memory", "gpu-memory-in-use", "gpu-not-usable", "server-crashed",
        "endpoint-unhealthy", "wrong-model", "fabric-manager-not-ready", "nccl-error",
    ),
)  # fmt: skip
_HINTS = {
    "not-ready-in-time": "look at the server's log; raise ready_s for a model that loads slowly",
}


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return tuple(_judge(Answer.about_host(SPEC, context, host.name), results, host) for host in results.plan.hosts)


def _judge(answer: Answer, results: Results, host: PlannedHost) -> Outcome:
    if host.closed:
        return no_capacity(answer, host)
    server = results.server(host.name)
    if server is None:
        return no_run(answer)
    evidence = (command_evidence(server, host.name),)
    if server.cause and not server.blames_host:
        what = "the weights could not be had" if server.cause.startswith("model-") else "vLLM died before it was ready"
        text = f"{what}, which says nothing about the host: {server.reason}"[:400]
        return answer.unknown(server.cause, text, server.hint, evidence=evidence)
    problem = _launch_problem(server)
    if problem is not None:
        return of_problem(answer, problem, _HINTS, evidence=evidence)
    if server.state != "ready":
        text = f"vLLM died before it was ready: {server.reason}"[:400]
        hint = server.hint or "read its log; it says why it ended"
        return answer.failed(server.cause or "server-crashed", text, hint, evidence=evidence)
    return _judge_answers(answer, results, host, server)


def _launch_problem(server: Server) -> Problem | None:
    if server.state == "timeout":
        return Problem("not-ready-in-time", f"it was not ready in time: {server.reason}"[:400])
    launch = launch_problem(server.state, server.reason)
    return Problem(*launch) if launch else None


def _judge_answers(answer: Answer, results: Results, host: PlannedHost, server: Server) -> Outcome:
    name = results.plan.settings.server.name
    details = {
        "measured": (
            Measure("ready after", server.ready_s, "s"),
            Measure("GPUs", host.gpus, "count"),
            Measure("health", server.health, "HTTP status"),
            Measure("models", ", ".join(server.models)),
        ),
        "expected": (Expectation("models", "lists", name, Basis.RULE),),
        "evidence": (command_evidence(server, host.name),),
    }
    if server.health not in (0, 200):
        text = f"/health answers {server.health}, although the pod is ready"
        return answer.failed("endpoint-unhealthy", text, "read the server's log: its engine may have died", **details)
    if server.problem:
        hint = "is port-forward allowed (pods/portforward)? Else set reach to service-proxy or url"
        return answer.unknown("endpoint-unreachable", f"it could not be asked: {server.problem}", hint, **details)
    if server.health != 200:
        text = "/health gave no answer, although the pod is ready"
        return answer.unknown("endpoint-unreachable", text, "run the gate again", **details)
    if name not in server.models:
        listed = ", ".join(server.models) or "no model"
        text = f"/v1/models lists {listed}, asked for was {name}"
        hint = "another server answers under this address, or model and served_name do not fit"
        return answer.failed("wrong-model", text, hint, **details)
    if host.unproven:
        return answer.unknown("part-of-the-gpus", host.unproven, "free all GPUs of the host, then run again", **details)
    return answer.passed(f"{name} on {host.gpus} GPUs, ready after {server.ready_s:.0f} s", **details)


CHECK = Check(SPEC, OBSERVER, judge)
