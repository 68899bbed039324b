# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Versions as constraints compare them: up to three numbers, and extras that do not count."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..outcome.errors import InputError

# Azure Linux counts its rebuilds of a kernel in a fourth number, its virtualization hosts in a word (`uname -r` there
# says 6.6.57.1-7.azl3, 6.6.135.mshv2-1.azl3; CBL-Mariner before it 5.15.158.1-1.cm2). No other version has four.
_REBUILD = re.compile(r"(?<=\d)\.(?:\d+|mshv\d+)(?=-\S*\.(?:azl|cm)\d+\Z)")
_FIRST_THREE = re.compile(r"\d+\.\d+\.\d+")
_EXTRAS = re.compile(r"(?<=[0-9])[-+].*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Version:
    """One to three numbers; what follows the first `-` or `+` after a digit is left out."""

    numbers: tuple[int, ...]

    @property
    def padded(self) -> tuple[int, int, int]:
        """The three numbers, 0 for those not written."""
        major, minor, patch = (*self.numbers, 0, 0)[:3]
        return major, minor, patch

    def compare(self, other: Version) -> int:
        """Return -1, 0 or 1, compared at the smaller precision of the two (1.32 and 1.32.4 are equal)."""
        precision = min(len(self.numbers), len(other.numbers))
        mine, theirs = self.numbers[:precision], other.numbers[:precision]
        return (mine > theirs) - (mine < theirs)


def parse_version(text: str) -> Version:
    """Return the version that a text spells (`v1.33.5-eks-3025e55` is 1.33.5).

    Raises:
        InputError: empty, more than three numbers, or a part that is not a number.
    """
    core = _EXTRAS.sub("", text.strip().removeprefix("v"))
    parts = core.split(".")
    if not core or len(parts) > 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(
            f"version {text!r}",
            "is not a version; one to three numbers with dots are expected, such as 1.32.4.",
        )
    return Version(tuple(int(part) for part in parts))


def parse_measured(text: str) -> Version:
    """Return the version that a measured text is ordered by: parse_version, and of a kernel of Azure Linux the first
    three numbers.

    Raises:
        InputError: see parse_version.
    """
    first = _FIRST_THREE.match(text)
    if first and _REBUILD.match(text, first.end()):
        return parse_version(first.group())
    return parse_version(text)
