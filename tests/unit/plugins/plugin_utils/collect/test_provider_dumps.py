# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What az, gcloud and oci list of a cluster: who installs the driver, and who gives out GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.provider_dumps import provider_readings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

Row = dict[str, Any]


def read(tmp_path: Path, part: str, data: Any) -> dict[str, Any]:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(data))
    return provider_readings([f"{part}={path}"])[part]


def aks(name: str, size: str = "Standard_ND96isr_H100_v5", profile: Row | None = None) -> Row:
    return {"name": name, "vmSize": size, "gpuProfile": profile, "count": 2}


NONE, INSTALL = {"driver": "None"}, {"driver": "Install", "nvidia": None}
MANAGED = {"driver": "Install", "nvidia": {"managementMode": "Managed"}}
OWN = {"driver": "None", "nvidia": {"managementMode": "Unmanaged"}}
SYSTEM = aks("system", "Standard_D4s_v5")
MI300X = aks("amd", "Standard_ND96isr_MI300X_v5", NONE)


@pytest.mark.parametrize(
    ("pools", "driver"),
    [
        ([SYSTEM, aks("a"), aks("b", profile=INSTALL)], "Install"),
        ([SYSTEM, aks("a", profile=NONE)], "None"),
        ([aks("a"), aks("b", profile=NONE)], "Mixed"),
        ([aks("a"), MI300X], "Install"),
        ([aks("a", profile=MANAGED)], "Managed"),
        ([aks("a", profile={"driver": "Install", "nvidia": {}})], "Managed"),
        ([aks("a", profile=OWN)], "None"),
        ([SYSTEM, MI300X], None),
        ([], None),
    ],
)
def test_pools_of_aks_say_who_installs_the_driver(pools: list[Row], driver: str | None, tmp_path: Path) -> None:
    assert read(tmp_path, "aks-gpu-pools", pools).get("gpu-driver") == driver


def test_pools_with_gpus_are_named_with_what_each_says(tmp_path: Path) -> None:
    found = read(tmp_path, "aks-gpu-pools", [SYSTEM, aks("b", profile=NONE), aks("a")])
    assert found == {"gpu-pool-count": 2, "gpu-pools": "a=Install,b=None", "gpu-driver": "Mixed"}


def gke(*versions: str | None, version: str = "1.34.1-gke.1829001", own: bool = False) -> Row:
    gpus = [
        {"acceleratorType": "nvidia-h100-80gb", "gpuDriverInstallationConfig": word and {"gpuDriverVersion": word}}
        for word in versions
    ]
    return {
        "name": "pool",
        "version": version,
        "autoscaling": {"autoprovisioned": own},
        "config": {"machineType": "a3-megagpu-8g", **({"accelerators": gpus} if gpus else {})},
    }


UNSTATED = "GPU_DRIVER_VERSION_UNSPECIFIED"


@pytest.mark.parametrize(
    ("pools", "installation"),
    [
        ([gke(), gke("INSTALLATION_DISABLED")], "Disabled"),
        ([gke("DEFAULT"), gke("LATEST")], "Installed"),
        ([gke("DEFAULT"), gke("INSTALLATION_DISABLED")], "Mixed"),
        ([gke("DEFAULT", "INSTALLATION_DISABLED")], "Mixed"),
        ([gke(None)], "Installed"),
        ([gke(UNSTATED)], "Installed"),
        ([gke(None, version="1.30.1-gke.1156000")], "Installed"),
        ([gke(None, version="1.30.1-gke.1155999")], "Disabled"),
        ([gke(None, version="1.32.2-gke.1296999", own=True)], "Disabled"),
        ([gke(None, version="1.32.2-gke.1297000", own=True)], "Installed"),
        ([gke(None, version="1.34")], "NotConfigured"),
        ([gke(UNSTATED, version="1.34")], "NotInstalled"),
        ([gke("Disabled")], "Unknown(Disabled)"),
        ([gke()], None),
    ],
)
def test_pools_of_gke_say_whether_it_installs_the_driver(
    pools: list[Row], installation: str | None, tmp_path: Path
) -> None:
    assert read(tmp_path, "gke-gpu-pools", pools).get("gpu-driver-installation") == installation


def addon(name: str, state: str) -> Row:
    return {"name": name, "lifecycle-state": state, "version": "v1.0.0"}


@pytest.mark.parametrize(
    ("addons", "plugin"),
    [
        ([addon("CoreDNS", "ACTIVE"), addon("NvidiaGpuPlugin", "ACTIVE")], "installed"),
        ([addon("CoreDNS", "ACTIVE")], "absent"),
        ([addon("NvidiaGpuPlugin", "DELETING")], "addon-deleting"),
    ],
)
def test_add_ons_of_oke_say_whether_its_plugin_gives_out_gpus(addons: list[Row], plugin: str, tmp_path: Path) -> None:
    found = read(tmp_path, "oke-addons", {"data": addons})
    assert found == {"addon-count": len(addons), "nvidia-gpu-plugin": plugin}


@pytest.mark.parametrize(
    ("part", "data", "tool"),
    [
        ("aks-gpu-pools", None, "az aks nodepool list"),
        ("aks-gpu-pools", {"value": []}, "az aks nodepool list"),
        ("aks-gpu-pools", [gke("DEFAULT")], "az aks nodepool list"),
        ("aks-gpu-pools", ["a"], "az aks nodepool list"),
        ("gke-gpu-pools", [aks("a")], "gcloud container node-pools list"),
        ("gke-gpu-pools", {}, "gcloud container node-pools list"),
        ("oke-addons", [addon("CoreDNS", "ACTIVE")], "oci ce cluster list-addons"),
        ("oke-addons", {"data": None}, "oci ce cluster list-addons"),
    ],
)
def test_what_no_such_tool_prints_is_refused_and_no_cluster_without_pools(
    part: str, data: Any, tool: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, part, data)
    assert tool in refused.value.hint


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        (["eks-pools=x.json"], "is no PART=FILE"),
        (["aks-gpu-pools"], "is no PART=FILE"),
        (["oke-addons={dump}", "oke-addons={dump}"], "is there twice"),
        (["oke-addons={dump}.gone"], "cannot be read"),
        (["oke-addons={cut}"], "not JSON"),
    ],
)
def test_a_file_that_cannot_be_taken_is_refused(stated: list[str], told: str, tmp_path: Path) -> None:
    dump, cut = tmp_path / "dump.json", tmp_path / "cut.json"
    dump.write_text('{"data": []}')
    cut.write_text('{"data": [')
    with pytest.raises(InputError, match=told):
        provider_readings([text.format(dump=dump, cut=cut) for text in stated])
