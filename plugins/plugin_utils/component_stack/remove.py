# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removes what we installed, one component after the other: custom resources while their operator still runs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from ..clients.helm.helm import Helm
from ..clients.kube.cluster import Cluster
from ..clients.kube.objects import (
    CRDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    WEBHOOK_CONFIGURATIONS,
    Kind,
)
from ..outcome.errors import BringupError, DeadlineError, NotFoundError, UnavailableError
from ..runtime.clock import Deadline, elapsed_text
from ..runtime.progress import Emit, silent
from .api_services import API_SERVICES
from .installation import Installed
from .kept_definitions import keep_definitions
from .model import Component
from .owners import Objects, existing_of, is_known, leftover_crds
from .removal import Ref, Removal, kept_lines

# Searches a cluster for unmanaged installations of components, with six lists for any number of components.

Json = dict[str, Any]


def with_existing(cluster: Cluster, components: Collection[Component], found: Installed) -> Installed:
    """Add the unmanaged installations of components that are not ours. No request is sent if all are ours.

    Raises:
        BringupError: the API server does not answer.
    """
    open_ones = [component for component in components if component.has_chart and not found.is_ours(component.release)]
    if not open_ones:
        return found
    objects = _objects(cluster)
    ours = frozenset(key for key in found.releases if found.is_ours(key))
    there = {component.name: existing_of(component.name, objects, ours) for component in open_ones}
    left = {component.name: leftover_crds(component.name, objects) for component in open_ones}
    return replace(found, existing={name: entry for name, entry in there.items() if entry}, leftovers=left)


def unserved(cluster: Cluster) -> list[tuple[Kind, str]]:
    """Return webhook configurations and APIServices of known components whose service is gone, as (kind, name)."""
    return [
        (kind, str(obj["metadata"]["name"]))
        for kind in (*WEBHOOK_CONFIGURATIONS, API_SERVICES)
        for obj in cluster.list_objects(kind)
        if is_known(obj) and not _served(cluster, obj)
    ]


def _objects(cluster: Cluster) -> Objects:
    workloads = [_of(kind, obj) for kind in (DEPLOYMENTS, DAEMON_SETS) for obj in cluster.list_objects(kind)]
    registered = [
        _of(kind, obj) for kind in (*WEBHOOK_CONFIGURATIONS, API_SERVICES) for obj in cluster.list_objects(kind)
    ]
    return Objects(
        workloads=tuple(workloads),
        registered=tuple(obj for obj in registered if is_known(obj) and _served(cluster, obj)),
        crds=frozenset(str(metadata["name"]) for metadata in cluster.list_metadata(CRDS)),
    )


def _of(kind: Kind, obj: Json) -> Json:
    # Objects in a list have neither apiVersion nor kind.
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}


def _served(cluster: Cluster, obj: Json) -> bool:
    """Tell whether a service exists for it. A registration without service was left behind by an uninstallation."""
    services = [(hook.get("clientConfig") or {}).get("service") for hook in obj.get("webhooks") or ()]
    services.append((obj.get("spec") or {}).get("service"))
    named = {(str(entry["name"]), str(entry["namespace"])) for entry in services if entry}
    return any(cluster.find(SERVICES, name, namespace) is not None for name, namespace in named)


