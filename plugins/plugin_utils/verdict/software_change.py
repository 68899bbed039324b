# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What new software did to accepted figures: the same subjects before and after a roll, told of the software. Pure.

Figures with another driver or library are not compared with a baseline, and nobody fails for them. What they lost is
told all the same, with how likely chance alone does as much, before a person accepts the new key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..outcome.wording import first_of
from .baseline import Different
from .before_after import BeforeAfter, ChangeLimits, Effect, before_after
from .figures import DRIVER, FigureRule, figure_rules

# Conditions that a roll changes, and what follows from them; with others it was another measurement.
SOFTWARE = frozenset({DRIVER, "nccl", "algorithm", "torch", "cublas", "server", "fio"})
_SHOWN = 5
_WORDS = {
    Effect.LOSS: "a regression of the software and no fault of a host",
    Effect.PART: "a part of the fleet lost: compare what these hosts share",
    Effect.GAIN: "better",
    Effect.UNCHANGED: "as good",
    Effect.UNKNOWN: "not known: too few, or chance may do as much",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareChange:
    """How one kind of figure changed with that software: `fields` are (name, then, now)."""

    figure: str
    rule: FigureRule
    fields: tuple[tuple[str, str, str], ...]
    found: BeforeAfter

    @property
    def line(self) -> str:
        """One line for people."""
        software = ", ".join(f"{name} {then or 'unknown'} -> {now or 'unknown'}" for name, then, now in self.fields)
        text = f"{self.figure} with {software}: {_WORDS[self.found.effect]}; {self.found.arithmetic}"
        own = first_of(self.found.suspects, _SHOWN)
        return f"{text}; more than the others lost {own}" if own else text


def software_changes(
    different: Iterable[Different], tolerance: Mapping[str, float]
) -> tuple[SoftwareChange, ...]:  # fmt: skip
    """Return what each change of software did to each kind of figure, in the order of the rules.

    Args:
        different: figures whose conditions are not those of the accepted ones.
        tolerance: the least relative change of the median that counts, by kind of figure.
    """
    groups: dict[tuple[str, tuple[tuple[str, str, str], ...]], list[Different]] = {}
    for entry in different:
        if not entry.unknown and {name for name, _then, _now in entry.fields} <= SOFTWARE:
            groups.setdefault((entry.now.figure, entry.fields), []).append(entry)
    rules = figure_rules()
    order = sorted(groups, key=lambda key: (list(rules).index(key[0]), key[1]))
    return tuple(
        SoftwareChange(
            figure=figure,
            rule=rules[figure],
            fields=fields,
            found=before_after(
                {entry.now.subject: entry.accepted.figure.value for entry in groups[figure, fields]},
                {entry.now.subject: entry.now.value for entry in groups[figure, fields]},
                more_is_better=rules[figure].better == "higher",
                comparisons=len(groups),
                limits=ChangeLimits(least_change=tolerance[figure]),
            ),
        )
        for figure, fields in order
    )
