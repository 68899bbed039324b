# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe a test alert on its way: rule, Prometheus, Alertmanager, receiver.

The test creates all its objects and removes them.

The receiver is a pod whose log is read. An alert that is not in the log has not arrived, even if it was reported as
sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster, ask_all
from ...clients.kube.connection import connection_from
from ...clients.kube.objects import ALERTMANAGER_CONFIGS, NAMESPACES, PROMETHEUS_RULES, Kind, is_ready
from ...clients.prometheus.prometheus import Alertmanager, Prometheus
from ...outcome.errors import BringupError, DeadlineError, InputError, NotFoundError, UnavailableError
from ...runtime.clock import Deadline, pause, unlimited
from ...runtime.files import RECIPES, write_atomic
from ...runtime.progress import Progress
from ...runtime.redaction import redact
from ...site.model import Site
from ...workload.manifests import render
from ...workload.namespace import MARGIN_S, TemporaryNamespace, temporary_namespace
from ...workload.pods import PodEnd, end_of, waits_for
from ..kit.saved_settings import observer_with_settings
from ..spec import ObserveContext
from .find import MONITORING, PROMETHEUSES, alertmanager_session, prometheus_session
from .model import AlertDelivery, Problem
from .observe_metrics import unreachable
from .recipe_rules import rules_of
from .settings import GATE, AlertSettings, TelemetrySettings

