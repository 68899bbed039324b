# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What differs between two snapshots: each fact once, most important first, by the rules of recipes/drift.yaml."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import product
from typing import Any

from ...outcome.errors import InputError
from ...outcome.wording import count, first_of
from ...runtime.files import RECIPES
from ...runtime.strict import decode, read_yaml
from ...snapshot.model import WHOLE_HOST, Collected, Host, Node, Snapshot, has_gpus

# How a change between two snapshots is rated: what changes by itself, and how much it matters (recipes/drift.yaml).

_RULES = RECIPES / "drift.yaml"


class Importance(str, Enum):
    """How much a change matters, most important first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        """0 for the most important."""
        return list(Importance).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredPath:
    """A path that changes by itself; see the head of the file."""

    path: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedPath(IgnoredPath):
    """Paths that repeat, whole or in part, the value of path `of` of the same host."""

    of: str

    def repeats(self, fact: ComparedFact, other: ComparedFact) -> bool:
        """Return whether a fact repeats the other one, of path `of` and the same host."""
        if not re.fullmatch(self.path, fact.path):
            return False
        pairs = ((fact.before, other.before), (fact.after, other.after))
        return all(value == whole or value in re.split(r"[.-]", whole) for value, whole in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRule:
    """A site's rule for what changes by itself: regular expressions of the whole path and of its subject."""

    path: str
    subject: str = ".*"
    reason: str = ""

    def __post_init__(self) -> None:
        for text in (self.path, self.subject):
            try:
                re.compile(text)
            except re.error as error:
                hint = r"a path is written as drift prints it, with dots and brackets escaped: node\.labels\[team\]"
                raise InputError("ignore", f"{text!r} is no regular expression: {error}.", hint) from None

    def fits(self, path: str, subject: str) -> bool:
        """Return whether the rule covers that fact."""
        return bool(re.fullmatch(self.path, path) and re.fullmatch(self.subject, subject))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportancePath:
    """How important changes of some paths are."""

    path: str
    level: Importance


@dataclass(frozen=True, slots=True, kw_only=True)
class PassingNode:
    """A label of nodes that come and go by themselves; without a value any counts."""

    label: str
    source: str
    value: str = ""

    def fits(self, node: Node) -> bool:
        """Return whether a node has that label."""
        return self.label in node.labels and self.value in ("", node.labels[self.label])


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRules:
    """The content of the file."""

    ignored: tuple[IgnoredPath, ...]
    repeated: tuple[RepeatedPath, ...]
    importance: tuple[ImportancePath, ...]
    passing_nodes: tuple[PassingNode, ...]
    not_kept: tuple[str, ...]


@cache
def drift_rules() -> DriftRules:
    """Return the rules.

    Raises:
        InputError: the file does not have the expected form.
    """
    return decode(DriftRules, read_yaml(_RULES), str(_RULES))


@cache
def ignored(path: str) -> IgnoredPath | None:
    """Return the rule by which a path changes by itself, if any."""
    return next((rule for rule in drift_rules().ignored if re.fullmatch(rule.path, path)), None)


@cache
def importance_of(path: str) -> Importance:
    """Return how much a change of a path matters."""
    rules = drift_rules().importance
    return next((rule.level for rule in rules if re.fullmatch(rule.path, path)), Importance.MEDIUM)


def passes_by(there: Any) -> bool:
    """Return whether this is a node that comes and goes: created and removed by an autoscaler, and without GPUs."""
    if not isinstance(there, Node) or has_gpus(there):
        return False
    return any(rule.fits(there) for rule in drift_rules().passing_nodes)


# What differs between two snapshots: each fact once, most important first. What changes by itself is left out, and
# counted.

