# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What slow members have in common that the others do not: a rack, a leaf, a rail, a firmware, a driver. Pure.

It is computed before a member is blamed: eight slow hosts of one rack are one fault of that rack.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import comb

# The largest probability that chance alone puts the slow members into one group, where they are not the whole group.
_CHANCE = 0.001
# A group is slow if this fraction of it is: one of eight may be just over the limit.
_SLOW_PART = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A fact that the slow members have in common: its kind (`rack`, `driver`), its value, the members with it, those
    of them that are slow, how many others there are, and how many of those are slow as well."""

    kind: str
    value: str
    members: tuple[str, ...]
    slow: tuple[str, ...]
    others: int
    slow_others: int

    @property
    def whole(self) -> bool:
        """Whether the slow ones are exactly those with the fact."""
        return not self.slow_others and len(self.slow) == len(self.members)

    @property
    def text(self) -> str:
        """In words: `rack r2: 8 of 8 are slow, 0 of 24 elsewhere`."""
        here = f"{self.kind} {self.value}: {len(self.slow)} of {len(self.members)} are slow"
        return f"{here}, {self.slow_others} of {self.others} elsewhere"


def shared_by(slow: Collection[str], members: Mapping[str, Mapping[str, str]]) -> tuple[Shared, ...]:
    """Return what explains that these members are slow, best explanation first; empty where nothing does.

    A fact is an explanation when at least two members have it, not all of them do, most with it are slow, and either it
    separates the slow ones exactly from the others or chance alone hardly puts the slow ones there.

    Args:
        slow: names of the slow members.
        members: facts of every compared member, by kind; a fact that is empty or missing explains nothing.
    """
    marked = set(slow) & members.keys()
    found = [
        shared
        for kind in dict.fromkeys(kind for facts in members.values() for kind in facts)
        for shared in _of_kind(kind, marked, members)
    ]
    # The sort is stable: of two equally good ones the kind that comes first.
    return tuple(sorted(found, key=lambda shared: (shared.slow_others, len(shared.members) - len(shared.slow))))


def _of_kind(kind: str, marked: Collection[str], members: Mapping[str, Mapping[str, str]]) -> list[Shared]:
    groups: dict[str, list[str]] = {}
    for name, facts in members.items():
        if facts.get(kind):
            groups.setdefault(facts[kind], []).append(name)
    made = [_group(kind, value, names, marked, len(members)) for value, names in groups.items()]
    return [shared for shared in made if _explains(shared, len(members), len(groups))]


def _group(kind: str, value: str, names: list[str], marked: Collection[str], count: int) -> Shared:
    slow = tuple(name for name in names if name in marked)
    return Shared(
        kind=kind, value=value, members=tuple(names), slow=slow, others=count - len(names),
        slow_others=len(marked) - len(slow),
    )  # fmt: skip


def _explains(shared: Shared, count: int, groups: int) -> bool:
    size, slow = len(shared.members), len(shared.slow)
    if slow < 2 or size == count or slow < _SLOW_PART * size:
        return False
    return shared.whole or groups * _chance(slow, size, slow + shared.slow_others, count) <= _CHANCE


def _chance(found: int, size: int, slow: int, count: int) -> float:
    """Return how likely at least `found` of a group of `size` are slow, if `slow` of `count` are (hypergeometric)."""
    ways = (comb(size, n) * comb(count - size, slow - n) for n in range(found, min(size, slow) + 1))
    return sum(ways) / comb(count, slow)