# How an operator selects its objects, and the labels that an object of the test needs to be selected. Pure.

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What an object of the test needs to be selected by an operator.

    Attributes:
        labels: its labels.
        namespace_labels: the labels of its namespace.
        only_namespace: the one namespace that is searched, that of the owner. Empty: any with the labels.
    """

    labels: dict[str, str] = field(default_factory=dict)
    namespace_labels: dict[str, str] = field(default_factory=dict)
    only_namespace: str = ""


def way_into(owner: Json, what: str) -> Way:
    """Return what the selectors `<what>Selector` and `<what>NamespaceSelector` of an owner need to select an object.

    Raises:
        InputError: they select nothing, or labels alone cannot meet them.
    """
    spec, metadata = owner.get("spec") or {}, owner["metadata"]
    subject = f"{owner.get('kind') or 'object'} {metadata['namespace']}/{metadata['name']}"
    selector = spec.get(f"{what}Selector")
    if selector is None:
        raise InputError(subject, f"it has no {what}Selector, so it takes up none.", f"set spec.{what}Selector to {{}}")
    labels = labels_for(selector, f"{subject}: {what}Selector")
    spaces = spec.get(f"{what}NamespaceSelector")
    if spaces is None:
        return Way(labels=labels, only_namespace=metadata["namespace"])
    return Way(labels=labels, namespace_labels=labels_for(spaces, f"{subject}: {what}NamespaceSelector"))


def labels_for(selector: Mapping[str, Any], subject: str) -> dict[str, str]:
    """Return labels that match a label selector.

    Raises:
        InputError: it contradicts itself, or has an unknown operator.
    """
    found: dict[str, str] = dict(selector.get("matchLabels") or {})
    for entry in selector.get("matchExpressions") or []:
        key, operator, values = entry.get("key", ""), entry.get("operator"), entry.get("values") or []
        # An absent label meets DoesNotExist, and NotIn too.
        if operator == "DoesNotExist" or (operator == "NotIn" and found.get(key) not in values):
            continue
        if operator == "Exists":
            found.setdefault(key, "gpufleet")
        elif operator == "In" and values and found.get(key, values[0]) in values:
            found.setdefault(key, values[0])
        else:
            raise InputError(subject, f"cannot be met by labels: {entry}.", "select test rules of gpufleet, too")
    return found


# Reading the log of the receiver. Pure.


def is_listening(log: str) -> bool:
    """Return whether the log has the entry that the receiver is listening."""
    return any("listening" in entry for entry in _entries(log))


def received(log: str, name: str) -> bool:
    """Return whether the log has a notification of the firing test alert."""
    for entry in _entries(log):
        alerts = entry.get("alerts")
        if isinstance(alerts, list) and ["firing", name] in alerts:
            return True
    return False


def _entries(log: str) -> list[dict[str, object]]:
    found = []
    for line in log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            # Only complete lines of the receiver count. The last one may be cut off.
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found


# The receiver of the test alert: a pod that runs until its log is no longer read. A missing log entry proves that the
# alert did not arrive only while the pod runs: if it ended, was evicted or restarted, what it would have received is
# unknown.

NAME, PORT = "receiver", 8080
_TEMPLATE = RECIPES / "workloads" / "alert-receiver.yaml.j2"
_SUBJECT = "receiver of the test alert"
_SETTING = f"gpufleet_settings.{GATE}.image"
_POLL_S = 0.5
_LAST_LINES, _SAID = 10, 300
_REMOVED = PodEnd("its pod is gone: somebody else removed it", "run the gate again; who removes pods?")


@dataclass(slots=True)
class Receiver:
    """The receiver in an open namespace. Its log is saved to a file of the run directory."""

    namespace: TemporaryNamespace
    context: ObserveContext
    path: Path
    _restarts: int = field(init=False, default=0)

    def start(self, alert: AlertSettings, longest_s: float) -> None:
        """Create the pod and wait until it listens.

        Args:
            alert: settings of the test.
            longest_s: deadline of the pod in seconds, after which the test is certain to be over.

        Raises:
            UnavailableError: its pod ended, or was ended.
            DeadlineError: it does not become ready.
        """
        namespace = self.namespace
        variables = {
            "name": NAME, "namespace": namespace.name, "image": alert.image, "labels": namespace.labels,
            "priority_class": namespace.priority_class, "port": PORT, "deadline_s": longest_s,
        }  # fmt: skip
        namespace.create(render(_TEMPLATE, variables))
        deadline, progress, observed = Deadline.after(alert.ready_s), Progress(self.context.emit), False
        while True:
            pod = self._pod()
            if pod is not None and is_ready(pod) and is_listening(self.log()):
                self._restarts = _restarts(pod)
                return
            ended = end_of(pod) if pod is not None else _REMOVED if observed else None
            if ended is not None:
                self._give_up(ended)
            observed = observed or pod is not None
            waits = waits_for(pod, alert.image, _SETTING) if pod is not None else PodEnd("its pod is not there", "")
            if deadline.left_s <= 0:
                raise DeadlineError(
                    _SUBJECT, f"not ready after {alert.ready_s:g} s: {self._with_words(waits)}.", waits.hint
                )
            progress.tick(f"alert: receiver: {waits.text}"[:180])
            pause(_POLL_S)

    def stays(self) -> None:
        """Verify that the pod has been running all the time.

        Raises:
            UnavailableError: it has not, or it is not ready.
        """
        pod = self._pod()
        ended = end_of(pod) if pod is not None else _REMOVED
        if ended is None and pod is not None and (_restarts(pod) > self._restarts or not is_ready(pod)):
            ended = waits_for(pod, "its image", _SETTING)
        if ended is not None:
            self._give_up(ended)

    def log(self, tail_lines: int = 0, *, previous: bool = False) -> str:
        """Return what it wrote. Empty: that cannot be read."""
        namespace = self.namespace
        try:
            return namespace.cluster.logs(NAME, namespace.name, tail_lines=tail_lines, previous=previous)
        except BringupError:
            # The container may not have started, or the kubelet may be busy. Only the last read counts.
            return ""

    def keep(self, log: str) -> None:
        """Write a log of the pod to the run directory."""
        write_atomic(self.context.run_dir / self.path, redact(log))

    def _pod(self) -> dict[str, Any] | None:
        return next(iter(self.namespace.pods()), None)

    def _give_up(self, ended: PodEnd) -> None:
        raise UnavailableError(_SUBJECT, f"did not stay: {self._with_words(ended)}.", ended.hint)

    def _with_words(self, end: PodEnd) -> str:
        """Return the text with the last lines of the container that it is about. They are saved as evidence too."""
        before = self.log(_LAST_LINES, previous=True) if end.restarted else ""
        reported = before or self.log(_LAST_LINES)
        if not reported.strip():
            return end.text
        self.keep(reported)
        return f"{end.text}; it wrote last: {' | '.join(redact(reported).split(chr(10))).strip(' |')[-_SAID:]}"


def _restarts(pod: dict[str, Any]) -> int:
    return sum(
        int(entry.get("restartCount") or 0) for entry in (pod.get("status") or {}).get("containerStatuses") or []
    )


ALERT = "GpufleetTelemetryTest"
ALERTMANAGERS = Kind(f"{MONITORING}/v1", "Alertmanager", "alertmanagers")
_TEMPLATES = RECIPES / "workloads"
_LOG = Path("evidence") / GATE / "alert-receiver.log"
_PREFIX, _PRIORITY = "gpufleet-test", -100
# Largest expected difference between the clocks of API server and Prometheus, in seconds.
_CLOCKS_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the rule and the route need to be selected by their operators."""

    rule: Way
    config: Way