_THERE, _GONE = "there", "not there"
_NO_HOST = Host()
# Every way of reading a host observes these.
_OF_HOST = re.compile(r"host\.(gpus|adapters|modules)\[[^]]*\]")
# Every program that lists nodes records these.
_OF_NODES = re.compile(r"node\.(labels|taints)\[.*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChange:
    """One fact that differs, with all its subjects; a missing value is empty."""

    importance: Importance
    path: str
    before: str
    after: str
    subjects: tuple[str, ...]

    @property
    def text(self) -> str:
        """The change as one line."""
        where = f" ({first_of(self.subjects, 8)})" if any(self.subjects) else ""
        return f"{self.importance.value}: {self.path}: {self.before or 'nothing'} -> {self.after or 'nothing'}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """All changes; `ignored` and `not_compared` are lines of text.

    `incomplete`: a side could not read something, so that there may be more. `one_sided`: the collectors that only one
    side ran.
    """

    changes: tuple[SnapshotChange, ...] = ()
    ignored: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    not_kept: tuple[str, ...] = field(default_factory=lambda: drift_rules().not_kept)
    incomplete: bool = False
    one_sided: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return all lines of text: changes first, then what was not compared, and why."""
        number = len(self.changes)
        none = "nothing differs in what could be compared" if self.incomplete else "nothing differs"
        lines = [change.text for change in self.changes] or [none]
        lines.append(count(number, "change") + (", and not everything could be compared" if self.incomplete else ""))
        lines += [f"not compared: {line}" for line in self.not_compared]
        lines += [f"ignored: {line}" for line in self.ignored]
        return [*lines, f"never part of a snapshot: {'; '.join(self.not_kept)}"]

    def reaches(self, level: Importance) -> bool:
        """Return whether a change is that important, or may be: an incomplete drift counts as one."""
        return self.incomplete or any(change.importance.rank <= level.rank for change in self.changes)


@dataclass(frozen=True, slots=True)
class ComparedFact:
    """One difference of one subject, before it is rated and merged with others."""

    path: str
    subject: str
    before: str
    after: str


def drift_between(before: Snapshot, after: Snapshot, own: tuple[SiteRule, ...] = ()) -> Drift:
    """Return what differs from one snapshot to the other, without what the site's own rules leave out."""
    missing, incomplete = _not_compared(before, after)
    unsaid = Counter[str]()
    facts = []
    for fact in _facts(before, after):
        if not (fact.before and fact.after) and _recorded_otherwise(fact, before, after):
            unsaid[fact.path.partition("[")[0]] += 1
        else:
            facts.append(fact)
    reported = "one of the two snapshots does not record"
    missing += [f"{path}: {reported} {count(n, 'value')}" for path, n in sorted(unsaid.items())]
    drift = drift_of(facts, not_compared=missing, incomplete=incomplete, own=own)
    return replace(drift, one_sided=tuple(name for name in sorted(_PARTS) if _asked_of_one(name, before, after)))


def _recorded_otherwise(fact: ComparedFact, before: Snapshot, after: Snapshot) -> bool:
    """Return whether the sides differ in what they record, by the program or by the way a host was read.

    Within one way of reading, an empty value is a value like any other.
    """
    left, right = before.hosts.get(fact.subject), after.hosts.get(fact.subject)
    if before.made_by.split()[:1] != after.made_by.split()[:1]:
        if fact.path.startswith("host.modules["):
            return not (left and right and left.modules and right.modules)
        return not (_OF_NODES.fullmatch(fact.path) and before.whole("nodes") and after.whole("nodes"))
    if not fact.path.startswith("host.") or left is None or right is None or left.read_by == right.read_by:
        return False
    return not _OF_HOST.fullmatch(fact.path)


def drift_of(
    facts: Iterable[ComparedFact],
    *,
    not_compared: Iterable[str] = (),
    incomplete: bool = False,
    own: tuple[SiteRule, ...] = (),
) -> Drift:
    """Return facts that differ: rated, merged and in order. Those that change by themselves are counted."""
    left_out = Counter[str]()
    joined: dict[tuple[str, str, str], list[str]] = {}
    facts = tuple(facts)
    repeated = _repeated(facts, own)
    for fact in facts:
        if fact in repeated:
            left_out[repeated[fact]] += 1
            continue
        rule, theirs = ignored(fact.path), next((rule for rule in own if rule.fits(fact.path, fact.subject)), None)
        if rule is not None:
            left_out[rule.reason] += 1
        elif theirs is not None:
            left_out[f"by a rule of the site, {theirs.reason or f'{theirs.path} of {theirs.subject}'}"] += 1
        else:
            joined.setdefault((fact.path, fact.before, fact.after), []).append(fact.subject)
    changes = [
        SnapshotChange(
            importance=importance_of(path), path=path, before=left, after=right, subjects=tuple(sorted(subjects))
        )
        for (path, left, right), subjects in joined.items()
    ]
    changes.sort(
        key=lambda c: (
            c.importance.rank,
            c.path != "cluster.uid",
            -len(c.subjects),
            c.path,
            c.subjects,
            c.before,
            c.after,
        )
    )
    reported = tuple(f"{reason}: {count(n, 'value')}" for reason, n in sorted(left_out.items()))
    return Drift(changes=tuple(changes), ignored=reported, not_compared=tuple(not_compared), incomplete=incomplete)


def _repeated(facts: tuple[ComparedFact, ...], own: tuple[SiteRule, ...]) -> dict[ComparedFact, str]:
    """Return the facts that only repeat another reported one, with the reason."""
    rules = drift_rules().repeated
    paths = {rule.of for rule in rules}
    reported = {
        (fact.path, fact.subject): fact
        for fact in facts
        if fact.path in paths and not any(rule.fits(fact.path, fact.subject) for rule in own)
    }
    found = {}
    for fact, rule in product(facts, rules):
        other = reported.get((rule.of, fact.subject))
        if other is not None and rule.repeats(fact, other):
            found[fact] = rule.reason
    return found


# By the fact that a host did not return, the fields that are then unknown.
_OF_FACT = {
    "smi": ("driver", "cuda", "gpus"), "nvidia_proc": ("driver", "gpus"), "modules": ("modules",),
    "kernel_release": ("kernel",), "os": ("os",), "ofed": ("ofed",), "hcas": ("adapters",),
    "infiniband_class": ("adapters",), "sysctl": ("sysctl",), "boot": ("boot",), "units": ("units",),
    "fabric_manager": ("units",), "cgroup_units": ("units",),
    WHOLE_HOST: tuple(name for name in Host.__dataclass_fields__ if name not in ("unread", "read_by")),
}  # fmt: skip
# By collector: the kind in paths and subjects, and the field of the snapshot.
_PARTS = {
    "nodes": (("node", "nodes"),),
    "devices": (("shared", "shared_devices"),),
    "workloads": (("workload", "workloads"), ("image", "images")),
    "policies": (("policy", "policies"),),
    "classes": (("class", "classes"),),
    "releases": (("release", "releases"),),
    "hosts": (("host", "hosts"),),
}


def _not_compared(before: Snapshot, after: Snapshot) -> tuple[list[str], bool]:
    lines, incomplete = [], False
    for word, snapshot in (("first", before), ("second", after)):
        for name, found in sorted(snapshot.collectors.items()):
            other = (after if snapshot is before else before).collectors[name].state
            if found.state is Collected.WHOLE or (found.state is other is Collected.NOT_ASKED):
                continue
            incomplete |= found.state is Collected.FAILED
            fix = f" Fix: {found.hint}" if found.hint else ""
            lines.append(f"{name}: {found.state.value} in the {word} snapshot: {found.reason}.{fix}")
        lines += [f"{part}: this release does not read it in the {word} snapshot" for part in snapshot.unread]
    for part in sorted(before.provider.keys() ^ after.provider.keys()):
        word = "first" if part in before.provider else "second"
        lines.append(f"{part}: only the {word} snapshot has it (-e gpufleet_snapshot_provider={part}=FILE)")
    lost, reported = _unread_of_hosts(before, after)
    return lines + reported, incomplete or lost


def _asked_of_one(collector: str, before: Snapshot, after: Snapshot) -> bool:
    """Return whether only one side ran a collector."""
    states = {snapshot.collectors[collector].state for snapshot in (before, after)}
    return Collected.NOT_ASKED in states and len(states) > 1


def _unread_of_hosts(before: Snapshot, after: Snapshot) -> tuple[bool, list[str]]:
    """Return whether one side has what the other failed to read on a host, and the lines that report it."""
    hosts = sorted(before.hosts.keys() & after.hosts.keys())
    sides = [{(fact, name) for name in hosts for fact in side.hosts[name].unread} for side in (before, after)]
    lines, lost = [], False
    for fact in sorted({fact for fact, _name in sides[0] | sides[1]}):
        names = [{name for known, name in side if known == fact} for side in sides]
        if fact == WHOLE_HOST:
            lost |= names[0] != names[1]
            lines += _not_read(before, after)
            continue
        one = any(before.hosts[name].read_by == after.hosts[name].read_by for name in names[0] ^ names[1])
        lost |= one
        both = names[0] & names[1]
        for some, where in (
            (names[0] - both, "the first snapshot"), (names[1] - both, "the second snapshot"), (both, "both snapshots"),
        ):  # fmt: skip
            if some:
                lines.append(
                    f"{fact} of {count(len(some), 'host')} ({first_of(sorted(some), 8)}): not given in {where}"
                )
    return lost, lines


def _not_read(before: Snapshot, after: Snapshot) -> list[str]:
    """Return a line for each side with hosts that could not be read but that the other side knows; one line where they
    are the same."""
    both = sorted(before.hosts.keys() & after.hosts.keys())
    lost = [[f"{name} ({why})" for name in both if (why := side.hosts[name].not_read)] for side in (before, after)]
    sides = {"both snapshots": lost[0]} if lost[0] == lost[1] else {
        "the first snapshot": lost[0], "the second snapshot": lost[1],
    }  # fmt: skip
    return [
        f"{count(len(some), 'host')} not read in {side}: {first_of(some, 8, '; ')}"
        for side, some in sides.items()
        if some
    ]


def _facts(before: Snapshot, after: Snapshot) -> Iterator[ComparedFact]:
    if before.cluster_uid != after.cluster_uid:
        yield ComparedFact("cluster.uid", "", before.cluster_uid, after.cluster_uid)
    rehearsed = before.of_rehearsal, after.of_rehearsal
    if None not in rehearsed and rehearsed[0] != rehearsed[1]:
        yield ComparedFact("cluster.rehearsal", "", _text(rehearsed[0]), _text(rehearsed[1]))
    if before.whole("server") and after.whole("server"):
        for path, left, right in _differences(before.server, after.server, ""):
            yield ComparedFact(f"server{path}", "", left, right)
    yield from _of_part("provider", before.provider, after.provider, False)
    if not (before.whole("devices") and after.whole("devices")):
        # Devices that one side could not list are not gone.
        before, after = _without_devices(before), _without_devices(after)
    for collector, parts in _PARTS.items():
        states = {snapshot.collectors[collector].state for snapshot in (before, after)}
        if _asked_of_one(collector, before, after):
            continue
        for kind, name in parts:
            # A changed reference is reported with the workload; an image by itself has only its digests.
            both = Collected.FAILED not in states and not (kind == "image" and (before.workloads or after.workloads))
            yield from _of_part(kind, getattr(before, name), getattr(after, name), both)


def _without_devices(snapshot: Snapshot) -> Snapshot:
    nodes = {name: replace(node, devices={}) for name, node in snapshot.nodes.items()}
    return replace(snapshot, nodes=nodes, shared_devices={})


def _of_part(kind: str, before: Mapping[str, Any], after: Mapping[str, Any], both: bool) -> Iterator[ComparedFact]:
    for name in sorted({*before, *after}):
        left, right = before.get(name), after.get(name)
        if left == right:
            continue
        if left is None or right is None:
            # A collector that failed may just not have reached it.
            if both:
                path = "node.by_autoscaler" if passes_by(left or right) else kind
                yield ComparedFact(path, name, _GONE if left is None else _THERE, _GONE if right is None else _THERE)
            continue
        if isinstance(left, Host) and isinstance(right, Host):
            left, right = _comparable(left, right), _comparable(right, left)
        for path, old, new in _differences(left, right, ""):
            yield ComparedFact(f"{kind}{path}", name, old, new)


def _comparable(host: Host, other: Host) -> Host:
    """Return a host without the fields that either side did not return: these are not gone."""
    unknown = {name for fact in (*host.unread, *other.unread) for name in _OF_FACT.get(fact, ())}
    changes: dict[str, Any] = {name: getattr(_NO_HOST, name) for name in unknown}
    return replace(host, unread={}, read_by="", **changes)


def _differences(before: Any, after: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield path and both values of every difference: fields as `.name`, keys of mappings as `[key]`."""
    if before == after:
        return
    if is_dataclass(before) and type(before) is type(after):
        for entry in fields(before):
            split = _SPLIT.get(entry.name, _as_it_is)
            left, right = split(getattr(before, entry.name)), split(getattr(after, entry.name))
            yield from _differences(left, right, f"{path}.{entry.name}")
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            if key in before and key in after:
                yield from _differences(before[key], after[key], f"{path}[{key}]")
            else:
                yield f"{path}[{key}]", _value(before, key), _value(after, key)
    elif isinstance(before, tuple) and isinstance(after, tuple):
        left, right = [x for x in before if x not in after], [x for x in after if x not in before]
        yield path, _text(left), _text(right)
    else:
        yield path, _text(before), _text(after)


def _by_key(taints: Iterable[str]) -> dict[str, str]:
    """Return the values and effects of taints by key."""
    found: dict[str, list[str]] = {}
    for taint in taints:
        word, _colon, effect = taint.rpartition(":")
        key, equals, value = word.partition("=")
        found.setdefault(key, []).append(f"{value}:{effect}" if equals else effect)
    return {key: ", ".join(sorted(reported)) for key, reported in found.items()}


def _as_it_is(value: Any) -> Any:
    return value


# Lists whose members are independent: each is a fact by itself.
_SPLIT: dict[str, Callable[[Any], Any]] = {"taints": _by_key, "modules": lambda names: dict.fromkeys(names, "")}


def _value(mapping: Mapping[str, Any], key: str) -> str:
    """Return a key's value; a key without a value is distinct from a missing key."""
    if key not in mapping:
        return ""
    return _THERE if mapping[key] in ("", None) or is_dataclass(mapping[key]) else _text(mapping[key])


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(_text(entry) for entry in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}={_text(entry)}" for key, entry in sorted(value.items())) or _THERE
    return str(value)
