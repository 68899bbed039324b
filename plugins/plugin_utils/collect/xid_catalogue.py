# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What each XID means, as data: recipes/xid.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from ..outcome.errors import InputError
from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode, read_yaml

_BY_TEXT, _FATAL = re.compile(r"\b(Fatal|Nonfatal|Non-fatal)\b"), "Fatal"


@dataclass(frozen=True, slots=True, kw_only=True)
class XidRule:
    """What an XID means: `fatal` (the GPU or node must be repaired), `marginal` (a person looks),
    `note` (reported only).

    `by_text`: the driver prints Fatal or Nonfatal in the line itself, and only a fatal one is. `software`: the driver
    is as likely to blame as the GPU. `in_service`: what it means on a node that was accepted and works, where that
    differs.
    """

    number: int
    name: str
    meaning: Literal["fatal", "marginal", "note"]
    action: str
    source: str
    by_text: bool = False
    software: bool = False
    in_service: Literal["fatal", "marginal", "note"] | None = None

    def meaning_of(self, texts: Iterable[str]) -> Literal["fatal", "marginal", "note"]:
        """Return what lines of this XID mean.

        Of those that print it a nonfatal one is a note: NVIDIA's catalogue ignores the nonfatal ones of 144 to 150, and
        an XID 154 names the action where one is due.
        """
        if not self.by_text:
            return self.meaning
        words = [found[1] if (found := _BY_TEXT.search(text)) else "" for text in texts]
        if _FATAL in words:
            return self.meaning
        return "note" if words and all(words) else "marginal"


@dataclass(frozen=True, slots=True, kw_only=True)
class XidCatalogue:
    """Every XID that is known; one that is not counts as marginal."""

    xids: tuple[XidRule, ...]

    def __post_init__(self) -> None:
        numbers = [rule.number for rule in self.xids]
        twice = sorted({number for number in numbers if numbers.count(number) > 1})
        if twice or not numbers:
            raise InputError("recipes/xid.yaml", f"XIDs given twice: {twice}." if twice else "lists no XID.")

    def rule(self, number: int) -> XidRule | None:
        return next((rule for rule in self.xids if rule.number == number), None)


@cache
def load_xids(recipes: Path = RECIPES) -> XidCatalogue:
    """Return the catalogue that this release ships.

    Raises:
        InputError: the file is missing or invalid.
    """
    path = recipes / "xid.yaml"
    return decode(XidCatalogue, read_yaml(path), str(path))
