# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The clusters of a fleet side by side, from the runs in directories: which are accepted, at which gate the others are,
and what runs on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ...fingerprint.dependencies import SiteState
from ...outcome.codec import load, load_json
from ...outcome.errors import BringupError, NotFoundError
from ...outcome.gates import GATE_IDS
from ...outcome.model import Status
from ...outcome.wording import count, first_of
from ...run.digests import changed_files
from ...run.run import Run
from ...runtime.files import RUN, STATE, cluster_uid_of
from ...site.model import NO_SITE
from ...verdict.gate import GateVerdict
from ...verdict.run import RunRecord, all_passed, asked_verdicts, has_ended, run_summary, running_since
from ...verdict.saved import record_from_plain

# Everything here is pure: records in, rows and sentences out.

REHEARSAL = "rehearsal"
# The stages of nodes in a running roll, and the results of tests in a cycle, that are no bad news; any other is.
GOOD_SO_FAR = frozenset((
    "pending", "cordoned", "drained", "changing", "changed", "rebooting", "rebooted", "verified", "returned", "passed",
    "skipped",
))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """A run of a cluster: its directory, its record, and what it observed of the cluster.

    `cluster` is its name, `uid` that of its namespace kube-system where it was read. `at_work`: its process was alive.
    `problem` says why the record cannot be read or does not hold. `recipe` names charts and versions, `drivers` the
    driver of each host whose driver is known.
    """

    cluster: str
    place: str
    uid: str = ""
    at_work: bool = False
    record: RunRecord | None = None
    problem: str = ""
    recipe: str = ""
    drivers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The state of a cluster: its newest bring-up, and the later runs that did not end well.

    The bring-up is the newest run over all eight gates that decided something, else the newest run of any gates, else
    the newest of all. `gates` has for each gate the newest verdict, of the bring-up or of a run after it.
    `passed_since` maps the directory of a run that did not pass to that of a later run over the same, which passed.
    `running` are runs at work without a bad result so far: they neither take acceptance away nor give it.
    """

    name: str
    bring_up: SavedRun
    gates: dict[str, GateVerdict] = field(default_factory=dict)
    held: tuple[SavedRun, ...] = ()
    passed_since: dict[str, str] = field(default_factory=dict)
    running: tuple[SavedRun, ...] = ()

    @property
    def passed(self) -> int:
        """How many of the eight gates opened."""
        return sum(verdict.opens_next for verdict in self.gates.values())

    @property
    def _runs(self) -> bool:
        # The one is the other with what its files say.
        return any(run.place == self.bring_up.place for run in self.running)

    @property
    def accepted(self) -> bool:
        """Whether it is accepted hardware, and no run since then contradicts that."""
        record = self.bring_up.record
        if record is None or self.bring_up.problem or self.held or record.rehearsal or record.what_if:
            return False
        if self._runs:
            return False
        return set(record.scope) == set(GATE_IDS) and all_passed(record) and self.passed == len(GATE_IDS)

    @property
    def word(self) -> str:
        """The state in one or two words."""
        record = self.bring_up.record
        if record is None or self.bring_up.problem:
            return "not known"
        if self.accepted:
            return "accepted"
        if self._runs:
            return "running"
        if record.rehearsal:
            return REHEARSAL
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
        """The time of the oldest pass that its gates rest on (RFC 3339), empty where there is none."""
        moments = (v.taken_over.oldest if v.taken_over else v.started for v in self.gates.values() if v.opens_next)
        return min((moment for moment in moments if moment), default="")

    @property
    def driver(self) -> str:
        """The driver versions, most frequent first, with hosts where there are several."""
        found = Counter(self.bring_up.drivers.values()).most_common()
        return found[0][0] if len(found) == 1 else ", ".join(f"{version} ({hosts})" for version, hosts in found)

    @property
    def versions(self) -> dict[str, str]:
        """The version of each component of its recipe; empty where no recipe was read."""
        # As run/site_state.py writes it: `gpu-operator v26.7.0, nfd 0.19.0, values 1f0c...`.
        words = (part.partition(" ") for part in self.bring_up.recipe.split(", ") if part)
        return {name: version or "-" for name, _space, version in words if name != "values"}

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why it is not accepted, a sentence each; empty where it is."""
        if self.accepted or self._runs:
            return ()
        record = self.bring_up.record
        first = self.bring_up.problem or (run_summary(record) if record is not None else "")
        return (f"{first} ({self.bring_up.place})", *(f"since then {self._doubt(run)}" for run in self.held))

    @property
    def now(self) -> tuple[str, ...]:
        """What runs on it, a sentence each."""
        return tuple(
            f"running {running_since(run.record)} ({run.place})" for run in self.running if run.record is not None
        )

    @property
    def shown_bring_up(self) -> str:
        """The directory of the newest bring-up; `none` where there are only runs without gates, such as validations."""
        record = self.bring_up.record
        of_gates = record is None or (record.scope and record.work is None and not record.check_mode)
        return self.bring_up.place if of_gates else "none"

    def _doubt(self, run: SavedRun) -> str:
        """Return the problem of a later run, with what clears it: a bring-up, or reading it, never a narrower run."""
        text = f"{run.problem or _summary(run)} ({run.place})"
        if run.record is None:
            return f"{text}; restore its run.json, or move the directory away"
        passed = self.passed_since.get(run.place)
        since = f" passed since ({passed});" if passed else ""
        return f"{text};{since} a new run over all gates clears it"


