# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Carrying out the steps about nodes: by hand of Kubernetes or Slurm, and in the history of cordons of ours.

A node is taken out first and recorded then: its mark in the cluster says whose it is, so a controller that dies in
between finds it in its next cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..outcome.errors import BringupError
from ..runtime.redaction import redact
from ..store.service_model import OurCordon
from .steps import Steps

# The mark of our cordons and taints, and the end of the reason of our drains.
OWNER = "continuous-validation"


class Hands(Protocol):
    """What keeps nodes from work and gives them back. Every method may be called again after a crash."""

    def ours(self, nodes: Sequence[str]) -> Collection[str]:
        """Return those that are kept from work by us now."""

    def cordon(self, node: str) -> str:
        """Let the node get no new work, with our mark; return why not, empty if it gets none by our hand."""

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """Write on a node that is ours why; `again`: only if nobody gave it back meanwhile."""

    def give_back(self, node: str) -> str:
        """Let the node get work again if it is kept from it by us; return what is left of others, for people."""


class Cordons(Protocol):
    """The history of cordons of ours (store.service)."""

    def add_cordon(self, site: str, cordon: OurCordon, *, rehearsal: bool) -> bool:
        """Write that we take a node out of service."""

    def lift_cordon(self, site: str, node: str, lifted: str, *, rehearsal: bool) -> bool:
        """Write when (UTC) a node was given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Of which site and cycle the steps are, and when (UTC)."""

    site: str
    rehearsal: bool
    cycle_id: str
    now: str


def carry_out(
    todo: Steps, reasons: Mapping[str, str], hands: Hands, cordons: Cordons, turn: Turn, *, check_mode: bool = False
) -> dict[str, str]:
    """Do it and return by node what was done, or in check mode what would be.

    What cannot be done to one node is said there and does not keep the others.
    """
    told = {node: f"nothing was done: {why}" for node, why in todo.left.items()}
    if check_mode:
        told |= dict.fromkeys(todo.take, "would be taken out of service")
        return told | dict.fromkeys(todo.give_back, "would be given back")
    for node in todo.record:
        cordons.add_cordon(turn.site, _cordon(node, reasons, turn), rehearsal=turn.rehearsal)
    for node in todo.forget:
        cordons.lift_cordon(turn.site, node, turn.now, rehearsal=turn.rehearsal)
    for node in todo.keep:
        told[node] = _told(node, hands, reasons) or "stays out of service"
    for node in todo.take:
        told[node] = _taken(node, hands, reasons, cordons, turn)
    for node in todo.give_back:
        told[node] = _given_back(node, hands, cordons, turn)
    return told


def _told(node: str, hands: Hands, reasons: Mapping[str, str]) -> str:
    try:
        hands.hold(node, redact(reasons.get(node, "")), again=True)
    except BringupError as error:
        return f"stays out of service; its reason could not be told: {redact(str(error))}"
    return ""


def _taken(node: str, hands: Hands, reasons: Mapping[str, str], cordons: Cordons, turn: Turn) -> str:
    try:
        problem = hands.cordon(node)
        if problem:
            return f"was not taken out of service: {problem}"
        hands.hold(node, redact(reasons.get(node, "")))
    except BringupError as error:
        return f"could not be taken out of service: {redact(str(error))}"
    cordons.add_cordon(turn.site, _cordon(node, reasons, turn), rehearsal=turn.rehearsal)
    return "was taken out of service"


def _given_back(node: str, hands: Hands, cordons: Cordons, turn: Turn) -> str:
    try:
        left = hands.give_back(node)
    except BringupError as error:
        return f"could not be given back: {redact(str(error))}"
    cordons.lift_cordon(turn.site, node, turn.now, rehearsal=turn.rehearsal)
    return f"was given back by us; {left}" if left else "was given back"


def _cordon(node: str, reasons: Mapping[str, str], turn: Turn) -> OurCordon:
    return OurCordon(
        node=node, by=f"{OWNER}/{turn.cycle_id}", reason=redact(reasons.get(node, ""))[:500], since=turn.now
    )
