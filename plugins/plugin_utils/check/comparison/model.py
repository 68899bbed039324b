# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The types of a comparison: a check that is judged from the outcomes of the other checks of its gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...outcome.model import Outcome
from ..spec import CheckSpec, JudgeContext


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found.

    Attributes:
        outcomes: empty where there is a reason.
        reason: why this run does not compare: nothing was accepted or configured, or the accepted figures were measured
            with other software.
    """

    outcomes: tuple[Outcome, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison: its specification, and its pure judge of the outcomes of its gate."""

    spec: CheckSpec
    judge: Callable[[CheckSpec, tuple[Outcome, ...], JudgeContext], Compared]
