# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a check observed: Outcome and the small values that it is made of and the curves that a report draws."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from .errors import InputError
from .wording import first_of

# What a check saw as a curve: numbers that a report draws and that no verdict is made of afterwards.


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis: what it shows (`size`), its unit (`B`), and whether it is drawn logarithmically."""

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
    """A curve: `figure` names the plot that it belongs to, curves of the same figure are drawn together; `name` tells
    it from the others there (`all nodes`, `rank 3`, `p50 to p99`); points are (x, y) with x rising.

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


# What a check observed: Outcome and the small values that it is made of.

SCHEMA_VERSION = 1
Scalar = str | int | float | bool | None
# The cause of every check whose observation failed: the same reason stands at all of them.
NOT_OBSERVED = "observation-failed"

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Status(str, Enum):
    """CTRF's five words, no others."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    PENDING = "pending"
    OTHER = "other"


class Rating(str, Enum):
    """How good what was observed is; marginal is neither pass nor fail and needs acceptance."""

    GOOD = "good"
    MARGINAL = "marginal"
    BAD = "bad"
    UNKNOWN = "unknown"


class Basis(str, Enum):
    """Where an expectation comes from."""

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
    """What a check can be about."""

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
    """One thing that a check speaks about.

    `name` is unique within its kind: `gpu01`, `gpu01/gpu3`, `gpu01/mlx5_0`, `rack-a1`, `gpu-operator`.
    `node` names the node that it belongs to, if any: quarantine and waivers for a node reach its parts through it.
    """

    kind: SubjectKind
    name: str
    node: str = ""


def node_subject(name: str) -> Subject:
    """Return the subject for a node."""
    return Subject(SubjectKind.NODE, name, name)


def names_of(subjects: Iterable[Subject]) -> str:
    """Return the names of subjects for people, `gpu01, gpu01/gpu3`; values are compared by the subjects themselves."""
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
    """Return the names that the outcome is an answer about: its subjects, their nodes, and the site where a part of it
    is not good. What is good about a part is no answer about the site."""
    names = {name for subject in outcome.subjects for name in (subject.name, subject.node) if name}
    return frozenset(names | ({site} if outcome.status is not Status.PASSED else set()))


def most_specific(subjects: Sequence[Subject]) -> str:
    """Return the names of the most specific subjects, for people: the link, not the cluster and the adapter as well."""
    first = min(_SPECIFIC.index(subject.kind) for subject in subjects)
    names = [subject.name for subject in subjects if _SPECIFIC.index(subject.kind) == first]
    return first_of(names, _MOST_NAMES)


@dataclass(frozen=True, slots=True)
class Measure:
    """One observed value with its unit (`GB/s`, `W`, `count`, empty for words)."""

    name: str
    value: Scalar
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What was expected: `name relation value unit`, where that comes from, and the arithmetic behind the value."""

    name: str
    relation: str
    value: Scalar
    basis: Basis
    unit: str = ""
    arithmetic: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read: `source` (command, API path, file), `where` (host, cluster), a short redacted `excerpt`,
    and `path` of the whole text in the run directory if kept."""

    source: str
    where: str = ""
    excerpt: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One answer of one check about its subjects.

    Invariants: `passed` means rating good and no cause; `failed` means rating bad with a cause slug and a hint;
    `other` means marginal or unknown with a cause slug; `skipped` and `pending` give their reason in `summary`.
    `blocked_by` is the id of the check whose result explains why nothing could be judged: status other, rating
    unknown, and the cause that blocked_cause makes of it.

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
        """What it is about, for people."""
        return most_specific(self.subjects)


def blocked_cause(check: str) -> str:
    """Return the cause of an outcome that waits for what that check reports."""
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
