# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adapters by DRA claims, as on GKE's A4X Max: as many as a node has, and never where nodes offer them as resources."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.network import (
    gang_permissions,
    pod_network,
    read_network,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.network import network_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.settings import (
    FabricValidationSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import job_objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

Json = dict[str, Any]
SKU = "a4x-maxgpu-4g-metal"
NAME = "deviceclass.resource.kubernetes.io/mrdma.google.com"
NODES = ("gpu01", "gpu02")


class Api:
    """Nodes whose slices list `adapters` RoCE interfaces and one for management each."""

    def __init__(
        self, adapters: int = 8, driver: str = "dra.net", key: str = "dra.net/rdma", **allocatable: str
    ) -> None:
        self.adapters, self.driver, self.key, self.allocatable = adapters, driver, key, allocatable
        self.classes = ("mrdma.google.com",)

    def served_versions(self, group: str) -> tuple[str, ...]:
        return ("v1",) if group == "resource.k8s.io" else ()

    def find(self, kind: Kind, name: str, _namespace: str = "") -> Json | None:
        return {"metadata": {"name": name}} if kind.kind == "DeviceClass" and name in self.classes else None

    def list_objects(self, kind: Kind, *_args: Any, **_more: Any) -> list[Json]:
        if kind.kind == "Node":
            return [{"metadata": {"name": name}, "status": {"allocatable": self.allocatable}} for name in NODES]
        assert kind.kind == "ResourceSlice"
        devices = [{"name": f"gpu{n}rdma0", "attributes": {self.key: {"bool": True}}} for n in range(self.adapters)]
        devices.append({"name": "eth0", "attributes": {self.key: {"bool": False}}})
        return [{"spec": {"driver": self.driver, "nodeName": name, "devices": devices}} for name in NODES]


def _network(api: Api, tmp_path: Path, **run: Any) -> Any:
    hosts = tuple(Host(name=name, sku=SKU, node_name=name) for name in NODES)
    hardware = load_hardware([RECIPES / "hardware"])
    settings = network_settings(checked_settings(FabricValidationSettings, "fabric_validation", run))
    context = ObserveContext(site=make_site(hosts), run_dir=tmp_path, today=date(2026, 1, 1), hardware=hardware)
    found = read_network(cast(Any, api), context, settings)
    return found, hosts[0], hardware[SKU], settings


@pytest.mark.parametrize("key", ["dra.net/rdma", "rdma"])
def test_pods_claim_as_many_adapters_as_their_node_has(key: str, tmp_path: Path) -> None:
    network, host, sku, settings = _network(Api(key=key), tmp_path)
    assert (network.resource, network.offered(host)) == (NAME, 8)
    asks = network.asks(host, sku)
    assert asks == {NAME: "8"}
    hosts = [BenchmarkHost(name=name, node=name, sku=SKU, asks=asks) for name in NODES]
    pods = pod_network(hosts, settings, gang="native", fabric="roce")
    spec = JobSpec(name="pair", nodes=NODES, gpus_per_node=4, image="i", command=("x",), **pods)
    objects = job_objects(spec, TemporaryNamespace(cast(Any, None), "ns", 60.0, ()))
    (template,) = (body for body in objects if body["kind"] == "ResourceClaimTemplate")
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    wanted = {"deviceClassName": "mrdma.google.com", "allocationMode": "ExactCount", "count": 8}
    assert request["exactly"] == wanted
    pod = objects[-1]["spec"]["template"]["spec"]
    (claim,) = pod["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    resources = pod["containers"][0]["resources"]
    assert resources == {"claims": [{"name": claim["name"]}], "limits": {"nvidia.com/gpu": 4}}
    asked = {entry.text for entry in gang_permissions("gang-job", hosts, "native")}
    assert "create resourceclaimtemplates.resource.k8s.io" in asked


def test_a_resource_of_a_device_plugin_comes_first(tmp_path: Path) -> None:
    network, host, sku, _settings = _network(Api(**{"rdma/ib": "8"}), tmp_path)
    assert network.asks(host, sku) == {"rdma/ib": "8"}


@pytest.mark.parametrize("api", [Api(adapters=0), Api(driver="other.example")])
def test_nothing_is_claimed_where_no_slice_lists_adapters(api: Api, tmp_path: Path) -> None:
    network, host, sku, _settings = _network(api, tmp_path)
    assert (network.resource, network.asks(host, sku)) == ("", {})
    with pytest.raises(InputError, match="says how many adapters the nodes have"):
        _network(api, tmp_path, rdma_resource=NAME)
    stated, host, sku, _settings = _network(api, tmp_path, rdma_resource=NAME, rdma_count=8)
    assert stated.asks(host, sku) == {NAME: "8"}


def test_a_class_that_does_not_exist_is_told(tmp_path: Path) -> None:
    stated = "deviceclass.resource.kubernetes.io/gone"
    with pytest.raises(InputError, match="DeviceClass gone"):
        _network(Api(), tmp_path, rdma_resource=stated)


def test_a_site_whose_pods_ask_for_nothing_claims_nothing(tmp_path: Path) -> None:
    network, host, sku, _settings = _network(Api(), tmp_path, rdma_resource="none")
    assert (network.resource, network.asks(host, sku)) == ("", {})
