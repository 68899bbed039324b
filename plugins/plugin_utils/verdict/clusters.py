# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The clusters of a fleet side by side: which are accepted, at which gate the others stand, and what runs on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..outcome.gates import GATE_IDS
from ..outcome.model import Status
from ..outcome.wording import count, first_of
from ..site.model import NO_SITE
from .gate import GateVerdict
from .run import RunRecord, all_passed, run_summary

# Everything here is pure: records in, rows and sentences out.


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """A run of a cluster: its directory, its record, and what it saw of the cluster.

    `cluster` is its name, `uid` that of its namespace kube-system where it was read. `problem` says why the record
    cannot be read or does not hold. `recipe` names charts and versions, `drivers` the driver of each host whose driver
    is known.
    """

    cluster: str
    place: str
    uid: str = ""
    record: RunRecord | None = None
    problem: str = ""
    recipe: str = ""
    drivers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """Where a cluster stands: its newest bring-up, and the runs after it that did not end well.

    The bring-up is the newest run over all eight gates that decided something, else the newest run of any gates.
    `gates` has for each gate the newest verdict, of the bring-up or of a run after it.
    """

    name: str
    bring_up: SavedRun
    gates: dict[str, GateVerdict] = field(default_factory=dict)
    held: tuple[SavedRun, ...] = ()

    @property
    def passed(self) -> int:
        """How many of the eight gates opened."""
        return sum(verdict.opens_next for verdict in self.gates.values())

    @property
    def accepted(self) -> bool:
        """Whether it is accepted hardware, and no run since then says otherwise."""
        record = self.bring_up.record
        if record is None or self.bring_up.problem or self.held or record.rehearsal or record.what_if:
            return False
        return set(record.scope) == set(GATE_IDS) and all_passed(record) and self.passed == len(GATE_IDS)

    @property
    def word(self) -> str:
        """The state in one word or two."""
        record = self.bring_up.record
        if record is None or self.bring_up.problem:
            return "not known"
        if self.accepted:
            return "accepted"
        if record.rehearsal:
            return "rehearsal"
        if self.held:
            return "in doubt"
        return "passed in part" if all_passed(record) else "not passed"

    @property
    def hosts(self) -> int:
        """How many hosts are in scope."""
        record = self.bring_up.record
        return record.nodes - record.quarantined if record is not None else 0

    @property
    def oldest_proof(self) -> str:
        """The time of the oldest pass that its gates stand on (RFC 3339), empty where there is none."""
        moments = (v.taken_over.oldest if v.taken_over else v.started for v in self.gates.values() if v.opens_next)
        return min((moment for moment in moments if moment), default="")

    @property
    def driver(self) -> str:
        """The versions of the driver, the most frequent first, with hosts where there are several."""
        found = Counter(self.bring_up.drivers.values()).most_common()
        return found[0][0] if len(found) == 1 else ", ".join(f"{version} ({hosts})" for version, hosts in found)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What holds it, a sentence each; none where it is accepted."""
        if self.accepted:
            return ()
        record = self.bring_up.record
        first = self.bring_up.problem or (run_summary(record) if record is not None else "")
        later = (f"since then {run.problem or _summary(run)} ({run.place})" for run in self.held)
        return (f"{first} ({self.bring_up.place})", *later)


def cluster_states(
    runs: Iterable[SavedRun], looked: Callable[[SavedRun], SavedRun] = lambda run: run
) -> tuple[ClusterState, ...]:
    """Return the state of each cluster, by name. Two clusters of one name are two; a run that says not which of them
    it is about counts for both.

    A run that is about no host and no cluster is none of any: a forgotten inventory, a validation of files.

    Args:
        runs: what is known of each run from its record.
        looked: returns a run with what takes a look at its files; asked of those that count, and of no older one.
    """
    by_name: dict[str, list[SavedRun]] = {}
    for run in filter(_of_a_cluster, runs):
        by_name.setdefault(run.cluster, []).append(run)
    states = []
    for name, found in sorted(by_name.items()):
        uids = sorted({run.uid for run in found} - {""})
        for uid in uids or [""]:
            own = [run for run in found if run.uid in (uid, "")]
            states.append(_state(f"{name} [{uid[:8]}]" if len(uids) > 1 else name, own, looked))
    return tuple(states)


def fleet_sentence(states: Sequence[ClusterState]) -> str:
    """Return the fleet in one sentence."""
    accepted = [state for state in states if state.accepted]
    others = [
        state.name if state.name.endswith(f"({state.word})") else f"{state.name} ({state.word})"
        for state in states
        if not state.accepted
    ]
    hosts = f"{sum(s.hosts for s in accepted)} of {count(sum(s.hosts for s in states), 'host')}"
    text = f"{len(accepted)} of {count(len(states), 'cluster')} accepted, with {hosts}"
    if others:
        text += f"; not: {first_of(others, 5)}"
    oldest = min((s for s in accepted if s.oldest_proof), key=lambda s: s.oldest_proof, default=None)
    return text + (f"; oldest proof {oldest.oldest_proof[:10]} ({oldest.name})" if oldest is not None else "")


def _state(name: str, runs: list[SavedRun], looked: Callable[[SavedRun], SavedRun]) -> ClusterState:
    unread = [run for run in runs if run.record is None]
    known = sorted((run for run in runs if run.record is not None), key=_started)
    of_gates = [run for run in known if _decides(run)]
    whole = [run for run in of_gates if run.record is not None and set(run.record.scope) == set(GATE_IDS)]
    bring_up = next(iter([*reversed(whole), *reversed(of_gates), *reversed(known), *unread]))
    later = [looked(run) for run in known if _started(run) > _started(bring_up)]
    held = [*(run for run in later if not _ended_well(run)), *(run for run in unread if run is not bring_up)]
    bring_up = looked(bring_up)
    gates: dict[str, GateVerdict] = {}
    for run in (bring_up, *(run for run in later if _decides(run))):
        if (record := run.record) is not None:
            decided = (record.gate(gate) for gate in record.scope)
            gates |= {v.gate: v for v in decided if v.status is not Status.PENDING or v.gate not in gates}
    return ClusterState(name=name, bring_up=bring_up, gates=gates, held=tuple(held))


def _of_a_cluster(run: SavedRun) -> bool:
    """Tell whether a run is about a cluster: it has hosts or reached one, or names a site and was refused before."""
    record = run.record
    if record is None or record.nodes or run.uid:
        return True
    return bool(record.problem) and record.site != NO_SITE


def _started(run: SavedRun) -> str:
    return run.record.started if run.record is not None else ""


def _decides(run: SavedRun) -> bool:
    """Tell whether it is about gates and decided one of them; a run that proves a wave is about a few hosts."""
    record = run.record
    if record is None or record.work is not None or record.check_mode or record.what_if or record.wave:
        return False
    return any(record.gate(gate).status is not Status.PENDING for gate in record.scope)


def _ended_well(run: SavedRun) -> bool:
    """Tell whether a later run casts no doubt: it passed, or changed and proved nothing, as one in check mode or one
    that was refused before it began."""
    record = run.record
    if record is None or run.problem:
        return False
    begun = _decides(run) or record.phases or (record.work is not None and record.work.rows)
    return record.check_mode or bool(record.what_if) or all_passed(record) or not begun


def _summary(run: SavedRun) -> str:
    return run_summary(run.record) if run.record is not None else ""
