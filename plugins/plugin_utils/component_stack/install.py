# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Carries a plan out: each component as soon as its dependencies are ready, several at a time."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep
from typing import Any

from ..clients.helm.chart import chart_source
from ..clients.helm.helm import GRACE_S, Helm, HelmError, ReleaseRequest
from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import ForbiddenError, UnansweredError
from ..clients.kube.objects import CRDS, Kind, is_true
from ..clients.kube.transport import PATIENCE_S
from ..clients.kube.wait import Phase, State, until, wait_all
from ..outcome.errors import BringupError, DeadlineError, InputError, NotFoundError
from ..runtime.clock import Backoff, Deadline, elapsed_text
from ..runtime.foreign_yaml import PlainYamlError, documents
from ..runtime.progress import Emit, silent
from .api_services import NOT_ANSWERED
from .apply import apply_manifests, preview_manifests
from .facts import stack_facts
from .kept_definitions import keep_definitions
from .model import DIGEST_LABEL, MANAGED_BY, MANAGED_BY_LABEL, REVISION_LABEL, Action, Component, Plan, Step
from .read import WORKLOAD_KINDS, belongs, installed, read_workloads, readiness, reported_state
from .workloads import release_of

# CRDs of a chart's `crds/`. Helm installs them once and never upgrades them, so we do: before helm installs or upgrades
# a chart, its CRDs are applied server-side. Exception: objects are stored in a version that the new CRD does not have.
# Then nothing is changed, and a person decides.

Json = dict[str, Any]
_SERVED_S = 60.0


def apply_crds(cluster: Cluster, text: str, component: str, emit: Emit, *, installs: bool) -> tuple[str, ...]:
    """Bring the cluster's CRDs to those of the chart. Return the names of those that changed.

    Args:
        cluster: the cluster.
        text: the CRDs as YAML, one document each.
        component: name of the component, for messages.
        emit: gets the progress line.
        installs: helm installs the chart, and creates the missing CRDs.

    Raises:
        BringupError: a CRD cannot be read, lacks a version in which objects are stored, or is refused.
    """
    changed = []
    for body, live in _to_apply(cluster, text, component, installs):
        name = body["metadata"]["name"]
        done = cluster.apply(CRDS, body, force=True)
        if live is None:
            _established(cluster, name, component)
        if live is None or done["metadata"].get("generation") != live["metadata"].get("generation"):
            changed.append(name)
    if changed:
        emit(f"{component}: definitions brought to the chart's: {', '.join(changed)}")
    return tuple(changed)


def preview_crds(cluster: Cluster, text: str, component: str, *, installs: bool) -> bool:
    """Let the server compute what apply_crds would do. Return whether it could. Arguments and errors are as there."""
    for body, _live in _to_apply(cluster, text, component, installs):
        try:
            cluster.apply(CRDS, body, dry_run=True, force=True)
        except ForbiddenError:
            # Credentials that may only read may not even do a dry run.
            return False
    return True


def await_served(cluster: Cluster, manifest: str, component: str) -> None:
    """Wait until the server serves the kinds of the CRDs among a release's templates.

    The components after it have objects of these kinds, and no workload is there to wait for in place of them.

    Raises:
        BringupError: the manifest cannot be read, or a CRD is not served in time.
    """
    if CRDS.kind not in manifest:
        return
    for body in _documents(manifest, component):
        _established(cluster, body["metadata"]["name"], component)


def _to_apply(cluster: Cluster, text: str, component: str, installs: bool) -> Iterator[tuple[Json, Json | None]]:
    """Yield each CRD that is applied, with the existing one."""
    for body in _documents(text, component):
        name = body["metadata"]["name"]
        live = cluster.find(CRDS, name)
        if live is None and installs:
            continue
        if live is not None and (lost := _lost_versions(live, body)):
            hint = f"migrate them (kube-storage-version-migrator), then correct status.storedVersions of crd {name}"
            reason = f"objects are stored as {', '.join(lost)}, which the chart's definition has no more."
            raise BringupError(f"component {component}: CRD {name}", reason, hint)
        yield body, live


def _established(cluster: Cluster, name: str, component: str) -> None:
    """Wait until the server serves a new kind, which helm would not find before."""
    deadline = Deadline.after(_SERVED_S)
    while deadline.left_s > 0:
        live = cluster.find(CRDS, name)
        if live is not None and is_true(live, "Established") and _discovered(cluster, live):
            return
        time.sleep(0.2)
    hint = f"kubectl describe crd {name}"
    raise DeadlineError(f"component {component}: CRD {name}", f"not served after {_SERVED_S:g} s.", hint)


