# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public incidents with confirmed causes, replayed as logs: the cause is named, or the result is `other` with the line
that decides; nothing passes. The lines are quoted from the threads that each case names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from nccl_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.parse_run import failures
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

MakeFleet = Callable[..., Fleet]
# What a run left in its log, and the cause. All runs between hosts end like that, or those of all hosts only.
CRASHES = [
    pytest.param(
        "gpu01-pod:1:9 [0] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, "
        "vendor err 129",
        "peer-unreachable",
        "error 12",
        id="NVIDIA/nccl#426",
    ),
    pytest.param(
        "[2024-11-18 10:00:01] gpu01-pod:1:9 [0] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer with status=4 "
        "local access violation work queue error",
        "rdma-access-error",
        "local access violation",
        id="NVIDIA/nccl#1524",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev "
        "mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.1.0.1, remote GID "
        "::ffff:10.2.0.1",
        "rails-not-connected",
        "remote GID",
        id="NVIDIA/nccl#2013",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev "
        "mlx5_0:1, curr state INIT, next state RTR, local GID index 1, local GID fe80::a288:c2ff:fe12:3456, remote GID "
        "fe80::a288:c2ff:fe12:9abc",
        "rdma-interface-without-address",
        "fe80",
        id="oracle-quickstart/oci-hpc#36",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev "
        "mlx5_0:1, curr state INIT, next state RTR, local GID index 0, local GID ::, remote GID ::ffff:10.2.0.1",
        "rdma-interface-without-address",
        "local GID ::",
        id="oracle-quickstart/oci-hpc#36, an empty entry",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 "
        "bytes, error: No space left on device (28)",
        "shm-too-small",
        "/dev/shm/nccl",
        id="pytorch/ci-infra#490",
    ),
    pytest.param(
        "Last error: Error while creating shared memory segment /dev/shm/nccl-1YsMbG (size 7340384)",
        "shm-too-small",
        "/dev/shm/nccl",
        id="pytorch/torchtitan#853",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] misc/socket.cc:9 NCCL WARN ncclOsSocketTryAccept: Accept failed: Too many open files",
        "open-files-limit",
        "Too many open files",
        id="goodfire-ai/spd#957",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\n"
        "gpu01-pod:1:9 [0] NCCL WARN Call to connect timeout : Connection refused",
        "bootstrap-interface-wrong",
        "Using lo",
        id="horovod/horovod#700",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] misc/socket.cc:441 NCCL WARN socketStartConnect: Connect to 10.0.0.2<50655> failed : "
        "Connection timed out",
        "bootstrap-blocked",
        "50655",
        id="sgl-project/sglang#3794",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] misc/socket.cc:1 NCCL WARN ncclSocketInit: connecting to address with family 0 is neither "
        "AF_INET(2) nor AF_INET6(10)",
        "nccl-versions-differ",
        "family 0",
        id="NVIDIA/nccl#1267",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] ofi_process_cq:1039 NCCL WARN NET/OFI Request 0x7fbb944701b8 completed with error. RC: 20. "
        "Error: unknown error.",
        "efa-security-group",
        "RC: 20",
        id="aws/aws-ofi-nccl#156",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] configure_sendrecv_inorder:213 NCCL WARN NET/OFI Couldn't set FI_OPT_EFA_SENDRECV_IN_ORDER",
        "net-plugin-mismatch",
        "FI_OPT_E",
        id="aws/aws-ofi-nccl#241",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call failed: "
        "No data available",
        "adapter-not-in-container",
        "fi_getinfo",
        id="aws/aws-ofi-nccl#1020",
    ),
    pytest.param(
        "gpu01-pod: Test CUDA failure common.cu:941 'system not yet initialized'",
        "fabric-manager-not-ready",
        "system not yet initialized",
        id="NVIDIA/nccl-tests#264",
    ),
    pytest.param(
        "EFA internal error: (4112) Failure to post internal receive buffers\ngpufleet: locked memory of p is 65536",
        "memlock-limit",
        "(4112)",
        id="awslabs/awsome-distributed-ai#647",
    ),
    pytest.param(
        "EFA internal error: (4112) Failure to post internal receive buffers\n"
        "gpufleet: locked memory of p is unlimited",
        "memory-registration-failed",
        "(4112)",
        id="awslabs/awsome-distributed-ai#647, without a limit",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] NCCL WARN NET/OFI Error 4126: Unresponsive receiver (reachable by EFA device but handshake "
        "failed)",
        "peer-unreachable",
        "4126",
        id="ofiwg/libfabric#10410",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] transport/net_ib/p2p.cc:1 NCCL WARN NET/IB: Got completion from peer 192.0.2.2<54862> with "
        "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(0) vendor_err=129",
        "peer-unreachable",
        "RETRY_EXC",
        id="NVIDIA/nccl#1814",
    ),
    pytest.param(
        "gpu01-pod:1:9 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion with error 4, opcode 0, len 0, "
        "vendor err 81",
        "rdma-access-error",
        "vendor err 81",
        id="NVIDIA/nccl#304",
    ),
    pytest.param(
        "gpu01-pod:1:1 [0] misc/socket.cc:4 NCCL WARN Net : Connect to 192.0.2.4<4> failed : No route to host",
        "bootstrap-blocked",
        "No route to host",
        id="NVIDIA/nccl#1105",
    ),
    pytest.param(
        "gpu01-pod: Test CUDA failure common.cu:253 'no kernel image is available for execution on the device'",
        "image-without-gpu-code",
        "no kernel image",
        id="NVIDIA/nccl-tests#79",
    ),
    pytest.param(
        "gpu01-pod: Test CUDA failure common.cu:1045 'CUDA driver version is insufficient for CUDA runtime version'",
        "driver-too-old",
        "insufficient",
        id="NVIDIA/nccl-tests#98",
    ),
    pytest.param(
        "gpu01-pod: Test CUDA failure common.cu:891 'uncorrectable ECC error encountered'",
        "gpu-not-usable",
        "ECC",
        id="scitix/sichek#51",
    ),
    pytest.param(
        "gpu01-pod:1:1 [1] transport/nvls.cc:1 NCCL WARN Cuda failure 1 'invalid argument'",
        "nvls-multicast-failed",
        "nvls.cc",
        id="NVIDIA/nccl#1562",
    ),
    pytest.param("/usr/bin/all_reduce_perf: exec format error", "run-crashed", "exec format", id="a program's word"),
    pytest.param(
        "gpu01-pod:1:9 [0] p2p.cc:1 NCCL WARN something that nobody has seen yet",
        "run-crashed",
        "something that nobody has seen yet",
        id="unknown",
    ),
]


