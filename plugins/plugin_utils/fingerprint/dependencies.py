# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a result depends on: the facts behind it, their fingerprint, and what changed since. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..outcome.gates import GATES
from ..outcome.model import SubjectKind
from ..outcome.wording import first_of
from ..site.model import Site

Facts = Mapping[str, str]
"""Facts by name, as text. Several parts of one kind are separated by `, `."""

NCCL = "NCCL"
HOSTS = "hosts"
# Only the driver's own tools report these (collect/identity.py). Where the operator owns the driver they run in gate
# gpu_stack alone.
DRIVER_FACTS = ("driver", "GPU firmware", "GPUs")
SETTINGS = "settings"
THRESHOLDS = "thresholds"
_OF_RUN: dict[str, tuple[str, ...]] = {gate.id: gate.fingerprint for gate in GATES}
# By gate or check id: settings that change no judgement. Every other setting is part of the results.
NOT_JUDGING: dict[str, frozenset[str]] = {
    **{gate.id: frozenset(gate.not_judging) for gate in GATES if gate.not_judging},
    "gang-admission": frozenset({"timeout_s", "cleanup_s"}),
    "dra-allocation": frozenset({"timeout_s", "cleanup_s"}),
}
_WITHOUT_HOSTS = tuple(gate.id for gate in GATES if not gate.host_facts)
_SHOWN = 3
NOT_SEEN = "not seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteState:
    """Facts of a site in one run: by host for every host that was read, and of the site as a whole."""

    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What one result depends on: its own facts, and the facts of the hosts behind it. Without facts it is unknown."""

    own: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Digest of all facts."""
        return digest({"own": self.own, "hosts": {name: digest(facts) for name, facts in self.hosts.items()}})


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """One fact that changed: its host (empty for a fact of the whole site), its name, its text before and now."""

    host: str
    name: str
    before: str
    now: str


def digest(value: Any) -> str:
    """Return the SHA-256 of JSON data. Equal data has an equal digest."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def has_hosts(gate: str, kind: SubjectKind) -> bool:
    """Tell whether results of that gate about that kind of subject depend on hosts."""
    return gate not in _WITHOUT_HOSTS and kind is not SubjectKind.COMPONENT


def dependencies_of(
    gate: str, check: str, kind: SubjectKind, subject: str, hosts: Iterable[str], site: Site, state: SiteState
) -> Dependencies:
    """Return what the result of a check about a subject depends on.

    Args:
        gate: gate id.
        check: check id. Its settings in the inventory or in private thresholds are part of the facts.
        kind: kind of the subject.
        subject: its name.
        hosts: the hosts behind the result.
        site: the inventory.
        state: observed facts. A fact that was not observed is empty.
    """
    own = {name: state.whole.get(name, "") for name in _OF_RUN.get(gate, ())}
    if kind is SubjectKind.RACK:
        own[HOSTS] = ", ".join(sorted(f"{host.name} ({host.sku})" for host in site.hosts if host.rack == subject))
    elif has_hosts(gate, kind) and kind is not SubjectKind.NODE:
        own[HOSTS] = ", ".join(sorted(host.name for host in site.in_scope))
    private = json.loads(state.whole.get(THRESHOLDS) or "{}")
    configured = {name: {**private.get(name, {}), **site.settings.get(name, {})} for name in (gate, check)}
    settings = {name: _judging(name, options) for name, options in configured.items()}
    own[SETTINGS] = json.dumps(
        {name: configured for name, configured in settings.items() if configured}, sort_keys=True
    )
    names = sorted(set(hosts)) if has_hosts(gate, kind) else []
    return Dependencies(own=own, hosts={name: dict(state.hosts.get(name, {})) for name in names})


def _judging(key: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    left_out = NOT_JUDGING.get(key, frozenset())
    return {name: value for name, value in settings.items() if name not in left_out}


def changes(before: Dependencies, now: Dependencies, not_looked_at: Iterable[str] = ()) -> tuple[Change, ...]:
    """Return every fact that changed.

    A fact or host that was not observed, before or now, counts as changed, since nothing can be compared.

    Args:
        before: facts at the time of the result.
        now: current facts.
        not_looked_at: facts of hosts that cannot be read without running the tests; while unread they are no change.
    """
    found = list(_compared("", before.own, now.own, (NCCL,)))
    for host, facts in before.hosts.items():
        observed = now.hosts.get(host, {})
        if facts and observed:
            found.extend(_compared(host, facts, observed, tuple(not_looked_at)))
        else:
            found.append(Change(host, "host", "seen" if facts else NOT_SEEN, "seen" if observed else NOT_SEEN))
    return tuple(sorted(found))


def unseen(before: Dependencies, now: Dependencies, not_looked_at: Iterable[str] = ()) -> set[str]:
    """Return the names of facts behind a result that were not read again."""
    names = {name for host, facts in before.hosts.items() for name in facts if name not in now.hosts.get(host, {})}
    return names.intersection(not_looked_at) | ({NCCL} & before.own.keys())


def _compared(host: str, before: Facts, now: Facts, left_out: tuple[str, ...]) -> Iterable[Change]:
    for name in sorted({*before, *now}):
        was, is_now = before.get(name, ""), now.get(name, "")
        if (was != is_now or not was) and not (name in left_out and not is_now):
            yield Change(host, name, *_difference(was, is_now))


def _difference(before: str, now: str) -> tuple[str, str]:
    """Return the parts of two lists that differ, or both texts if the parts are the same."""
    then, there = before.split(", "), now.split(", ")
    gone = [part for part in then if part not in there]
    new = [part for part in there if part not in then]
    if not (gone or new):
        return before or NOT_SEEN, now or NOT_SEEN
    return _few(gone), _few(new)


def _few(parts: list[str]) -> str:
    shown = [part for part in parts if part]
    return first_of(shown, _SHOWN) or ("nothing" if not parts else NOT_SEEN)


def in_words(found: Iterable[Change]) -> list[str]:
    """Return changes as lines, each with all its hosts: `driver 580.1 -> 580.2 on 2 hosts (gpu01, gpu02)`."""
    where: dict[tuple[str, str, str], set[str]] = {}
    for change in found:
        where.setdefault((change.name, change.before, change.now), set()).add(change.host)
    return [f"{name} {before} -> {now}{_on(hosts)}" for (name, before, now), hosts in where.items()]


def _on(hosts: set[str]) -> str:
    names = sorted(hosts - {""})
    if not names:
        return ""
    if len(names) == 1:
        return f" on {names[0]}"
    return f" on {len(names)} hosts ({_few(names)})"