def _discovered(cluster: Cluster, live: Json) -> bool:
    """Tell whether clients find the kind: discovery follows an established CRD by some seconds."""
    spec = live.get("spec") or {}
    served = [str(version["name"]) for version in spec.get("versions") or [] if version.get("served")]
    try:
        for version in served:
            cluster.kind(f"{spec['group']}/{version}", str(spec["names"]["kind"]))
    except NotFoundError:
        return False
    return True


def _documents(text: str, component: str) -> list[Json]:
    try:
        bodies = documents(text)
    except PlainYamlError as error:
        raise InputError(f"component {component}", f"its crds/ is not YAML: {error}.", "take another chart") from None
    found = [body for body in bodies if isinstance(body, dict) and body.get("kind") == CRDS.kind]
    for body in found:
        metadata = body.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
            raise InputError(
                f"component {component}", "its crds/ holds a definition without a name.", "correct the chart"
            )
    return found


def _lost_versions(live: Json, body: Json) -> list[str]:
    stored = (live.get("status") or {}).get("storedVersions") or []
    known = {str(version.get("name")) for version in (body.get("spec") or {}).get("versions") or []}
    return [str(version) for version in stored if str(version) not in known]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds until a component must be ready, seconds until a bad pull is final, and how many run at once."""

    ready_s: float = 900.0
    pull_grace_s: float = 90.0
    parallel: int = 4
    poll_s: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of one component.

    `state` is ready, not-ready (applied, but its workloads are not ready), degraded (it works, and reports that a part
    on a node does not), failed (helm refused), foreign, refused, or waiting (a dependency is not ready).
    """

    component: str
    action: Action
    state: str
    reason: str = ""
    hint: str = ""
    cause: str = ""
    duration_s: float = 0.0


# A problem of one node must not stop the rest of the stack.
_GO_ON = ("ready", "foreign", "degraded")
_REFUSED = {
    Action.PENDING: "release-pending",
    Action.DOWNGRADE: "component-version",
    Action.REFUSE: "component-foreign",
    Action.SKIPS: "component-version",
}


