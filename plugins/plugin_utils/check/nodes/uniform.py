# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Uniformity over the fleet: which hosts differ from the rest, or from what the site expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...outcome.model import Outcome, node_subject
from ..kit.settings import setting
from .node_context import NodeContext

_NAMES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSettings:
    """Settings of a check that compares a version over the fleet."""

    version: str = setting("The version that every host must have; empty: the one that most hosts have.")


@dataclass(frozen=True, slots=True)
class Uniformity:
    """The outcome of a comparison: `expected` is the value that every host should have, empty when it is a tie."""

    expected: str
    by_host: Mapping[str, str]
    stated: bool

    @property
    def tie(self) -> tuple[str, ...]:
        """The values that equally many hosts have, if no value has most hosts."""
        return tuple(sorted(set(self.by_host.values()))) if not self.expected else ()

    def text(self) -> str:
        """Return `580.105.08 on 15 hosts, 570.148.08 on 1 host`."""
        counts = Counter(self.by_host.values())
        parts = [f"{value} on {number} host{'s' if number != 1 else ''}" for value, number in counts.most_common()]
        return ", ".join(parts)


def split_outcome(
    first: NodeContext, by_host: Mapping[str, str], cause: str, word: str, hint: str, *, marginal: bool
) -> Outcome:
    """Return the one outcome about hosts of which no value has most: a fact about the fleet and not about any host.

    Args:
        first: the first of these hosts.
        by_host: the value of every one of them.
        cause: of the outcome.
        word: what the value is, such as `driver`.
        hint: of the outcome.
        marginal: whether it waits for a person instead of failing.
    """
    names: dict[str, list[str]] = {}
    for name, value in by_host.items():
        names.setdefault(value, []).append(name)
    lists = "; ".join(f"{value} on {len(found)}: {_some(found)}" for value, found in sorted(names.items()))
    answer = first.answer.marginal if marginal else first.answer.failed
    others = tuple(node_subject(name) for name in by_host if name != first.name)
    return answer(cause, f"no {word} has most hosts: {lists}", hint, more_subjects=others)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and {len(names) - _NAMES} more"


def shared_outcome(make: Callable[[NodeContext], Outcome]) -> Callable[[NodeContext], Outcome]:
    """Return what makes the outcome of the first host that it is asked for, and gives all others that very same one."""
    made: list[Outcome] = []

    def of(host: NodeContext) -> Outcome:
        if not made:
            made.append(make(host))
        return made[0]

    return of


def each_once(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """Return the outcomes without repetitions of the very same one, which several hosts share."""
    return tuple({id(outcome): outcome for outcome in outcomes}.values())


def uniformity(by_host: Mapping[str, str], stated: str = "") -> Uniformity:
    """Return which value is the right one: the stated one, else the one that most hosts have."""
    ranked = Counter(by_host.values()).most_common()
    tied = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
    expected = stated or ("" if tied or not ranked else ranked[0][0])
    return Uniformity(expected, dict(by_host), bool(stated))
