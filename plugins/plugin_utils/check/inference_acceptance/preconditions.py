# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outcomes before a verdict about a host: no server, no load, or no figures. Pure."""

from __future__ import annotations

from ...outcome.model import Outcome
from ..kit.answer import Answer
from .model import CACHED, PlannedHost, Results, Server

READY, SMOKE, ERRORS = "inference-endpoint-ready", "inference-smoke", "inference-errors"


def serves(server: Server | None, name: str) -> bool:
    """Return whether a server is ready, healthy, and serves the model of that name."""
    return server is not None and server.state == "ready" and server.health == 200 and name in server.models


def not_served(answer: Answer, results: Results, host: PlannedHost) -> Outcome | None:
    """Return the outcome for a host whose server proves nothing: it does not serve, or not on all GPUs.

    None: it does.
    """
    if not serves(results.server(host.name), results.plan.settings.server.name):
        return answer.blocked(by=READY, because=f"{host.name} does not serve the model")
    return answer.blocked(by=READY, because=host.unproven) if host.unproven else None


def not_loaded(answer: Answer, results: Results, host: PlannedHost) -> Outcome | None:
    """Return the outcome for a host that was not put under load. None: it was."""
    if host.unproven:
        return answer.blocked(by=READY, because=host.unproven)
    if results.loads_of(host.name):
        return None
    return not_served(answer, results, host) or answer.blocked(
        by=SMOKE, because=f"{host.name} does not answer a single request"
    )


def no_figures(answer: Answer, results: Results, host: PlannedHost) -> Outcome | None:
    """Return the outcome for a host without figures to judge. None: it has some."""
    if not host.unproven and any(load.good for load in results.loads_of(host.name, CACHED)):
        return None
    return not_loaded(answer, results, host) or answer.blocked(
        by=ERRORS, because=f"no load of {host.name} gave figures"
    )
