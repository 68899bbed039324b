# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The criteria that a snapshot says, and recipes that are resolved from one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..outcome.errors import InputError, UnavailableError
from ..outcome.wording import first_of
from ..recipe.criteria import parse_criteria
from ..recipe.detect import ClusterFacts, Detection, Finding, detect
from ..recipe.request import Request, catalogue_of, request_of

if TYPE_CHECKING:
    from ..snapshot.model import Snapshot

# In place of a file or an address: the cluster as it is now.
CLUSTER = "cluster"
_COLLECTORS = frozenset({"server", "nodes", "devices"})


def detected(snapshot: Snapshot, recipe_data: tuple[Path, ...]) -> Detection:
    """Return the criteria that a snapshot says, each with its evidence.

    Raises:
        BringupError: the recipe data are wrong.
    """
    from ..snapshot.measure import cluster_facts

    vocabulary = catalogue_of(recipe_data).vocabulary
    return detect(cluster_facts(snapshot), vocabulary, parse_criteria({}, vocabulary))


def criteria_lines(detection: Detection) -> list[str]:
    """Return a line for each criterion with its evidence, and one for each pool."""
    said = [f"{found.dimension}: {found.value or found.source} ({found.evidence})" for found in detection.findings]
    return said + [f"pool {pool.name}: {first_of(pool.nodes, 8)}" for pool in detection.pools]


def detected_lines(detection: Detection) -> list[str]:
    """Return a line for each criterion that a recipe is resolved with, and one for those that nothing says."""
    known = [found for found in detection.findings if found.value]
    said = [f"{found.dimension}: {found.value} ({_said(found)})" for found in known]
    unknown = [found.dimension for found in detection.findings if found.source == "unknown"]
    mixed = [
        f"{found.dimension}: differs ({found.evidence})" for found in detection.findings if found.source == "mixed"
    ]
    return said + mixed + ([f"not detected: {', '.join(unknown)}"] if unknown else [])


def _said(found: Finding) -> str:
    if found.source != "stated":
        return found.evidence
    return f"stated; detected: {found.detected}, {found.evidence}" if found.detected else "stated"


def request_for(options: Mapping[str, Any]) -> Request:
    """Return the request that the options of a module make (see request_of); the facts may be those of a snapshot.

    Raises:
        InputError: facts and a snapshot are given, or no snapshot is there.
        BringupError: the cluster does not answer.
    """
    request, place = request_of(options), options.get("snapshot")
    if not place:
        return request
    if request.facts is not None:
        raise InputError("snapshot", "is given with facts.", "leave one of them out")
    return replace(request, facts=_facts_at(place, options))


def _facts_at(place: str, options: Mapping[str, Any]) -> ClusterFacts:
    """Return the facts of a snapshot in a file, at an https address or in a ConfigMap, or of the cluster now."""
    from ..clients.kube.cluster import Cluster
    from ..clients.kube.connection import connection_from
    from ..snapshot.measure import cluster_facts

    if place == CLUSTER:
        from .snapshot import take_snapshot

        snapshot = take_snapshot(connection_from(options), helm="", run_dir=None, only=_COLLECTORS)
        nodes = snapshot.failed.get("nodes")
        if nodes is not None:
            raise UnavailableError("nodes of the cluster", f"{nodes.reason}.", nodes.hint)
    else:
        from ..collect.snapshot_place import read_snapshot

        snapshot = read_snapshot(place, lambda: Cluster(connection_from(options)))
    facts = cluster_facts(snapshot)
    if not facts.nodes:
        raise InputError(f"snapshot {place}", "has no node, so it says nothing about the cluster.", "take another one")
    return facts
