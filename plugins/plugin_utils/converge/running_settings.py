# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of sysctl that the kernel has not, although the file that says them is there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_NUMBER = re.compile(r"-?\d+")


def not_in_force(wanted: Mapping[str, str], kernel: Mapping[str, str]) -> Iterator[str]:
    """Yield each setting with what the kernel has: an agent sets it, its module came later, or it cannot be had.

    Numbers alone are compared: lists of ports or processors are shown in other words than they were set. `kernel` has
    names with dots alone, as `sysctl` shows them but for dots in names of interfaces.
    """
    for key, value in wanted.items():
        if "*" in key or not all(_NUMBER.fullmatch(word) for word in value.split()):
            continue
        there = kernel.get(key.replace("/", "."), "").split()
        if [_plain(word) for word in there] != [_plain(word) for word in value.split()]:
            yield f"{key} {' '.join(there) or 'not seen'} -> {' '.join(value.split())}"


def _plain(word: str) -> str:
    return str(int(word)) if _NUMBER.fullmatch(word) else word
