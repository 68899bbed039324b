# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which adapters carry GPU traffic, on machines as they are published: names, link layers, rates and `topo -m`.

Sources: NVIDIA DGX H100 user guide, table "Network Modules" (DGX H100); imbue-ai/cluster-health config.json of its
health checks (HGX H100 with Ethernet ConnectX-6); leptonai/gpud testdata of component infiniband (BlueField-3 bond);
github.com/rapidsai/ucx-py/issues/749 (DGX A100); github.com/NVIDIA/nccl/issues/1357 (four NICs for eight GPUs), 1277
(names that differ between two hosts); Oracle's recommended NCCL parameters by shape (OCI); Azure/aks-rdma-infiniband
(virtual machines).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.ibstat import Hca, IbPort
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.nvidia_smi_topo import Topology
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.adapters import (
    ComputeAdapters,
    compute_adapters,
    nccl_port,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

HOST = Host(name="gpu01", sku="h100", node_name="gpu01")
DGX = tuple(f"mlx5_{n}" for n in (0, 3, 4, 5, 6, 9, 10, 11))
OTHERS = ("mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8")


def sku(name: str = "h100", **changed: object) -> Sku:
    return replace(HARDWARE[name], **{"hca_names": (), **changed})  # type: ignore[arg-type]


def hca(name: str, rate: int = 400, layer: str = "InfiniBand", *, up: bool = True, kind: str = "MT4129") -> Hca:
    state, physical = ("Active", "LinkUp") if up else ("Down", "Polling")
    port = IbPort(number=1, state=state, physical_state=physical, rate_gbps=rate if up else 10, base_lid=1, sm_lid=1,
                  link_layer=layer, port_guid="0x1")  # fmt: skip
    return Hca(name=name, kind=kind, firmware="28.43.2566", node_guid="0x1", ports=(port,))


def matrix(near: dict[str, dict[int, str]], nics: tuple[str, ...], gpus: int = 8, far: str = "SYS") -> Topology:
    """`near` has by adapter the GPUs that it is not far from, and how far."""
    names = tuple(f"GPU{n}" for n in range(gpus))
    paths = {(gpu, nic): near.get(nic, {}).get(n, far) for n, gpu in enumerate(names) for nic in nics}
    return Topology(names, nics, paths)


def one_each(names: tuple[str, ...], others: tuple[str, ...] = (), word: str = "PIX") -> Topology:
    return matrix({name: {n: word} for n, name in enumerate(names)}, (*names, *others), len(names), "NODE")


def resolved(found: ComputeAdapters) -> tuple[tuple[str, ...], str]:
    return found.names, found.basis


def test_dgx_h100_with_four_ports_for_storage_and_management() -> None:
    hcas = [hca(name) for name in DGX] + [hca(name, 100, "Ethernet") for name in OTHERS]
    assert resolved(compute_adapters(HOST, sku(), hcas, one_each(DGX, OTHERS))) == (DGX, "topology")
    assert resolved(compute_adapters(HOST, sku(), hcas)) == (DGX, "link-layer"), "without a driver"
    storage = [hca(name) for name in (*DGX, *OTHERS)]
    assert resolved(compute_adapters(HOST, sku(), storage, one_each(DGX, OTHERS))) == (DGX, "topology")


def test_storage_of_the_same_kind_without_a_driver_is_open_unless_the_sku_names_the_adapters() -> None:
    hcas = [hca(name) for name in (*DGX, *OTHERS)]
    found = compute_adapters(HOST, sku(), hcas)
    assert (found.names, set(found.open_between)) == ((), {*DGX, *OTHERS})
    assert resolved(compute_adapters(HOST, sku(hca_names=DGX), hcas)) == (DGX, "sku")


def test_ethernet_cards_that_are_down_are_not_for_gpu_traffic() -> None:
    hcas = [hca(name) for name in DGX]
    hcas += [hca(name, 100, "Ethernet", up=n % 2 == 0, kind="MT4125") for n, name in enumerate(OTHERS)]
    assert resolved(compute_adapters(HOST, sku("hgx-h100"), hcas)) == (DGX, "link-layer")


def test_a_bluefield_bond_is_not_for_gpu_traffic() -> None:
    names = tuple(f"mlx5_{n}" for n in (0, 1, 4, 5, 6, 7, 8, 9))
    hcas = [*(hca(name) for name in names), hca("mlx5_bond_0", 200, "Ethernet", kind="MT41692")]
    assert compute_adapters(HOST, sku("hgx-h100"), hcas).names == names


def test_b200_beside_bridges_of_its_nvswitches_and_slower_adapters() -> None:
    names = tuple(f"mlx5_{n}" for n in (4, 7, 8, 9, 10, 13, 14, 15))
    bridges, slow = tuple(f"mlx5_{n}" for n in range(4)), ("mlx5_5", "mlx5_6")
    hcas = [hca(name) for name in (*bridges, *names)] + [hca(name, 100, up=n == 0) for n, name in enumerate(slow)]
    found = compute_adapters(HOST, sku("hgx-b200"), hcas, one_each(names, (*bridges, *slow)))
    assert resolved(found) == (names, "topology")


def test_dgx_a100_where_two_gpus_share_two_adapters() -> None:
    names = tuple(f"mlx5_{n}" for n in (0, 1, 2, 3, 6, 7, 8, 9))
    others = ("mlx5_4", "mlx5_5", "mlx5_10", "mlx5_11")
    near = {name: {n // 2 * 2: "PXB", n // 2 * 2 + 1: "PXB"} for n, name in enumerate(names)}
    hcas = [hca(name, 200, kind="MT4123") for name in (*names, *others)]
    found = compute_adapters(HOST, sku("dgx-a100"), hcas, matrix(near, (*names, *others)))
    assert resolved(found) == (names, "topology")


def test_two_ports_for_each_gpu_beside_a_front_end_of_ethernet() -> None:
    numbers = (0, 1, *range(3, 11), *range(12, 18))
    names = tuple(f"mlx5_{n}" for n in numbers)
    near = {name: {n // 2: "PXB"} for n, name in enumerate(names)}
    hcas = [hca(name, 200, "Ethernet") for name in names]
    hcas += [hca(name, 100, "Ethernet") for name in ("mlx5_2", "mlx5_11")]
    topology = matrix(near, (*names, "mlx5_2", "mlx5_11"))
    shape = sku("bm-gpu-h100-8")
    assert resolved(compute_adapters(HOST, shape, hcas, topology)) == (names, "topology")
    assert resolved(compute_adapters(HOST, shape, hcas)) == (names, "link-layer"), "by rate"


def test_a_virtual_machine_hides_its_pci_tree() -> None:
    names = tuple(f"mlx5_ib{n}" for n in range(8))
    hcas = [*(hca(name) for name in names), hca("mlx5_an0", 100, "Ethernet")]
    found = compute_adapters(HOST, sku("nd96isr-h200-v5"), hcas, matrix({}, (*names, "mlx5_an0")))
    assert resolved(found) == (names, "link-layer")


@pytest.mark.parametrize("names", [("mlx5_0", "mlx5_3", "mlx5_5", "mlx5_8"), ("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5")])
def test_four_adapters_for_eight_gpus_and_other_names_on_another_host(names: tuple[str, ...]) -> None:
    half = sku("hgx-h100", compute_hcas=4)
    near = {name: {2 * n: "PIX"} for n, name in enumerate(names)}
    found = compute_adapters(HOST, half, [hca(name) for name in names], matrix(near, names))
    assert resolved(found) == (names, "topology")


def test_an_adapter_that_is_gone_renumbers_the_others_and_takes_no_storage_adapter_in_its_place() -> None:
    # The kernel numbers what it finds: without mlx5_3 every later one is called one less.
    names = tuple(f"mlx5_{n}" for n in (0, 3, 4, 5, 8, 9, 10))
    others = tuple(f"mlx5_{n}" for n in (1, 2, 6, 7))
    near = {name: {gpu: "PIX"} for gpu, name in zip((0, 2, 3, 4, 5, 6, 7), names, strict=True)}
    hcas = [hca(name) for name in (*names, *others)]
    found = compute_adapters(HOST, sku(hca_names=DGX), hcas, matrix(near, (*names, *others)))
    assert (found.names, found.complete, found.bare_gpus, found.open_between) == (names, False, (1,), ())


def test_a_storage_adapter_of_another_model_beside_a_gpu_does_not_stand_in() -> None:
    names = tuple(f"mlx5_{n}" for n in range(7))
    hcas = [*(hca(name) for name in names), hca("mlx5_7", 200, kind="MT4123")]
    found = compute_adapters(HOST, sku(), hcas, one_each((*names, "mlx5_7")))
    assert (found.names, found.complete) == (names, False)


def test_adapters_without_a_signal_are_still_those_of_their_gpus() -> None:
    hcas = [hca(name, up=name not in ("mlx5_3", "mlx5_9")) for name in DGX] + [hca(name, 200) for name in OTHERS]
    assert compute_adapters(HOST, sku(), hcas, one_each(DGX, OTHERS)).names == DGX
    assert compute_adapters(HOST, sku(), hcas).names == DGX, "the others are slower"


def test_an_adapter_set_to_the_wrong_link_layer_keeps_its_place() -> None:
    hcas = [hca(name, layer="Ethernet" if name == "mlx5_5" else "InfiniBand") for name in DGX]
    hcas += [hca(name, 100, "Ethernet", kind="MT4125") for name in OTHERS]
    found = compute_adapters(HOST, sku(), hcas, one_each(DGX, OTHERS))
    assert set(found.names) == set(DGX) and found.basis == "link-layer"
    wrong = [hca(name, layer="Ethernet") for name in DGX]
    assert set(compute_adapters(HOST, sku(), wrong).names) == set(DGX)


def test_stated_names_come_first_and_what_contradicts_them_is_told() -> None:
    hcas = [hca(name) for name in (*DGX, *OTHERS)]
    stated = replace(HOST, hcas=DGX)
    assert not compute_adapters(stated, sku(), hcas, one_each(DGX, OTHERS)).contradicts
    wrong = replace(HOST, hcas=("mlx5_1", *DGX[1:]))
    found = compute_adapters(wrong, sku(), hcas, one_each(DGX, OTHERS))
    assert (found.names, found.basis, found.contradicts) == (wrong.hcas, "stated", DGX)
    assert compute_adapters(wrong, sku(), hcas, one_each(DGX, OTHERS), configured=DGX).names == DGX, "a setting wins"


def test_names_are_never_guessed() -> None:
    found = compute_adapters(HOST, sku(), None)
    assert resolved(found) == ((), "none") and not found.complete
    assert resolved(compute_adapters(HOST, sku(hca_names=DGX), None)) == (DGX, "sku")
    assert compute_adapters(HOST, sku("p5-48xlarge"), []).wanted == 0, "EFA has no adapter that ibstat lists"


def test_rails_follow_the_gpus_where_the_connectors_do_not() -> None:
    names = tuple(f"mlx5_{n}" for n in range(8))
    near = {name: {7 - n: "PIX"} for n, name in enumerate(names)}
    assert compute_adapters(HOST, sku(), [hca(name) for name in names], matrix(near, names)).names == names[::-1]


def test_nccl_is_told_the_port() -> None:
    assert (nccl_port("mlx5_1"), nccl_port("mlx4_0:2")) == ("mlx5_1:1", "mlx4_0:2")