_POLL_S = 0.5
# Objects that show that a namespace is in use. Certificates and settings that operators leave in it do not.
_USES = (DEPLOYMENTS, DAEMON_SETS, STATEFUL_SETS, JOBS, PODS, VOLUME_CLAIMS)
_STOPS = ("refused", "blocked", "failed", "waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The result of one component, or of a namespace.

    `state` is removed, absent (there was nothing), foreign (not ours, left alone), refused, blocked (an object cannot
    be deleted; the reason names it), failed (helm refused), waiting (a component that depends on it still exists) or
    kept (a namespace that others use).
    """

    component: str
    state: str
    reason: str = ""
    hint: str = ""
    duration_s: float = 0.0


@dataclass(slots=True)
class Remover:
    """Removes the components of one cluster. `drain_s` is the time limit in seconds for deleted objects to be gone."""

    helm: Helm
    cluster: Cluster
    drain_s: float = 120.0
    emit: Emit = silent
    _done: dict[str, Gone] = field(default_factory=dict)

    def run(self, removals: Collection[Removal], namespaces: Iterable[str] = ()) -> tuple[Gone, ...]:
        """Remove components, then namespaces. Return the result of each in this order."""
        for entry in removals:
            started = monotonic()
            done = self._one(entry)
            self._done[entry.component] = Gone(
                component=entry.component,
                state=done.state,
                reason=done.reason,
                hint=done.hint,
                duration_s=round(monotonic() - started, 1),
            )
            self.emit(f"{entry.component}: {done.state}" + (f": {done.reason}" if done.reason else ""))
        if any(gone.state in _STOPS for gone in self._done.values()):
            return tuple(self._done.values())
        return (*self._done.values(), *self._namespaces(namespaces))

    def _one(self, entry: Removal) -> Gone:
        if entry.action != "remove":
            word = "refused" if entry.action == "refuse" else entry.action
            return Gone(component=entry.component, state=word, reason=entry.reason, hint=entry.hint)
        there = [name for name in entry.depends_on_it if name in self._done and self._done[name].state in _STOPS]
        if there:
            return Gone(
                component=entry.component,
                state="waiting",
                reason=f"{there[0]}, which needs it, is still there",
                hint=f"fix {there[0]} first",
            )
        try:
            self._drain(entry, entry.custom)
            self._drain(entry, entry.after[::-1])
            if entry.release:
                known = set(unserved(self.cluster))
                if entry.keeps_crds:
                    keep_definitions(self.helm, self.cluster, entry.component, entry.namespace)
                self.helm.uninstall(entry.component, entry.namespace, wait=True)
                self._unregister(known)
            self._drain_again(entry)
            self._drain(entry, entry.before[::-1])
            self._drain(entry, [_definition(name) for name in entry.crds])
        except DeadlineError as error:
            return Gone(component=entry.component, state="blocked", reason=error.reason, hint=error.hint)
        except BringupError as error:
            reason = f"{error.subject}: {error.reason}"
            return Gone(component=entry.component, state="failed", reason=reason, hint=error.hint)
        return Gone(component=entry.component, state="removed", reason=entry.reason)

    def _drain(self, entry: Removal, refs: Iterable[Ref]) -> list[tuple[Ref, Json]]:
        """Delete objects and wait until they are gone, because their controllers have to clean up before.

        Return the objects in whose place a new one of the same name appeared at once: something makes them again.

        Raises:
            DeadlineError: one still exists; the reason names its finalizers.
        """
        named = [(kind, ref) for ref in refs if (kind := self._kind(ref)) is not None]
        left = [(kind, ref, _uid(found)) for kind, ref in named if (found := self._find(kind, ref)) is not None]
        for kind, ref, uid in left:
            self.cluster.delete(kind, ref.name, ref.namespace if kind.namespaced else "", uid=uid)
        deadline, again = Deadline.after(self.drain_s), []
        while left:
            observed = [(kind, ref, uid, self._find(kind, ref)) for kind, ref, uid in left]
            again += [(ref, found) for _kind, ref, uid, found in observed if found is not None and _uid(found) != uid]
            left = [(kind, ref, uid) for kind, ref, uid, found in observed if found is not None and _uid(found) == uid]
            if left and deadline.left_s <= 0:
                raise self._held(entry, *left[0][:2])
            if left:
                time.sleep(min(_POLL_S, deadline.left_s))
        return again

    def _drain_again(self, entry: Removal) -> None:
        """Delete what the component itself made again while it still ran.

        Raises:
            DeadlineError: one still exists.
            UnavailableError: something else makes one again whenever it is deleted.
        """
        again = self._drain(entry, (*entry.custom, *entry.after[::-1]))
        if again:
            raise _remade(*again[0])

    def _kind(self, ref: Ref) -> Kind | None:
        try:
            return self.cluster.kind(ref.api_version, ref.kind)
        except NotFoundError:
            return None

    def _find(self, kind: Kind, ref: Ref) -> Json | None:
        return self.cluster.find(kind, ref.name, ref.namespace if kind.namespaced else "")

    def _held(self, entry: Removal, kind: Kind, ref: Ref) -> DeadlineError:
        metadata = (self._find(kind, ref) or {}).get("metadata") or {}
        finalizers = ", ".join(metadata.get("finalizers") or ()) or "none"
        what = f"{ref.title} is still there {elapsed_text(self.drain_s)} after it was deleted; finalizers: {finalizers}"
        place = f" -n {ref.namespace}" if kind.namespaced else ""
        hint = (
            f"read the log of the controller of {entry.component} in namespace {entry.namespace}, then run again; to "
            f"give up what it would clean: kubectl patch {kind.title} {ref.name}{place} --type merge "
            """-p '{"metadata":{"finalizers":null}}'"""
        )
        return DeadlineError(ref.title, f"{what}.", hint)

    def _unregister(self, known: set[tuple[Kind, str]]) -> None:
        """Delete the registrations of an operator that have no service any more: they would refuse every write.

        `known` are those without service before the removal, which are not its own.
        """
        for kind, name in set(unserved(self.cluster)) - known:
            self.cluster.delete(kind, name)
            self.emit(f"{kind.kind} {name}, which nobody serves, removed")

    def _namespaces(self, names: Iterable[str]) -> list[Gone]:
        """Delete namespaces that are not in use, all at once, and wait until each is gone."""
        used = {name: self._used(name) for name in names}
        for name, by in used.items():
            if not by:
                self.cluster.delete(NAMESPACES, name)
        return [
            Gone(component=f"namespace {name}", state="kept", reason=f"holds {by}, which is not ours")
            if by
            else self._left(name)
            for name, by in used.items()
        ]

    def _used(self, name: str) -> str:
        for kind in _USES:
            found = [metadata["name"] for metadata in self.cluster.list_metadata(kind, name) if not _is_going(metadata)]
            if found:
                return f"{kind.kind} {found[0]}"
        return ""

    def _left(self, name: str) -> Gone:
        entry = Removal(component=f"namespace {name}", namespace=name, action="remove")
        try:
            again = self._drain(entry, [Ref(api_version="v1", kind="Namespace", name=name)])
        except DeadlineError as error:
            conditions = ((self.cluster.find(NAMESPACES, name) or {}).get("status") or {}).get("conditions") or ()
            reported = [str(condition.get("message")) for condition in conditions if condition.get("status") == "True"]
            reason = f"{error.reason} {' '.join(reported)}".strip()[:400]
            return Gone(
                component=entry.component, state="blocked", reason=reason, hint=f"kubectl get namespace {name} -o yaml"
            )
        if again:
            return Gone(component=entry.component, state="kept", reason=_remade(*again[0]).reason.rstrip("."))
        return Gone(component=entry.component, state="removed")


def _uid(obj: Json) -> str:
    return str(obj["metadata"].get("uid") or "")


def _remade(ref: Ref, found: Json) -> UnavailableError:
    """Return the error for an object that something makes again. Its field managers show what."""
    entries = found["metadata"].get("managedFields") or ()
    managers = ", ".join(sorted({str(entry.get("manager")) for entry in entries if entry.get("manager")}))
    by = f" by {managers}" if managers else ""
    hint = "take it out where it is kept (Argo CD, Flux, an operator of somebody else), then run again"
    return UnavailableError(ref.title, f"was made again{by} as soon as it was deleted.", hint)


def _is_going(metadata: Json) -> bool:
    """Tell whether an object goes without our help: it is being deleted, or goes with its controller."""
    owners = metadata.get("ownerReferences") or ()
    return bool(metadata.get("deletionTimestamp")) or any(owner.get("controller") for owner in owners)


def _definition(name: str) -> Ref:
    return Ref(api_version=CRDS.api_version, kind=CRDS.kind, name=name)


def removal_failure(gone: Iterable[Gone]) -> BringupError | None:
    """Return the error for what could not be removed. None if all of ours is gone."""
    bad = [entry for entry in gone if entry.state in _STOPS]
    if not bad:
        return None
    first = min(bad, key=lambda entry: entry.state == "waiting")
    texts = tuple(f"{entry.component}: {entry.state}: {entry.reason}" for entry in bad)
    return BringupError(f"component {first.component}", f"{first.state}: {first.reason}", first.hint, texts)


def gone_lines(removals: Collection[Removal], gone: Iterable[Gone]) -> list[str]:
    """Return the last lines of a complete removal: what was removed, and what stays."""
    ends: dict[str, list[str]] = {}
    for entry in gone:
        ends.setdefault(entry.state, []).append(entry.component)
    lines = [f"{state:8} {', '.join(names)}" for state, names in ends.items() if state != "absent"]
    return [*(lines or ["removed  nothing: none of it was there"]), *kept_lines(removals)]
