# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a run crashed or hung, from the lines that it left: recipes/nccl_failures.yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ...runtime.recipe_files import RECIPES
from ...runtime.strict import decode, read_yaml

_WARNING = re.compile(r"NCCL (?:WARN|ERROR|ABORT) (\S.*)")
_LONGEST = 300
# What adapters of verbs call themselves: `NET/IB : Using [0]mlx5_0:1/RoCE`.
_LAYER = re.compile(r"NET/IB : Using .*?:\d+/(IB|RoCE)\b")
# Words of a shell, a container runtime or a loader that end a log, and no lines of NCCL or of the launching script.
_OTHER_PROGRAMS = re.compile(
    r"^(?!gpufleet: ).*(?:[Ee]xec format error|Segmentation fault|Bus error|Illegal instruction|core dumped"
    r"|error while loading shared libraries|Out of memory|oom-kill)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One kind of failure; see the file's head."""

    cause: str
    pattern: str
    hint: str
    sources: tuple[str, ...]
    layer: Literal["", "IB", "RoCE"] = ""
    beside: str = ""


@cache
def failures() -> tuple[Failure, ...]:
    """Return all kinds that are known.

    Raises:
        InputError: the file is not what it should be.
    """
    path = RECIPES / "nccl_failures.yaml"
    return tuple(decode(Failure, entry, str(path)) for entry in read_yaml(path))


def known_failure(log: str) -> tuple[str, str]:
    """Return cause and deciding line of the first failure of the list that a log shows; empty where none does."""
    lines = [line.strip() for line in log.splitlines()]
    layers = set(_LAYER.findall(log))
    for failure in failures():
        if failure.layer and layers and failure.layer not in layers:
            continue
        if failure.beside and not re.search(failure.beside, log, re.M):
            continue
        found = next((line for line in lines if re.search(failure.pattern, line)), "")
        if found:
            return failure.cause, found[-_LONGEST:]
    return "", ""


def first_warning(log: str) -> str:
    """Return the first warning of NCCL; empty without one."""
    found = _WARNING.search(log)
    return found.group(1).strip()[:_LONGEST] if found else ""


def last_word(log: str) -> str:
    """Return the last line in which a program says how it ended that is not NCCL's; empty without one."""
    found = [line.strip() for line in log.splitlines() if "NCCL " not in line and _OTHER_PROGRAMS.match(line.strip())]
    return found[-1][:_LONGEST] if found else ""


def failure_hints() -> dict[str, str]:
    """Return what to do, by cause."""
    return {failure.cause: failure.hint for failure in failures()}
