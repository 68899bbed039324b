# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How lists are told to people: the first of them and how many follow, and names in the order in which they count."""

from __future__ import annotations

import re
from collections.abc import Sequence

# So few at a time, because Python refuses to make a number of thousands of digits.
_DIGITS = re.compile(r"(\d{1,18})")


def first_of(texts: Sequence[str], most: int, joint: str = ", ") -> str:
    """Return the first `most` texts, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return joint.join(texts[:most]) + more


def shortened(text: str, most: int) -> str:
    """Return text of at most `most` letters, cut after a whole word and marked where something is left out."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    # A word that alone is longer than what is shown is cut all the same.
    whole = cut.rpartition(" ")[0]
    return f"{whole if len(whole) > most // 2 else cut}\u2026"


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a key that sorts gpu2 before gpu10."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(name) if part)


def count(number: int, thing: str) -> str:
    """Return `1 GPU`, `2 GPUs`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
