# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Cohorts of peers: the line of each figure, and when a cohort is to blame and not its nodes. Pure.

Nodes that are slow, or got slower, together share a cause: a driver, an image, a fabric, a volume. Then no node is
named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import NormalDist, median

from ...outcome.wording import first_of
from ...verdict.before_after import before_after
from ...verdict.peers import PeerVerdict, allowed, compare
from ...verdict.shared import shared_by
from .figures import ClassLimits, NodeRecord, Series
from .slowdown import Drift, DriftLimits, First, drift

Group = tuple[str, str, str]
Key = tuple[str, str]
FirstKey = tuple[str, str, str, str, str]
# How many healthy members of a cohort may be under the line by nature, not by noise: one in four cohorts.
_LIES_UNDER = 0.25
_MAD_TO_SIGMA = 1.4826
_TRIMMED_FROM = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """One figure of one test in one cohort.

    `evaluated` is False where too few nodes were measured for their agreement to prove anything, or where nothing says
    what they have in common. With too few nodes they are compared all the same, if `verdict` is set. `low` are the
    nodes whose newest sample is under the line. `blame` says why the cohort and none of its nodes is at fault, empty if
    not. `named_below` is the speed that the median of repeats has to fall below: peers differ persistently (silicon,
    cooling), and of many thousands some are far from the others without a fault. `named_by` is its arithmetic.
    """

    group: Group
    nodes: int
    verdict: PeerVerdict
    evaluated: bool
    low: tuple[str, ...] = ()
    blame: str = ""
    named_below: float = 0.0
    named_by: str = ""

    @property
    def name(self) -> str:
        """The name as text."""
        test, cohort, figure = self.group
        return f"{test}: {figure} of cohort {cohort or 'without a name'}"


def cohorts(records: Mapping[Key, NodeRecord], limits: ClassLimits) -> dict[Group, Cohort]:
    """Return every cohort by test, cohort and figure."""
    groups: dict[Group, list[Series]] = {}
    for record in records.values():
        for series in record.series:
            groups.setdefault(series.group, []).append(series)
    return {group: _cohort(group, members, _of_group(members, limits)) for group, members in groups.items()}


def _of_group(members: list[Series], limits: ClassLimits) -> ClassLimits:
    peers, least = limits.peers_of(members[0].test), members[0].tolerance
    return replace(limits, peers=replace(peers, tolerance=least) if least else peers)


def drifts(
    records: Iterable[NodeRecord], limits: ClassLimits, firsts: Mapping[FirstKey, First] | None = None
) -> dict[Series, Drift]:
    """Return the drift of each series, less what its cohort lost as a whole.

    `firsts` has what series began with, where that is recorded.
    """
    every, known = [series for record in records for series in record.series], firsts or {}
    alone = {entry: drift(entry.speeds, _own(entry, limits), known.get(entry.first_key)) for entry in every}
    moved = moves(alone, limits)
    return {
        entry: found
        if moved.get(entry.group, 1.0) >= 1
        else drift(entry.speeds, _own(entry, limits), known.get(entry.first_key), moved[entry.group])
        for entry, found in alone.items()
    }


def moves(found: Mapping[Series, Drift], limits: ClassLimits) -> dict[Group, float]:
    """Return by cohort of enough nodes the current speed of its median member, as a ratio to its first samples."""
    ratios: dict[Group, list[tuple[str, float]]] = {}
    for entry, observed in found.items():
        if observed.evaluated and entry.cohort:
            ratios.setdefault(entry.group, []).append((entry.node, observed.ratio))
    least = limits.peers.least
    enough = {
        group: reported for group, reported in ratios.items() if len({node for node, _ratio in reported}) >= least
    }
    return {group: median(ratio for _node, ratio in reported) for group, reported in enough.items()}


def fleet_lines(found: Mapping[Series, Drift], limits: ClassLimits) -> tuple[str, ...]:
    """Return one sentence for each cohort that is slower as a whole than at first.

    No node is slower than its peers then, and none drifts by itself.
    """
    counts = Counter(entry.group for entry, observed in found.items() if observed.evaluated)
    return tuple(
        f"{group[0]}: {group[2]} of cohort {group[1]} is at {moved:.1%} of what it was at first (median of "
        f"{counts[group]}): all are slower alike; look at what changed for all (power, cooling, clocks, software)"
        for group, moved in moves(found, limits).items()
        if moved < 1 - _own(next(entry for entry in found if entry.group == group), limits).slide
    )


def _own(series: Series, limits: ClassLimits) -> DriftLimits:
    """Return the limits for a series' own history. Those of a shared resource are as wide as for its peers."""
    least = series.tolerance
    return replace(limits.drift, drop=least, slide=least) if least else limits.drift


def blamed(
    records: Mapping[Key, NodeRecord], is_so: Callable[[NodeRecord], bool], words: tuple[str, str], limits: ClassLimits
) -> dict[tuple[str, str], str]:
    """Return by test and cohort why its nodes are not at fault, where too many have the same finding at once.

    `words`: the finding, and where to look.
    """
    counts: dict[tuple[str, str], list[bool]] = {}
    for record in records.values():
        if record.known:
            counts.setdefault((record.test, record.known[-1].cohort), []).append(is_so(record))
    return {
        key: (
            f"{key[0]}: {sum(reported)} of {len(reported)} nodes of cohort "
            f"{key[1] or 'without a name'} {words[0]}, more than "
            f"{limits.peers.share:.0%}: {words[1]}"
        )
        for key, reported in counts.items()
        if sum(reported) > allowed(len(reported), limits.peers)
    }


