# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs must have metrics: nvidia-smi's list, else the DRA driver's if it is whole, else their number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.find import (
    find_service,
    service_of_prometheus,
    service_ref,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.model import EVIDENCE, SKU, SLICES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.observe_metrics import (
    expected_hosts,
    uuids_by_node,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.model import ServiceRef
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    InputError,
    NotFoundError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

SITE = make_site(tuple(Host(name=name, sku="dgx-a100", node_name=name) for name in ("a", "b", "c", "d")), name="here")


def slice_of(node: str, count: int, *, old: bool = False, driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    devices = []
    for number in range(count):
        attributes = {"attributes": {"uuid": {"string": f"GPU-{node}-{number}"}}}
        devices.append({"name": f"gpu-{number}", **({"basic": attributes} if old else attributes)})
    return {"spec": {"driver": driver, "nodeName": node, "devices": devices}}


def test_the_best_source_counts(tmp_path: Path, repository: Path, shared: Path) -> None:
    text = (shared / "captures" / "nvidia-smi-xml" / "a100-sxm4-80gb-mig4-535.xml").read_text()
    run = ToolRun(argv=("nvidia-smi", "-q", "-x"), rc=0, stdout=text)
    write_evidence(tmp_path, HostEvidence(host="a", reached=True, tools={"nvidia_smi_xml": run}))
    slices = [slice_of("a", 8), slice_of("b", 8), slice_of("c", 7)]
    hosts = expected_hosts(SITE, tmp_path, load_hardware([repository / "recipes" / "hardware"]), slices)
    assert [(host.source, host.count) for host in hosts] == [
        (EVIDENCE, len(hosts[0].gpus)), (SLICES, 8), (SKU, 8), (SKU, 8),
    ]  # fmt: skip
    assert [len(host.gpus) for host in hosts[1:]] == [8, 0, 0]
    sliced = [gpu for gpu in hosts[0].gpus if gpu.mig]
    assert sliced
    assert {"3", "4", "5"} <= {number for gpu in sliced for number in gpu.instances}


def test_a_host_that_is_set_aside_is_not_expected(tmp_path: Path) -> None:
    site = replace(SITE, quarantine=(Quarantine(node="b", reason="r", ticket="t", who="w"),))
    hosts = expected_hosts(site, tmp_path, {}, [])
    assert [host.name for host in hosts if not host.in_scope] == ["b"]
    assert [host.count for host in hosts] == [0, 0, 0, 0]


def test_both_forms_of_slices_are_read_and_only_gpus_count() -> None:
    slices = [slice_of("a", 2), slice_of("b", 1, old=True), slice_of("c", 1, driver="compute-domain.nvidia.com")]
    slices += [{"spec": {"driver": "gpu.nvidia.com", "nodeName": "d", "devices": [{"name": "gpu-0-mig-1"}]}}]
    assert uuids_by_node(slices) == {"a": ("GPU-a-0", "GPU-a-1"), "b": ("GPU-b-0",)}


class Services(Cluster):
    """A cluster with these Services."""

    def __init__(self, *services: dict[str, Any]) -> None:
        self.services = list(services)

    def list_objects(self, *_args: Any, **_options: Any) -> list[dict[str, Any]]:
        return self.services


def service(name: str, *, program: str = "prometheus", port: int = 9090, ip: str = "10.0.0.1") -> dict[str, Any]:
    spec = {"selector": {"app.kubernetes.io/name": program, "x": "y"}, "ports": [{"port": port}], "clusterIP": ip}
    return {"metadata": {"namespace": "monitoring", "name": name}, "spec": spec}


def test_prometheus_is_found_by_what_its_service_selects() -> None:
    cluster = Services(
        service("prometheus-operated", ip="None"),
        service("kps-prometheus"),
        service("kps-alertmanager", program="alertmanager", port=9093),
        {"metadata": {"namespace": "x", "name": "external"}, "spec": {"ports": [{"port": 9090}]}},
    )
    assert find_service(cluster, "prometheus") == ServiceRef("monitoring", "kps-prometheus", 9090)
    assert find_service(cluster, "alertmanager").name == "kps-alertmanager"
    assert find_service(Services(service("prometheus-operated", ip="None")), "prometheus").name == "prometheus-operated"


def test_none_or_several_are_told() -> None:
    with pytest.raises(NotFoundError, match="no Service"):
        find_service(Services(), "prometheus")
    with pytest.raises(InputError, match="a, monitoring/b"):
        find_service(Services(service("a"), service("b")), "prometheus")


class Operated(Services):
    """A cluster with a Service of Prometheus, and objects Prometheus of its operator, or why they cannot be listed."""

    def __init__(self, *found: dict[str, Any], refused: BringupError | None = None) -> None:
        super().__init__(service("kps-prometheus"))
        self.found, self.refused = list(found), refused

    def list_objects(self, kind: Kind, namespace: str = "", **_options: Any) -> list[dict[str, Any]]:
        if kind.kind != "Prometheus":
            return self.services
        assert namespace == "monitoring"
        if self.refused:
            raise self.refused
        return self.found


def operated(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "monitoring", "name": "kps"}, "spec": spec}


def test_one_shard_of_several_has_only_a_part_of_the_targets() -> None:
    """Its Service gives whichever, and the hosts of the others would read as missing."""
    with pytest.raises(InputError, match="2 shards") as error:
        service_of_prometheus(Operated(operated(shards=2)))
    assert "Thanos" in error.value.hint
    refused = (ForbiddenError("prometheuses", "is not allowed"), NotFoundError("prometheuses", "is not served"))
    for whole in (
        Operated(), Operated(operated()), Operated(operated(shards=1, replicas=2)),
        *(Operated(refused=each) for each in refused),
    ):  # fmt: skip
        assert service_of_prometheus(whole) == ServiceRef("monitoring", "kps-prometheus", 9090)


def test_a_service_is_named_in_full() -> None:
    assert service_ref("monitoring/prom:http-web") == ServiceRef("monitoring", "prom", "http-web")
    assert service_ref("monitoring/prom:9090").port == 9090
    for text in ("prom", "monitoring/prom", "prom:9090", "/prom:1"):
        with pytest.raises(InputError):
            service_ref(text)
