# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs of crashed runs of which one line proves a status and no root cause (findings/captures-fails)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from nccl_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.parse_run import (
    failure_hints,
    known_failure,
    last_word,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

MakeFleet = Callable[..., Fleet]
# File and cause, and an edit behind which nothing is known any more.
LOGS = [
    ("P107-status-12-new-wording.log", "peer-unreachable", ("status=12", "status=11")),
    ("P108-access-violation.log", "rdma-access-error", None),
    ("P110-no-route-to-host.log", "bootstrap-blocked", ("No route to host", "Success")),
    ("P111-efa-locked-memory.log", "memlock-limit", None),
    ("P112-nvls-multicast.log", "nvls-multicast-failed", ("failure 401", "failure 402")),
    ("P132-cuda-error-of-the-test.log", "gpu-not-usable", ("busy or unavailable", "new")),
]
TCP = (
    "NET/Socket : Using [0]eth0:10.0.0.2<0>\nUsing network Socket\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0"
)
NO_DEVICE = "NET/IB : No device found.\n"


def log_of(shared: Path, name: str) -> str:
    return (shared / "findings/captures-fails" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "cause", "unknown"), LOGS)
def test_a_crash_says_what_its_line_proves(
    shared: Path, name: str, cause: str, unknown: tuple[str, str] | None
) -> None:
    log = log_of(shared, name)
    found, line = known_failure(log)
    assert found == cause and line in log
    if unknown is not None:
        assert unknown[0] in log
        assert known_failure(log.replace(*unknown)) == ("", "")


def test_a_request_that_timed_out_is_the_same_on_each_fabric_and_the_hint_names_all() -> None:
    words = "NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=12 opcode=0 vendor err 129 (Recv)"
    for layer in ("IB", "RoCE"):
        assert known_failure(f"NCCL INFO NET/IB : Using [0]mlx5_0:1/{layer} [RO]\n{words}")[0] == "peer-unreachable"
    hint = failure_hints()["peer-unreachable"]
    places = [hint.find(word) for word in ("process", "link", "GID", "active_mtu", "security group")]
    assert places == sorted(places) and places[0] >= 0
    assert "roce" not in known_failure(words)[0]


@pytest.mark.parametrize("layer", ["IB", "RoCE"])
def test_addresses_of_interfaces_are_named_on_roce_only(layer: str) -> None:
    """On InfiniBand every port has such a GID."""
    line = (
        "NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, local GID index 0, "
        "local GID fe80::a288:c2ff:fe12:3456, remote GID fe80::1"
    )
    cause, _line = known_failure(f"NCCL INFO NET/IB : Using [0]mlx5_0:1/{layer} [RO]\n{line}")
    assert cause == ("rdma-interface-without-address" if layer == "RoCE" else "")
    assert known_failure(line)[0] == "rdma-interface-without-address", "a log without the adapters"


def test_the_last_word_of_a_program_is_quoted() -> None:
    log = "gpu01-pod:1:1 [0] NCCL WARN something\nbash: line 1: 71 Segmentation fault (core dumped) all_reduce_perf\n\n"
    assert last_word(log).endswith("all_reduce_perf")
    assert last_word("gpu01-pod:1:1 [0] NCCL INFO Segmentation fault\ngpufleet: core dumped") == ""


def on_efa(fleet: MakeFleet, says: str) -> tuple[Outcome, ...]:
    here = fleet(4, says={"gpu03": says})
    sku = replace(here.hardware["dgx-h100"], fabric="efa", hca_names=())
    here.hardware = {**here.hardware, "dgx-h100": sku}
    good = "NET/OFI Selected provider is efa\nUsing network Libfabric\n"
    good += "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Libfabric/0/GDRDMA"
    here.says = {name: here.says.get(name, good) for name in here.hosts}
    return here.outcomes()


def broken(outcomes: tuple[Outcome, ...]) -> list[tuple[Status, str, str]]:
    return [(o.status, o.check, o.cause) for o in outcomes if o.status is not Status.PASSED and not o.blocked_by]


def test_a_missing_plugin_is_no_missing_adapter(fleet: MakeFleet, shared: Path) -> None:
    """NVIDIA/nccl#1936, #1105: without its plugin NCCL asks verbs, which know no EFA adapter, and says so."""
    lines = log_of(shared, "P109-efa-plugin-missing.log").splitlines()
    says = "\n".join(line.partition("NCCL INFO ")[2] for line in lines)
    assert NO_DEVICE.strip() in says
    assert broken(on_efa(fleet, says)) == [(Status.FAILED, "nccl-transport", "net-plugin-missing")]
    no_adapter = "NET/OFI OFI fi_getinfo() call failed: No data available\n" + NO_DEVICE + TCP
    assert broken(on_efa(fleet, no_adapter)) == [(Status.FAILED, "nccl-transport", "rdma-resource-missing")]


def test_infiniband_without_a_device_in_the_pod_quotes_what_nccl_found(fleet: MakeFleet) -> None:
    here = fleet(4, says={"gpu03": NO_DEVICE + TCP})
    (found,) = [o for o in here.outcomes() if o.status is Status.FAILED]
    assert found.cause == "socket-transport" and found.subjects[0].name == "gpu03"
    assert "NCCL finds no adapter in the pod" in found.summary and "does not say why" not in found.summary


@pytest.mark.parametrize("line", ["NCCL_TOPO_FILE set by environment to /etc/nccl/topo-of-another.xml", ""])
def test_a_slow_cohort_quotes_what_takes_the_choice_from_nccl(fleet: MakeFleet, line: str) -> None:
    """A topology file of another machine makes all hosts slow alike, and the log states it."""
    here = fleet(
        16,
        change=lambda want, text: f"{want.hosts[0]}-pod:1:1 [0] NCCL INFO {line}\n{text}" if line else text,
    )
    here.nics = {(name, rail): 0.4 for name in here.hosts for rail in range(8)}
    (found,) = [o for o in here.outcomes() if o.cause == "cohort-slow"]
    assert found.check == "nccl-pair-bw"
    assert ("NCCL_TOPO_FILE=/etc/nccl/topo-of-another.xml" in found.summary) is bool(line)
    assert ("NCCL was given" in found.summary) is bool(line)