def observe(context: ObserveContext) -> AlertDelivery:
    """Send one test alert and return how far it came.

    Raises:
        BringupError: the API server does not respond.
    """
    settings = context.settings_of(GATE, TelemetrySettings)
    with Cluster(connection_from(context.connections)) as cluster:
        try:
            prometheus = Prometheus(prometheus_session(cluster, settings.metrics))
            wired = prometheus.alertmanagers()
        except BringupError as error:
            return AlertDelivery(settings=settings, problem=unreachable(error))
        trace = AlertDelivery(settings=settings, where=prometheus.where, alertmanagers=wired)
        problem = _forbidden(cluster, settings)
        if problem is not None:
            return replace(trace, problem=problem)
        try:
            plan = _plan(cluster)
        except BringupError as error:
            return replace(trace, problem=_problem("no-way-for-alerts", error))
        trace = _tested(context, cluster, prometheus, plan, trace)
        if trace.problem is not None or trace.loaded_s is None:
            return trace
        return replace(trace, recipe_rules=rules_of(prometheus, context.recipe, Progress(context.emit)))


def _problem(cause: str, error: BringupError) -> Problem:
    return Problem(cause=cause, subject=error.subject, reason=error.reason, hint=error.hint)


def _forbidden(cluster: Cluster, settings: TelemetrySettings) -> Problem | None:
    """Return which permissions are missing, before anything is created. None: all are granted."""
    denied = [permission.text for permission in ask_all(cluster, settings.permissions) if not permission.allowed]
    if not denied:
        return None
    hint = "grant them to this user (docs/telemetry.md lists what the gate needs)"
    return Problem(cause="not-allowed", subject="alert test", reason=f"may not {', '.join(denied)}.", hint=hint)


def _plan(cluster: Cluster) -> _Plan:
    return _Plan(_way(cluster, PROMETHEUSES, "rule"), _way(cluster, ALERTMANAGERS, "alertmanagerConfig"))


def _way(cluster: Cluster, kind: Kind, what: str) -> Way:
    owners = cluster.find_all(kind)
    if not owners:
        hint = "the test needs prometheus-operator (kube-prometheus-stack): it makes a rule and a receiver as objects"
        raise NotFoundError(kind.kind, "the cluster has no such object.", hint)
    if len(owners) > 1:
        names = ", ".join(f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in owners)
        raise InputError(kind.kind, f"the cluster has several: {names}.", "one is expected")
    way = way_into({"kind": kind.kind, **owners[0]}, what)
    if what != "rule" and way.only_namespace:
        hint = f"set spec.{what}NamespaceSelector to {{}}, so that a test may have a namespace of its own"
        raise InputError(kind.kind, f"takes up {what} objects of its own namespace only.", hint)
    return way


