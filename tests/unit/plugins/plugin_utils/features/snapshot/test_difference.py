# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift between snapshots: nothing against itself, each changed fact once with its node and both values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshot_api import cluster_of, everything, node, pod

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.difference import (
    ComparedFact,
    Drift,
    Importance,
    SiteRule,
    drift_between,
    drift_of,
    drift_rules,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    WHOLE_HOST,
    Collected,
    CollectorResult,
    Host,
    HostGpu,
    Node,
    Release,
    Snapshot,
)

NEW = "something-else"
SEEN = CollectorResult(state=Collected.WHOLE)


def _whole() -> Snapshot:
    pods = [pod("d-1", ("DaemonSet", "driver"), "nvcr.io/nvidia/driver:580", "a")]
    seen = collect_cluster(cluster_of(everything([node("gpu01"), node("gpu02")], pods)), "gpufleet.bringup 0.0.0")
    gpu = HostGpu(product="NVIDIA H100", uuid="GPU-1", vbios="96.00", mig="Disabled", memory_mib=81559)
    host = Host(
        kernel="6.8.0", driver="580.95.05", modules=("nvidia",), gpus={"0000:19:00.0": gpu}, os={"ID": "ubuntu"}
    )
    return replace(
        seen,
        collectors={**seen.collectors, "hosts": SEEN, "releases": SEEN},
        hosts={"gpu01": host, "gpu02": host},
        releases={"gpu-operator/gpu-operator": Release(chart="gpu-operator", version="v26.7.0", status="deployed")},
        provider={"aks-gpu-pools": {"gpu-driver": "Install"}},
    )


WHOLE = _whole()
_LABEL = "node.labels[nvidia.com/cuda."
_DRIVER = ComparedFact("host.driver", "gpu01", "580.105.08", "575.57.08")
_PARTS = ("classes", "hosts", "nodes", "policies", "releases", "workloads")
_NO_FACTS = frozenset({"taken", "made_by", "collectors", "kind", "schema_version", "unread", "read_by"})
Changed = tuple[str, str, Any]


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else (NEW,) if isinstance(value, tuple) else NEW


def _each(value: Any, subject: str, put: Callable[[Any], Snapshot]) -> Iterator[tuple[str, str, Snapshot]]:
    """Yield, for every fact below a value: whose it is, what it was, and the snapshot in which it alone differs."""
    if is_dataclass(value) and not isinstance(value, type):
        for entry in (field for field in fields(value) if field.name not in _NO_FACTS):
            name, inner = entry.name, getattr(value, entry.name)
            if name in ("modules", "taints"):
                yield subject, "", put(replace(value, **{name: (*inner, f"{NEW}:NoExecute")}))
                continue
            yield from _each(inner, subject, lambda new, name=name: put(replace(value, **{name: new})))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _each(inner, subject, lambda new, key=key: put({**value, key: new}))
    else:
        shown = (
            ", ".join(value)
            if isinstance(value, tuple)
            else str(value).lower()
            if value is True or value is False
            else value
        )
        yield subject, "" if shown is None else str(shown), put(_other(value))


def _with(part: str, key: str, value: Any) -> Snapshot:
    return replace(WHOLE, **{part: {**getattr(WHOLE, part), key: value}})


def _all() -> list[tuple[str, str, Snapshot]]:
    found: list[tuple[str, str, Snapshot]] = []
    for entry in fields(WHOLE):
        value = getattr(WHOLE, entry.name)
        if entry.name in _NO_FACTS:
            continue
        if not isinstance(value, dict):
            found += _each(value, "", lambda new, name=entry.name: replace(WHOLE, **{name: new}))
            continue
        for key, inner in value.items():
            found += _each(inner, key, partial(_with, entry.name, key))
    return found


FACTS = _all()


def test_a_snapshot_against_itself_has_no_drift() -> None:
    drift = drift_between(WHOLE, _whole())
    assert drift.changes == ()
    assert not drift.incomplete and not drift.reaches(Importance.LOW)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(FACTS))
