# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Uniformity over the fleet: which hosts differ from the rest, or from what the site expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..kit.settings import setting


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


def uniformity(by_host: Mapping[str, str], stated: str = "") -> Uniformity:
    """Return which value is the right one: the stated one, else the one that most hosts have."""
    ranked = Counter(by_host.values()).most_common()
    tied = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
    expected = stated or ("" if tied or not ranked else ranked[0][0])
    return Uniformity(expected, dict(by_host), bool(stated))
