# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A roll of a run: its nodes, its journal, and the scheduler of the nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster, ask_all
from ...clients.kube.connection import connection_from
from ...outcome.errors import BringupError, InputError, UnavailableError
from ...outcome.wording import count, first_of
from ...run.run import Run
from ...runtime.clock import elapsed_text, moment_of, now_utc
from ...runtime.progress import Emit
from ...site.model import DriverOwner, Site
from ...verdict.restart import PLACE, WAVE_ABORT
from ...verdict.run import RunRecord, Work, WorkRow
from ..inventory.hosts import Inventory
from .engine import Roll
from .journal import Journal, only_one
from .kubernetes import NODE_RIGHTS, UPGRADE_RIGHTS, DrainLimits, KubernetesNodes
from .orchestrator import ManualOrchestrator, Orchestrator
from .other_programs import OTHERS_RIGHTS, Others
from .plan import NodeState, RollEvent, RollMember, RollPolicy, Stage, make_plan
from .slurm import SlurmLimits, SlurmNodes

# What a roll did, as the verdict of its run: every node with its wave, how it ended, and why. Pure.

VERB = "roll"
_HEAD = ("node", "wave", "end", "took", "reason")
_WORDS = {Stage.PENDING: "not begun"}
_MOST_NAMED = 3
_CHANGE = "gpufleet_wave_change"
# What a roll was planned with may not change while it goes on.
_FIXED = ("by", "size", "per_rack", "canaries", "canary_nodes")


def with_roll(record: RunRecord, journal: Journal, stopped: str = "") -> RunRecord:
    """Return the record with what its roll did so far; `stopped` says why it begins no further wave."""
    work = roll_work(journal, stopped, planned=record.check_mode)
    if work.next and WAVE_ABORT in record.command and _CHANGE not in record.command:
        # An abort needs neither the change nor the policy on its command line, and to go on needs both.
        reported = [f"{name}={value}" for name, value in _configured(journal.policy) if name not in record.command]
        again = " -e ".join([work.again or "", *reported, f"{_CHANGE}={PLACE}"]) if work.again else work.again
        work = replace(work, next=f"{work.next}, with the {_CHANGE} of the roll", again=again)
    return replace(record, work=work, updated=now_utc())


def roll_work(journal: Journal, stopped: str = "", *, planned: bool = False) -> Work:
    """Return what the roll did; with `planned` what it would do."""
    states, plan = journal.states, journal.plan
    stages = Counter(state.stage for state in states.values())
    good = bool(states) and stages[Stage.RETURNED] == len(states)
    took = _took(journal.events)
    why = {place.node: place.why for place in plan.places}
    rows = [
        _row(place.node, str(place.wave), states[place.node], took, why if planned else {}) for place in plan.places
    ]
    rows += [
        WorkRow(cells=(node, "-", "left out", "-", text), good=True) for node, text in sorted(plan.left_out.items())
    ]
    on_hold = [node for node, state in states.items() if state.stage in (Stage.HELD, Stage.SPARED)]
    return Work(
        verb=f"{VERB} {journal.roll}",
        head=_HEAD,
        rows=tuple(rows),
        sentence=f"{len(states)} nodes in {len(plan.waves)} waves" if planned else _sentence(states, stages, stopped),
        passed=good,
        failed=not good,
        again=None if good or planned else f"gpufleet_wave_again={','.join(on_hold)}" if on_hold else "",
        next="" if good or planned else _next(states),
        counts={stage.value: stages[stage] for stage in Stage if stages[stage]},
    )


def _row(node: str, wave: str, state: NodeState, took: dict[str, float], planned: dict[str, str]) -> WorkRow:
    word = "planned" if planned else _WORDS.get(state.stage, state.stage.value)
    time = elapsed_text(took[node]) if node in took else "-"
    reason = state.reason or planned.get(node, "") or "-"
    return WorkRow(cells=(node, wave, word, time, reason), good=state.stage is Stage.RETURNED or bool(planned))