def test_any_one_changed_fact_is_told_once_with_its_node_and_both_values(changed: tuple[str, str, Snapshot]) -> None:
    subject, before, after = changed
    drift = drift_between(WHOLE, after)
    assert len(drift.changes) == 1, drift.changes
    (change,) = drift.changes
    assert change.subjects == (subject,)
    assert change.before == before
    assert change.after not in ("", change.before)
    assert change.text.startswith(change.importance.value)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(_PARTS),
    st.booleans(),
)
def test_a_thing_that_came_or_went_is_told_once(part: str, gone: bool) -> None:
    name = min(getattr(WHOLE, part))
    fewer = replace(WHOLE, **{part: {key: value for key, value in getattr(WHOLE, part).items() if key != name}})
    (change,) = drift_between(*((WHOLE, fewer) if gone else (fewer, WHOLE))).changes
    assert change.subjects == (name,)
    assert (change.before, change.after) == (("there", "not there") if gone else ("not there", "there"))


def test_a_label_that_came_or_went_is_told_with_its_value() -> None:
    first = WHOLE.nodes["gpu01"]
    more = replace(WHOLE, nodes={**WHOLE.nodes, "gpu01": replace(first, labels={**first.labels, "a": "", "b": "x"})})
    told = {change.path: (change.before, change.after) for change in drift_between(WHOLE, more).changes}
    assert told == {"node.labels[a]": ("", "there"), "node.labels[b]": ("", "x")}


def test_the_same_change_on_many_nodes_is_one_line_that_names_them() -> None:
    newer = {name: replace(entry, kernel="6.8.0-1030-aws") for name, entry in WHOLE.nodes.items()}
    (change,) = drift_between(WHOLE, replace(WHOLE, nodes=newer)).changes
    assert change.subjects == ("gpu01", "gpu02")
    assert change.text == "high: node.kernel: 6.8.0-1028-aws -> 6.8.0-1030-aws (gpu01, gpu02)"


def test_the_most_important_comes_first() -> None:
    first = WHOLE.nodes["gpu01"]
    labels = {**first.labels, "team": "blue"}
    less = {**first.allocatable, "nvidia.com/gpu": "7"}
    changed = replace(first, labels=labels, allocatable=less, kubelet="v1.35.0")
    told = drift_between(WHOLE, replace(WHOLE, nodes={**WHOLE.nodes, "gpu01": changed})).changes
    assert [change.path for change in told] == ["node.allocatable[nvidia.com/gpu]", "node.kubelet", "node.labels[team]"]
    assert [change.importance.value for change in told] == ["critical", "high", "low"]


@pytest.mark.parametrize(
    "path",
    [
        "node.labels[nvidia.com/gfd.timestamp]",
        "host.units[kubelet.service][ActiveEnterTimestamp]",
        "host.units[kubelet.service][MainPID]",
        "host.units[kubelet.service][CPUUsageNSec]",
        "host.sysctl[/proc/sys/kernel/random/uuid]",
    ],
)
def test_what_moves_by_itself_is_ignored_and_said(path: str) -> None:
    drift = drift_of([ComparedFact(path, "gpu01", "1", "2")])
    assert drift.changes == ()
    assert len(drift.ignored) == 1 and drift.ignored[0].endswith(": 1 value")
    assert drift.not_kept == drift_rules().not_kept != ()


@pytest.mark.parametrize(
    "path",
    [
        "node.labels[nvidia.com/gpu.product]",
        "host.units[kubelet.service][ActiveState]",
        "host.units[kubelet.service][FragmentPath]",
        "host.units[kubelet.service][CPUQuotaPerSecUSec]",
        "host.units[kubelet.service][TimeoutStopUSec]",
        "host.sysctl[/proc/sys/kernel/osrelease]",
    ],
)
def test_what_somebody_changed_is_not_ignored(path: str) -> None:
    assert len(drift_of([ComparedFact(path, "gpu01", "1", "2")]).changes) == 1


def test_another_driver_is_one_change_and_its_labels_are_counted_beside_it() -> None:
    labels = (
        ("driver-version.full", "580.105.08", "575.57.08"), ("driver-version.major", "580", "575"),
        ("driver-version.minor", "105", "57"), ("driver.major", "580", "575"), ("driver.minor", "105", "57"),
    )  # fmt: skip
    facts = [ComparedFact(f"{_LABEL}{name}]", "gpu01", before, after) for name, before, after in labels]
    drift = drift_of([*facts, _DRIVER])
    assert [change.path for change in drift.changes] == ["host.driver"]
    assert any(line.endswith("repeat host.driver: 5 values") for line in drift.ignored)


