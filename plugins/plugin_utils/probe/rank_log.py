# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the log of a rank in the job networking test (recipes/workloads/networking/ranks.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..outcome.errors import InputError

SCHEMA_VERSION = 1
OK = "ok"
_MARK = '{"schema_version"'


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSeen:
    """Observation of a peer by a rank.

    - `named`: `ok`, or why the peer's name was not resolved.
    - `reached`: `ok`, or why the peer was not reached by that name; empty where it was not tried.
    - The same for each further network of both pods.
    """

    peer: int
    named: str
    reached: str
    networks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSeen:
    """One rank.

    - Address of each further network of its pod, empty for none.
    - Adapters that its container may use.
    - Its observations of the peers that it contacted.
    """

    index: int
    ranks: int
    networks: Mapping[str, str]
    devices: tuple[str, ...]
    pairs: tuple[PairSeen, ...]


def parse(text: str) -> dict[int, RankSeen]:
    """Return the observations of each rank that finished, from the concatenated logs of all pods.

    Raises:
        InputError: a line of ours is cut, of another release, or impossible.
    """
    events: dict[int, list[dict[str, Any]]] = {}
    try:
        for line in text.splitlines():
            if line.startswith(_MARK):
                event = json.loads(line)
                if event["schema_version"] != SCHEMA_VERSION:
                    raise _broken(f"has a line of schema_version {event['schema_version']}, expected {SCHEMA_VERSION}")
                events.setdefault(int(event["index"]), []).append(event)
        return {rank: _observed(rank, found) for rank, found in sorted(events.items()) if found[-1]["event"] == "end"}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _broken(f"is cut, or has a value that is none ({error})") from None


def _observed(index: int, events: list[dict[str, Any]]) -> RankSeen:
    begun, pairs = events[0], events[1:-1]
    kinds = [event["event"] for event in events]
    if kinds != ["rank", *["pair"] * len(pairs), "end"]:
        raise _broken(f"has the lines {', '.join(kinds[:4])}, expected rank, pairs and end")
    ranks = int(begun["ranks"])
    observed = tuple(
        PairSeen(peer=int(p["peer"]), named=str(p["named"]), reached=str(p["reached"]), networks=_texts(p["networks"]))
        for p in pairs
    )
    peers = [pair.peer for pair in observed]
    there = all(0 <= peer < ranks and peer != index for peer in peers)
    if not 0 <= index < ranks or len(set(peers)) != len(peers) or not there or not peers:
        raise _broken(f"is of rank {index} of {ranks}, and names the peers {', '.join(map(str, peers)) or 'none'}")
    devices = tuple(str(name) for name in begun["devices"])
    return RankSeen(index=index, ranks=ranks, networks=_texts(begun["networks"]), devices=devices, pairs=observed)


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(text) for key, text in value.items()}


def _broken(reason: str) -> InputError:
    return InputError("log of a rank", f"{reason}.", "run the gate again")