def _sentence(states: dict[str, NodeState], stages: Counter[Stage], stopped: str) -> str:
    parts = [f"{stages[Stage.RETURNED]} of {len(states)} nodes returned"]
    for stage in (Stage.HELD, Stage.SPARED):
        # The stop reason may repeat the reason of the last node.
        found = [
            node if state.reason and state.reason in stopped else f"{node} ({state.reason})"
            for node, state in states.items()
            if state.stage is stage
        ]
        parts += [f"{stage.value}: {first_of(found, _MOST_NAMED)}"] if found else []
    under_way = [node for node, state in states.items() if not state.stage.ended and state.stage is not Stage.PENDING]
    parts += [f"under way: {first_of(under_way, _MOST_NAMED)}"] if under_way else []
    parts += [f"{stages[Stage.PENDING]} not begun"] if stages[Stage.PENDING] else []
    return "; ".join([*parts, *([f"stopped: {stopped}"] if stopped else [])])


def _next(states: Mapping[str, NodeState]) -> str:
    on_hold = [node for node, state in states.items() if state.stage is Stage.HELD]
    ended = all(state.stage.ended for state in states.values())
    first = (
        f"repair {first_of(on_hold, _MOST_NAMED)}, then begin these nodes again" if on_hold else "go on with the roll"
    )
    if ended:
        return first if on_hold else "begin the nodes that were left as they were again"
    return f"{first}; -e {WAVE_ABORT}=true ends it in a known state"


def _took(events: Iterable[RollEvent]) -> dict[str, float]:
    """Return by node the seconds from the first step of its last try to the last one."""
    first: dict[str, datetime] = {}
    found: dict[str, float] = {}
    for event in events:
        if event.stage is Stage.PENDING:
            # Begun again: what lies between is time in service or on hold.
            first.pop(event.node, None)
            continue
        try:
            at = moment_of(event.at)
        except ValueError:
            continue
        found[event.node] = (at - first.setdefault(event.node, at)).total_seconds()
    return found


# A label value of Kubernetes, with room for the prefix.
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,46}[a-z0-9])?")
_NOT_ASKED, _SHOWN = "not asked for", 4
# What a change can be beside a role or a file of tasks.
OPERATOR, NOTHING = "operator", "none"


@dataclass(frozen=True, slots=True)
class OpenRoll:
    """A roll under way, and the scheduler of its nodes."""

    roll: Roll
    nodes: Orchestrator


def roll_problems(options: Mapping[str, Any]) -> list[BringupError]:
    """Return what a new roll lacks: a name, or what it changes."""
    problems: list[BringupError] = []
    try:
        journal_path(options)
    except InputError as error:
        problems.append(error)
    if not options["change"]:
        text = "is not set, and no host declares gpufleet_converge, so nothing would change."
        problems.append(InputError("gpufleet_wave_change", text, "-e gpufleet_wave_change=NAME (a role, or none)"))
    return problems


def journal_path(options: Mapping[str, Any]) -> Path:
    """Return the path of the journal of the roll.

    Raises:
        InputError: the name of the roll is not valid.
    """
    name = str(options["roll"])
    if not _NAME.fullmatch(name):
        text = f"is {name!r}, expected small letters, digits, dots and dashes, at most 48."
        raise InputError("name of the roll", text, "-e gpufleet_wave_roll=NAME (driver-580, for example)")
    return Path(options["directory"]).expanduser().absolute() / f"{name}.jsonl"


def policy_of(options: Mapping[str, Any]) -> RollPolicy:
    """Return the policy from the options.

    Raises:
        InputError: a field has no meaning.
    """
    return RollPolicy(
        by=options["by"],
        size=str(options["size"]),
        per_rack=options["per_rack"],
        keep=str(options["keep"]),
        budget=str(options["budget"]),
        canaries=options["canaries"],
        canary_nodes=tuple(options["canary_nodes"]),
        soak_h=options["soak_h"],
    )


@contextmanager
def nodes_of_site(site: Site, options: Mapping[str, Any], emit: Emit) -> Iterator[Orchestrator]:
    """Yield the scheduler of the nodes of the site, from option `orchestrator`.

    Raises:
        UnavailableError: this user may not cordon and drain.
        BringupError: the scheduler does not respond.
    """
    stack = ExitStack()
    try:
        yield _nodes(site, options, emit, stack)
    finally:
        stack.close()


