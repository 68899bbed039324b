# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated tools, run as a node would run them, against captures of the real ones."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.host_record import (
    host_directory,
    read_host,
    tools_path,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    ModelSpec,
    PlannedNode,
    numbered_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel, Node

DATA = Path(__file__).resolve().parents[6] / "rehearsal" / "recipes"
NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
HEALTHY = build_model(ModelSpec(name="rehearsal", seed=7, nodes=numbered_nodes(2, "h100")), HARDWARE)
NO_SETTINGS = Path("/nonexistent")
Run = Callable[..., subprocess.CompletedProcess[str]]


def prepare(model: ClusterModel, root: Path) -> None:
    # Without the kernel settings of this machine: thousands of files that no tool reads.
    prepare_hosts(model, root, DATA, now=NOW, kernel_settings=NO_SETTINGS)


def prepared(root: Path, model: ClusterModel) -> Run:
    prepare(model, root)

    def run(command: str, host: str = "gpu01") -> subprocess.CompletedProcess[str]:
        env = {"PATH": f"{tools_path(root, host)}:{os.environ['PATH']}"}
        return subprocess.run(
            ["/bin/sh", "-c", command],
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        )

    return run


def with_node(**changes: object) -> ClusterModel:
    node: Node = replace(HEALTHY.nodes[0], **changes)  # type: ignore[arg-type]
    return replace(HEALTHY, nodes=(node, *HEALTHY.nodes[1:]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return prepared(tmp_path_factory.mktemp("rehearsal"), HEALTHY)


def outline(root: ElementTree.Element) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []

    def walk(element: ElementTree.Element, path: tuple[str, ...]) -> None:
        here = (*path, element.tag)
        # The list of clocks is as long as the range of the GPU.
        if element.tag != "supported_graphics_clock" or found[-1] != here:
            found.append(here)
        for child in element:
            walk(child, here)

    walk(root, ())
    return found


def capture(shared: Path, name: str) -> ElementTree.Element:
    return ElementTree.fromstring((shared / "captures" / "nvidia-smi-xml" / name).read_text(encoding="utf-8"))


def test_the_xml_has_the_elements_of_a_real_one_in_the_same_order(run: Run, shared: Path) -> None:
    result = run("nvidia-smi -q -x")
    ours, real = ElementTree.fromstring(result.stdout), capture(shared, "h100-sxm-8gpu-580.xml")
    assert outline(ours) == outline(real)
    first = (shared / "captures" / "nvidia-smi-xml" / "h100-sxm-8gpu-580.xml").read_text(encoding="utf-8")
    assert result.stdout.splitlines()[:3] == first.splitlines()[:3]
    varying = {"gpu_virtualization_mode", "inforom_bbx_flush", "replay_counter"}
    kinds = {"".join("9" if c.isdigit() else c for c in (e.text or "").strip()) for e in real.iter()}
    for element in ours.find("gpu").iter():  # type: ignore[union-attr]
        text = "".join("9" if c.isdigit() else c for c in (element.text or "").strip())
        if element.tag not in varying and text in ("Yes", "No", "Enabled", "Disabled", "N/A", "None"):
            assert text in kinds


def test_a_lost_gpu_reads_as_a_real_one_does(tmp_path: Path, shared: Path) -> None:
    gpus = HEALTHY.nodes[0].gpus
    lost = with_node(gpus=(*gpus[:1], replace(gpus[1], presence="lost"), *gpus[2:]))
    ours = ElementTree.fromstring(prepared(tmp_path, lost)("nvidia-smi -q -x").stdout).findall("gpu")[1]
    real = capture(shared, "gb200-mock-gpu-is-lost.xml").findall("gpu")[1]

    def told(gpu: ElementTree.Element) -> set[str]:
        return {path for path, text in paths(gpu) if text == "GPU is lost"}

    def paths(element: ElementTree.Element, path: str = "") -> list[tuple[str, str]]:
        found = [(path, (element.text or "").strip())]
        return found + [pair for child in element for pair in paths(child, f"{path}/{child.tag}")]

    assert told(ours) == told(real)


def test_the_numbers_are_the_models(run: Run) -> None:
    root = ElementTree.fromstring(run("nvidia-smi -q -x", "gpu02").stdout)
    assert [gpu.findtext("uuid") for gpu in root.findall("gpu")] == [gpu.uuid for gpu in HEALTHY.nodes[1].gpus]
    assert run("nvidia-smi -L", "gpu02").stdout.count(HEALTHY.nodes[1].gpus[3].uuid) == 1
    rows = run("nvidia-smi --query-gpu=index,memory.total,pci.bus_id --format=csv,noheader,nounits").stdout.splitlines()
    assert rows[7] == f"7, 81559, {HEALTHY.nodes[0].gpus[7].pci_bus_id}" and len(rows) == 8


@pytest.mark.parametrize(("sku", "switches"), [("dgx-h100", 4), ("hgx-b200", 0)])
def test_switches_of_nvlink_5_are_no_pci_devices(tmp_path: Path, sku: str, switches: int) -> None:
    """They are managed through bridges that are adapters (NVIDIA/gpu-driver-container, ubuntu24.04/nvidia-driver)."""
    model = build_model(ModelSpec(name="rehearsal", seed=7, nodes=numbered_nodes(1, sku)), HARDWARE)
    assert prepared(tmp_path, model)("lspci -Dnn").stdout.count("NVSwitch") == switches


def test_the_diagnostic_has_the_schema_of_dcgm_4(run: Run, shared: Path) -> None:
    ours = json.loads(run("dcgmi diag -r 3 -j").stdout)
    text = (shared / "captures/dcgmi-diag/dcgm4-r4-8gpu-diagnostic-FRAGMENT.json.txt").read_text(encoding="utf-8")
    real = json.loads(text.strip().rstrip(","))
    tests = [test for part in ours["DCGM Diagnostic"]["test_categories"] for test in part["tests"]]
    mine = next(test for test in tests if test["name"] == "diagnostic")
    assert set(mine) == set(real) and mine["test_summary"] == real["test_summary"]
    assert [set(entry) for entry in mine["results"][:2]] == [set(entry) for entry in real["results"][:2]]


def test_a_failed_diagnostic_ends_with_dcgms_code(tmp_path: Path) -> None:
    gpus = HEALTHY.nodes[0].gpus
    failing = with_node(gpus=(replace(gpus[0], diag={"memory": "Fail"}), *gpus[1:]))
    run = prepared(tmp_path, failing)
    assert run("dcgmi diag -r 3 -j").returncode == 226
    assert run("dcgmi diag -r 3 -j", "gpu02").returncode == 0


def test_ibstat_and_chronyc_print_the_lines_of_the_real_ones(run: Run, shared: Path) -> None:
    for command, name in (
        ("ibstat", "ibstat/cx6-2hca-rate100.txt"),
        ("chronyc tracking", "chronyc/tracking-synced.txt"),
    ):
        real = (shared / "captures" / name).read_text(encoding="utf-8").splitlines()
        labels = [line.split(":")[0].rstrip("0123456789'") for line in real]
        ours = [line.split(":")[0].rstrip("0123456789'") for line in run(command).stdout.splitlines()]
        assert ours[: len(labels)] == labels


def test_nvlink_prints_the_lines_of_the_real_one(run: Run, shared: Path) -> None:
    real = (shared / "captures/nvidia-smi-nvlink/h200-590-nvlink-s.txt").read_text(encoding="utf-8").splitlines()
    assert run("nvidia-smi nvlink -s").stdout.splitlines()[1:19] == real[1:19]


@pytest.mark.parametrize(
    ("command", "rc", "says"),
    [
        ("nvidia-smi --frobnicate", 1, "Invalid combination of input arguments"),
        ("nvidia-smi --query-gpu=nonsense --format=csv", 2, 'Field "nonsense" is not a valid field'),
        ("dcgmi diag --wrong", 1, "PARSE ERROR"),
        ("ibstat mlx5_99", 255, "can't be found"),
        ("journalctl --wrong", 1, "unrecognized option"),
        ("systemctl is-active no-such-unit", 3, "inactive"),
        ("systemctl frobnicate x", 1, "Unknown command verb"),
        ("lspci --wrong", 1, "Usage"),
        ("chronyc wrong", 1, "Unrecognized command"),
        ("dmesg --wrong", 1, "unrecognized option"),
        ("ofed_info -x", 1, "unknown option"),
    ],
)
def test_what_a_tool_does_not_know_is_its_own_error(command: str, rc: int, says: str, run: Run) -> None:
    result = run(command)
    assert result.returncode == rc and says in result.stdout + result.stderr


@pytest.mark.parametrize(("state", "rc", "seen"), [("empty", 0, False), ("garbage", 0, True), ("missing", 127, True)])
def test_a_broken_tool_breaks_on_its_own_host_only(state: str, rc: int, seen: bool, tmp_path: Path) -> None:
    run = prepared(tmp_path, with_node(tools={"nvidia-smi": state}))
    result = run("nvidia-smi -q -x")
    assert result.returncode == rc and bool(result.stdout + result.stderr) is seen
    assert run("nvidia-smi -q -x", "gpu02").stdout.startswith("<?xml")


def test_what_a_program_is_to_print_lies_beside_the_other_outputs(tmp_path: Path) -> None:
    run = prepared(tmp_path, with_node(printed={"nvme": "no drive"}))
    assert run(f"cat {host_directory(tmp_path, 'gpu01')}/out/nvme.printed").stdout == "no drive\n"
    assert run(f"ls {host_directory(tmp_path, 'gpu02')}/out/nvme.printed").returncode != 0


def test_a_hanging_tool_hangs(tmp_path: Path) -> None:
    run = prepared(tmp_path, with_node(tools={"dcgmi": "hang"}))
    assert run("timeout 0.5 dcgmi diag -r 3 -j").returncode == 124


def test_no_gpu_is_said_as_nvidia_smi_says_it(tmp_path: Path) -> None:
    gone = tuple(replace(gpu, presence="missing") for gpu in HEALTHY.nodes[0].gpus)
    result = prepared(tmp_path, with_node(gpus=gone))("nvidia-smi -q -x")
    assert (result.returncode, result.stdout) == (6, "No devices were found\n")


def test_hosts_of_every_sku_can_be_prepared(tmp_path: Path) -> None:
    names = sorted({sku.name for sku in HARDWARE.values()})
    nodes = tuple(PlannedNode(name=f"host-{name}", sku=name, rack="rack-a1") for name in names)
    run = prepared(tmp_path, build_model(ModelSpec(name="rehearsal", seed=1, nodes=nodes), HARDWARE))
    for name in names:
        root = ElementTree.fromstring(run("nvidia-smi -q -x", f"host-{name}").stdout)
        assert len(root.findall("gpu")) == HARDWARE[name].gpus, name


def test_preparing_again_leaves_nothing_of_before(tmp_path: Path) -> None:
    prepared(tmp_path, HEALTHY)
    (host_directory(tmp_path, "gpu01") / "layers" / "root" / "upper" / "etc" / "left").write_text("x")
    prepare(replace(HEALTHY, nodes=HEALTHY.nodes[:1]), tmp_path)
    assert not list(tmp_path.glob("hosts/*/layers/root/upper/etc/left"))
    assert [path.name for path in (tmp_path / "hosts").iterdir()] == ["gpu01"]
    with pytest.raises(NotFoundError, match="gpu02"):
        read_host(tmp_path, "gpu02")


def test_what_is_the_same_on_all_hosts_is_on_the_disk_once(tmp_path: Path) -> None:
    model = build_model(ModelSpec(name="rehearsal", seed=1, nodes=numbered_nodes(60, "h100")), HARDWARE)
    prepare(model, tmp_path)
    files = [path for path in (tmp_path / "hosts").rglob("*") if path.is_file()]
    assert len({path.stat().st_ino for path in files}) < len(files) * 0.6
    assert (tools_path(tmp_path, "gpu01") / "nvidia-smi").samefile(tools_path(tmp_path, "gpu60") / "nvidia-smi")