def cluster_states(
    runs: Iterable[SavedRun], looked: Callable[[SavedRun], SavedRun] = lambda run: run
) -> tuple[ClusterState, ...]:
    """Return the state of each cluster, by name.

    Two clusters of one name are two; a run that does not show which of them it is about counts for both. A run about no
    host and no cluster belongs to none: a forgotten inventory, a validation of files.

    Args:
        runs: what is known of each run from its record.
        looked: adds to a run what takes a look at its files; called for those that count, and for no older one.
    """
    by_name: dict[str, list[SavedRun]] = {}
    for run in filter(_of_a_cluster, runs):
        by_name.setdefault(run.cluster, []).append(run)
    states = []
    for name, found in sorted(by_name.items()):
        uids = sorted({run.uid for run in found} - {""})
        # A rehearsal of that name: `rehearsal (rehearsal)` adds nothing.
        simulated = name.removesuffix(f" ({REHEARSAL})")
        shown = simulated if simulated == REHEARSAL and simulated not in by_name else name
        for uid in uids or [""]:
            own = [run for run in found if run.uid in (uid, "")]
            states.append(_state(f"{shown} [{uid[:8]}]" if len(uids) > 1 else shown, own, looked))
    return tuple(states)


def fleet_sentence(states: Sequence[ClusterState]) -> str:
    """Return the fleet in one sentence."""
    accepted = [state for state in states if state.accepted]
    others = [
        state.name
        if state.name == state.word or state.name.endswith(f"({state.word})")
        else f"{state.name} ({state.word})"
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
    every = sorted((run for run in runs if run.record is not None), key=_started)
    running = [run for run in every if _goes_well(run)]
    # A running run has proven nothing yet. Where there is nothing else, it is shown.
    known = [run for run in every if run not in running] or every
    of_gates = [run for run in known if _decides(run)]
    whole = [run for run in of_gates if run.record is not None and set(run.record.scope) == set(GATE_IDS)]
    bring_up = next(iter([*reversed(whole), *reversed(of_gates), *reversed(known), *unread]))
    later = [looked(run) for run in known if _started(run) > _started(bring_up)]
    passed = [run for run in later if run.record is not None and not run.problem and all_passed(run.record)]
    on_hold = [*(run for run in later if not _ended_well(run)), *(run for run in unread if run is not bring_up)]
    bring_up = looked(bring_up)
    gates: dict[str, GateVerdict] = {}
    for run in (bring_up, *(run for run in later if _decides(run))):
        if (record := run.record) is not None:
            decided = (record.gate(gate) for gate in record.scope)
            gates |= {v.gate: v for v in decided if v.status is not Status.PENDING or v.gate not in gates}
    return ClusterState(
        name=name,
        bring_up=bring_up,
        gates=gates,
        held=tuple(on_hold),
        passed_since={run.place: after.place for run in on_hold for after in passed if _covers(after, run)},
        running=tuple(run for run in running if _started(run) >= _started(bring_up)),
    )


def _of_a_cluster(run: SavedRun) -> bool:
    """Whether a run is about a cluster: it has hosts or reached one, or names a site and was refused before."""
    record = run.record
    if record is None or record.nodes or run.uid:
        return True
    return bool(record.problem) and record.site != NO_SITE


def _started(run: SavedRun) -> str:
    return run.record.started if run.record is not None else ""


def _decides(run: SavedRun) -> bool:
    """Whether it is about gates and decided one of them; a run that proves a wave is about a few hosts."""
    record = run.record
    if record is None or record.work is not None or record.check_mode or record.what_if or record.wave:
        return False
    return any(record.gate(gate).status is not Status.PENDING for gate in record.scope)


def _ended_well(run: SavedRun) -> bool:
    """Whether a later run casts no doubt: it passed, or changed and proved nothing, as in check mode or when refused
    before it began."""
    record = run.record
    if record is None or run.problem:
        return False
    begun = _decides(run) or (record.phases and not record.problem) or (record.work is not None and record.work.rows)
    return record.check_mode or bool(record.what_if) or all_passed(record) or not begun


def _goes_well(run: SavedRun) -> bool:
    """Whether a run is at work without a bad result so far. A run whose process ended is not at work."""
    record = run.record
    if not run.at_work or record is None or run.problem or record.problem or record.check_mode or record.unconfirmed:
        return False
    if record.work is not None:
        return not record.work.passed and set(record.work.counts) <= GOOD_SO_FAR
    verdicts = asked_verdicts(record)
    decided = [verdict for verdict in verdicts if verdict.status is not Status.PENDING]
    return len(decided) < len(verdicts) and all(verdict.opens_next for verdict in decided)


def _covers(run: SavedRun, of: SavedRun) -> bool:
    """Whether a run is later than the other and covers everything that it was about."""
    after, before = run.record, of.record
    if after is None or before is None or _started(run) <= _started(of) or after.driver_only:
        return False
    if after.nodes - after.quarantined < before.nodes - before.quarantined:
        return False
    if before.work is not None or after.work is not None:
        return before.work is not None and after.work is not None and before.work.verb == after.work.verb
    phases = ({verdict.gate for verdict in record.phases} for record in (before, after))
    if before.validates:
        return after.validates and set.issubset(*phases)
    return bool(before.scope) and set(before.scope) <= set(after.scope)


def _summary(run: SavedRun) -> str:
    return run_summary(run.record) if run.record is not None else ""


# A run directory, one in a site's .run, or one in a directory with a checkout or inventory for each cluster.
_DEPTHS = (RUN, f"*/{RUN}", f"*/*/{RUN}", f"*/.run/*/{RUN}")
# What every judgement writes (report/run_report.py).
_REPORT = "report.json"


def states_of(places: Iterable[Path], *, confirm: bool = False) -> tuple[ClusterState, ...]:
    """Return the state of each cluster that has runs there.

    Args:
        places: directories of runs.
        confirm: whether verdicts are computed again from the observations of the runs.

    Raises:
        NotFoundError: one of the places has no run.
    """
    found = [run for place in places for run in _run_dirs(place)]
    return cluster_states(map(_saved, dict.fromkeys(found)), partial(_looked, confirm=confirm))


def unconfirmed_record(run_dir: Path) -> RunRecord | None:
    """Return the record that a later judgement wrote into the reports if it could not confirm the run; else None.

    It can only take a pass away: nothing else in it is read, and a file of another form is ignored.
    """
    path = run_dir / _REPORT
    try:
        record = record_from_plain(load_json(path), str(path)) if path.is_file() else None
    except BringupError:
        return None
    return record if record is not None and record.unconfirmed else None


def _run_dirs(place: Path) -> list[Path]:
    """Return the directories of the runs there, links resolved. Copies that a run keeps of itself (looks) do not count.

    Raises:
        NotFoundError: there is no run.
    """
    records = {path.parent.resolve() for depth in _DEPTHS for path in place.glob(depth)}
    found = sorted(path for path in records if records.isdisjoint(path.parents))
    if not found:
        looked = ", ".join(depth.removesuffix(f"/{RUN}") for depth in _DEPTHS[1:])
        raise NotFoundError(
            str(place),
            f"holds no run (no {RUN} in it, nor in {looked}).",
            "name directories of runs, or one directory with a .run for each cluster",
        )
    return found


def _saved(path: Path) -> SavedRun:
    """Return the run of that directory from its record; if it cannot be read, that is its problem."""
    run = Run(path)
    try:
        record = run.record
    except (BringupError, OSError) as error:
        return SavedRun(cluster=str(path), place=str(path), problem=f"its record cannot be read: {error}")
    name = f"{record.site} ({REHEARSAL})" if record.rehearsal else record.site
    # A killed run is not at work, whatever its record says.
    return SavedRun(cluster=name, uid=cluster_uid_of(path), place=str(path), at_work=run.at_work, record=record)


def _looked(saved: SavedRun, *, confirm: bool) -> SavedRun:
    """Return a run with the data in its other files, and a problem if these do not confirm its record."""
    path, record = Path(saved.place), saved.record
    if record is None:
        return saved
    problem = ""
    try:
        differences: Sequence[str] = ()
        # A run at work writes files since its last verdict.
        if not saved.at_work or has_ended(record):
            differences = _rejudged(path) if confirm and not record.what_if else changed_files(path, record)
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


def _rejudged(path: Path) -> tuple[str, ...]:
    # Judging loads every gate; a comparison of files alone needs none of them.
    from ..judge.app import rejudge

    return tuple(rejudge(Run(path))[1])


def _site_state(path: Path) -> SiteState:
    """Return what the run observed of the site; empty where that was not saved or cannot be read."""
    try:
        return load(SiteState, path / STATE) if (path / STATE).is_file() else SiteState()
    except BringupError:
        return SiteState()
