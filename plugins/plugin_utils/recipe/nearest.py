# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The known name that may be meant by an unknown one."""

from __future__ import annotations

from collections.abc import Collection


def nearest(name: str, known: Collection[str]) -> str:
    """Return the known name that is most similar. Empty if none is similar."""
    from difflib import get_close_matches

    by_folded: dict[str, str] = {}
    for item in sorted(known):
        by_folded.setdefault(item.casefold(), item)
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else ""


def unknown_hint(name: str, known: Collection[str]) -> str:
    """Return the hint for an unknown name: the nearest known one, or else all of them."""
    near = nearest(name, known)
    if near:
        return f"Did you mean {near!r}?"
    return f"Known: {', '.join(sorted(known))}." if known else ""