@pytest.mark.parametrize(
    "label",
    [
        ComparedFact(f"{_LABEL}driver-version.full]", "gpu02", "580.105.08", "575.57.08"),
        ComparedFact(f"{_LABEL}driver-version.full]", "gpu01", "580.105.08", "570.1.2"),
        ComparedFact(f"{_LABEL}driver-version.full]", "gpu01", "580.105.08", ""),
        ComparedFact(f"{_LABEL}runtime-version.full]", "gpu01", "580.105.08", "575.57.08"),
    ],
)
def test_a_label_that_says_anything_else_than_the_host_is_a_change_of_its_own(label: ComparedFact) -> None:
    assert len(drift_of([label, _DRIVER]).changes) == 2
    assert len(drift_of([label]).changes) == 1


GPU_NODE = {"nvidia.com/gpu": "8"}
KARPENTER = {"karpenter.sh/nodepool": "cpu"}


def _with_node(**changes: Any) -> Snapshot:
    return replace(WHOLE, nodes={**WHOLE.nodes, "gpu01": replace(WHOLE.nodes["gpu01"], **changes)})


def test_each_taint_and_each_module_is_a_fact_of_its_own() -> None:
    before = _with_node(taints=("dedicated=a:NoSchedule", "old:NoSchedule", "x:NoExecute", "x:NoSchedule"))
    after = _with_node(taints=("dedicated=b:NoSchedule", "new:NoExecute", "x:NoSchedule"))
    assert {(c.path, c.before, c.after) for c in drift_between(before, after).changes} == {
        ("node.taints[dedicated]", "a:NoSchedule", "b:NoSchedule"),
        ("node.taints[old]", "NoSchedule", ""),
        ("node.taints[new]", "", "NoExecute"),
        ("node.taints[x]", "NoExecute, NoSchedule", "NoSchedule"),
    }
    host = WHOLE.hosts["gpu01"]
    less = replace(WHOLE, hosts={**WHOLE.hosts, "gpu01": replace(host, modules=("nouveau", "tls"))})
    told = {change.path: change.importance for change in drift_between(WHOLE, less).changes}
    assert told == {
        "host.modules[nvidia]": Importance.HIGH, "host.modules[nouveau]": Importance.HIGH,
        "host.modules[tls]": Importance.LOW,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("taint", "told"),
    [
        # kubernetes/autoscaler cluster-autoscaler/utils/taints: the value is the time at which it was seen unneeded.
        ("DeletionCandidateOfClusterAutoscaler=1786925486:PreferNoSchedule", 0),
        ("ToBeDeletedByClusterAutoscaler=1786925486:NoSchedule", 0),
        ("karpenter.sh/disrupted:NoSchedule", 0),
        ("node.kubernetes.io/unschedulable:NoSchedule", 0),
        ("node.kubernetes.io/disk-pressure:NoSchedule", 1),
        ("dedicated=team-a:NoSchedule", 1),
    ],
)
def test_taints_that_come_and_go_by_themselves_are_ignored_and_others_told(taint: str, told: int) -> None:
    drift = drift_between(_with_node(taints=()), _with_node(taints=(taint,)))
    assert len(drift.changes) == told and len(drift.ignored) == 1 - told


@pytest.mark.parametrize(
    ("labels", "capacity", "told"),
    [
        (KARPENTER, {"cpu": "8"}, 0),
        (KARPENTER, GPU_NODE, 1),
        ({**KARPENTER, "nvidia.com/gpu.product": "NVIDIA-H100"}, {}, 1),
        ({"eks.amazonaws.com/compute-type": "fargate"}, {}, 0),
        ({"eks.amazonaws.com/compute-type": "ec2"}, {}, 1),
        ({}, {"cpu": "8"}, 1),
    ],
)
def test_nodes_of_an_autoscaler_come_and_go_unless_they_have_gpus(
    labels: dict[str, str], capacity: dict[str, str], told: int
) -> None:
    more = replace(WHOLE, nodes={**WHOLE.nodes, "new": Node(ready="True", labels=labels, capacity=capacity)})
    for before, after in ((WHOLE, more), (more, WHOLE)):
        drift = drift_between(before, after)
        assert [change.path for change in drift.changes] == ["node"] * told
        assert len(drift.ignored) == 1 - told


def test_services_that_timers_start_matter_less_than_those_of_gpu_nodes() -> None:
    def level(unit: str) -> Importance | None:
        changes = drift_of([ComparedFact(f"host.units[{unit}]", "gpu01", "there", "")]).changes
        return changes[0].importance if changes else None

    assert level("kubelet.service") is level("nvidia-fabricmanager.service") is Importance.HIGH
    assert level("apt-daily.service") is level("kubelet-extra.service") is Importance.LOW
    assert level("user@1000.service") is None


