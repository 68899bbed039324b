# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Servers and loads as parts of outcomes: evidence, curves, and the conditions of a figure. Pure."""

from __future__ import annotations

from ...outcome.model import Axis, Bound, Evidence, Measure, Series
from ...probe.aiperf import Distribution
from .model import Load, Measured, Plan, PlannedHost, Server


def command_evidence(server: Server, where: str) -> Evidence:
    """Return the command of a server as evidence, with its last log lines if there are any."""
    return Evidence(" ".join(server.command) or "vllm serve", where, server.reason, server.log)


def load_evidence(measured: Measured) -> Evidence:
    """Return command and log of a load as evidence, with its figures or its problem."""
    load, export = measured.load, measured.export
    figure = ""
    if export is not None:
        figure = f"{export.requests} requests, {export.errors} failed, {export.output_tokens_per_s:.0f} tokens/s"
    summary = measured.problem.text if measured.problem else figure
    command = " ".join(load.command) or "aiperf profile"
    return Evidence(f"{command}, run {load.attempt}", load.host, summary, load.export or load.log)


def conditions(plan: Plan, host: PlannedHost, load: Load) -> tuple[Measure, ...]:
    """Return the conditions of a figure, which must be equal for it to be compared with another."""
    settings = plan.settings
    return (
        Measure("GPUs", host.gpus, "count"),
        Measure("requests at a time", load.concurrency, "count"),
        Measure("input tokens", settings.load.input_tokens, "count"),
        Measure("output tokens", settings.load.output_tokens, "count"),
        Measure("model", settings.server.model),
        Measure("server", settings.server.image.rpartition("/")[2]),
    )


def curve(figure: str, host: str, found: Distribution, bound: float) -> Series:
    """Return the percentiles of a latency as a curve, with its bound."""
    points = ((0.0, found.least), *((float(p), value) for p, value in found.percentiles.items()), (100.0, found.most))
    bounds = (Bound(name="SLO", value=bound),) if bound else ()
    axes = {"x": Axis(name="percentile", unit="%"), "y": Axis(name="time", unit=found.unit)}
    return Series(figure=figure, name=host, points=points, bounds=bounds, **axes)
