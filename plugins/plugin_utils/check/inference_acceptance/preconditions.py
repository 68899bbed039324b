# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every check of the gate needs of a host: why it has no figures, what was read, and its curves. Pure."""

from __future__ import annotations

from ...outcome.model import Evidence, Outcome, node_subject
from ...outcome.series import Axis, Bound, Series
from ...probe.aiperf import Distribution
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext
from .model import Measured, PlannedHost, Results, Server

READY, SMOKE, ERRORS = "inference-endpoint-ready", "inference-smoke", "inference-errors"


def answer_for(spec: CheckSpec, context: JudgeContext, host: PlannedHost) -> Answer:
    """Return what makes the outcomes about a host."""
    return Answer(spec, context, node_subject(host.name))


def serves(server: Server | None, name: str) -> bool:
    """Tell whether a server is what was asked for: ready, healthy, and the right model."""
    return server is not None and server.state == "ready" and server.health == 200 and name in server.models


def not_loaded(answer: Answer, results: Results, host: PlannedHost) -> Outcome | None:
    """Return the outcome for a host that was not put under load; None if it was."""
    if results.loads_of(host.name):
        return None
    server = results.server(host.name)
    if not serves(server, results.plan.rules.server.name):
        return answer.blocked(by=READY, because=f"{host.name} does not serve the model")
    return answer.blocked(by=SMOKE, because=f"{host.name} does not answer a single request")


def no_figures(answer: Answer, results: Results, host: PlannedHost) -> Outcome | None:
    """Return the outcome for a host without figures to judge; None if it has some."""
    loads = results.loads_of(host.name)
    if any(load.good for load in loads):
        return None
    return not_loaded(answer, results, host) or answer.blocked(
        by=ERRORS, because=f"no load of {host.name} gave figures"
    )


def command_evidence(server: Server, where: str) -> Evidence:
    """Return what a server was started with, and its last words if it has some."""
    return Evidence(" ".join(server.command) or "vllm serve", where, server.reason, server.log)


def load_evidence(measured: Measured) -> Evidence:
    """Return what was read of a load."""
    load, export = measured.load, measured.export
    figure = ""
    if export is not None:
        figure = f"{export.requests} requests, {export.errors} failed, {export.output_tokens_per_s:.0f} tokens/s"
    told = measured.problem.text if measured.problem else figure
    command = " ".join(load.command) or "aiperf profile"
    return Evidence(f"{command}, run {load.attempt}", load.host, told, load.export or load.log)


def curve(figure: str, host: str, found: Distribution, bound: float) -> Series:
    """Return the percentiles of a latency as a curve, with its bound."""
    points = ((0.0, found.least), *((float(p), value) for p, value in found.percentiles.items()), (100.0, found.most))
    bounds = (Bound(name="SLO", value=bound),) if bound else ()
    axes = {"x": Axis(name="percentile", unit="%"), "y": Axis(name="time", unit=found.unit)}
    return Series(figure=figure, name=host, points=points, bounds=bounds, **axes)