@dataclass(slots=True)
class Installer:
    """Installs the components of one cluster."""

    helm: Helm
    cluster: Cluster
    mirror: str = ""
    limits: Limits = field(default_factory=Limits)
    emit: Emit = silent

    def run(self, plan: Plan, components: Collection[Component]) -> tuple[Done, ...]:
        """Install the components and return the result of each, in the plan's order.

        A component whose dependency is not ready is not touched. The others go on.
        """
        waiting = {component.name: component for component in components}
        done: dict[str, Done] = {}
        running: dict[Future[Done], str] = {}
        with ThreadPoolExecutor(max_workers=max(1, self.limits.parallel)) as pool:
            while waiting or running:
                for name in [name for name, component in waiting.items() if _may_start(component, done)]:
                    component = waiting.pop(name)
                    running[pool.submit(self._one, component, plan.step(name))] = name
                for name in [name for name, component in waiting.items() if _blocker(component, done)]:
                    done[name] = _not_started(plan.step(name), _blocker(waiting.pop(name), done))
                if not running:
                    continue
                finished, _open = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    done[running.pop(future)] = future.result()
        return tuple(done[step.component] for step in plan.steps)

    def preview(self, plan: Plan, components: Collection[Component]) -> dict[str, str]:
        """Return for each component that would change whether its change is computed by the server or only predicted.

        Raises:
            BringupError: a chart does not exist, does not render, or has CRDs that would not be applied.
        """
        reported = {}
        for component in components:
            step = plan.step(component.name)
            if step.action.changes:
                complete = preview_manifests(self.cluster, component, take_over=step.take_over)
                complete = (not component.has_chart or self._preview_chart(component, step)) and complete
                reported[component.name] = "server" if complete else "predicted"
        return reported

    def _preview_chart(self, component: Component, step: Step) -> bool:
        request = self.request(component, 0)
        definitions, installs = self.helm.crds(request, self.cluster.version()), step.action is Action.INSTALL
        complete = preview_crds(self.cluster, definitions, component.name, installs=installs)
        try:
            self.helm.upgrade(request, dry_run=True)
        except HelmError:
            # Its CRDs or its namespace are created by what is installed before it.
            return False
        return complete

    def _one(self, component: Component, step: Step) -> Done:
        started = monotonic()
        if step.action.refused:
            return Done(
                component=step.component,
                action=step.action,
                state="refused",
                reason=step.reason,
                hint=step.hint,
                cause=_REFUSED[step.action],
            )
        try:
            if step.action.changes:
                self._apply(component, step)
            state, works = self._wait(component, step)
            after = [manifest for manifest in component.manifests if not manifest.before]
            if step.action.changes and after and component.has_chart and state.phase is Phase.OK:
                apply_manifests(self.cluster, component, after, self.emit, take_over=step.take_over)
                state, works = self._wait(component, step)
        except BringupError as error:
            self.emit(f"{component.name}: {error.reason}")
            reason = f"{error.subject}: {error.reason}"
            return Done(
                component=component.name,
                action=step.action,
                state="failed",
                reason=reason,
                hint=error.hint,
                cause=NOT_ANSWERED if _is_unanswered(error) else "release-not-deployed",
                duration_s=round(monotonic() - started, 1),
            )
        return _done(step, state, works, monotonic() - started)

    def request(self, component: Component, found_revision: int) -> ReleaseRequest:
        """Return the request for helm. `found_revision` is the newest revision of the release, 0 for none."""
        source = chart_source(component.name, component.chart, component.version, component.source, self.mirror)
        labels = {
            MANAGED_BY_LABEL: MANAGED_BY,
            DIGEST_LABEL: component.digest,
            REVISION_LABEL: str(found_revision + 1),
        }
        return ReleaseRequest(
            name=component.name, namespace=component.namespace, chart=source, values=component.values, labels=labels
        )

    def _apply(self, component: Component, step: Step) -> None:
        started = monotonic()
        self.emit(f"{component.name} {step.wanted_version}: {step.action.value}")
        # Manifests after a chart wait until its workloads are ready, because these may have to admit them.
        now = [manifest for manifest in component.manifests if manifest.before or not component.has_chart]
        apply_manifests(self.cluster, component, now, self.emit, take_over=step.take_over)
        if component.has_chart:
            request = self.request(component, self._recovered(component, step))
            definitions, installs = self.helm.crds(request, self.cluster.version()), step.action is Action.INSTALL
            apply_crds(self.cluster, definitions, component.name, self.emit, installs=installs)
            self._make_way(step)
            self._upgrade(component, request, take_ownership=step.action is Action.ADOPT)
            await_served(self.cluster, self.helm.manifest(component.name, component.namespace), component.name)
        self.emit(f"{component.name}: applied in {elapsed_text(monotonic() - started)}, waiting until it is ready")

    def _upgrade(self, component: Component, request: ReleaseRequest, *, take_ownership: bool) -> None:
        """Upgrade a release.

        It is repeated while the API server goes away or is overloaded in the middle. It is repeated once if helm of a
        killed run of ours had not ended yet when this one looked.
        """
        backoff, deadline, met = Backoff(), None, False
        while True:
            try:
                self.helm.upgrade(request, take_ownership=take_ownership)
                if self._recorded(component):
                    return
                deadline = deadline or Deadline.after(PATIENCE_S)
                if deadline.left_s <= 0:
                    # The gate reports what is wrong with a pending release.
                    return
                self.emit(f"{component.name}: the API server did not record that helm was done; once more")
            except HelmError as error:
                # As long as our own client retries, from the first missing response on.
                deadline = deadline or Deadline.after(PATIENCE_S)
                again = error.cut_off and deadline.left_s > 0
                if not again and (met or not (error.two_at_once and self._ended(component))):
                    raise
                met |= error.two_at_once
                self.emit(f"{component.name}: {error.reason}; once more")
            sleep(backoff.pause_s())
            request = self.request(component, self._freed(component))

    def _recorded(self, component: Component) -> bool:
        """Tell whether a release is recorded as done. Where the record is refused, helm still ends with success and
        leaves the release pending (helm/helm, pkg/action/install.go, recordRelease).
        """
        found = self.helm.releases().get(component.release)
        return found is None or not found.is_pending

    def _freed(self, component: Component) -> int:
        """Return the newest revision of a release, 0 for none. A release on which a helm died is repaired first."""
        found = self.helm.releases().get(component.release)
        if not found or not found.is_pending:
            return found.revision if found else 0
        # Without a complete revision it is uninstalled, and CRDs that an earlier removal left may be in use.
        keep_definitions(self.helm, self.cluster, component.name, component.namespace)
        revision, done = self.helm.recover(component.name, component.namespace)
        self.emit(f"{component.name}: {done}")
        return revision

    def _ended(self, component: Component) -> bool:
        """Wait until no helm of ours works on a release. Return False if its newest revision is not ours.

        A helm whose controller was killed gets SIGTERM, and has the same grace period as one that this process ends. If
        the release is pending after that, no helm works on it, because no other controller of ours is at work here.
        """
        deadline = Deadline.after(GRACE_S)
        while True:
            found = installed(self.helm, self.cluster)
            release = found.releases.get(component.release)
            if release is None:
                return True
            if not found.is_our_revision(component.release):
                return False
            if not release.is_pending or deadline.left_s <= 0:
                return True
            sleep(min(self.limits.poll_s, deadline.left_s))

    def _make_way(self, step: Step) -> None:
        """Delete workloads of the release whose selector changes in the new version, and wait until they are gone."""
        kinds = {kind.kind: kind for kind in WORKLOAD_KINDS}
        deadline = Deadline.after(self.limits.ready_s)
        for title in step.replaced:
            kind, name = kinds[title.partition(" ")[0]], title.partition(" ")[2]
            live = self.cluster.find(kind, name, step.namespace)
            if live is None or release_of(live) != f"{step.namespace}/{step.component}":
                continue
            self.emit(f"{step.component}: {title} is deleted, for its selector changes; its pods stop meanwhile")
            self.cluster.delete(kind, name, step.namespace)
            until(partial(self._is_gone, kind, name, step.namespace), deadline, f"{title} to be gone")

    def _is_gone(self, kind: Kind, name: str, namespace: str) -> bool:
        return self.cluster.find(kind, name, namespace) is None

    def _recovered(self, component: Component, step: Step) -> int:
        """Return the newest revision of the release. If a helm of ours died on it, it is repaired first."""
        if step.action is not Action.RECOVER:
            return step.found_revision
        self.emit(f"{step.component}: {step.reason}")
        try:
            return self._freed(component)
        except HelmError as error:
            if not (error.two_at_once and self._ended(component)):
                raise
            return self._freed(component)

    def _wait(self, component: Component, step: Step) -> tuple[State, bool]:
        """Wait until a component is ready. Return its last state, and whether its own workloads are ready."""
        conditions = stack_facts().ready_when.get(component.name, ())
        namespaces = component.namespaces | {title.partition(" ")[2].partition("/")[0] for title in step.workloads}
        namespaces |= {step.found_release.partition("/")[0]} if step.found_release else set()
        works = False

        def read() -> dict[str, State]:
            nonlocal works
            workloads = read_workloads(self.cluster, namespaces, self.limits.pull_grace_s)
            own = [workload for workload in workloads if belongs(workload, component, step)]
            state = readiness(own, step.workloads)
            works = state.phase is Phase.OK
            if works and conditions:
                operands = [workload for workload in workloads if not workload.release]
                state = reported_state(self.cluster, conditions, operands)
            return {component.name: state}

        deadline = Deadline.after(self.limits.ready_s)
        states = wait_all(read, deadline, component.name, self.emit, self.limits.poll_s)
        return states[component.name], works


