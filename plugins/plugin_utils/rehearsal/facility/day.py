# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The day that a room's record counts from. No room has its record issued anew every day, so neither has a rehearsal's:
what one run proved with it still stands in a run of the next day."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from ...runtime.files import write_atomic

# Until then nothing of a record that is valid for a year changes its meaning.
KEPT_DAYS = 30


def day_of_record(file: Path, today: date) -> date:
    """Return the day that the record of this room was drawn on, today if it is the first one or too old.

    Args:
        file: where the day is kept from run to run.
        today: the day of the run.

    Raises:
        OSError: the file cannot be written.
    """
    try:
        kept = date.fromisoformat(file.read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        kept = None
    if kept is not None and 0 <= (today - kept).days <= KEPT_DAYS:
        return kept
    write_atomic(file, f"{today.isoformat()}\n")
    return today
