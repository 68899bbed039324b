# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The criteria that follow from a snapshot, and recipes that are resolved from one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...outcome.errors import InputError, UnavailableError
from ...outcome.wording import first_of
from ...recipe.criteria import parse_criteria
from ...recipe.detect import ClusterFacts, Detection, Finding, detect
from ...recipe.request import Request, catalogue_of, request_of

if TYPE_CHECKING:
    from ...snapshot.model import Snapshot

# In place of a file or an address: the live cluster.
CLUSTER = "cluster"
_COLLECTORS = frozenset({"server", "nodes", "devices"})


def detected(snapshot: Snapshot, recipe_data: tuple[Path, ...]) -> Detection:
    """Return the criteria that follow from a snapshot, each with its evidence.

    Raises:
        BringupError: the recipe data are wrong.
    """
    from ...snapshot.measure import cluster_facts

    vocabulary = catalogue_of(recipe_data).vocabulary
    return detect(cluster_facts(snapshot), vocabulary, parse_criteria({}, vocabulary))


def criteria_lines(detection: Detection) -> list[str]:
    """Return a line for each criterion with its evidence, and one for each pool."""
    reported = [f"{found.dimension}: {found.value or found.source} ({found.evidence})" for found in detection.findings]
    return reported + [f"pool {pool.name}: {first_of(pool.nodes, 8)}" for pool in detection.pools]


def detected_lines(detection: Detection) -> list[str]:
    """Return a line for each criterion that a recipe is resolved with, and one for the unknown criteria."""
    known = [found for found in detection.findings if found.value]
    reported = [f"{found.dimension}: {found.value} ({_reported(found)})" for found in known]
    unknown = [found.dimension for found in detection.findings if found.source == "unknown"]
    mixed = [
        f"{found.dimension}: differs ({found.evidence})" for found in detection.findings if found.source == "mixed"
    ]
    return reported + mixed + ([f"not detected: {', '.join(unknown)}"] if unknown else [])


def _reported(found: Finding) -> str:
    if found.source != "stated":
        return found.evidence
    return f"stated; detected: {found.detected}, {found.evidence}" if found.detected else "stated"


def request_for(options: Mapping[str, Any]) -> Request:
    """Return the request from the options of a module (see request_of); the facts may come from a snapshot.

    Raises:
        InputError: facts and a snapshot are given, or there is no snapshot.
        BringupError: the cluster does not respond.
    """
    return request_and_snapshot(options)[0]


def request_and_snapshot(
    options: Mapping[str, Any], more: frozenset[str] = frozenset()
) -> tuple[Request, Snapshot | None]:
    """Return the request, and the snapshot if one is named (else None).

    A snapshot that is taken here includes the `more` collectors.

    Raises:
        InputError: facts and a snapshot are given, or there is no snapshot.
        BringupError: the cluster does not respond.
    """
    request, place = request_of(options), options.get("snapshot")
    if not place:
        return request, None
    if request.facts is not None:
        raise InputError("snapshot", "is given with facts.", "leave one of them out")
    snapshot = _snapshot_at(place, options, more)
    return replace(request, facts=_facts_of(snapshot, place)), snapshot


def _snapshot_at(place: str, options: Mapping[str, Any], more: frozenset[str]) -> Snapshot:
    """Return the snapshot in a file, at an https address or in a ConfigMap, or one of the live cluster."""
    from ...clients.kube.cluster import Cluster
    from ...clients.kube.connection import connection_from

    if place != CLUSTER:
        from ...collect.snapshot_place import read_snapshot

        return read_snapshot(place, lambda: Cluster(connection_from(options)))
    from ..snapshot.app import take_snapshot

    snapshot = take_snapshot(connection_from(options), helm="helm", run_dir=None, only=_COLLECTORS | more)
    nodes = snapshot.failed.get("nodes")
    if nodes is not None:
        raise UnavailableError("nodes of the cluster", f"{nodes.reason}.", nodes.hint)
    return snapshot


def _facts_of(snapshot: Snapshot, place: str) -> ClusterFacts:
    from ...snapshot.measure import cluster_facts

    facts = cluster_facts(snapshot)
    if not facts.nodes:
        raise InputError(f"snapshot {place}", "has no node, so it says nothing about the cluster.", "take another one")
    return facts