def with_drift(
    found: Mapping[Group, Cohort], series: Mapping[Series, Drift], limits: ClassLimits
) -> dict[Group, Cohort]:
    """Return the cohorts; those whose nodes got slower together, or with a change of software, get the blame."""
    slower: dict[Group, set[str]] = {}
    before: dict[tuple[Group, str], tuple[dict[str, float], dict[str, float]]] = {}
    for entry, observed in series.items():
        if observed.drifting:
            slower.setdefault(entry.group, set()).add(entry.node)
        if entry.earlier is not None and entry.speeds:
            old, new = before.setdefault((entry.group, entry.earlier_cohort), ({}, {}))
            member = f"{entry.node}/{entry.part}"
            old[member], new[member] = entry.earlier, entry.speeds[-1]
    blames = dict[Group, str]()
    for group, nodes in slower.items():
        count = found[group].nodes
        if len(nodes) > allowed(count, limits.peers) and count >= limits.peers.least:
            blames[group] = f"{len(nodes)} of {count} nodes got slower at once, more than {limits.peers.share:.0%}"
    for (group, earlier), (old, new) in before.items():
        change = before_after(old, new, comparisons=len(before))
        if change.regression:
            blames[group] = f"slower than before as cohort {earlier}: {change.arithmetic}"
    return {group: _blamed(cohort, blames.get(group, "")) for group, cohort in found.items()}


def shared_text(low: Collection[str], racks: Mapping[str, str], measured: Collection[str]) -> str:
    """Return what slow nodes have in common beside their cohort, empty for nothing."""
    found = shared_by(low, {node: {"rack": racks.get(node, "")} for node in measured})
    return found[0].text if found else ""


def _cohort(group: Group, members: list[Series], limits: ClassLimits) -> Cohort:
    values = {f"{entry.node}\n{entry.part}": entry.speeds[-1] for entry in members if entry.speeds}
    nodes = {entry.node for entry in members}
    if not group[1]:
        alone = "its results do not say which hardware and software they are of"
        nobody = PeerVerdict(evaluated=False, arithmetic=alone)
        return Cohort(group=group, nodes=len(nodes), verdict=nobody, evaluated=False)
    enough = len(nodes) >= limits.peers.least
    verdict = compare(_without_outliers(values), limits.peers, hosts=lambda member: (_node_of(member),))
    low = tuple(sorted({_node_of(name) for name in verdict.suspects}))
    below, by = _named_below(members, verdict, limits)
    if not enough:
        few = f"{len(nodes)} nodes, {limits.peers.least} are needed to prove anything by agreeing; {verdict.arithmetic}"
        verdict = replace(verdict, arithmetic=few)
    made = Cohort(
        group=group, nodes=len(nodes), verdict=verdict, evaluated=verdict.evaluated and enough, low=low,
        named_below=below, named_by=by,
    )  # fmt: skip
    if not verdict.evaluated:
        return made
    if verdict.median <= 0:
        return _blamed(made, "the median of all is 0")
    if verdict.undecided:
        return _blamed(made, verdict.undecided)
    if enough and len(low) > allowed(len(nodes), limits.peers):
        return _blamed(made, f"{len(low)} of {len(nodes)} nodes are under the line, more than {limits.peers.share:.0%}")
    return made


def _node_of(member: str) -> str:
    return member.split("\n")[0]


def _without_outliers(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values with the fastest outliers cut to the next value.

    From eight values on the fastest twentieth is cut, at least one; from eight nodes on at least as many as one node
    has. The comparison assumes that nothing is faster than good: one sample, or one node, far above the others would
    make all of them slow.
    """
    if len(values) < _TRIMMED_FROM:
        return dict(values)
    parts = Counter(map(_node_of, values))
    of_one = max(parts.values()) if len(parts) >= _TRIMMED_FROM else 1
    most = sorted(values.values(), reverse=True)[max(of_one, len(values) // 20)]
    return {name: min(value, most) for name, value in values.items()}


def _named_below(members: list[Series], verdict: PeerVerdict, limits: ClassLimits) -> tuple[float, str]:
    """Return the speed below which a member is named, and its arithmetic.

    The noise from run to run is taken from pairs of a member's own samples; the rest of the spread is persistent.
    """
    middle = verdict.median
    steps = [abs(after - before) for entry in members for before, after in pairwise(entry.speeds)]
    noise = _MAD_TO_SIGMA * median(steps) / 2**0.5 if steps else 0.0
    lasting = max(0.0, verdict.spread**2 - noise**2) ** 0.5
    far = NormalDist().inv_cdf(1 - _LIES_UNDER / max(len(members), 1))
    below = min(middle * (1 - limits.peers.tolerance), middle - far * lasting)
    text = f"median of repeats under {below:.4g} = {middle:.4g} less the larger of {limits.peers.tolerance:.0%} and "
    return below, f"{text}{far:.3g} x {lasting:.3g} (lasting spread; noise of a run {noise:.3g})"


def _blamed(cohort: Cohort, why: str) -> Cohort:
    if not why or cohort.blame:
        return cohort
    text = f"{cohort.name} is to blame and none of its nodes: {why}"
    return replace(cohort, blame=text)


def blame_lines(found: Iterable[Cohort], *together: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """Return the blame of cohorts, one sentence each."""
    reported = (text for messages in together for text in messages.values())
    return (*reported, *(cohort.blame for cohort in found if cohort.blame))


def low_words(found: Iterable[Cohort], racks: Mapping[str, str], nodes: Collection[str]) -> tuple[str, ...]:
    """Return what the slow nodes of each cohort share, one sentence each."""
    texts = []
    for cohort in found:
        text = shared_text(cohort.low, racks, nodes) if len(cohort.low) > 1 else ""
        if text:
            texts.append(f"{cohort.name}: {first_of(cohort.low, 4)}: {text}; look there first")
    return tuple(texts)
