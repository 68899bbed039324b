# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads waivers, acceptances and quarantine from the inventory, and finds those that can never apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from ..outcome.decisions import Acceptance, Quarantine, Waiver, parsed_day
from ..outcome.errors import BringupError, InputError, ProblemsError
from ..outcome.model import SubjectKind
from ..runtime.strict import decode, nearest_hint
from .model import Host

T = TypeVar("T")
Checks = Mapping[str, SubjectKind]
"""Every check that can be waived or accepted, with the kind of its subjects."""
_OF_THE_WHOLE = (SubjectKind.SITE, SubjectKind.CLUSTER)
# Names of links and of parts of hosts, which only the observation knows.
_PART = ("/", ":", " ")


def quarantine_of(entries: Any, hosts: Iterable[Host], problems: list[BringupError]) -> tuple[Quarantine, ...]:
    """Return the nodes set aside, and note what is wrong with them."""
    names = [host.name for host in hosts]

    def unknown(stated: Mapping[str, str], where: str) -> list[BringupError]:
        node = stated.get("node")
        if node is None or node in names:
            return []
        return [InputError(f"{where}.node", f"{node!r} is not a host of the group.", nearest_hint(node, names))]

    return _entries(Quarantine, entries, "gpufleet_quarantine", unknown, problems)


@dataclass(frozen=True)
class Nameable:
    """What a waiver or an acceptance may name: the checks, the site, its hosts and, by host, how many GPUs it has."""

    checks: Checks
    site: str
    hosts: tuple[Host, ...]
    gpus: Mapping[str, int]


def waivers_of(entries: Any, known: Nameable, problems: list[BringupError]) -> tuple[Waiver, ...]:
    """Return the waivers, and note those that are incomplete, name no check, or match no subject."""
    return _entries(Waiver, entries, "gpufleet_waivers", _lookup(known), problems)


def acceptances_of(entries: Any, known: Nameable, problems: list[BringupError]) -> tuple[Acceptance, ...]:
    """Return the acceptances, and note those that are incomplete, name no check, or match no subject."""
    return _entries(Acceptance, entries, "gpufleet_acceptances", _lookup(known), problems)


def component_problems(
    variable: str, entries: Iterable[Waiver], checks: Checks, components: Iterable[str]
) -> list[BringupError]:
    """Return the waivers or acceptances of checks per component that match none of the recipe's components."""
    names = tuple(components)
    return [
        _no_match(f"{variable}: check {entry.check}", entry.subject, "component of the recipe", names)
        for entry in entries
        if checks.get(entry.check) is SubjectKind.COMPONENT and not _matches(entry.subject, names)
    ]


def _lookup(known: Nameable) -> Callable[[Mapping[str, str], str], list[BringupError]]:
    nodes = tuple(host.name for host in known.hosts)
    racks = tuple(sorted({host.rack for host in known.hosts if host.rack}))

    def wrong(stated: Mapping[str, str], where: str) -> list[BringupError]:
        check, subject = stated.get("check"), stated.get("subject")
        if check is None:
            return []
        kind = known.checks.get(check)
        if kind is None:
            unknown = InputError(f"{where}.check", f"{check!r} is not a check.", nearest_hint(check, known.checks))
            # Its subject is looked at as that of the check that is meant.
            near = get_close_matches(check, known.checks, n=1, cutoff=0.55)
            told = _no_subject(known.checks[near[0]], subject, f"{where}.subject") if near and subject else []
            return [unknown, *told]
        return _no_subject(kind, subject, f"{where}.subject") if subject is not None else []

    def _no_subject(kind: SubjectKind, subject: str, where: str) -> list[BringupError]:
        if kind is SubjectKind.NODE and not _matches(subject.partition("/")[0], nodes):
            return [_no_match(where, subject, "host of the group", nodes)]
        if kind is SubjectKind.NODE and (most := _gpus_too_few(subject, known.gpus)):
            reason = f"{subject!r} is no GPU: that host has {most}, gpu0 to gpu{most - 1}."
            return [InputError(where, reason, "name one of them, or the host")]
        if kind is SubjectKind.RACK and not _matches(subject, racks):
            return [_no_match(where, subject, "rack of the hosts", racks)]
        names = (known.site, *nodes, *racks)
        part = any(sign in subject for sign in _PART)
        if kind in _OF_THE_WHOLE and not part and not _matches(subject, names):
            return [_no_match(where, subject, "site, host or rack", names)]
        return []

    return wrong


def _gpus_too_few(subject: str, gpus: Mapping[str, int]) -> int:
    """Return how many GPUs the hosts have at most that a subject such as `gpu01/gpu9` names, 0 if one has that GPU."""
    host, _slash, part = subject.partition("/")
    counts = [count for name, count in gpus.items() if fnmatchcase(name, host)]
    number = part.removeprefix("gpu")
    if not counts or not part.startswith("gpu") or not number.isdecimal() or int(number) < max(counts):
        return 0
    return max(counts)


def _matches(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def _no_match(where: str, pattern: str, thing: str, names: tuple[str, ...]) -> BringupError:
    return InputError(where, f"{pattern!r} matches no {thing}.", nearest_hint(pattern, names))


def _entries(
    kind: type[T],
    entries: Any,
    variable: str,
    wrong: Callable[[Mapping[str, str], str], list[BringupError]],
    problems: list[BringupError],
) -> tuple[T, ...]:
    """Return the entries. `wrong` is asked of one that is not whole as well: everything is told at once."""
    if entries is None:
        return ()
    if not isinstance(entries, list):
        reason = f"is {type(entries).__name__}, expected a list."
        problems.append(InputError(variable, reason, "write a list of entries"))
        return ()
    found: list[T] = []
    for number, entry in enumerate(entries):
        where = f"{variable}[{number}]"
        plain = _texts(entry)
        pairs = plain.items() if isinstance(plain, Mapping) else ()
        stated = {key: text for key, text in pairs if isinstance(text, str) and text.strip()}
        try:
            found.append(decode(kind, plain, where))
        except ProblemsError as error:
            problems.extend(error.problems)
            said = {problem.reason for problem in error.problems}
            problems.extend(problem for problem in _no_day(stated, where) if problem.reason not in said)
        problems.extend(wrong(stated, where))
    return tuple(found)


def _no_day(stated: Mapping[str, str], where: str) -> list[BringupError]:
    """Return what is wrong with the last day of a decision, which is read only where the rest is whole."""
    try:
        if "until" in stated:
            parsed_day(stated["until"], where)
    except InputError as error:
        return [error]
    return []


def _texts(entry: Any) -> Any:
    # YAML reads an unquoted day as a date and a bare ticket as a number; a decision holds texts.
    if not isinstance(entry, Mapping):
        return entry
    return {key: str(value) if isinstance(value, (int, float, date)) else value for key, value in entry.items()}
