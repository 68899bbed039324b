# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a roll is made of: its members, its policy, its plan, and where each node stands."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from ..outcome.errors import InputError


class Stage(str, Enum):
    """Where one node of a roll stands. The last three are ends.

    `changing` and `rebooting` say that it was begun and not yet seen to be done: what a resumed roll finds there may
    have happened or not. `spared`: nothing was changed and the node is back in service; `held`: it stays out of service
    with a reason.
    """

    PENDING = "pending"
    CORDONED = "cordoned"
    DRAINED = "drained"
    CHANGING = "changing"
    CHANGED = "changed"
    REBOOTING = "rebooting"
    REBOOTED = "rebooted"
    VERIFIED = "verified"
    RETURNED = "returned"
    SPARED = "spared"
    HELD = "held"

    @property
    def ended(self) -> bool:
        """Whether nothing more is done to the node."""
        return self in ENDS

    @property
    def out(self) -> bool:
        """Whether the roll keeps the node from work."""
        return self not in (Stage.PENDING, Stage.RETURNED, Stage.SPARED)


ENDS = frozenset({Stage.RETURNED, Stage.SPARED, Stage.HELD})
# What may follow what. A node that ended is begun again only because a person asks for it.
FOLLOWS: dict[Stage, frozenset[Stage]] = {
    Stage.PENDING: frozenset({Stage.CORDONED, Stage.SPARED}),
    Stage.CORDONED: frozenset({Stage.DRAINED, Stage.SPARED, Stage.HELD}),
    Stage.DRAINED: frozenset({Stage.CHANGING, Stage.SPARED, Stage.HELD}),
    Stage.CHANGING: frozenset({Stage.CHANGING, Stage.CHANGED, Stage.HELD}),
    Stage.CHANGED: frozenset({Stage.REBOOTING, Stage.VERIFIED, Stage.HELD}),
    Stage.REBOOTING: frozenset({Stage.REBOOTED, Stage.HELD}),
    Stage.REBOOTED: frozenset({Stage.VERIFIED, Stage.HELD}),
    Stage.VERIFIED: frozenset({Stage.RETURNED, Stage.HELD}),
    Stage.RETURNED: frozenset(),
    Stage.SPARED: frozenset({Stage.PENDING}),
    Stage.HELD: frozenset({Stage.PENDING}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node that the roll may be about; `left_out` says why it is not, `serving` whether it can take work now."""

    name: str
    rack: str = ""
    sku: str = ""
    left_out: str = ""
    serving: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a roll goes.

    `by`: `rack` makes a wave of a rack, `share` takes nodes of all racks in turn; `size`, `keep` and `budget` are a
    number of nodes or a share of them (`25%`). `size`: most nodes in a wave; `per_rack`: most nodes of a rack in a wave
    (0: no limit); `keep`: nodes of the site that stay in service; `budget`: how many of the roll may end held (one more
    stops it); `canaries`: how many nodes go first, `canary_nodes`: which; `soak_h`: how many hours the canaries, and
    the nodes of each of the two waves behind them, work before the next wave begins.
    """

    by: str = "share"
    size: str = "25%"
    per_rack: int = 0
    keep: str = "50%"
    budget: str = "5%"
    canaries: int = 1
    canary_nodes: tuple[str, ...] = ()
    soak_h: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what means nothing.

        Raises:
            InputError: the field, what it says, and what it may say.
        """
        if self.by not in ("rack", "share"):
            raise InputError("gpufleet_wave_by", f"is {self.by!r}, expected rack or share.", "gpufleet_wave_by: share")
        for name in ("size", "keep", "budget"):
            nodes_of(str(getattr(self, name)), 1, name)
        for name in ("per_rack", "canaries", "soak_h"):
            if getattr(self, name) < 0:
                raise InputError(
                    f"gpufleet_wave_{name}",
                    f"is {getattr(self, name)}, expected 0 or more.",
                    f"gpufleet_wave_{name}: 1",
                )


def nodes_of(amount: str, total: int, name: str, *, up: bool = False) -> int:
    """Return how many nodes `3` or `25%` of `total` are; of a share the lower number, with `up` the higher one.

    Raises:
        InputError: it is neither.
    """
    text = amount.strip()
    digits = text[:-1].strip() if text.endswith("%") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 8) or (text.endswith("%") and int(digits) > 100):
        raise InputError(
            f"gpufleet_wave_{name}", f"is {amount!r}, expected nodes or a share.", f"gpufleet_wave_{name}: 4, or 25%"
        )
    if not text.endswith("%"):
        return int(digits)
    return math.ceil(total * int(digits) / 100) if up else total * int(digits) // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of one node: `wave` counts from 0, the canaries; `why` explains it."""

    node: str
    wave: int
    rack: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which nodes a roll goes over, in which order. `left_out`: why a node of the site is in no wave; `site_nodes`: how
    many nodes the site has, `serving`: how many of them could take work when the plan was made."""

    places: tuple[Place, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    site_nodes: int = 0
    serving: int = 0

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """The nodes of each wave, the canaries first."""
        found: dict[int, list[str]] = {}
        for place in self.places:
            found.setdefault(place.wave, []).append(place.node)
        return tuple(tuple(found[number]) for number in sorted(found))

    def lines(self) -> list[str]:
        """Return the plan for people: a line for each node in its order, then who is left out and why."""
        found = [f"wave {place.wave}: {place.node}: {place.why}" for place in self.places]
        found += [f"left out: {node}: {why}" for node, why in sorted(self.left_out.items())]
        return [*found, *self.notes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One step of one node, as the journal keeps it.

    `reboot`: with `changed`, whether the change asks for one; `boot_id`: with `rebooting`, that of the system that goes
    down; `kernel`: with `rebooting`, the one that has to run afterwards, empty where any may; `boots`: boot ids that
    are explained, first what the orchestrator said when the change began; `at`: UTC; `run_id`: the run that did it.
    """

    node: str
    stage: Stage
    reason: str = ""
    reboot: bool = False
    boot_id: str = ""
    kernel: str = ""
    boots: tuple[str, ...] = ()
    at: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """Where a node stands, by its last event, and since when."""

    stage: Stage = Stage.PENDING
    at: str = ""
    reason: str = ""
    reboot: bool = False
    boot_id: str = ""
    kernel: str = ""
    boots: tuple[str, ...] = ()
