# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Samples as Prometheus' text format has them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Family:
    help: str
    samples: dict[Labels, float] = field(default_factory=dict)


class Families:
    """Collects samples by the name of their family; a sample that was given twice counts once."""

    def __init__(self, prefix: str, common: Labels) -> None:
        """Begin with no family: all names begin with `prefix`, all samples have the labels `common`."""
        self._prefix, self._common = prefix, common
        self._families: dict[str, _Family] = {}

    def add(self, name: str, text: str, value: float, **labels: str) -> None:
        """Add one sample; `text` explains the family and counts where it is added first."""
        family = self._families.setdefault(f"{self._prefix}_{name}", _Family(text))
        family.samples[(*self._common, *labels.items())] = value

    def lines(self) -> Iterator[str]:
        """Return the lines of all families, in the order in which they were added."""
        for name, family in self._families.items():
            yield f"# HELP {name} {family.help}"
            yield f"# TYPE {name} gauge"
            for labels, value in family.samples.items():
                pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
                yield f"{name}{{{pairs}}} {_value(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _value(value: float) -> str:
    number = float(value)
    return str(int(number)) if math.isfinite(number) and number == int(number) else repr(number)