def _tested(
    context: ObserveContext, cluster: Cluster, prometheus: Prometheus, plan: _Plan, trace: AlertDelivery
) -> AlertDelivery:
    alert = trace.settings.alert
    kinds = (PROMETHEUS_RULES, ALERTMANAGER_CONFIGS)
    with temporary_namespace(
        cluster,
        "alert",
        prefix=_PREFIX,
        priority=_PRIORITY,
        kinds=kinds,
        cleanup_s=alert.cleanup_s,
        emit=context.emit,
        holder=context.holder,
    ) as namespace:
        trace = replace(trace, name=namespace.name)
        try:
            _mark(cluster, namespace, plan)
            receiver = Receiver(namespace, context, _LOG)
            receiver.start(alert, _longest_s(alert))
            trace = _followed(context, cluster, prometheus, receiver, plan, trace)
        except BringupError as error:
            trace = replace(trace, problem=_problem("alert-test-failed", error))
        finally:
            with unlimited():
                _sweep_foreign(cluster, namespace, plan)
    return replace(trace, leftovers=tuple(namespace.leftovers))


def _mark(cluster: Cluster, namespace: TemporaryNamespace, plan: _Plan) -> None:
    """Set the labels on the namespace by which the operators select it."""
    labels = plan.rule.namespace_labels | plan.config.namespace_labels
    if labels:
        cluster.patch(NAMESPACES, namespace.name, {"metadata": {"labels": labels}})


def _longest_s(alert: AlertSettings) -> float:
    """Return after how many seconds from its start the test is certain to be over."""
    return alert.ready_s + alert.load_s + alert.fire_s + alert.arrive_s + alert.cleanup_s + MARGIN_S


def _followed(
    context: ObserveContext,
    cluster: Cluster,
    prometheus: Prometheus,
    receiver: Receiver,
    plan: _Plan,
    trace: AlertDelivery,
) -> AlertDelivery:
    """Create the rule and the route, and follow the alert until it arrives or a deadline passes.

    Raises:
        BringupError: the receiver did not stay, so that it is not known what would have arrived.
    """
    alert, started = trace.settings.alert, time.monotonic()
    for obj in _objects(receiver.namespace, plan, alert):
        cluster.create(cluster.kind(obj["apiVersion"], obj["kind"]), obj, obj["metadata"]["namespace"])
    deadline, progress = Deadline.after(alert.load_s), Progress(context.emit)
    while deadline.left_s > 0 and trace.received_s is None and not trace.rule_error:
        before = trace
        trace = _observed(prometheus, receiver.log(), trace, time.monotonic() - started)
        if before.loaded_s is None and trace.loaded_s is not None:
            deadline = Deadline.after(alert.fire_s)
        if before.firing_s is None and trace.firing_s is not None:
            deadline = Deadline.after(alert.arrive_s)
        progress.tick(f"alert: {_standing(trace)}")
        if trace.received_s is None:
            pause(min(_POLL_S, deadline.left_s))
    receiver.keep(receiver.log())
    trace = replace(trace, evidence=str(_LOG))
    if trace.received_s is not None or trace.problem is not None:
        return trace
    if trace.firing_s is not None:
        receiver.stays()
    return _requested(cluster, replace(trace, alertmanagers=prometheus.alertmanagers()))


def _objects(namespace: TemporaryNamespace, plan: _Plan, alert: AlertSettings) -> list[dict[str, Any]]:
    variables = {
        "name": namespace.name, "namespace": namespace.name,
        "rule_namespace": plan.rule.only_namespace or namespace.name, "alert": ALERT, "labels": namespace.labels,
        "rule_labels": plan.rule.labels, "config_labels": plan.config.labels,
        "interval_s": alert.rule_interval_s, "url": f"http://{NAME}.{namespace.name}.svc:{PORT}/",
        "holder": namespace.holder, "expires_at": int(namespace.created_at + _longest_s(alert) + _CLOCKS_S),
    }  # fmt: skip
    return render(_TEMPLATES / "alert-rule.yaml.j2", variables)


