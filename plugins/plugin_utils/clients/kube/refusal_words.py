# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What it means that an API server, or a controller in its name, refuses something: recipes/pod_refusals.yaml. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ...runtime.recipe_files import RECIPES
from ...runtime.strict import decode_file
from .recovery import awaits_account

Meaning = Literal["refused", "passing", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An event that says that a pod could not be made; see the file's head."""

    reason: str
    begins: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a message means that has this; see the file's head."""

    meaning: Literal["refused", "passing"]
    pattern: str
    source: str
    starting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """The whole file."""

    events: tuple[Said, ...]
    words: tuple[Word, ...]


@cache
def known() -> Refusals:
    """Return the words that are known.

    Raises:
        InputError: the file is not what it should be.
    """
    return decode_file(Refusals, RECIPES / "pod_refusals.yaml")


def meaning_of(message: str) -> Meaning:
    """Return what it means that a pod could not be made for this reason; nothing that may pass is a refusal."""
    if awaits_account(message):
        return "passing"
    found = {word.meaning for word in known().words if re.search(word.pattern, message)}
    return "passing" if "passing" in found else "refused" if found else "unknown"


def is_starting(message: str) -> bool:
    """Tell whether a refusal only says that the server has just started."""
    return any(word.starting and re.search(word.pattern, message) for word in known().words)
