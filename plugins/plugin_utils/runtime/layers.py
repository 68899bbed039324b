# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Merges settings by check and option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def laid_over(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `lower` with those of `upper` on top, option by option.

    A value that is no mapping is replaced.
    """
    merged = dict(lower)
    for name, options in upper.items():
        below = merged.get(name)
        merged[name] = {**below, **options} if isinstance(below, Mapping) and isinstance(options, Mapping) else options
    return merged
