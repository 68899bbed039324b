# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The majority value, by two rules, and whose digest differs from the majority. Pure.

- `more_than_any_other`: for what should be the same on peers (versions, modes, places). Members with another value are
  named; where two values lead equally, both halves are.
- `more_than_half`: for what may differ between peers (numbers of drives, kernel settings), and for identities (a switch
  of the cabling plan, the right digest). Where no value has more than half, no member is named.

Where any of several will do, such as the size of a test's nodes, no rule is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

LEAST = 3
ValueT = TypeVar("ValueT", bound=Hashable)
MemberT = TypeVar("MemberT", bound=Hashable)
DigestT = TypeVar("DigestT", bound=Hashable)


def more_than_any_other(counts: Counter[ValueT]) -> ValueT | None:
    """Return the most frequent value; None for an empty count, or where several lead equally."""
    ranked = counts.most_common(2)
    several = len(ranked) == 2 and ranked[0][1] == ranked[1][1]
    return None if several or not ranked else ranked[0][0]


def more_than_half(counts: Counter[ValueT]) -> ValueT | None:
    """Return the value that more than half of the count has; None if there is none."""
    value, times = counts.most_common(1)[0] if counts else (None, 0)
    return value if 2 * times > counts.total() else None


# Digests are comparable only within one cohort: the same SKU, driver and libraries. The minority of three and more is
# wrong. Where no digest has more than half, none can be named, and what all have in common is to blame.


@dataclass(frozen=True, kw_only=True)
class Majority(Generic[MemberT, DigestT]):
    """The digests of a cohort.

    `usual` is the most frequent digest, `agreeing` how many of `total` members have it. `minority` are members with
    another one, where that names them. `split`: they differ, and none can be named.
    """

    usual: DigestT
    agreeing: int
    total: int
    minority: tuple[MemberT, ...] = ()
    split: bool = False


def majority(digests: Mapping[MemberT, DigestT], least: int = LEAST) -> Majority[MemberT, DigestT] | None:
    """Return the majority of the digests of one cohort; None for an empty cohort.

    Args:
        digests: the digest of each member.
        least: the smallest cohort in which a minority is named.
    """
    if not digests:
        return None
    total = len(digests)
    counts = Counter(digests.values())
    usual, agreeing = counts.most_common(1)[0]
    others = tuple(member for member, digest in digests.items() if digest != usual)
    named = total >= least and more_than_half(counts) is not None
    return Majority(
        usual=usual,
        agreeing=agreeing,
        total=total,
        minority=others if named else (),
        split=bool(others) and not named,
    )