def test_what_a_site_knows_to_move_is_left_out_by_its_rule_and_said() -> None:
    facts = [
        ComparedFact("node", "ip-10-0-0-1", "there", "not there"),
        ComparedFact("node", "gpu01", "there", "not there"),
    ]
    rule = SiteRule(path="node", subject=r"ip-10-.*", reason="spot nodes")
    drift = drift_of(facts, own=(rule,))
    assert [change.subjects for change in drift.changes] == [("gpu01",)]
    assert drift.ignored == ("by a rule of the site, spot nodes: 1 value",)
    assert not drift_between(WHOLE, _with_node(labels={}), (SiteRule(path=r"node\.labels\[.*\]"),)).changes
    # A rule that fits a part of a path is none for the whole.
    assert drift_of(facts, own=(SiteRule(path="nod"),)).changes[0].subjects == ("gpu01", "ip-10-0-0-1")
    with pytest.raises(InputError, match="no regular expression"):
        SiteRule(path="node.labels[")


def test_a_taint_that_went_is_told_between_programs_and_what_one_does_not_record_is_not() -> None:
    before = replace(_with_node(taints=("dedicated=a:NoSchedule",)), made_by="aicr 0.11.1")
    after = _with_node(taints=(), kubelet="")
    assert [change.path for change in drift_between(before, after).changes] == ["node.taints[dedicated]"]


def _failing(collector: str) -> Snapshot:
    result = CollectorResult(state=Collected.FAILED, reason="forbidden", hint="grant list")
    return replace(WHOLE, collectors={**WHOLE.collectors, collector: result}, nodes={})


def test_a_side_that_could_not_look_is_no_drift_of_all_nodes_and_no_peace_either() -> None:
    drift: Drift = drift_between(WHOLE, _failing("nodes"))
    assert drift.changes == ()
    assert drift.incomplete and drift.reaches(Importance.CRITICAL)
    assert drift.not_compared == ("nodes: failed in the second snapshot: forbidden. Fix: grant list",)


def test_what_only_one_side_was_asked_for_is_said_and_not_compared() -> None:
    result = CollectorResult(state=Collected.NOT_ASKED, reason="no run was named")
    drift = drift_between(WHOLE, replace(WHOLE, collectors={**WHOLE.collectors, "hosts": result}, hosts={}))
    assert drift.changes == () and not drift.incomplete
    assert drift.not_compared == ("hosts: not-asked in the second snapshot: no run was named.",)
    assert drift.one_sided == ("hosts",)
    assert drift_between(WHOLE, WHOLE).one_sided == ()


def test_a_moved_tag_is_told_of_its_image() -> None:
    moved = replace(WHOLE, images={"nvcr.io/nvidia/driver:580": (f"sha256:{'f' * 64}",)})
    (change,) = drift_between(WHOLE, moved).changes
    assert (change.path, change.subjects) == ("image", ("nvcr.io/nvidia/driver:580",))


def test_another_cluster_comes_first() -> None:
    told = drift_between(WHOLE, replace(WHOLE, cluster_uid="other", nodes={})).changes
    assert told[0].path == "cluster.uid"


def test_devices_that_one_side_could_not_list_are_not_told_as_gone() -> None:
    failed = CollectorResult(state=Collected.FAILED, reason="forbidden")
    nodes = {name: replace(entry, devices={}) for name, entry in WHOLE.nodes.items()}
    blind = replace(WHOLE, nodes=nodes, collectors={**WHOLE.collectors, "devices": failed})
    drift = drift_between(WHOLE, blind)
    assert drift.changes == () and drift.incomplete
    gone = drift_between(WHOLE, replace(WHOLE, nodes=nodes)).changes
    assert {change.importance for change in gone} == {Importance.CRITICAL}


def _with_hosts(**hosts: Host) -> Snapshot:
    return replace(WHOLE, hosts=hosts)


def test_what_a_host_did_not_give_is_not_gone_and_leaves_the_comparison_incomplete() -> None:
    full = Host(kernel="6.8.0", sysctl={"/proc/sys/vm/swappiness": "10"}, read_by="ssh")
    cut = replace(full, sysctl={}, unread={"sysctl": "grep is not installed"})
    drift = drift_between(_with_hosts(gpu01=full), _with_hosts(gpu01=cut))
    assert not drift.changes and drift.incomplete
    assert drift.not_compared == ("sysctl of 1 host (gpu01): not given in the second snapshot",)
    before = drift_between(_with_hosts(gpu01=cut, gpu02=cut), _with_hosts(gpu01=full, gpu02=cut)).not_compared
    assert ["first" in line for line in before] == [True, False] and "(gpu02): not given in both snap" in before[1]
    alike = drift_between(_with_hosts(gpu01=cut), _with_hosts(gpu01=cut))
    assert not alike.changes and not alike.incomplete


