# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the nodes of a roll stand after its events, and what comes next: another wave, the end, or a stop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..check.kit.counting import count
from ..outcome.errors import InputError
from .model import FOLLOWS, Event, NodeState, Plan, Policy, Stage, nodes_of

States = Mapping[str, NodeState]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What comes next: `nodes` of `wave`, with `spared` those of it that are left as they are, and why.

    Or nothing more, because all have ended (`done`), or because of `stopped`.
    """

    wave: int = -1
    nodes: tuple[str, ...] = ()
    spared: dict[str, str] = field(default_factory=dict)
    done: bool = False
    stopped: str = ""


def replay(plan: Plan, events: Iterable[Event]) -> dict[str, NodeState]:
    """Return where every node of the plan stands after these events.

    Raises:
        InputError: an event of a node that is not in the plan, or a step that cannot follow the one before it.
    """
    states = {place.node: NodeState() for place in plan.places}
    for event in events:
        states[event.node] = after(states.get(event.node), event)
    return states


def after(state: NodeState | None, event: Event) -> NodeState:
    """Return the state of a node after an event.

    Raises:
        InputError: the node is not in the plan, or the step cannot follow.
    """
    if state is None:
        raise InputError(
            f"node {event.node}", "is not in the plan of this roll.", "start a roll of another name for it"
        )
    if event.stage not in FOLLOWS[state.stage]:
        raise InputError(
            f"node {event.node}",
            f"is {state.stage.value} and cannot become {event.stage.value}.",
            "the journal of the roll was changed by hand; start a roll of another name",
        )
    return NodeState(
        stage=event.stage, reason=event.reason, reboot=event.reboot, boot_id=event.boot_id, kernel=event.kernel,
        boots=event.boots,
    )  # fmt: skip


def next_wave(plan: Plan, states: States, policy: Policy) -> Decision:
    """Return what a roll does next, by what is known of all its nodes.

    The first wave with a node that has not ended goes on, if all canaries came back before it, no more nodes are held
    than the budget allows, and enough of the site stays in service; of a wave that is too large for that the last
    nodes are spared. A node that is under way is never given up by this: its wave ends, whatever the budget says.
    """
    for number, nodes in enumerate(plan.waves):
        left = tuple(node for node in nodes if not states[node].stage.ended)
        if not left:
            continue
        begun = tuple(node for node in left if states[node].stage.out)
        reason = _stop(plan, states, policy, canaries=number == 0)
        if reason:
            return Decision(wave=number, nodes=begun, stopped="" if begun else reason)
        room = max(0, _room(plan, states, policy) - len(begun))
        fresh = [node for node in left if node not in begun]
        if not begun and not room:
            return Decision(wave=number, stopped=_no_room(plan, states, policy))
        spared = {node: f"{_no_room(plan, states, policy)}; the wave is smaller by it" for node in fresh[room:]}
        return Decision(wave=number, nodes=tuple(n for n in left if n not in spared), spared=spared)
    return Decision(done=True)


def limits(plan: Plan, policy: Policy) -> str:
    """Return in nodes what holds a roll back: how many may end held, and how many stay in service."""
    budget, keep = nodes_of(policy.budget, len(plan.places), "budget"), _kept(plan, policy)
    return (
        f"budget: {budget} of {len(plan.places)} nodes may end held ({policy.budget}), one more stops the roll; "
        f"keep: {keep} of {plan.site_nodes} nodes stay in service ({policy.keep})"
    )


def _kept(plan: Plan, policy: Policy) -> int:
    return nodes_of(policy.keep, plan.site_nodes, "keep", up=True)


def _stop(plan: Plan, states: States, policy: Policy, *, canaries: bool) -> str:
    """Return why no further node may be begun; empty if it may."""
    held = [place.node for place in plan.places if states[place.node].stage is Stage.HELD]
    if not canaries:
        lost = [node for node in plan.waves[0] if states[node].stage is not Stage.RETURNED]
        if lost and plan.places[0].wave == 0:
            state = states[lost[0]]
            return f"canary {lost[0]} is {state.stage.value}: {state.reason or 'it did not come back'}"
    budget = nodes_of(policy.budget, len(plan.places), "budget")
    if len(held) > budget:
        last = states[held[-1]]
        many = f"{count(len(held), 'node')} {'is' if len(held) == 1 else 'are'} held"
        return f"{many}, the budget is {budget} ({policy.budget}); last {held[-1]}: {last.reason}"
    return ""


def _room(plan: Plan, states: States, policy: Policy) -> int:
    """Return how many nodes may be out of service beside those that are held."""
    held = sum(state.stage is Stage.HELD for state in states.values())
    return plan.serving - _kept(plan, policy) - held


def _no_room(plan: Plan, states: States, policy: Policy) -> str:
    held = sum(state.stage is Stage.HELD for state in states.values())
    keep = f"{_kept(plan, policy)} of {plan.site_nodes} nodes stay in service ({policy.keep})"
    return f"{keep}, {plan.serving} were, {held} {'is' if held == 1 else 'are'} held"
