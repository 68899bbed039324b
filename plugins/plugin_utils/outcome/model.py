# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a check observed: Outcome, its parts, and the curves that a report draws."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from .errors import InputError
from .wording import first_of

# Observations of a check as curves. A report draws them; no verdict is computed from them afterwards.


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis: its quantity (`size`), its unit (`B`), and whether it is logarithmic."""

    name: str
    unit: str = ""
    logarithmic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A horizontal line that the curve is judged against (`ceiling`, `bad below`, `SLO`), in the unit of `y`."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve.

    - `figure`: name of its plot. Curves with the same figure share one plot.
    - `name`: distinguishes it there (`all nodes`, `rank 3`, `p50 to p99`).
    - `points`: (x, y) with x rising.

    Raises:
        InputError: no points, x not rising, or a value that is not a finite number.
    """

    figure: str
    name: str
    x: Axis
    y: Axis
    points: tuple[tuple[float, float], ...]
    bounds: tuple[Bound, ...] = ()

    def __post_init__(self) -> None:
        xs, ys = [x for x, _y in self.points], [y for _x, y in self.points]
        rising = all(map(operator.lt, xs, xs[1:]))
        finite = all(map(math.isfinite, (*xs, *ys, *(bound.value for bound in self.bounds))))
        if not self.points or not rising or not finite:
            reason = "needs points of finite numbers with x rising."
            raise InputError(f"series {self.name!r} of figure {self.figure!r}", reason, "fix the check that made it")


# Outcome and its parts.

SCHEMA_VERSION = 1
Scalar = str | int | float | bool | None
# Cause of every check whose observation failed. They all share it.
NOT_OBSERVED = "observation-failed"

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Status(str, Enum):
    """The five statuses of CTRF, no others."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    PENDING = "pending"
    OTHER = "other"


class Rating(str, Enum):
    """How good the observation is. Marginal is neither pass nor fail and needs an acceptance."""

    GOOD = "good"
    MARGINAL = "marginal"
    BAD = "bad"
    UNKNOWN = "unknown"


class Basis(str, Enum):
    """Source of an expectation."""

    INVENTORY = "inventory"
    HARDWARE = "hardware"
    RECIPE = "recipe"
    CEILING = "ceiling"
    PEERS = "peers"
    SLO = "slo"
    RECORD = "record"
    RULE = "rule"
    BASELINE = "baseline"
    CONTRACT = "contract"


class SubjectKind(str, Enum):
    """Kind of thing that a check is about."""

    SITE = "site"
    CLUSTER = "cluster"
    RACK = "rack"
    NODE = "node"
    GPU = "gpu"
    HCA = "hca"
    LINK = "link"
    SWITCH = "switch"
    RAIL = "rail"
    COMPONENT = "component"


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """One thing that a check is about.

    - `name`: unique within its kind: `gpu01`, `gpu01/gpu3`, `gpu01/mlx5_0`, `rack-a1`, `gpu-operator`.
    - `node`: the node that it belongs to, if any. Through it a quarantine or waiver of a node covers its parts.
    """

    kind: SubjectKind
    name: str
    node: str = ""


def node_subject(name: str) -> Subject:
    """Return the subject for a node."""
    return Subject(SubjectKind.NODE, name, name)


def names_of(subjects: Iterable[Subject]) -> str:
    """Return the names of subjects for a message: `gpu01, gpu01/gpu3`.

    Compare the subjects themselves, not their names.
    """
    return ", ".join(subject.name for subject in subjects)


# The most specific first.
_SPECIFIC = (
    SubjectKind.LINK,
    SubjectKind.GPU,
    SubjectKind.HCA,
    SubjectKind.SWITCH,
    SubjectKind.RAIL,
    SubjectKind.COMPONENT,
    SubjectKind.NODE,
    SubjectKind.RACK,
    SubjectKind.CLUSTER,
    SubjectKind.SITE,
)
_MOST_NAMES = 4


def answered_by(outcome: Outcome, site: str) -> frozenset[str]:
    """Return the names that the outcome is about: its subjects and their nodes.

    If the outcome is not a pass, the site is among them. A pass about a part does not cover the whole site.
    """
    names = {name for subject in outcome.subjects for name in (subject.name, subject.node) if name}
    return frozenset(names | ({site} if outcome.status is not Status.PASSED else set()))


def most_specific(subjects: Sequence[Subject]) -> str:
    """Return the names of the most specific subjects for a message: the link alone, not cluster and adapter as well."""
    first = min(_SPECIFIC.index(subject.kind) for subject in subjects)
    names = [subject.name for subject in subjects if _SPECIFIC.index(subject.kind) == first]
    return first_of(names, _MOST_NAMES)


@dataclass(frozen=True, slots=True)
class Measure:
    """One observed value with its unit (`GB/s`, `W`, `count`, empty for text)."""

    name: str
    value: Scalar
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What was expected: `name relation value unit`, the source of the value, and the arithmetic behind it."""

    name: str
    relation: str
    value: Scalar
    basis: Basis
    unit: str = ""
    arithmetic: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Source of an observation.

    - `source`: command, API path or file.
    - `where`: host or cluster.
    - `excerpt`: short and redacted.
    - `path`: complete text in the run directory, if kept.
    """

    source: str
    where: str = ""
    excerpt: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One result of one check about its subjects.

    Invariants:

    - `passed`: rating good, no cause.
    - `failed`: rating bad, with a cause slug and a hint.
    - `other`: rating marginal or unknown, with a cause slug.
    - `skipped`, `pending`: the reason is in `summary`.
    - `blocked_by`: id of the check whose result explains why nothing could be judged. Then the status is other, the
      rating unknown, and the cause the one of blocked_cause.

    Raises:
        InputError: an invariant does not hold.
    """

    check: str
    gate: str
    status: Status
    rating: Rating
    subjects: tuple[Subject, ...]
    summary: str
    measured: tuple[Measure, ...] = ()
    expected: tuple[Expectation, ...] = ()
    cause: str = ""
    hint: str = ""
    blocked_by: str = ""
    evidence: tuple[Evidence, ...] = ()
    series: tuple[Series, ...] = ()
    started: str = ""
    duration_s: float = 0.0
    schema_version: int = field(default=SCHEMA_VERSION)

    def __post_init__(self) -> None:
        problem = _broken_invariant(self)
        if problem:
            raise InputError(f"outcome of check {self.check!r}", problem, "fix the check that made it")

    @property
    def about(self) -> str:
        """The most specific subjects, for a message."""
        return most_specific(self.subjects)