def test_a_host_that_nobody_can_ask_does_not_end_every_comparison_and_is_told() -> None:
    full, out = Host(kernel="6.8.0", read_by="pod"), Host(unread={WHOLE_HOST: "cordoned"})
    accepted = _with_hosts(gpu01=full, gpu02=out)
    alike = drift_between(accepted, _with_hosts(gpu01=full, gpu02=out))
    assert not alike.changes and not alike.incomplete
    assert alike.not_compared == ("1 host not read in both snapshots: gpu02 (cordoned)",)
    newer = drift_between(accepted, _with_hosts(gpu01=replace(full, kernel="6.9.0"), gpu02=out))
    assert [(change.path, change.subjects) for change in newer.changes] == [("host.kernel", ("gpu01",))]
    # What was read once and is not now may have changed.
    for before, after in ((full, out), (out, full)):
        blind = drift_between(_with_hosts(gpu01=full, gpu02=before), _with_hosts(gpu01=full, gpu02=after))
        assert not blind.changes and blind.incomplete and blind.reaches(Importance.CRITICAL)
        word = "second" if after is out else "first"
        assert blind.not_compared == (f"1 host not read in the {word} snapshot: gpu02 (cordoned)",)
    gone = drift_between(accepted, _with_hosts(gpu01=full))
    assert [change.path for change in gone.changes] == ["host"] and not gone.incomplete


def test_a_host_that_is_read_in_another_way_differs_by_what_both_ways_see() -> None:
    gpus = {"0000:1a:00.0": HostGpu(product="H100", serial="1"), "0000:1b:00.0": HostGpu(product="H100")}
    sysctl = {"/proc/sys/net/core/rmem_max": "1"}
    ssh = Host(kernel="6.8.0", ofed="MLNX_OFED-24", sysctl=sysctl, gpus=gpus, read_by="ssh")
    pod = Host(kernel="6.9.0", gpus={"0000:1a:00.0": HostGpu(product="H100")}, read_by="pod")
    drift = drift_between(_with_hosts(gpu01=ssh), _with_hosts(gpu01=pod))
    assert [change.path for change in drift.changes] == ["host.gpus[0000:1b:00.0]", "host.kernel"]
    assert not drift.incomplete


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [(True, True, 0), (False, False, 0), (True, False, 1), (False, True, 1), (None, True, 0), (False, None, 0)],
)
def test_a_rehearsal_compared_with_a_cluster_is_told_and_what_nobody_recorded_is_not(
    before: bool | None, after: bool | None, told: int
) -> None:
    found = drift_between(replace(WHOLE, rehearsal=before), replace(WHOLE, rehearsal=after)).changes
    assert [(change.path, change.importance) for change in found] == [("cluster.rehearsal", Importance.CRITICAL)] * told


def test_an_earlier_snapshot_of_a_rehearsal_is_one_by_the_label_of_its_nodes() -> None:
    nodes = {name: replace(seen, labels={**seen.labels, "type": "kwok"}) for name, seen in WHOLE.nodes.items()}
    earlier = replace(WHOLE, nodes=nodes, rehearsal=None)
    assert drift_between(earlier, replace(earlier, rehearsal=True)).changes == ()
    told = drift_between(earlier, replace(earlier, nodes=WHOLE.nodes, rehearsal=False)).changes
    assert told[0].path == "cluster.rehearsal"


def test_what_a_provider_lists_is_compared_where_both_sides_have_it() -> None:
    other = replace(WHOLE, provider={"aks-gpu-pools": {"gpu-driver": "None"}})
    (change,) = drift_between(WHOLE, other).changes
    assert (change.path, change.before, change.after) == ("provider[gpu-driver]", "Install", "None")
    assert (change.subjects, change.importance) == (("aks-gpu-pools",), Importance.HIGH)
    drift = drift_between(WHOLE, replace(WHOLE, provider={}))
    assert drift.changes == () and not drift.incomplete
    assert any("aks-gpu-pools: only the first snapshot has it" in line for line in drift.not_compared)
