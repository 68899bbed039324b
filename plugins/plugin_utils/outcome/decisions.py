# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Decisions of people about outcomes: waivers, acceptances of marginal results, quarantined nodes.

They are data in the inventory and appear in every report. None of them ever turns into a pass in the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from .errors import InputError
from .model import Outcome, Rating, Status, Subject, SubjectKind


def parsed_day(text: str, owner: str) -> date:
    """Return the day of `until`.

    Raises:
        InputError: it is not a date.
    """
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(
            owner, f"until is {text!r}, expected a day as YYYY-MM-DD.", "write for example 2026-12-31"
        ) from None


def require_filled(owner: str, **fields: str) -> None:
    """Return if every field has a text.

    Raises:
        InputError: some are empty.
    """
    empty = [name for name, value in fields.items() if not value.strip()]
    if empty:
        raise InputError(owner, f"missing {', '.join(empty)}.", "give every field; an unsigned decision does not count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A named person decides that a check of a subject does not block its gate, up to and including a day.

    `subject` may be a glob.
    """

    check: str
    subject: str
    reason: str
    who: str
    until: str

    def __post_init__(self) -> None:
        owner = f"waiver for check {self.check!r}"
        require_filled(owner, check=self.check, subject=self.subject, reason=self.reason, who=self.who)
        parsed_day(self.until, owner)

    def active_on(self, day: date) -> bool:
        """Tell whether the waiver applies on that day."""
        return day <= parsed_day(self.until, f"waiver for check {self.check!r}")

    def covers(self, outcome: Outcome) -> bool:
        """Tell whether the waiver names this outcome's check and each of its subjects.

        A link and the adapter or port at its end are one cable: naming one of them names the others.
        """
        named = [
            subject
            for subject in outcome.subjects
            if fnmatchcase(subject.name, self.subject)
            or (subject.node != "" and fnmatchcase(subject.node, self.subject))
        ]
        return self.check == outcome.check and all(
            subject in named or any(_one_cable(subject, other) for other in named) for subject in outcome.subjects
        )


def _one_cable(one: Subject, other: Subject) -> bool:
    """Tell whether one is a link (`gpu01 mlx5_0:1 - leaf1:1`) and the other one of its ends (`gpu01/mlx5_0`,
    `leaf1:1`).
    """
    if SubjectKind.LINK not in (one.kind, other.kind):
        return False
    first, second = sorted((one.name.replace("/", " "), other.name.replace("/", " ")), key=len)
    ends = second.split(" - ")
    return len(ends) == 2 and any(end == first or end.startswith(f"{first}:") for end in ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance(Waiver):
    """A named person accepts a marginal outcome. It never covers a failed or unknown one."""

    def covers(self, outcome: Outcome) -> bool:
        """Tell whether the outcome is marginal and named here."""
        marginal = outcome.status is Status.OTHER and outcome.rating is Rating.MARGINAL
        # Not super(): a dataclass with slots is a new class, and zero-argument super() would name the old one.
        return marginal and Waiver.covers(self, outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A node set aside by a named person: it leaves the scope of the gates and is shown as not accepted."""

    node: str
    reason: str
    ticket: str
    who: str

    def __post_init__(self) -> None:
        require_filled(
            f"quarantine of {self.node!r}", node=self.node, reason=self.reason, ticket=self.ticket, who=self.who
        )