def not_passed(outcomes: tuple[Outcome, ...]) -> list[Outcome]:
    return [o for o in outcomes if o.status is not Status.PASSED and not o.blocked_by]


def broken(fleet: MakeFleet, line: str, state: str, phases: tuple[str, ...], count: int = 4) -> tuple[Outcome, ...]:
    def ends(want: Wanted) -> tuple[str, int | None]:
        return (state, 3 if state == "failed" else None) if want.phase in phases else ("succeeded", 0)

    def left(want: Wanted, text: str) -> str:
        # Lines with a GID of an interface are of RoCE, so the adapters are, too.
        text = text.replace("/IB", "/RoCE") if "local GID" in line else text
        return f"{text[: len(text) // 3]}\n{line}\n" if want.phase in phases else text

    return fleet(count, state=ends, change=left).outcomes()


@pytest.mark.parametrize(("line", "cause", "quoted"), CRASHES)
@pytest.mark.parametrize("state", ["failed", "timeout"])
def test_a_run_that_ends_badly_quotes_the_line_that_decides(
    fleet: MakeFleet, line: str, cause: str, quoted: str, state: str
) -> None:
    outcomes = broken(fleet, line, state, ("pair", "adapters"))
    expected = "run-hung" if (cause, state) == ("run-crashed", "timeout") else cause
    found = [o for o in not_passed(outcomes) if o.check == "nccl-results"]
    assert {(o.status, o.cause) for o in found} == {(Status.OTHER, expected)}
    assert all(quoted in o.summary and o.hint for o in found)
    assert not [o for o in outcomes if o.status is Status.FAILED]
    between = [o for o in outcomes if o.check in ("nccl-pair-bw", "nccl-all-nodes-bw")]
    assert not [o for o in between if o.status is Status.PASSED]


def test_only_the_run_of_all_hosts_ends_badly(fleet: MakeFleet) -> None:
    """Open files, and rails that do not reach each other, show from so many hosts on: pairs are fine."""
    line = "gpu01-pod:1:9 [0] misc/socket.cc:9 NCCL WARN ncclOsSocketTryAccept: Accept failed: Too many open files"
    outcomes = broken(fleet, line, "failed", ("all",), count=8)
    assert [(o.check, o.status, o.cause) for o in not_passed(outcomes)] == [
        ("nccl-all-nodes-bw", Status.OTHER, "open-files-limit")
    ]


def test_a_hang_without_a_word_is_no_pass(fleet: MakeFleet) -> None:
    """A plugin newer than the host's drivers, a partition key at another index: the run stands still and says nothing
    (NVIDIA/nccl-tests#200, NVIDIA/nccl#1323)."""
    found = not_passed(broken(fleet, "", "timeout", ("pair", "adapters")))
    assert {(o.check, o.status, o.cause) for o in found} == {("nccl-results", Status.OTHER, "run-hung")}


TCP = (
    "NET/Socket : Using [0]eth0:10.0.0.2<0>\nUsing network Socket\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0"
)