def _nodes(site: Site, options: Mapping[str, Any], emit: Emit, stack: ExitStack) -> Orchestrator:
    names = {host.name: host.node for host in site.hosts}
    timeout_s = options["drain_timeout_s"]
    if options["orchestrator"] == "none":
        return ManualOrchestrator()
    if options["orchestrator"] == "slurm":
        return SlurmNodes(options["roll"], names, SlurmLimits(scontrol=options["scontrol"], timeout_s=timeout_s), emit)
    limits = DrainLimits(
        timeout_s=timeout_s,
        grace_s=options["grace_s"] if options["grace_s"] >= 0 else None,
        unmanaged=options["delete_unmanaged"],
        empty_dirs=options["delete_empty_dirs"],
    )
    cluster = stack.enter_context(Cluster(connection_from(options)))
    own_upgrade = options.get("change") == OPERATOR
    rights = (*NODE_RIGHTS, *OTHERS_RIGHTS, *(UPGRADE_RIGHTS if own_upgrade else ()))
    denied = [requested.text for requested in ask_all(cluster, rights) if not requested.allowed]
    if denied:
        hint = "bind ClusterRole gpufleet-waves-install (docs/rbac.md)"
        raise UnavailableError("API server", f"this user may not {', '.join(denied)}.", hint)
    others = Others(cluster, options["others"], own_upgrade=own_upgrade)
    return KubernetesNodes(cluster, options["roll"], names, limits, emit, others)


def members_of(site: Site, inventory: Inventory, nodes: Orchestrator, requested: Sequence[str]) -> list[RollMember]:
    """Return all nodes of the site, each with the reason if it takes no part.

    Args:
        site: the checked inventory.
        inventory: what the contact to each host found.
        nodes: the scheduler of the nodes.
        requested: the hosts to change; empty for all.

    Raises:
        InputError: a requested host is not in the inventory.
    """
    known = {host.name for host in site.hosts}
    unknown = [name for name in requested if name not in known]
    if unknown:
        raise InputError("waves nodes", f"{', '.join(unknown)}: not in the inventory.", "name hosts of gpufleet_group")
    set_aside = {entry.node: f"quarantined: {entry.reason} ({entry.ticket})" for entry in site.quarantine}
    away = nodes.look([host.name for host in site.hosts])
    members = []
    for host in site.hosts:
        contact = {} if host.name in set_aside else inventory.contact(host.name) or {}
        not_reporting = "" if contact.get("reached") else f"does not answer: {contact.get('reason') or 'was not asked'}"
        out = set_aside.get(host.name) or away[host.name] or not_reporting
        not_asked = "" if not requested or host.name in requested else _NOT_ASKED
        members.append(
            RollMember(name=host.name, rack=host.rack, sku=host.sku, left_out=out or not_asked, serving=not out)
        )
    return members


def require_possible(run: Run, reboot: str, change: str = "") -> None:
    """Refuse the change of a driver that is not ours to change, and reboots of simulated hosts.

    Raises:
        InputError: the operator owns the driver and the change is not done by it, or the other way round; or the hosts
            are simulated by this machine, which would go down in their place.
    """
    site = run.site
    if change == OPERATOR and site.driver_owner is not DriverOwner.OPERATOR:
        text = "is operator, and gpufleet_driver_owner is host: the GPU operator upgrades no driver here."
        raise InputError("gpufleet_wave_change", text, "declare gpufleet_converge, or name the site's own role")
    if reboot != "never" and (site.rehearsal or run.record.rehearsal):
        text = f"is {reboot} in a rehearsal: its hosts are this machine, which would be rebooted."
        raise InputError("gpufleet_wave_reboot", text, "-e gpufleet_wave_reboot=never")
    if site.driver_owner is DriverOwner.OPERATOR and change not in (OPERATOR, NOTHING):
        raise InputError(
            "gpufleet_driver_owner",
            "is operator, and the change is not: a driver that the operator owns is upgraded by the operator.",
            "playbook revalidate with -e gpufleet_wave_change=operator, or =none to prove alone (docs/waves.md)",
        )


@contextmanager
def open_roll(run: Run, options: Mapping[str, Any], emit: Emit) -> Iterator[OpenRoll]:
    """Yield the roll at the end of its journal, under the lock of this controller.

    Raises:
        BringupError: there is none, or the scheduler does not respond.
    """
    path = journal_path(options)
    with only_one(path):
        journal = Journal(path, run.record.run_id)
        _require_known(journal, run.site)
        with nodes_of_site(run.site, options, emit) as nodes:
            yield OpenRoll(Roll(journal, nodes, policy_of(options), emit), nodes)


