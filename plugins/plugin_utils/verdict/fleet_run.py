# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A playbook over the clusters of a fleet, ring by ring: what is next, what goes on after an end, how it came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..outcome.model import Status
from ..outcome.wording import count, first_of
from .run import RunRecord, all_passed, nothing_holds, run_summary

# Everything here is pure.

# The ring of clusters whose own ring is not in the order.
REST = "rest"
_WORDS = {
    Status.PASSED: "passed",
    Status.FAILED: "failed",
    Status.OTHER: "not known (other)",
    Status.SKIPPED: "passed in part",
    Status.PENDING: "with nothing to do now",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterResult:
    """How the playbook ended on one cluster.

    `sentence` is its verdict; `gates` says how many of its gates or phases opened. `uid` is that of the namespace
    kube-system, where it was read. `asked` is the digest of what it was asked, `run_dir` its run, `log` its output.
    """

    status: Status
    sentence: str
    gates: str = ""
    uid: str = ""
    run_dir: str = ""
    log: str = ""
    started: str = ""
    ended: str = ""
    asked: str = ""

    @property
    def holds(self) -> bool:
        """Whether it counts against the budget: it failed, or is not known. What could not be done now does not."""
        return self.status in (Status.FAILED, Status.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRun:
    """A run over a fleet so far: by cluster its result, and since when those run that have none.

    `ended` is when it was decided (RFC 3339), empty before. `stopped` tells that the budget ended it.
    """

    fleet_run: str
    play: str
    started: str
    results: dict[str, ClusterResult] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    stopped: bool = False
    schema_version: int = 1


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring: its name, and its clusters in their order."""

    name: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Next:
    """What is next: the clusters of `ring` without a result; none at the end. `not_begun` are those of the rings that
    an exceeded budget left."""

    ring: str = ""
    clusters: tuple[str, ...] = ()
    not_begun: tuple[str, ...] = ()


def rings_of(ring_of: Mapping[str, str], order: Sequence[str]) -> tuple[Ring, ...]:
    """Return the rings that have clusters, in order; those of no ring of the order are the ring `rest`, which is last
    unless it is in the order itself.

    Args:
        ring_of: by cluster its ring, in the order of the clusters.
        order: names of rings.
    """
    names = list(dict.fromkeys([*order, REST]))
    members: dict[str, list[str]] = {name: [] for name in names}
    for cluster, ring in ring_of.items():
        members[ring if ring in members else REST].append(cluster)
    return tuple(Ring(name, tuple(found)) for name, found in members.items() if found)


def next_of(rings: Sequence[Ring], results: Mapping[str, ClusterResult], budget: int) -> Next:
    """Return what is next. A ring begins or goes on while the clusters before it that hold are within the budget.

    Args:
        rings: in their order.
        results: by cluster.
        budget: how many clusters may not pass.
    """
    held = 0
    for number, ring in enumerate(rings):
        left = tuple(cluster for cluster in ring.clusters if cluster not in results)
        if left and held > budget:
            behind = (cluster for later in rings[number:] for cluster in later.clusters)
            return Next(not_begun=tuple(cluster for cluster in behind if cluster not in results))
        if left:
            return Next(ring.name, left)
        held += sum(results[cluster].holds for cluster in ring.clusters)
    return Next()


def kept(
    results: Mapping[str, ClusterResult], asked: Mapping[str, str], *, failed_again: bool
) -> dict[str, ClusterResult]:
    """Return the results that still count when a run goes on: of clusters that are asked the same as then.

    Args:
        results: by cluster, of the run so far.
        asked: by cluster of the fleet, the digest of what it is asked now.
        failed_again: whether clusters that hold are run again.
    """
    return {
        name: result
        for name, result in results.items()
        if asked.get(name) == result.asked and not (failed_again and result.holds)
    }


def without_twins(results: Mapping[str, ClusterResult]) -> dict[str, ClusterResult]:
    """Return the results; of two names for one cluster nobody knows which is meant, so neither is known."""
    by_uid: dict[str, list[str]] = {}
    for name, result in results.items():
        if result.uid:
            by_uid.setdefault(result.uid, []).append(name)
    found = dict(results)
    for uid, names in by_uid.items():
        for name in names if len(names) > 1 else ():
            others = first_of([other for other in names if other != name], 3)
            sentence = f"is the same cluster as {others} (UID {uid[:8]} of kube-system); correct a kubeconfig"
            found[name] = replace(results[name], status=Status.OTHER, sentence=sentence)
    return found


def result_of(records: Sequence[RunRecord], status: int | None) -> ClusterResult:
    """Return how a playbook ended by the records of its runs: the worst of several, not known without one.

    Args:
        records: of the runs that it made.
        status: its exit status; None where a signal or the time limit ended it.
    """
    ended = "was ended" if status is None else f"ended with status {status}"
    if not records:
        return ClusterResult(status=Status.OTHER, sentence=f"{ended}, and left no record of a run; see its log")
    worst = max(records, key=lambda record: _BADNESS.index(_status_of(record)))
    found = _status_of(worst)
    if status != 0 and found not in (Status.FAILED, Status.OTHER):
        sentence = f"{ended}, though its record says: {run_summary(worst)}"
        return ClusterResult(status=Status.OTHER, sentence=sentence, gates=_opened(worst))
    return ClusterResult(status=found, sentence=run_summary(worst), gates=_opened(worst))


_BADNESS = (Status.PASSED, Status.SKIPPED, Status.PENDING, Status.FAILED, Status.OTHER)


def _status_of(record: RunRecord) -> Status:
    if record.problem or record.check_mode or record.what_if or record.unconfirmed:
        return Status.OTHER
    if all_passed(record):
        return Status.PASSED
    if nothing_holds(record):
        return Status.SKIPPED if record.validates else Status.PENDING
    if record.work is not None:
        return Status.FAILED if record.work.sentence else Status.OTHER
    decided = record.phases if record.validates else tuple(record.gate(gate) for gate in record.scope)
    return Status.FAILED if any(verdict.status is Status.FAILED for verdict in decided) else Status.OTHER


def _opened(record: RunRecord) -> str:
    if record.work is not None:
        return ""
    decided = record.phases if record.validates else tuple(record.gate(gate) for gate in record.scope)
    return f"{sum(verdict.opens_next for verdict in decided)} of {len(decided)}"


def fleet_passed(clusters: Iterable[str], results: Mapping[str, ClusterResult]) -> bool:
    """Tell whether every cluster passed; a fleet without one did not."""
    names = list(clusters)
    return bool(names) and all(name in results and results[name].status is Status.PASSED for name in names)


def fleet_holds(clusters: Iterable[str], results: Mapping[str, ClusterResult]) -> bool:
    """Tell whether the run may not end with status 0: a cluster holds, has no result, or there is none."""
    names = list(clusters)
    return not names or any(name not in results or results[name].holds for name in names)


def fleet_run_sentence(play: str, clusters: Sequence[str], results: Mapping[str, ClusterResult], budget: int) -> str:
    """Return the decision in one sentence."""
    counts = Counter(results[name].status for name in clusters if name in results)
    parts = [f"{counts[status]} {word}" for status, word in _WORDS.items() if counts[status]]
    left = [name for name in clusters if name not in results]
    if left:
        parts.append(f"{len(left)} not begun: {first_of(left, 5)}")
    text = f"{play} on {count(len(clusters), 'cluster')}: {', '.join(parts) or 'none'}"
    held = sum(results[name].holds for name in clusters if name in results)
    if left and held > budget:
        text += f"; {count(held, 'cluster')} not passed, and the budget between rings is {budget}"
    return text
