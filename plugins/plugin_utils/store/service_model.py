# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is remembered of a cluster in service: cycles of tests on idle nodes, their results, leases, classes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..outcome.model import Rating, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One pass over the free nodes of a site; it has no gates.

    `started` and `ended` are UTC as in a run record, `ended` empty while it goes on or after its controller died;
    `controller` is the host that ran it, `note` why it ended early.
    """

    cycle_id: str
    site: str
    rehearsal: bool
    started: str
    controller: str
    ended: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number: of a `part` of the node (a GPU's UUID, an adapter, a volume; empty for the node)."""

    name: str
    number: float
    unit: str
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """What one test said of one node; never changed once written.

    `status` is one of CTRF's words: `pending` was given back to a user's workload and is still to do, `other` was tried
    and is not known. `started_s` is seconds since the epoch. `cohort` holds what two results must have in common to be
    compared (SKU, driver, library versions). `parts` names what was there, by slot (`gpu0`: its UUID or serial), so
    that a swapped part begins a new history; `digests` is by part what it computed. `log` is a path below the log
    directory.
    """

    cycle_id: str
    node: str
    test: str
    started_s: float
    duration_s: float
    status: Status
    rating: Rating = Rating.UNKNOWN
    cause: str = ""
    summary: str = ""
    cohort: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right of one cycle to run one test on one node, until a time (seconds since the epoch)."""

    node: str
    test: str
    cycle_id: str
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """What a node was taken for after a cycle, and by which numbers.

    `word` is `healthy`, `suspect`, `drifting`, `bad` or `unknown`;
    `reasons` are sentences with their numbers, the most important first; `action` is what was done about it.
    """

    cycle_id: str
    node: str
    word: str
    reasons: tuple[str, ...] = ()
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OurCordon:
    """A node that we took out of service: when (UTC), by which cycle or roll, why, and when it was given back."""

    node: str
    by: str
    reason: str
    since: str
    lifted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The answer to who wants a lease: the lease, or why not.

    `holder` is the lease that stands in the way, `recorded` that this cycle has the result already; `took_over` is the
    lease that had run out and was taken over.
    """

    lease: Lease | None = None
    holder: Lease | None = None
    recorded: bool = False
    took_over: Lease | None = None


@dataclass(frozen=True, slots=True)
class PartPeriod:
    """A part (a GPU's UUID, a serial number) in a slot of a node: since when, and when it was last seen there
    (seconds since the epoch)."""

    node: str
    slot: str
    part: str
    since_s: float
    seen_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Who accepted what a run (or a cycle) measured as the baseline, when (UTC) and why.

    `what` is the check or test whose figures are meant, empty for all of that run.
    """

    site: str
    rehearsal: bool
    run_id: str
    who: str
    accepted: str
    why: str
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCount:
    """How many results of a status retention took away of a node, test and day (UTC)."""

    day: str
    node: str
    test: str
    status: str
    results: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigure:
    """What one figure was on a day (UTC), over the passed results that retention took away."""

    day: str
    node: str
    test: str
    cohort: str
    part: str
    name: str
    unit: str
    results: int
    lowest: float
    highest: float
    total: float
