# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lists in messages: the first entries with the number of the rest, and names in natural order."""

from __future__ import annotations

import re
from collections.abc import Sequence

# At most 18 digits at a time, since Python refuses to convert thousands of digits to a number.
_DIGITS = re.compile(r"(\d{1,18})")


def first_of(texts: Sequence[str], most: int, joint: str = ", ") -> str:
    """Return the first `most` texts and the number of the rest: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return joint.join(texts[:most]) + more


def shortened(text: str, most: int) -> str:
    """Return text of at most `most` characters, cut after a whole word and with an ellipsis where it was cut."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    # A single word that is longer than the limit is cut inside.
    whole = cut.rpartition(" ")[0]
    return f"{whole if len(whole) > most // 2 else cut}\u2026"


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a key that sorts gpu2 before gpu10."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(name) if part)


def count(number: int, thing: str) -> str:
    """Return `1 GPU`, `2 GPUs`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