def _observed(prometheus: Prometheus, log: str, trace: AlertDelivery, now_s: float) -> AlertDelivery:
    """Return how far the alert is: rule and state in Prometheus, notification at the receiver."""
    try:
        rules = prometheus.alert_rules()
    except BringupError as error:
        # It may be loading its new configuration. Only an error that persists counts.
        return replace(trace, problem=_problem("alert-test-failed", error))
    trace = replace(trace, problem=None)
    rule = next((rule for rule in rules if rule.labels.get("gpufleet_test") == trace.name), None)
    if rule is not None:
        # A rule with health `unknown` is loaded, but was not evaluated yet.
        trace = replace(trace, rule_error=rule.last_error if rule.health == "err" else "")
        trace = trace if trace.loaded_s is not None or rule.health == "unknown" else replace(trace, loaded_s=now_s)
        if rule.state == "firing" and trace.firing_s is None:
            trace = replace(trace, firing_s=now_s)
    # Only an alert that Prometheus evaluated counts. Nothing else knows its name.
    if trace.firing_s is not None and received(log, trace.name):
        trace = replace(trace, received_s=now_s)
    return trace


def _requested(cluster: Cluster, trace: AlertDelivery) -> AlertDelivery:
    """Query Alertmanager about an alert that did not arrive. This only helps to locate where it got lost."""
    try:
        alerts = Alertmanager(alertmanager_session(cluster, trace.settings.metrics)).alerts("gpufleet_test", trace.name)
    except BringupError:
        return trace
    receivers = tuple(sorted({name for alert in alerts for name in alert.receivers}))
    return replace(trace, asked=True, routed=receivers if alerts else None)


def _sweep_foreign(cluster: Cluster, namespace: TemporaryNamespace, plan: _Plan) -> None:
    """Remove the rule if it is outside the namespace of the test, and rules that dead tests left there."""
    if not plan.rule.only_namespace:
        return
    labels = ",".join(f"{key}={value}" for key, value in namespace.labels.items() if key != "gpufleet.io/test")
    try:
        alive = {item["metadata"]["name"] for item in cluster.list_objects(NAMESPACES, labels=labels)} - {
            namespace.name
        }
        for item in cluster.list_objects(PROMETHEUS_RULES, plan.rule.only_namespace, labels=labels):
            if item["metadata"]["name"] not in alive:
                cluster.delete(PROMETHEUS_RULES, item["metadata"]["name"], plan.rule.only_namespace)
    except BringupError as error:
        namespace.leftovers.append(f"rule in {plan.rule.only_namespace}: {error.reason}")


def _standing(trace: AlertDelivery) -> str:
    if trace.loaded_s is None:
        return "waiting for Prometheus to take up the rule"
    return "waiting for the rule to fire" if trace.firing_s is None else "firing, waiting for its arrival"


def restore(data: Any, run_dir: Path, site: Site) -> AlertDelivery:
    """Return how far the alert came. The saved log of the receiver is read again to verify that it arrived.

    Raises:
        InputError: the data are not what this release writes, or the log does not have the alert.
    """
    observed = _AS_SAVED.restore(data, run_dir, site)
    if (
        observed.evidence
        and observed.received_s is not None
        and not received(_kept(run_dir / observed.evidence), observed.name)
    ):
        reason = f"says that {observed.name or 'an alert without a name'} arrived; {observed.evidence} does not."
        raise InputError("observation alert", reason, "run the gate again")
    return observed


def _kept(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


_AS_SAVED = observer_with_settings("alert", AlertDelivery, observe, TelemetrySettings, GATE)
OBSERVER = replace(_AS_SAVED, restore=restore)
