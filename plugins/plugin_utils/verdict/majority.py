# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What most have, by two rules, and whose digest is another one than that of most. Pure.

- `more_than_any_other`: what should be alike on equals (versions, modes, places). Whoever has another value is named,
  and where two values lead, the two halves are.
- `more_than_half`: what may differ between equals (numbers of drives, settings of a kernel), and who or what is which
  (a switch of the cabling plan, the right digest). Where no value has more than half, no member is named.

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
    """Return the value that was counted more often than each other one; None of nothing, or where several lead."""
    ranked = counts.most_common(2)
    several = len(ranked) == 2 and ranked[0][1] == ranked[1][1]
    return None if several or not ranked else ranked[0][0]


def more_than_half(counts: Counter[ValueT]) -> ValueT | None:
    """Return the value that more than half of all that was counted have; None if there is none."""
    value, times = counts.most_common(1)[0] if counts else (None, 0)
    return value if 2 * times > counts.total() else None


# Digests are comparable only within one cohort: the same SKU, driver and libraries. The minority of three and more is
# wrong; where no digest is that of more than half, none of them can be named, and what all have in common is to blame.


@dataclass(frozen=True, kw_only=True)
class Majority(Generic[MemberT, DigestT]):
    """What a cohort's digests say.

    `usual` is the most frequent digest, `agreeing` how many of `total` members gave it. `minority` are members that
    gave another one, where that names them. `split`: they differ, and nobody can be named.
    """

    usual: DigestT
    agreeing: int
    total: int
    minority: tuple[MemberT, ...] = ()
    split: bool = False


def majority(digests: Mapping[MemberT, DigestT], least: int = LEAST) -> Majority[MemberT, DigestT] | None:
    """Return what the digests of one cohort say, by member; None of an empty cohort.

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
