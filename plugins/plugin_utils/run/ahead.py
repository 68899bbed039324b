# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Times that a site states and that lie too far ahead: decisions without an end, and a start that hides all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from ..check.kit.settings_layers import SITE, Loaded
from ..outcome.errors import BringupError, InputError

# A decision is renewed by whoever still stands behind it.
LONGEST_DECISION = timedelta(days=366)


def problems_ahead(options: Mapping[str, Any], loaded: Loaded, now: datetime) -> tuple[BringupError, ...]:
    """Return what is wrong with the times of an inventory.

    Args:
        options: the options of `preflight_inventory`.
        loaded: every setting that applies.
        now: the time, with its zone.
    """
    return (*_decisions(options, now.date()), *_start_of_xids(loaded, now))


def _decisions(options: Mapping[str, Any], today: date) -> Iterator[BringupError]:
    last = today + LONGEST_DECISION
    for kind in ("waivers", "acceptances"):
        entries = options.get(kind)
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            day = _day(entry.get("until")) if isinstance(entry, Mapping) else None
            if day is not None and day > last:
                reason = f"is {day}, and a decision holds for {LONGEST_DECISION.days} days at most."
                hint = f"write {last} or earlier, and renew it then"
                yield InputError(f"gpufleet_{kind}[{number}].until", reason, hint)


def _day(stated: Any) -> date | None:
    """Return a day; what is none is told by those who read decisions."""
    try:
        return date.fromisoformat(str(stated))
    except ValueError:
        return None


def _start_of_xids(loaded: Loaded, now: datetime) -> Iterator[BringupError]:
    value = loaded.get("kernel-xid", {}).get("not_before")
    try:
        when = datetime.fromisoformat(str(value.value).replace("Z", "+00:00")) if value and value.value else None
    except ValueError:
        return
    if when is not None and when.tzinfo is not None and when > now:
        reason = f"is {when.isoformat()}, in the future: every XID until then would be hidden."
        yield InputError(f"{SITE}.kernel-xid.not_before", reason, "state the time of the reset by hand")
