# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Comparing what equals computed: whose digest is another one than that of most. Pure.

Digests are comparable only within one cohort: the same SKU, driver and libraries. The minority of three and more is
wrong; where no digest is that of more than half, nobody can be named, and what all have in common is to blame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

LEAST = 3
MemberT = TypeVar("MemberT", bound=Hashable)
DigestT = TypeVar("DigestT", bound=Hashable)


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
    usual, agreeing = Counter(digests.values()).most_common(1)[0]
    others = tuple(member for member, digest in digests.items() if digest != usual)
    named = total >= least and agreeing * 2 > total
    return Majority(
        usual=usual,
        agreeing=agreeing,
        total=total,
        minority=others if named else (),
        split=bool(others) and not named,
    )
