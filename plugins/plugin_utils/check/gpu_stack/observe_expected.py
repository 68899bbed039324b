# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe what a recipe expects in addition to the workloads of its charts, until it is there or the time is over."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.objects import (
    CONFIG_MAPS,
    CRDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Kind,
)
from ...component_stack.chainsaw import Assertion, asked_of, pruned
from ...component_stack.workloads import is_observed, workload_of
from ...outcome.errors import BringupError, NotFoundError
from ...runtime.clock import Deadline
from ...runtime.progress import Progress
from ..spec import ObserveContext, observer_of
from .expected_objects import WORKLOADS, ExpectedObject, ExpectedState, SeenAssertion, asserted_in, expected_in
from .settings import GATE, GpuStackSettings

_POLL_S = 2.0
_KINDS = {
    kind.kind: kind
    for kind in (
        CONFIG_MAPS, CRDS, DAEMON_SETS, DEPLOYMENTS, JOBS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, SERVICES,
        STATEFUL_SETS, VOLUME_CLAIMS,
    )
}  # fmt: skip
Asked = tuple[str, int, Assertion]


def observe(context: ObserveContext) -> ExpectedState:
    """Poll until everything is as expected, for `settle_s` seconds at most (settings of gpu_stack).

    Raises:
        BringupError: the API server does not respond.
    """
    recipe = context.recipe or {}
    objects, asserted = expected_in(recipe), list(asserted_in(recipe))
    settle_s = 0.0 if context.check_mode else context.settings_of(GATE, GpuStackSettings).settle_s
    deadline, progress = Deadline.after(settle_s), Progress(context.emit)
    with Cluster(connection_from(context.connections)) as cluster:
        while True:
            observed = ExpectedState(
                objects=tuple(_object(cluster, entry) for entry in objects),
                assertions=tuple(_assertion(cluster, entry) for entry in asserted),
            )
            missing = open_points(observed, asserted)
            if not missing or deadline.left_s <= 0:
                return observed
            progress.tick(f"not as the recipe expects yet: {missing}")
            time.sleep(min(_POLL_S, max(deadline.left_s, 0.0)))


def open_points(observed: ExpectedState, asserted: list[Asked]) -> str:
    """Return the first thing that is not as expected and may still become so. Empty: there is none."""
    for entry in observed.objects:
        if entry.there is False or (entry.there and entry.desired and (entry.ready or 0) < entry.desired):
            return f"{entry.kind} {entry.name}"
    for found, (_component, _number, assertion) in zip(observed.assertions, asserted, strict=True):
        if found.objects is not None and not is_met(assertion, found.objects):
            return assertion.title
    return ""


def is_met(assertion: Assertion, objects: dict[str, Any]) -> bool:
    """Return whether an assertion holds.

    It holds if some object is as wanted. An assertion that no object may match holds only if each is known not to
    match.
    """
    requested = [asked_of(assertion, entry) for entry in objects.values()]
    return (
        any(answer == ("", "") for answer in requested)
        if assertion.must
        else all(reported for reported, _why in requested)
    )


def _object(cluster: Cluster, entry: ExpectedObject) -> ExpectedObject:
    kind = _KINDS.get(entry.kind)
    if kind is None:
        known = ", ".join(sorted(_KINDS))
        return replace(entry, problem=f"kind {entry.kind} is not known here ({known}); assert it in healthCheckAsserts")
    try:
        # Every kind is read by a list with a name, including Secrets: permission to list is then enough.
        found = cluster.find_listed(kind, entry.name, entry.namespace if kind.namespaced else "")
    except BringupError as error:
        return replace(entry, problem=f"{error.subject}: {error.reason}")
    if found is None or entry.kind not in WORKLOADS:
        return replace(entry, there=found is not None)
    state = workload_of(entry.kind, found, (), cluster.transport.now(), 0.0)
    if not is_observed(found):
        reported = "its controller has not taken up its newest generation yet"
        return replace(entry, there=True, desired=state.desired, ready=0, problem=reported)
    return replace(entry, there=True, desired=state.desired, ready=state.ready)


def _assertion(cluster: Cluster, requested: Asked) -> SeenAssertion:
    component, number, assertion = requested
    observed = SeenAssertion(component=component, number=number)
    try:
        return replace(observed, objects=_found(cluster, assertion))
    except BringupError as error:
        return replace(observed, problem=f"{error.subject}: {error.reason}")


def _found(cluster: Cluster, assertion: Assertion) -> dict[str, Any]:
    try:
        kind: Kind = cluster.kind(assertion.api_version, assertion.kind)
    except NotFoundError:
        # If a kind is not served or misspelled, it cannot be concluded that no object matches.
        if assertion.must:
            return {}
        raise
    namespace = assertion.namespace if kind.namespaced else ""
    labels = ",".join(f"{key}={value}" for key, value in sorted(assertion.labels.items()))
    fields = f"metadata.name={assertion.name}" if assertion.name else ""
    found = cluster.list_objects(kind, namespace, labels=labels, fields=fields)
    # An object that is being deleted satisfies no assertion and violates none: a pod of a node that was replaced or
    # lost.
    found = [o for o in found if not (o["metadata"].get("deletionTimestamp") or _is_lost(o))]
    places = {f"{o['metadata'].get('namespace', '')}/{o['metadata']['name']}".lstrip("/"): o for o in found}
    return {place: pruned(assertion.wanted, entry) for place, entry in sorted(places.items())}


def _is_lost(found: dict[str, Any]) -> bool:
    return (found.get("status") or {}).get("reason") == "NodeLost"


OBSERVER = observer_of("expected", ExpectedState, observe)
