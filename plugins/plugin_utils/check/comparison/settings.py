# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of comparisons: how much may be lost against a baseline, and what a contract demands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from ...outcome.errors import InputError
from ...runtime.strict import nearest_hint
from ...verdict.baseline import LossLimits
from ...verdict.figures import figure_rules
from ..kit.settings import setting
from ..kit.settings_layers import release_settings

# Of a figure of which more is better no more than all can be lost, and beyond twice the tolerance it is bad.
_MOST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSettings:
    """How figures are compared with accepted ones."""

    tolerance: dict[str, float] = setting(
        "Part of the accepted value by which a figure may be worse, by kind of figure; of times it may be more than "
        "all of it (1: twice as long), of the others less than half.",
        above=0,
        below=10,
    )
    bad: float = setting(
        "A figure that is worse by more than so many times the tolerance is bad, not marginal.", above=1
    )
    spreads: float = setting(
        "Where the changes of equal hosts differ among each other, one may lose this many standard deviations of them, "
        "but never more than what is bad.",
        minimum=0,
    )

    def __post_init__(self) -> None:
        _require_figures(self.tolerance, "tolerance")
        rules = figure_rules()
        for name, part in self.tolerance.items():
            if rules[name].better == "higher" and part >= _MOST:
                text = f"has {part:g} for {name}, expected less than {_MOST:g}: more is better of this figure."
                raise InputError("tolerance", text, "correct the value")

    @property
    def limits(self) -> LossLimits:
        """The limits of the rule; of figures that the release of a saved run did not have, those of this release."""
        return LossLimits(tolerance=_shipped_tolerance() | self.tolerance, bad=self.bad, spreads=self.spreads)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractSettings:
    """What a contract of acceptance demands."""

    reference: str = setting("Which contract, for the report: its name, number and clause.")
    bounds: dict[str, float] = setting(
        "By kind of figure what every subject must reach: at least where more is better, at most for times. "
        "{all-nodes-busbw: 380, mfu: 40, ttft: 500}; the kinds and their units: docs/history.md.",
        above=0,
    )
    at: dict[str, dict[str, str]] = setting(
        "By kind of figure the conditions that the contract states, as text: {all-nodes-busbw: {size: '8589934592'}}; "
        "measured under others, the bound is not known to be kept."
    )

    def __post_init__(self) -> None:
        _require_figures((*self.bounds, *self.at), "bounds")
        for name, conditions in self.at.items():
            known = figure_rules()[name].conditions
            wrong = next((word for word in conditions if word not in known), "")
            if wrong:
                raise InputError(f"at.{name}.{wrong}", "is no condition of that figure.", nearest_hint(wrong, known))


@cache
def _shipped_tolerance() -> dict[str, float]:
    """Return the tolerance of every kind of figure as this release ships it."""
    stated = (entry["tolerance"] for key, entry in release_settings().items() if key.endswith("-baseline"))
    return {name: float(part) for tolerance in stated for name, part in tolerance.items()}


def _require_figures(names: Iterable[str], where: str) -> None:
    """Refuse a kind of figure that there is none of: it would never be compared."""
    rules = figure_rules()
    for name in names:
        if name not in rules:
            raise InputError(f"{where}.{name}", "is no kind of figure.", nearest_hint(name, rules))
