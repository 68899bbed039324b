# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster model: the file gives the model, always the same one, and a patch changes what it names and no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, NotFoundError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import (
    apply_fault,
    build_model,
    subject_names,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Change,
    Fault,
    ModelSpec,
    PlannedNode,
    numbered_nodes,
    rack_name,
    read_spec,
    write_spec,
)

SPEC = ModelSpec(name="rehearsal", seed=3, nodes=numbered_nodes(6, "h100"))


def fault(kind: str, subject: str, *changes: Change) -> Fault:
    return Fault(id="test", kind=kind, subject=subject, patch=changes)  # type: ignore[arg-type]


def test_the_same_file_gives_the_same_model_and_another_seed_another_one() -> None:
    assert build_model(SPEC, HARDWARE) == build_model(SPEC, HARDWARE)
    other = build_model(replace(SPEC, seed=4), HARDWARE)
    assert other.nodes[0].gpus[0].uuid != build_model(SPEC, HARDWARE).nodes[0].gpus[0].uuid


def test_more_nodes_leave_the_first_ones_as_they_were() -> None:
    bigger = build_model(replace(SPEC, nodes=numbered_nodes(12, "h100")), HARDWARE)
    assert bigger.nodes[:6] == build_model(SPEC, HARDWARE).nodes


def test_nothing_that_must_be_unique_is_there_twice() -> None:
    model = build_model(replace(SPEC, nodes=numbered_nodes(100, "h100")), HARDWARE)
    gpus = [gpu for node in model.nodes for gpu in node.gpus]
    hcas = [hca for node in model.nodes for hca in node.hcas]
    assert len(gpus) == len(hcas) == 800
    for values in ([gpu.uuid for gpu in gpus], [gpu.serial for gpu in gpus], [hca.guid for hca in hcas],
                   [hca.lid for hca in hcas], [node.machine_id for node in model.nodes]):  # fmt: skip
        assert len(set(values)) == len(values)
    assert all(len({gpu.pci for gpu in node.gpus} | {hca.pci for hca in node.hcas}) == 16 for node in model.nodes)


@pytest.mark.parametrize("name", sorted({sku.name for sku in HARDWARE.values()}))
def test_every_sku_can_be_rehearsed(name: str) -> None:
    model = build_model(replace(SPEC, nodes=numbered_nodes(1, name)), HARDWARE)
    assert len(model.nodes[0].gpus) == HARDWARE[name].gpus
    assert len({gpu.pci_bus_id for gpu in model.nodes[0].gpus}) == HARDWARE[name].gpus


def test_adapters_have_the_names_of_the_host_else_of_the_sku(tmp_path: Path) -> None:
    names = tuple(f"ibp{number}s0" for number in range(8))
    own = replace(HARDWARE["dgx-h100"], name="own", hca_names=tuple(f"mlx5_{number}" for number in range(2, 10)))
    nodes = (PlannedNode(name="a", sku="own", rack="r"), PlannedNode(name="b", sku="own", rack="r", hcas=names))
    write_spec(replace(SPEC, nodes=nodes), tmp_path / "model.yaml")
    model = build_model(read_spec(tmp_path / "model.yaml"), {"own": own})
    assert [tuple(hca.name for hca in node.hcas) for node in model.nodes] == [own.hca_names, names]
    assert "b/ibp3s0" in subject_names(model, "hca") and "b/mlx5_3" not in subject_names(model, "hca")


def test_a_wrong_number_of_adapter_names_is_refused() -> None:
    nodes = (PlannedNode(name="a", sku="h100", rack="r", hcas=("mlx5_0", "mlx5_1")),)
    with pytest.raises(InputError, match=r"host a: gpufleet_hcas.*has 2 names"):
        build_model(replace(SPEC, nodes=nodes), HARDWARE)


def test_racks_hold_four_nodes_and_have_names_of_their_own() -> None:
    names = [rack_name(index) for index in range(0, 4000, 4)]
    assert names[:2] == ["rack-a1", "rack-a2"] and names[8] == "rack-b1" and len(set(names)) == 1000
    assert [rack.nodes for rack in build_model(SPEC, HARDWARE).racks] == [
        ("gpu01", "gpu02", "gpu03", "gpu04"), ("gpu05", "gpu06"),
    ]  # fmt: skip