def blocked_cause(check: str) -> str:
    """Return the cause of an outcome that waits for the result of that check."""
    return f"blocked-by-{check}"


_RATINGS: dict[Status, tuple[Rating, ...]] = {
    Status.PASSED: (Rating.GOOD,),
    Status.FAILED: (Rating.BAD,),
    Status.OTHER: (Rating.MARGINAL, Rating.UNKNOWN),
    Status.SKIPPED: (Rating.UNKNOWN,),
    Status.PENDING: (Rating.UNKNOWN,),
}


def _broken_invariant(outcome: Outcome) -> str:
    if outcome.schema_version != SCHEMA_VERSION:
        return f"schema_version is {outcome.schema_version}, this release reads {SCHEMA_VERSION}."
    if not outcome.check or not outcome.gate or not outcome.subjects or not outcome.summary:
        return "check, gate, subjects and summary must not be empty."
    if outcome.rating not in _RATINGS[outcome.status]:
        return f"status {outcome.status.value} does not go with rating {outcome.rating.value}."
    return _broken_cause(outcome) or _broken_blocking(outcome)


def _broken_cause(outcome: Outcome) -> str:
    needs_cause = outcome.status in (Status.FAILED, Status.OTHER)
    if needs_cause and not _SLUG.fullmatch(outcome.cause):
        return f"cause {outcome.cause!r} is not a slug of lower-case words and hyphens."
    if outcome.status is Status.PASSED and outcome.cause:
        return f"a passed outcome has no cause, found {outcome.cause!r}."
    if outcome.status is Status.FAILED and not outcome.hint:
        return "a failed outcome needs a hint."
    return ""


def _broken_blocking(outcome: Outcome) -> str:
    if not outcome.blocked_by:
        return ""
    if outcome.rating is not Rating.UNKNOWN or outcome.status is not Status.OTHER:
        return f"it is blocked by check {outcome.blocked_by}, so it is other and unknown, not {outcome.status.value}."
    if outcome.cause != blocked_cause(outcome.blocked_by):
        return f"it is blocked by check {outcome.blocked_by}, and its cause is {outcome.cause!r}."
    return ""
