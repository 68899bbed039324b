# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the history remembers of gates: passes and results that are none, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..fingerprint.dependencies import Dependencies
from ..outcome.model import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One line of the ledger: this check passed for this subject then, and what that depended on.

    `gate_passed` tells whether the whole gate passed in that run, not this subject alone. `begun` is the place of the
    gate in the order of the history when it began to look.
    """

    gate: str
    check: str
    subject: str
    run_id: str
    passed: str
    dependencies: Dependencies
    gate_passed: bool
    begun: int = 0

    @property
    def fingerprint(self) -> str:
        """The digest over what this pass depends on."""
        return self.dependencies.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPass:
    """A result that is not a pass: which run, when, and the outcome as far as it is remembered.

    Without an outcome the whole gate was not passed and left no result: it did not converge, or it began and was never
    recorded. `order` is its place in the order of the history: when it was recorded, else when it began.
    """

    gate: str
    run_id: str
    seen: str
    text: str
    outcome: Outcome | None = None
    order: int = 0

    def is_after(self, passed: Pass) -> bool:
        """Tell whether that pass began to look before this was known. Clocks of controllers decide nothing."""
        return self.order > passed.begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """How much was recorded."""

    outcomes: int
    passes: int
