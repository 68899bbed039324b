# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The paths of secrets in plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..runtime.redaction import redact_data
from .paths import leaves, shown

if TYPE_CHECKING:
    from .yaml_text import Path


def secret_paths(data: Any) -> tuple[Path, ...]:
    """Return the paths of all secret values, which are those that redaction masks."""
    hidden = dict(leaves(redact_data(data), scalar_lists=True))
    return tuple(place for place, value in leaves(data, scalar_lists=True) if hidden.get(place) != value)


def secret_places(data: Any) -> tuple[str, ...]:
    """Return the paths of all secret values as texts."""
    return tuple(shown(place) for place in secret_paths(data))
