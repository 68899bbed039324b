# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the collection and its recipe data lie: the only place that knows, in a checkout or installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

COLLECTION_ROOT = Path(__file__).resolve().parents[3]
RECIPES = COLLECTION_ROOT / "recipes"


def recipe_roots(extra: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the collection's own recipe directory, then those of the site: what is read later wins."""
    return (RECIPES, *(Path(path).expanduser() for path in extra))


def recipe_directories(name: str, extra: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the directories of one name, such as `hardware`, below every recipe root that has one."""
    return tuple(path for root in recipe_roots(extra) if (path := root / name).is_dir())
