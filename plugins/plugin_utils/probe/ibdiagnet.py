# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of what `ibdiagnet` (ibutils2) prints: the table of its stages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "ibdiagnet"
_TITLE = re.compile(r"^(?:-I-\s+)?Stage\s+Warnings\s+Errors\b.*$", re.M)
# A name as wide as its column leaves one space before the numbers.
_ROW = re.compile(r"(?:-I-\s+)?(\S.*?)\s+(\d+)\s+(\d+)(?:\s+(.*))?")
_END = re.compile(r"-I- You can find .*")
_ERROR = re.compile(r"-E-\s*(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One thing that the tool looked at."""

    name: str
    warnings: int
    errors: int
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The stages, and the lines that begin with `-E-`."""

    stages: tuple[Stage, ...]
    errors: tuple[str, ...] = ()


def parse(text: str) -> Diagnosis:
    """Return the diagnosis.

    Raises:
        InputError: there is no table of stages, so the tool did not get to its end; or a row of it is not understood.
    """
    clean = plain(text)
    title = _TITLE.search(clean)
    if title is None:
        raise unreadable(TOOL, clean.strip()[-80:], "a table `Stage  Warnings  Errors  Comment`")
    stages = []
    for line in clean[title.end() :].splitlines():
        match = _ROW.fullmatch(line.strip())
        if match is not None:
            stages.append(Stage(name=match[1], warnings=int(match[2]), errors=int(match[3]), comment=match[4] or ""))
        elif stages and (not line.strip() or _END.fullmatch(line.strip())):
            break
        elif any(letter.isalnum() for letter in line):
            # What stands in and below that row is not known.
            raise unreadable(TOOL, line.strip()[:80], "a row `name  warnings  errors  comment`")
    if not stages:
        raise unreadable(TOOL, clean[title.start() :][:80], "at least one stage")
    lines = (match[1] for line in clean.splitlines() if (match := _ERROR.fullmatch(line.strip())))
    return Diagnosis(stages=tuple(stages), errors=tuple(lines))
