# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gate says of metrics: nothing of healthy ones, and each fault once, at its check, with its subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from gpu_metrics import FIELD, NOW, Metrics, Row, uuid

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.fleet import Fleet
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.model import (
    FieldSeen,
    FleetMetrics,
    Problem,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.observe_metrics import Names, field_seen
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.prometheus.prometheus import Sample, Vector
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, from_plain, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status

Change = Callable[[Metrics], None]
XID = "DCGM_FI_DEV_XID_ERRORS"


def findings(outcomes: tuple[Outcome, ...]) -> set[tuple[str, str, tuple[str, ...]]]:
    """Check, cause, and the parts (else the subject) of everything that is a finding of its own."""
    return {
        (o.check, o.cause, tuple(s.name for s in (o.subjects[1:] or o.subjects)))
        for o in outcomes
        if o.status is not Status.PASSED and not o.blocked_by
    }


def aged(host: str, age_s: float) -> Change:
    return lambda metrics: [setattr(row, "age_s", age_s) for row in metrics.of(host)] and None


def relabelled(**labels: str) -> Change:
    """Every series with other labels; an empty one is taken away, {host} is filled in."""

    def change(metrics: Metrics) -> None:
        for row in metrics.rows:
            host = row.labels["instance"].partition(":")[0]
            row.labels |= {name: value.format(host=host) for name, value in labels.items()}
            row.labels = {name: value for name, value in row.labels.items() if value}

    return change


def again(metrics: Metrics, host: str, **labels: str) -> None:
    metrics.rows += [Row({**row.labels, **labels}) for row in metrics.of(host)]


HEALTHY: dict[str, Change] = {
    "as the operand labels it": lambda metrics: None,
    "Hostname is the pod's name": relabelled(Hostname="dcgm-exporter-x7x9z"),
    "no host in the labels at all": relabelled(Hostname=""),
    "long host names": relabelled(Hostname="{host}.cluster.example.org"),
    "host in the label node": relabelled(Hostname="", node="{host}"),
    "labels of pods that use GPUs": relabelled(exported_pod="train-0", exported_namespace="users", pod="dcgm-1"),
    "two pods share a GPU": lambda metrics: again(metrics, "gpu02", exported_pod="other"),
    "almost two intervals old": aged("gpu02", 29.9),
    "a host that is set aside": lambda metrics: (setattr(metrics, "set_aside", ("gpu02",)), metrics.drop("gpu02", 3))[
        0
    ],
    "slices": lambda metrics: metrics.slice("gpu02", 3, "7", "8"),
    "slices that nobody has counted": lambda metrics: metrics.slice("gpu02", 3, exported=("7",)),
    "UUIDs are not known": lambda metrics: setattr(metrics, "known", False),
    "the label of exporters since May 2026": relabelled(Hostname="", hostname="{host}"),
    "an island beside nodes of the same cluster": lambda metrics: (
        setattr(metrics, "neighbours", ("old-17", "old-18")),
        metrics.rows.extend([metrics.row("old-17", 0), metrics.row("old-18", 0)]),
    )[0],
    "neighbours that are allowed": lambda metrics: (
        metrics.settings.update(allowed_hosts=["cpu*"]),
        metrics.rows.append(metrics.row("cpu7", 0)),
    )[0],
}
FAULTS: dict[str, tuple[Change, tuple[str, str, tuple[str, ...]]]] = {
    "no series of a host": (lambda m: m.drop("gpu02"), ("gpu-metrics-complete", "host-missing", ("gpu02",))),
    "no series of a GPU": (lambda m: m.drop("gpu02", 5), ("gpu-metrics-complete", "gpu-missing", ("gpu02/gpu5",))),
    "a value that is none": (
        lambda m: setattr(m.of("gpu02")[5], "value", 9223372036854775794.0),
        ("gpu-metrics-complete", "gpu-missing", ("gpu02/gpu5",)),
    ),
    "not a number": (
        lambda m: setattr(m.of("gpu02")[5], "value", float("nan")),
        ("gpu-metrics-complete", "gpu-missing", ("gpu02/gpu5",)),
    ),
    "old series of one GPU": (
        lambda m: setattr(m.of("gpu02")[5], "age_s", 31.0),
        ("gpu-metrics-fresh", "stale-series", ("gpu02/gpu5",)),
    ),
    "old series of a host": (
        aged("gpu02", 250.0),
        ("gpu-metrics-fresh", "stale-series", ("gpu02",)),
    ),
    "series from the future": (
        lambda m: setattr(m.of("gpu02")[5], "age_s", -60.0),
        ("gpu-metrics-fresh", "stale-series", ("gpu02/gpu5",)),
    ),
    "one GPU twice": (
        lambda m: m.rows.append(m.row("gpu02", 5, job="other")),
        ("gpu-metrics-unique", "duplicate-series", ("gpu02/gpu5",)),
    ),
    "scraped twice": (
        lambda m: again(m, "gpu02", job="other"),
        ("gpu-metrics-unique", "duplicate-series", ("gpu02",)),
    ),
    "a GPU that nobody knows": (
        lambda m: m.rows.append(m.row("gpu02", 9)),
        ("gpu-metrics-known", "stranger-gpu", ("gpu02",)),
    ),
    "a GPU without UUID": (
        lambda m: m.rows.append(m.row("gpu02", 9, UUID="")),
        ("gpu-metrics-known", "stranger-gpu", ("gpu02",)),
    ),
    "a host that nobody knows": (
        lambda m: m.rows.append(m.row("gpu77", 0)),
        ("gpu-metrics-known", "stranger-host", ("here",)),
    ),
    "a host under another's name": (
        lambda m: [row.labels.update(Hostname="gpu03") for row in m.of("gpu02")] and None,
        ("gpu-metrics-known", "wrong-host", ("gpu03",)),
    ),
    "a slice without its field": (
        lambda m: m.slice("gpu02", 3, "7", "8", exported=("7",)),
        ("gpu-metrics-complete", "profiling-field-missing", ("gpu02/gpu3",)),
    ),
    "no profiling at all": (
        lambda m: [m.slice("gpu02", gpu, "7", exported=()) for gpu in range(8)] and None,
        ("gpu-metrics-complete", "profiling-field-missing", tuple(f"gpu02/gpu{n}" for n in range(8))),
    ),
    "nobody scrapes": (lambda m: m.rows.clear(), ("gpu-metrics-scraped", "telemetry-blind", ("here",))),
    "the interval is not known": (
        lambda m: setattr(m, "interval_s", 0.0),
        ("gpu-metrics-fresh", "interval-unknown", ("gpu02", "gpu03")),
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_metrics_raise_no_alarm(name: str) -> None:
    metrics = Metrics()
    HEALTHY[name](metrics)
    assert [o.summary for o in metrics.outcomes() if o.status is not Status.PASSED] == []
    assert Fleet(metrics.view()).settled()


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_once_and_at_its_place(name: str) -> None:
    metrics, (change, expected) = Metrics(), FAULTS[name]
    change(metrics)
    found = findings(metrics.outcomes())
    assert {entry for entry in found if entry[:2] != ("gpu-metrics-fresh", "interval-unknown")} <= {expected}
    assert expected in found
    assert not Fleet(metrics.view()).settled()


def test_a_host_that_nobody_knows_is_for_a_person_to_decide() -> None:
    """It may belong to another cluster that the same Prometheus scrapes; it is no fault of the hosts under test."""
    metrics = Metrics(neighbours=("old-17",))
    metrics.rows.append(metrics.row("gpu77", 0))
    (found,) = [o for o in metrics.outcomes() if o.status is not Status.PASSED]
    assert (found.status, found.rating, found.cause) == (Status.OTHER, Rating.MARGINAL, "stranger-host")


def test_the_nodes_beside_an_island_are_counted_not_blamed() -> None:
    metrics = Metrics(neighbours=("old-17",))
    metrics.rows.append(metrics.row("old-17", 0))
    (known,) = [o for o in metrics.outcomes() if o.check == "gpu-metrics-known"]
    assert known.status is Status.PASSED and "1 other node of the cluster left alone" in known.summary


@pytest.mark.parametrize(
    ("lacking", "subjects"), [(("gpu02",), ("here", "gpu02")), (("gpu01", "gpu02", "gpu03"), ("here",))]
)
def test_a_series_that_alerts_need_and_that_is_not_there(lacking: tuple[str, ...], subjects: tuple[str, ...]) -> None:
    metrics = Metrics(without_fields={"DCGM_FI_DEV_XID_ERRORS": lacking})
    (found,) = [o for o in metrics.outcomes() if o.status is not Status.PASSED]
    assert (found.check, found.cause, found.rating) == ("gpu-metrics-alertable", "metric-missing", Rating.MARGINAL)
    assert tuple(subject.name for subject in found.subjects) == subjects
    assert "DCGM_FI_DEV_XID_ERRORS" in found.summary and "GPU_TEMP" not in found.summary


def _alert_series(metrics: Metrics, **labels_of: dict[str, str]) -> FieldSeen:
    """What is seen of the XIDs of gpu02, a sample for each of these labels, and of the other hosts, which have all."""
    rows = [row.labels for host in ("gpu01", "gpu03") for row in metrics.of(host)]
    values = Vector(NOW, tuple(Sample(labels, 0.0) for labels in (*rows, *labels_of.values())))
    view = metrics.view()
    found = field_seen(XID, values, metrics.targets(), Names(view.hosts), view.settings, view.series)
    (other,) = {o.status for o in metrics.outcomes(_with(view, found)) if o.check == "gpu-metrics-alertable"}
    assert (other is Status.PASSED) == ("gpu02" in found.hosts)
    return found


def _with(view: FleetMetrics, found: FieldSeen) -> FleetMetrics:
    return replace(view, alert_fields=tuple(found if e.field == XID else e for e in view.alert_fields or ()))


def test_a_series_that_alerts_need_is_asked_of_every_gpu_of_a_host() -> None:
    """An exporter that leaves out a field without a value leaves it out for one GPU, not for its host."""
    metrics = Metrics()
    every = {row.labels["gpu"]: row.labels for row in metrics.of("gpu02")}
    assert _alert_series(metrics, **every).hosts == ("gpu01", "gpu02", "gpu03")
    one = _alert_series(metrics, gpu3=every["3"])
    assert one.hosts == ("gpu01", "gpu03")
    (found,) = [o for o in metrics.outcomes(_with(metrics.view(), one)) if o.status is not Status.PASSED]
    assert (found.cause, found.rating) == ("metric-missing", Rating.MARGINAL)
    assert f"no {XID} of every GPU at gpu02" in found.summary
    # What names no GPU is about its host: a rule of the site may have summed it up.
    assert "gpu02" in _alert_series(metrics, host={"Hostname": "gpu02"}).hosts


def test_a_run_that_did_not_look_for_them_is_not_passed() -> None:
    metrics = Metrics()
    (found,) = [o for o in metrics.outcomes(replace(metrics.view(), alert_fields=None)) if o.cause]
    assert (found.check, found.status, found.cause) == ("gpu-metrics-alertable", Status.OTHER, "fields-unread")


def test_what_holds_the_metrics_of_all_hosts_is_told_once() -> None:
    metrics = Metrics()
    for host in metrics.hosts:
        metrics.drop(host, 5)
    (found,) = [o for o in metrics.outcomes() if o.status is Status.FAILED]
    assert (found.cause, [s.name for s in found.subjects if not s.name.endswith("/gpu5")]) == (
        "gpu-missing",
        ["gpu01", "gpu02", "gpu03"],
    )


def test_a_missing_host_is_told_with_what_its_target_says() -> None:
    metrics = Metrics(down={"gpu02": "connection refused"})
    metrics.drop("gpu02")
    (lost,) = (o for o in metrics.outcomes() if o.cause == "host-missing")
    assert "connection refused" in lost.summary
    waiting = [o for o in metrics.outcomes() if o.cause == "blocked-by-gpu-metrics-complete"]
    assert {subject.name for o in waiting for subject in o.subjects} == {"gpu02", "here"}


def test_a_host_of_which_a_gpu_is_not_seen_passes_nothing() -> None:
    """The series that is not there may be old or double, too; a fault of those that are there is told."""
    metrics = Metrics()
    metrics.drop("gpu02", 5)
    of_host = {o.check: o for o in metrics.outcomes() if o.subjects[0].name == "gpu02"}
    assert of_host["gpu-metrics-complete"].cause == "gpu-missing"
    assert {o.status for o in of_host.values()} == {Status.FAILED, Status.OTHER}
    assert "1 of 8 GPUs" in of_host["gpu-metrics-fresh"].summary
    metrics.of("gpu02")[0].age_s = 250.0
    assert {cause for _check, cause, _on in findings(metrics.outcomes())} == {"gpu-missing", "stale-series"}


def test_the_series_that_alerts_need_are_not_passed_while_a_host_has_none() -> None:
    metrics = Metrics()
    metrics.drop("gpu02")
    (alertable,) = [o for o in metrics.outcomes() if o.check == "gpu-metrics-alertable"]
    assert (alertable.status, alertable.blocked_by) == (Status.OTHER, "gpu-metrics-complete")
    assert "gpu02" in alertable.summary


def test_a_host_in_mig_mode_whose_exporter_is_down_is_missing() -> None:
    metrics = Metrics(down={"gpu02": "connection refused"})
    for gpu in range(8):
        metrics.slice("gpu02", gpu, "7", exported=())
    assert findings(metrics.outcomes()) == {("gpu-metrics-complete", "host-missing", ("gpu02",))}


@pytest.mark.parametrize(
    ("gpus", "check", "cause"), [(7, "gpu-metrics-complete", "gpu-missing"), (9, "gpu-metrics-known", "stranger-gpu")]
)
def test_without_uuids_their_number_counts(gpus: int, check: str, cause: str) -> None:
    metrics = Metrics(known=False)
    metrics.drop("gpu02")
    metrics.rows += [metrics.row("gpu02", gpu) for gpu in range(gpus)]
    assert findings(metrics.outcomes()) == {(check, cause, ("gpu02",))}


def test_slices_count_for_their_gpu_where_uuids_are_not_known() -> None:
    metrics = Metrics(known=False)
    metrics.slice("gpu02", 3, "7", "8")
    assert findings(metrics.outcomes()) == set()


def test_an_interval_that_the_site_states_is_used() -> None:
    metrics = Metrics(interval_s=0.0, settings={"interval_s": 30.0})
    for row in metrics.rows:
        row.age_s = 59.0
    assert findings(metrics.outcomes()) == set()


def test_a_prometheus_that_cannot_be_asked_is_told_once() -> None:
    metrics = Metrics()
    problem = Problem(cause="prometheus-unreachable", subject="service x", reason="no pod is ready.", hint="look")
    view = FleetMetrics(hosts=metrics.expected(), settings=metrics.view().settings, problem=problem)
    outcomes = metrics.outcomes(view)
    assert findings(outcomes) == {("gpu-metrics-scraped", "prometheus-unreachable", ("here",))}
    assert all(o.status is Status.OTHER for o in outcomes)


def test_a_host_of_an_unknown_sku_is_not_passed() -> None:
    metrics = Metrics(known=False)
    view = metrics.view()
    hosts = tuple(replace(host, count=0) if host.name == "gpu02" else host for host in view.hosts)
    outcomes = [o for o in metrics.outcomes(replace(view, hosts=hosts)) if o.cause == "sku-unknown"]
    assert {o.check for o in outcomes} == {
        "gpu-metrics-complete",
        "gpu-metrics-fresh",
        "gpu-metrics-unique",
    }


def test_a_view_is_the_same_after_it_was_saved() -> None:
    view = Metrics().view()
    assert from_plain(FleetMetrics, to_plain(view), "test") == view
    assert FIELD in dumps(view)
    assert uuid("gpu01", 0) in dumps(view)
