# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command fleet-status: many clusters side by side, from the directories of their runs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..fingerprint.dependencies import SiteState
from ..outcome.codec import load
from ..outcome.errors import BringupError, NotFoundError
from ..outcome.gates import GATES
from ..outcome.wording import count
from ..report.console import table
from ..report.metrics import Families
from ..run.digests import changed_files
from ..run.judged import rejudge
from ..run.run import Run
from ..runtime.clock import moment_of
from ..runtime.files import RUN, STATE, cluster_uid_of
from ..verdict.clusters import ClusterState, SavedRun, cluster_states, fleet_sentence
from ..verdict.run import run_summary
from .answer import formatted, write, write_lines
from .runs import unconfirmed_record

_HEAD = ("cluster", "state", "gates", "hosts", "driver", "oldest proof", "newest bring-up")
# A run directory, one of a site's .run, or one of a directory with a checkout or inventory for each cluster.
_DEPTHS = (RUN, f"*/{RUN}", f"*/*/{RUN}", f"*/.run/*/{RUN}")


def fleet_status(arguments: Namespace) -> int:
    """Print where each cluster stands, and the fleet in one sentence; nothing is asked of a cluster."""
    found = [run for place in arguments.places or [".run"] for run in _run_dirs(Path(place).expanduser())]
    states = cluster_states(map(_saved, dict.fromkeys(found)), partial(_looked, confirm=arguments.confirm))
    form = arguments.format or "text"
    if form == "text":
        write_lines(_lines(states))
    elif form == "prometheus":
        write("".join(f"{line}\n" for line in _metrics(states)))
    else:
        write(formatted({"fleet": fleet_sentence(states), "clusters": [_plain(state) for state in states]}, form))
    good = bool(states) and all(state.accepted for state in states)
    return BringupError.exit_code if arguments.exit_code and not good else 0


def _run_dirs(place: Path) -> list[Path]:
    """Return the directories of the runs there, links resolved.

    Raises:
        NotFoundError: there is no run.
    """
    found = sorted({path.parent.resolve() for depth in _DEPTHS for path in place.glob(depth)})
    if not found:
        looked = ", ".join(depth.removesuffix(f"/{RUN}") for depth in _DEPTHS[1:])
        raise NotFoundError(
            str(place),
            f"holds no run (no {RUN} in it, nor in {looked}).",
            "name directories of runs, or one directory with a .run for each cluster",
        )
    return found


def _saved(path: Path) -> SavedRun:
    """Return the run of that directory by its record; one that cannot be read is its problem."""
    try:
        record = Run(path).record
    except (BringupError, OSError) as error:
        return SavedRun(cluster=str(path), place=str(path), problem=f"its record cannot be read: {error}")
    name = f"{record.site} (rehearsal)" if record.rehearsal else record.site
    return SavedRun(cluster=name, uid=cluster_uid_of(path), place=str(path), record=record)


def _looked(saved: SavedRun, *, confirm: bool) -> SavedRun:
    """Return a run with what its files say beside its record, and whether they are as they were."""
    path, record = Path(saved.place), saved.record
    if record is None:
        return saved
    problem = ""
    try:
        differences = rejudge(Run(path))[1] if confirm and not record.what_if else changed_files(path, record)
        if differences:
            more = f" and {count(len(differences) - 1, 'more difference')}" if len(differences) > 1 else ""
            problem = f"NOT CONFIRMED: {differences[0]}{more}"
        elif not confirm and (judged := unconfirmed_record(path)) is not None:
            problem = run_summary(judged)
    except (BringupError, OSError) as error:
        problem = f"NOT CONFIRMED: {error}"
    state = _site_state(path)
    return replace(
        saved,
        problem=problem,
        recipe=state.whole.get("recipe", ""),
        drivers={name: facts["driver"] for name, facts in state.hosts.items() if facts.get("driver")},
    )


def _site_state(path: Path) -> SiteState:
    """Return what the run saw of the site; nothing where that was not saved or cannot be read."""
    try:
        return load(SiteState, path / STATE) if (path / STATE).is_file() else SiteState()
    except BringupError:
        return SiteState()


def _lines(states: Sequence[ClusterState]) -> Iterator[str]:
    rows = [
        (
            state.name,
            state.word,
            f"{state.passed} of {len(GATES)}",
            str(state.hosts),
            state.driver or "-",
            state.oldest_proof[:10] or "-",
            state.bring_up.place,
        )
        for state in states
    ]
    yield from table(_HEAD, rows)
    for state in (state for state in states if not state.accepted):
        yield ""
        yield from (f"{state.name}: {sentence}" for sentence in state.sentences)
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
