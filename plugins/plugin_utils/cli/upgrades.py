# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command upgrade-check: the verdict on the upgrade of each component, before gate 4 is run. It changes nothing."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..component_stack.transitions import (
    AtRisk,
    Transition,
    Verdict,
    components_in,
    installed_by,
    installed_in,
    not_seen,
    transitions,
)
from ..component_stack.versions import apart, kubernetes_lines, recorded_versions
from ..features.recipe.detected import CLUSTER
from ..outcome.codec import to_plain
from ..outcome.wording import count, first_of
from ..recipe.request import answer
from .answer import formatted, warn, write, write_lines
from .differences import maps_of, named_recipe, two_recipes
from .questions import request_and_snapshot
from .versions import kubernetes_asked

_NOT_SETTLED = 8
_COLLECTORS = frozenset({"releases", "workloads"})
_ASK = "only the cluster knows: ask it with --snapshot cluster"
_SHOWN = 5
# Verdicts that are printed for each component; of the others their names are enough.
_TOLD = (Verdict.SAFE, Verdict.MANUAL, Verdict.BLOCKED, Verdict.UNKNOWN, Verdict.REMOVED)


def upgrade_check(arguments: Namespace) -> int:
    """Print the verdict on the upgrade of each component.

    With --exit-code it ends with 8 if one is manual, blocked or unknown, or does not support the version of Kubernetes.
    """
    request, snapshot = request_and_snapshot(arguments, _COLLECTORS)
    kubernetes, recorded = kubernetes_asked(arguments, request), recorded_versions(request.recipe_data)
    if snapshot is None or len(arguments.sides) > 1:
        before, after = maps_of(two_recipes(arguments.sides, request, "gpufleet upgrade-check"))
        components, installed, unseen = components_in(after), installed_by(components_in(before)), {}
    else:
        (after,) = maps_of([*(named_recipe(text, request) for text in arguments.sides)] or [answer(request)])
        components, installed = components_in(after), installed_in(snapshot)
        unseen = not_seen(components, snapshot)
    found = transitions(components, installed, unseen, kubernetes, recorded)
    found = _with_risks(found, arguments)
    pins = {component.name: component.version for component in components if component.version}
    warn(text for pair in recorded.pairs if (text := apart(pair, pins, recorded)))
    if arguments.format in (None, "text"):
        write_lines([*_lines(found), *kubernetes_lines(pins, kubernetes, recorded)])
    else:
        write(formatted({"kubernetes": kubernetes, "components": to_plain(found)}, arguments.format))
    return _NOT_SETTLED if arguments.exit_code and not all(each.settled for each in found) else 0


def _with_risks(found: Sequence[Transition], arguments: Namespace) -> tuple[Transition, ...]:
    """Return the transitions with the objects of others that would be removed with a component, from the cluster."""
    going = {each.component: each.release for each in found if each.release}
    risks = _requested(going, arguments) if going and arguments.snapshot == CLUSTER else {}
    return tuple(
        replace(each, at_risk=risks.get(each.component, AtRisk(unknown=_ASK))) if each.release else each
        for each in found
    )


def _requested(going: Mapping[str, str], arguments: Namespace) -> dict[str, AtRisk]:
    from ..clients.helm.helm import Helm
    from ..clients.kube.cluster import Cluster
    from ..clients.kube.connection import connection_from
    from ..component_stack.holdings import at_risk

    connection = connection_from({"kubeconfig": arguments.kubeconfig, "context": arguments.context})
    with Cluster(connection) as cluster:
        return at_risk(Helm(connection), cluster, going)


def _lines(found: Sequence[Transition]) -> Iterator[str]:
    alike: dict[tuple[str, ...], list[Transition]] = {}
    for each in found:
        if each.verdict in _TOLD:
            # What is unknown for many for one reason is printed once.
            many = each.verdict is Verdict.UNKNOWN and each.at_risk is None
            one = (each.reason, each.hint) if many else (each.component,)
            alike.setdefault(one, []).append(each)
    for group in alike.values():
        yield f"{', '.join(f'{each.component} {_versions(each)}' for each in group)}: {group[0].verdict}"
        yield from (f"  {text}" for text in _details(group[0]))
    same = [each for each in found if each.verdict is Verdict.SAME]
    groups: dict[str, list[Any]] = {"added": [f"{e.component} {e.wanted}" for e in found if e.verdict is Verdict.ADDED]}
    for each in same:
        groups.setdefault(f"same version, {each.reason}" if each.reason else "same version", []).append(each.component)
    yield from (f"{title}: {', '.join(names)}" for title, names in groups.items() if names)
    counted = Counter(each.verdict for each in found)
    reported = ", ".join(f"{counted[verdict]} {verdict}" for verdict in Verdict if counted[verdict])
    yield f"{count(len(found), 'component')}: {reported}"


def _versions(each: Transition) -> str:
    if each.verdict is Verdict.REMOVED:
        return each.found
    return f"{each.found or '(not known)'} -> {each.wanted}"


def _details(each: Transition) -> Iterator[str]:
    # A reason names its sources, except where nothing was found in them.
    reported = f" (asked: {'; '.join(each.sources)})" if each.verdict is Verdict.SAFE else ""
    yield f"{each.reason}{reported}"
    if each.hint:
        yield f"do: {each.hint}"
    if each.at_risk is not None:
        objects = each.at_risk.objects
        parts = [f"{len(names)} of {kind} ({first_of(names, _SHOWN)})" for kind, names in objects.items() if names]
        none = ", ".join(kind for kind, names in objects.items() if not names)
        parts += [f"none of {none}"] if none else []
        parts += [f"not known: {each.at_risk.unknown}"] if each.at_risk.unknown else []
        yield f"objects of others at risk: {'; '.join(parts)}"
