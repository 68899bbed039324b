# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command fleet-status: many clusters side by side, from the directories of their runs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..features.fleet.clusters import ClusterState, fleet_sentence, states_of
from ..outcome.errors import BringupError
from ..outcome.gates import GATES
from ..report.console import table
from ..report.metrics import Families
from ..runtime.clock import moment_of
from .answer import formatted, write, write_lines

_HEAD = ("cluster", "state", "gates", "hosts", "driver", "oldest proof", "newest bring-up")


def fleet_status(arguments: Namespace) -> int:
    """Print the state of each cluster, and the fleet in one sentence; no cluster is contacted."""
    places = [Path(place).expanduser() for place in arguments.places or [".run"]]
    states = states_of(places, confirm=arguments.confirm)
    form = arguments.format or "text"
    if form == "text":
        write_lines(_lines(states))
    elif form == "prometheus":
        write("".join(f"{line}\n" for line in _metrics(states)))
    elif form in ("html", "markdown"):
        # Templates take a while to load, and tables need none.
        from ..features.fleet.page import render_fleet_markdown, render_fleet_page

        write(render_fleet_page(states) if form == "html" else render_fleet_markdown(states))
    else:
        write(formatted({"fleet": fleet_sentence(states), "clusters": [_plain(state) for state in states]}, form))
    good = bool(states) and all(state.accepted for state in states)
    return BringupError.exit_code if arguments.exit_code and not good else 0


def _lines(states: Sequence[ClusterState]) -> Iterator[str]:
    rows = [
        (
            state.name,
            state.word,
            f"{state.passed} of {len(GATES)}",
            str(state.hosts),
            state.driver or "-",
            state.oldest_proof[:10] or "-",
            state.shown_bring_up,
        )
        for state in states
    ]
    yield from table(_HEAD, rows)
    for state in (state for state in states if state.sentences or state.now):
        yield ""
        yield from (f"{state.name}: {sentence}" for sentence in (*state.sentences, *state.now))
    yield ""
    yield f"fleet: {fleet_sentence(states)}"


def _plain(state: ClusterState) -> dict[str, Any]:
    record = state.bring_up.record
    return {
        "cluster": state.name,
        "state": state.word,
        "accepted": state.accepted,
        "hosts": state.hosts,
        "gates": {gate: verdict.status.value for gate, verdict in state.gates.items()},
        "oldest_proof": state.oldest_proof,
        "driver": state.driver,
        "recipe": state.bring_up.recipe,
        "run_dir": state.bring_up.place,
        "started": record.started if record is not None else "",
        "held_by": list(state.sentences),
        "running": list(state.now),
    }


def _metrics(states: Sequence[ClusterState]) -> Iterator[str]:
    found = Families("gpufleet_cluster", ())
    for state in states:
        about = {"cluster": state.name}
        found.add(
            "accepted",
            "Whether the cluster is accepted, and no run since then says otherwise.",
            state.accepted,
            **about,
        )
        found.add("hosts", "Hosts in scope of the newest bring-up.", state.hosts, **about)
        for gate in GATES:
            verdict = state.gates.get(gate.id)
            opened = verdict is not None and verdict.opens_next
            found.add(
                "gate_opened", "Whether the newest verdict of the gate opens the next.", opened, **about, gate=gate.id
            )
        if state.oldest_proof:
            seconds = moment_of(state.oldest_proof).timestamp()
            found.add("oldest_proof_timestamp_seconds", "The oldest pass that the gates stand on.", seconds, **about)
    yield from found.lines()
