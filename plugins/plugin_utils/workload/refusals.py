# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What controllers say of pods that they could not make: a refusal that stands, or an outage that passes. Pure.

The words are data: recipes/pod_refusals.yaml.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..clients.kube.refusal_words import known, meaning_of

Json = dict[str, Any]
# The message of an event has at most 1024 characters (kubernetes/kubernetes, NoteLengthLimit of events.k8s.io).
_LONGEST = 2048
# To the second: older controllers write no more of a time.
_SECONDS = len("2026-01-01T00:00:00")


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