def begin_or_resume(
    run: Run, inventory: Inventory, options: Mapping[str, Any], emit: Emit, *, keep: bool
) -> tuple[Journal, bool]:
    """Return the journal of the roll and whether it is new; with `keep` False a new one is planned and not written.

    Raises:
        InputError: the roll ended well, or was begun with another order of waves, or for other nodes; or a new roll has
            no node to take.
    """
    path, policy = journal_path(options), policy_of(options)
    require_possible(run, options["reboot"], options["change"])
    if path.exists():
        journal = Journal(path, run.record.run_id)
        _require_known(journal, run.site)
        _require_same(journal, policy)
        _require_open(journal)
        return journal, False
    with nodes_of_site(run.site, options, emit) as nodes:
        if keep:
            requested = options["nodes"]
            nodes.await_others([host.name for host in run.site.hosts if not requested or host.name in requested])
        plan = make_plan(members_of(run.site, inventory, nodes, options["nodes"]), policy)
        if not plan.places:
            # A roll over no node would end well though nothing was changed.
            out = [f"{node}: {why}" for node, why in sorted(plan.left_out.items()) if why != _NOT_ASKED]
            text = f"none of them can be taken: {'; '.join(out[:_SHOWN]) or 'none was asked for'}."
            raise InputError("nodes of the roll", text, "bring them into service first, or name others")
        problem = nodes.upgrade_problem([p.node for p in plan.places]) if options["change"] == OPERATOR else ""
        if problem:
            hint = "kubectl label nodes -l nvidia.com/gpu.present=true nvidia.com/gpu-driver-upgrade.skip=true"
            raise InputError("gpufleet_wave_change", f"is operator, and {problem}.", hint)
    if not keep:
        path = run.path / "planned_roll.jsonl"
    return Journal.begin(path, options["roll"], plan, policy, run.record.run_id), True


def _require_known(journal: Journal, site: Site) -> None:
    known = {host.name for host in site.in_scope}
    gone = [place.node for place in journal.plan.places if place.node not in known]
    open_nodes = [node for node in gone if not journal.states[node].stage.ended]
    if open_nodes:
        text = f"has nodes that are not in the inventory any more, or quarantined: {', '.join(open_nodes)}."
        raise InputError(f"roll {journal.roll}", text, "put them back until the roll has ended, or abort it")


def _require_open(journal: Journal) -> None:
    """Refuse a roll that ended well: a schedule with a fixed name would stay green and change nothing."""
    states = journal.states.values()
    if not states or any(state.stage is not Stage.RETURNED for state in states):
        return
    ended, nodes = journal.events[-1].at, count(len(states), "node")
    text = f"ended at {ended} with {nodes} returned, and nothing was done."
    hint = f"for a new roll name a new one, for example -e gpufleet_wave_roll={journal.roll}-{now_utc()[:10]}"
    raise InputError(f"roll {journal.roll}", text, hint)


def _require_same(journal: Journal, policy: RollPolicy) -> None:
    for name in _FIXED:
        then, now = getattr(journal.policy, name), getattr(policy, name)
        if then != now:
            text = f"was planned with {name} {_shown(then)}, now it is {_shown(now)}."
            same = f"-e gpufleet_wave_{name}={_shown(then)}" if then else f"leave gpufleet_wave_{name} out"
            hint = f"{same}, or give the roll another name; budget and keep may change"
            raise InputError(f"roll {journal.roll}", text, hint)


def _configured(policy: RollPolicy) -> Iterator[tuple[str, str]]:
    """Yield the variables, and their values, of what was not left at its default and may not change in a roll."""
    for name in _FIXED:
        if (value := getattr(policy, name)) != getattr(RollPolicy(), name):
            yield f"gpufleet_wave_{name}", _shown(value)


def _shown(value: object) -> str:
    return (",".join(value) or "none") if isinstance(value, tuple) else str(value)


def stage_lines(states: Mapping[str, NodeState]) -> list[str]:
    """Return the number of nodes in each stage, and every node that did not come back, with its reason."""
    counts = {stage: sum(state.stage is stage for state in states.values()) for stage in Stage}
    lines = [", ".join(f"{count} {stage.value}" for stage, count in counts.items() if count) or "no nodes"]
    for node, state in states.items():
        if state.stage not in (Stage.RETURNED, Stage.PENDING) or (state.reason and state.stage is Stage.RETURNED):
            lines.append(f"{node}: {state.stage.value}{f': {state.reason}' if state.reason else ''}")
    return lines