def test_the_file_round_trips_with_its_faults_and_is_its_owners_alone(tmp_path: Path) -> None:
    line = {"at_s": 9.5, "text": "NVRM: Xid (PCI:{gpu.pci}): 79"}
    hit = fault("gpu", "gpu02/gpu5", Change(at="gpu.presence", set="lost"), Change(at="node.kernel_log", append=line))
    spec = replace(SPEC, faults=(hit,))
    write_spec(spec, tmp_path / "model.yaml")
    assert read_spec(tmp_path / "model.yaml") == spec
    assert (tmp_path / "model.yaml").stat().st_mode & 0o777 == 0o600


def test_a_patch_changes_its_subject_and_nothing_else() -> None:
    healthy = build_model(SPEC, HARDWARE)
    hit = fault("gpu", "gpu02/gpu5", Change(at="gpu.ecc.volatile_uncorrectable", add=3),
                Change(at="node.tools.dcgmi", set="hang"), Change(at="gpu.pcie_width", multiply=0.5))  # fmt: skip
    broken = apply_fault(healthy, hit)
    gpu = broken.node("gpu02").gpus[5]
    assert (gpu.ecc.volatile_uncorrectable, gpu.pcie_width) == (3, 8)
    assert broken.node("gpu02").tools == {"dcgmi": "hang"}
    restored = replace(healthy.node("gpu02").gpus[5])
    gpus = tuple(restored if other.index == 5 else other for other in broken.node("gpu02").gpus)
    mended = replace(broken.node("gpu02"), gpus=gpus, tools={})
    assert replace(broken, nodes=tuple(mended if n.name == "gpu02" else n for n in broken.nodes)) == healthy


def test_texts_of_a_patch_name_values_of_the_subject() -> None:
    line = {"at_s": 1.0, "text": "Xid (PCI:{gpu.pci}) {gpu.serial}"}
    swap = Change(at="gpu.uuid", set="{peer.uuid}")
    hit = fault("gpu", "gpu01/gpu7", swap, Change(at="node.kernel_log", append=line))
    healthy = build_model(SPEC, HARDWARE)
    node = apply_fault(healthy, hit).node("gpu01")
    assert node.gpus[7].uuid == node.gpus[0].uuid
    assert node.kernel_log[-1].text == f"Xid (PCI:0000:df:00) {node.gpus[7].serial}"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (Change(at="gpu.presense", set="lost"), "presence"),
        (Change(at="gpu.ecc.volatile", set=1), "volatile_correctable"),
        (Change(at="rack.power_w", multiply=0.5), "no 'rack'"),
        (Change(at="gpu", set="x"), "nothing in it"),
        (Change(at="gpu.presence", set="broken"), "not valid"),
        (Change(at="gpu.presence", multiply=2), "expected a number"),
        (Change(at="gpu.presence"), "0 operations"),
        (Change(at="gpu.power_w", set=1.0, add=2.0), "2 operations"),
    ],
)
def test_a_patch_that_does_not_fit_the_model_is_refused(change: Change, word: str) -> None:
    with pytest.raises(InputError) as error:
        apply_fault(build_model(SPEC, HARDWARE), fault("gpu", "gpu01/gpu1", change))
    assert word in str(error.value)


def test_a_subject_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="gpu01/gpu1"):
        apply_fault(build_model(SPEC, HARDWARE), fault("gpu", "gpu01/gpu11", Change(at="gpu.mig", set=True)))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("schema_version: 2\nname: r\nseed: 1\nnodes: [{name: a, sku: h100, rack: r}]\n", "schema_version is 2"),
        ("name: r\nseed: 1\nnodes: []\n", "at least one node"),
        ("name: r\nseed: 1\nnodes: [{name: a, sku: h100, rack: r}, {name: a, sku: h100, rack: r}]\n", "once"),
        ("name: r\nseed: 1\nnods: []\n", "nodes"),
        ("name: r\nseed: x\nnodes: [{name: a, sku: h100, rack: r}]\n", "seed"),
    ],
)
def test_a_file_that_is_not_a_model_is_refused(text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(text)
    with pytest.raises(InputError, match=word):
        read_spec(tmp_path / "model.yaml")


def test_counts_and_skus_are_checked() -> None:
    with pytest.raises(InputError, match="1 or more"):
        numbered_nodes(0, "h100")
    with pytest.raises(NotFoundError, match="h100"):
        build_model(replace(SPEC, nodes=numbered_nodes(1, "h10")), HARDWARE)
