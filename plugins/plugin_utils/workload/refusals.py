# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What controllers say of pods that they could not make: a refusal that stands, or an outage that passes. Pure.

The words are data: recipes/pod_refusals.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ..clients.kube.recovery import awaits_account
from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode_file

Json = dict[str, Any]
Meaning = Literal["refused", "passing", "unknown"]
# The message of an event has at most 1024 characters (kubernetes/kubernetes, NoteLengthLimit of events.k8s.io).
_LONGEST = 2048
# To the second: older controllers write no more of a time.
_SECONDS = len("2026-01-01T00:00:00")


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


def unmade(events: Iterable[Json], jobs: Iterable[str]) -> dict[str, list[str]]:
    """Return by job what its controllers said of pods that they could not make, the newest at the end.

    Of what was said in the same second a refusal comes first: whoever tries again will say it again.
    """
    wanted, found = frozenset(jobs), dict[str, list[tuple[str, bool, str]]]()
    for event in events:
        about = str((event.get("involvedObject") or {}).get("name", ""))
        # mpi-operator has a Job of that name for the launcher.
        name = about if about in wanted else about.removesuffix("-launcher")
        if name in wanted and _says_it(event):
            message = str(event.get("message") or event["reason"])[:_LONGEST]
            found.setdefault(name, []).append((_when(event), meaning_of(message) != "refused", message))
    return {name: [message for _when, _passing, message in sorted(said)] for name, said in found.items()}


def _says_it(event: Json) -> bool:
    reason, message = event.get("reason"), str(event.get("message") or "")
    return event.get("type") == "Warning" and any(
        reason == said.reason and message.startswith(said.begins) for said in known().events
    )


def _when(event: Json) -> str:
    series = event.get("series") or {}
    moments = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return max(str(moment or "")[:_SECONDS] for moment in moments)