def _may_start(component: Component, done: dict[str, Done]) -> bool:
    return all(name in done and done[name].state in _GO_ON for name in component.depends_on)


def _blocker(component: Component, done: dict[str, Done]) -> str:
    bad = [name for name in component.depends_on if name in done and done[name].state not in _GO_ON]
    return bad[0] if bad else ""


def _is_unanswered(error: BringupError) -> bool:
    return isinstance(error, UnansweredError) or (isinstance(error, HelmError) and error.cut_off)


def _not_started(step: Step, blocker: str) -> Done:
    reason = f"waits for {blocker}, which is not ready"
    hint = f"fix {blocker} first"
    return Done(
        component=step.component, action=step.action, state="waiting", reason=reason, hint=hint, cause="blocked"
    )


def _done(step: Step, state: State, works: bool, duration_s: float) -> Done:
    word = "foreign" if step.action is Action.FOREIGN else "ready"
    reason, hint, cause = step.reason, step.hint, ""
    if state.phase is not Phase.OK:
        word, reason = "degraded" if works else "not-ready", state.reason
        hint = f"kubectl get pods -n {step.namespace}; kubectl describe the pod named above"
        cause = state.cause or "workload-not-ready"
    return Done(
        component=step.component,
        action=step.action,
        state=word,
        reason=reason,
        hint=hint,
        cause=cause,
        duration_s=round(duration_s, 1),
    )