def on_efa(fleet: MakeFleet, says: str) -> Fleet:
    here = fleet(4, says={"gpu03": says})
    sku = replace(here.hardware["dgx-h100"], fabric="efa", hca_names=())
    here.hardware = {**here.hardware, "dgx-h100": sku}
    good = (
        "NET/OFI Selected provider is efa, fabric is efa-direct (found 8 nics)\nUsing network Libfabric\n"
        "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Libfabric/0/GDRDMA"
    )
    here.says = {name: here.says.get(name, good) for name in here.hosts}
    return here


@pytest.mark.parametrize(
    ("says", "cause", "quoted"),
    [
        # aws/aws-parallelcluster#6942
        ("NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory\n" + TCP,
         "net-plugin-missing", "not found"),
        ("NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\n" + TCP,
         "net-plugin-missing", "not found"),
        # PrimeIntellect-ai/prime-rl#3452
        ("NET/Plugin: Failed to load libnccl-net-ofi.so: libhwloc.so.15: cannot open shared object file\n" + TCP,
         "net-plugin-broken", "libhwloc.so.15"),
        # aws/aws-ofi-nccl#1020
        ("NET/OFI OFI fi_getinfo() call failed: No data available\n" + TCP,
         "rdma-resource-missing", "finds no adapter"),
    ],
)  # fmt: skip
def test_efa_that_falls_back_to_tcp(fleet: MakeFleet, says: str, cause: str, quoted: str) -> None:
    (found,) = not_passed(on_efa(fleet, says).outcomes())
    assert (found.check, found.cause, found.subjects[0].name) == ("nccl-transport", cause, "gpu03")
    assert quoted in found.summary


def test_pairs_at_a_third_because_gpudirect_is_off(fleet: MakeFleet) -> None:
    """NVIDIA/nccl#1412: no adapter, rail or fabric is to blame; in a VM its hidden PCIe tree may be (Azure/aks-rdma-
    infiniband#36)."""
    here = fleet(2)
    here.nics = {(name, rail): 0.35 for name in here.hosts for rail in range(8)}
    staged = (
        "NET/IB : Using "
        + " ".join(f"[{n}]mlx5_{n}:1/IB" for n in range(8))
        + " [RO]; OOB eth0:10.0.0.1<0>\nUsing network IB\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"
    )
    here.says = dict.fromkeys(here.hosts, staged)
    found = not_passed(here.outcomes())
    assert {(o.check, o.cause) for o in found} == {("nccl-transport", "gpudirect-missing")}
    assert all("NCCL_TOPO_FILE" in o.hint for o in found)


@pytest.mark.parametrize(
    ("limit", "cause", "quoted"),
    [
        # NVIDIA/nccl-tests#206
        ("gpufleet: locked memory of {} is 8192", "memlock-limit", "8192 KiB"),
        # luxingcom/aicad-nccl-optimization#1: CmaTotal of that kernel was 0.
        ("gpufleet: locked memory of {} is unlimited", "memory-registration-failed", "is unlimited"),
        ("", "memory-registration-failed", "nobody said"),
    ],
)
def test_memory_that_adapters_do_not_get(fleet: MakeFleet, limit: str, cause: str, quoted: str) -> None:
    """The words are the same, whether a limit is in the way or the kernel."""
    line = "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"
    here = fleet(
        4,
        says={"gpu04": f"WARN {line.partition('WARN ')[2]}"},
        state=lambda want: ("failed", 1) if "gpu04" in want.hosts and want.phase != "node" else ("succeeded", 0),
        change=lambda _want, text: text + "".join(f"{limit.format(name)}\n" for name in _pods(text)),
    )
    found = not_passed(here.outcomes())
    assert [(o.check, o.cause, o.subjects[0].name) for o in found] == [("nccl-transport", cause, "gpu04")]
    assert quoted in found[0].summary and "Cannot allocate memory" in found[0].summary


def test_platform_that_says_peer_to_peer_and_copies_zeros(fleet: MakeFleet) -> None:
    """turboderp-org/exllamav3#333: both GPUs compute right alone, so the hint names the way to tell."""
    wrong = fleet(
        2,
        change=lambda want, text: text.replace("values : 0 OK", "values : 9 FAILED") if want.phase == "node" else text,
    )
    found = [o for o in not_passed(wrong.outcomes()) if o.check == "nccl-results"]
    assert {(o.status, o.cause) for o in found} == {(Status.FAILED, "wrong-results")}
    assert all("NCCL_P2P_DISABLE=1" in o.hint for o in found)


def _pods(log: str) -> list[str]:
    """What ranks call their machine."""
    return sorted(set(re.findall(r"^(\S+?):\d+:\d+ \[\d+\] NCCL", log, re.M)))


def test_every_known_failure_has_a_source_and_is_replayed() -> None:
    assert all(entry.sources and entry.hint for entry in failures())
    shown = {str(case.values[1]) for case in CRASHES}
    assert {entry.cause for entry in failures()} <= shown
