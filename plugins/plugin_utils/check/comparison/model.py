# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a comparison is: a check that is judged from the results of the other checks of its gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...outcome.model import Outcome
from ..spec import CheckSpec, JudgeContext


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison answers. With a `reason` it is not asked in this run, and there are no outcomes: nothing was
    accepted or stated, or what was accepted was measured with other software."""

    outcomes: tuple[Outcome, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison as a whole: its specification, and its pure judge of the outcomes of its gate."""

    spec: CheckSpec
    judge: Callable[[CheckSpec, tuple[Outcome, ...], JudgeContext], Compared]
