# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads saved outcomes, also those of earlier releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .codec import from_plain
from .model import Outcome, blocked_cause

# Releases before the field `blocked_by` wrote the check only into the cause.
_OLD_CAUSE = blocked_cause("")


def outcome_from_plain(plain: Mapping[str, Any], source: str) -> Outcome:
    """Return an outcome read from JSON; `source` names the file for the error.

    Raises:
        InputError: unknown key, missing field, wrong type, or an invariant of Outcome does not hold.
    """
    cause = plain.get("cause")
    if "blocked_by" not in plain and isinstance(cause, str):
        plain = {**plain, "blocked_by": cause.removeprefix(_OLD_CAUSE) if cause.startswith(_OLD_CAUSE) else ""}
    return from_plain(Outcome, plain, source)
