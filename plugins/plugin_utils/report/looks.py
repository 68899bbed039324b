# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What was read behind a gate that is not passed: observed, not proven (run/looking_on.py writes it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..outcome.errors import InputError
from ..outcome.gates import GATE_IDS
from ..outcome.model import Outcome
from ..runtime.redaction import redact
from .ctrf import read_suite
from .suites import look_path
from .words import compressed

Looks = Mapping[str, tuple[Outcome, ...]]
_MOST_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One cause that was observed, on every subject that has it; `found` and `hint` are of the first."""

    gate: str
    check: str
    cause: str
    about: str
    found: str
    hint: str


def read_looks(run_dir: Path, unreadable: list[str]) -> dict[str, tuple[Outcome, ...]]:
    """Return by gate what was observed to be wrong; a file that cannot be read is named in `unreadable`."""
    found: dict[str, tuple[Outcome, ...]] = {}
    for gate in (gate for gate in GATE_IDS if look_path(run_dir, gate).is_file()):
        try:
            found[gate] = read_suite(look_path(run_dir, gate), gate)
        except InputError as error:
            unreadable.append(str(error))
    return found


def look_groups(looks: Looks) -> tuple[Look, ...]:
    """Return what was observed, equal causes of a check drawn together."""
    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for gate, outcomes in looks.items():
        for outcome in outcomes:
            groups.setdefault((gate, outcome.check, outcome.cause), []).append(outcome)
    return tuple(
        Look(
            gate=gate,
            check=check,
            cause=cause,
            about=compressed((outcome.about for outcome in outcomes), 8),
            found=redact(outcomes[0].summary),
            hint=redact(outcomes[0].hint),
        )
        for (gate, check, cause), outcomes in groups.items()
    )


def behind_lines(unseen: Sequence[str], looks: Looks) -> list[str]:
    """Return what is said of the gates that wait behind one that is not passed: nothing was looked at, or it was read
    without tests."""
    read = [gate for gate in unseen if gate in looks]
    rest = [gate for gate in unseen if gate not in looks]
    lines = [f"not looked at: {', '.join(rest)}"] if rest else []
    return [*([f"read, not tested: {', '.join(read)}"] if read else []), *lines]


def look_lines(looks: Looks) -> list[str]:
    """Return what was observed for a terminal, nothing where nothing was read."""
    if not looks:
        return []
    groups = look_groups(looks)
    lines = [f"observed, not proven: gates {', '.join(looks)} were read without tests"]
    for look in groups[:_MOST_LINES]:
        lines += [f"observed {look.check} on {look.about}: {look.cause}", f"         {look.found}"]
        lines += [f"         do: {look.hint}"] if look.hint else []
    lines += [f"         and {len(groups) - _MOST_LINES} more in the report"] if len(groups) > _MOST_LINES else []
    lines += [] if groups else ["         nothing is wrong there, as far as it can be read without a test"]
    return [*lines, ""]
