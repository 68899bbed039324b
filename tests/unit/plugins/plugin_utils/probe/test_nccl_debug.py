# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's own lines: what proves the transport, what tells why it is not used, in every spelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import nccl_debug
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.nccl_debug import NcclDebug

HCAS = tuple(f"mlx5_{n}:1" for n in range(8))


def read(shared: Path, name: str) -> NcclDebug:
    return nccl_debug.parse((shared / "captures/nccl-debug" / name).read_text())


def lines(*texts: str, host: str = "gpu01") -> str:
    return "".join(f"{host}:101:{n} [0] NCCL INFO {text}\n" for n, text in enumerate(texts))


def test_efa_capture_proves_no_provider(shared: Path) -> None:
    log = read(shared, "fsdp-efa-nccl-info-lines.log")
    assert (log.version, log.cuda_driver) == ("2.26.2+cuda12.2", 12080)
    assert set(log.hosts) == {"p5-dy-gpu-2", "p5-dy-gpu-3", "p5-dy-gpu-4"}
    assert log.hosts["p5-dy-gpu-4"].plugins == ("aws-ofi-nccl 1.13.2-aws",)
    assert log.hosts["p5-dy-gpu-3"].plugins == ("aws-ofi-nccl 1.14.0",)
    assert all(not host.providers and not host.networks for host in log.hosts.values())


def test_gdrdma_capture_proves_by_channels(shared: Path) -> None:
    host = read(shared, "ib-gdrdma-16rank-excerpt.log").hosts["tpgds-aihub0008"]
    net = host.network_channels
    assert len(net) == 6
    assert all(channel.direct and channel.network == "IB" for channel in net)
    assert host.networks == ()
    assert not host.uses_socket
    assert [channel.via for channel in host.channels if not channel.network] == ["P2P/IPC"]
    assert (net[0].source, net[0].target, net[0].direction, net[0].device) == (7, 14, "receive", 6)
    log = read(shared, "ib-gdrdma-16rank-excerpt.log")
    assert log.environment == {"NCCL_IB_GID_INDEX": "3", "NCCL_IB_TC": "106"}


def test_a_line_that_comes_again_changes_nothing_and_one_of_another_host_counts(shared: Path) -> None:
    text = (shared / "captures/nccl-debug/ib-gdrdma-16rank-excerpt.log").read_text()
    assert nccl_debug.parse(text + text) == nccl_debug.parse(text)
    again = [f"Channel {n:02d}/24 : 0[0] -> 8[0] [send] via NET/IB/{n % 2}/GDRDMA" for n in range(24)]
    told = nccl_debug.parse(lines(*again) + lines(again[0], host="gpu02")).hosts
    assert [channel.device for channel in told["gpu01"].channels] == [0, 1]
    assert [channel.device for channel in told["gpu02"].channels] == [0]


def test_using_lines_of_three_systems(shared: Path) -> None:
    texts = (shared / "captures/nccl-debug/using-lines-ib-socket-bond.log").read_text().splitlines()
    first, second, third = (nccl_debug.parse(text).hosts[""] for text in texts)
    assert (first.devices, first.layers, first.uses_socket) == (HCAS, ("IB",), False)
    assert (second.sockets, second.devices, second.uses_socket) == (("eth0",), (), True)
    assert third.devices == (*HCAS, "mlx5_bond_0:1")
    assert set(third.layers) == {"IB", "RoCE"}


@pytest.mark.parametrize(
    ("name", "channel"),
    [
        ("IB", "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/7/GDRDMA"),
        ("IB", "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/7(3)/GDRDMA(PCI)/Shared"),
        ("AWS Libfabric", "Channel 00/0 : 7[7] -> 8[0] [send] via NET/AWS Libfabric/7/GDRDMA/Shared"),
        ("IBext_v8", "Channel 00 : 7[d8] -> 8[0f] [send] via NET/IBext_v8/7/GDRDMA"),
        ("FasTrak", "Channel 00/1 : 7[7] -> 8[0] [receive] via NET/FasTrak/7/GDRDMA"),
    ],
)
def test_networks(name: str, channel: str) -> None:
    log = nccl_debug.parse(lines(f"Using network {name}", channel))
    host = log.hosts["gpu01"]
    (found,) = host.network_channels
    assert host.networks == (name,)
    assert (found.network, found.device, found.direct, found.source, found.target) == (name, 7, True, 7, 8)
    assert found.proxy == (3 if "(3)" in channel else None)


def test_without_gpudirect() -> None:
    log = nccl_debug.parse(lines("Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/7"))
    assert [channel.direct for channel in log.hosts["gpu01"].network_channels] == [False]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NCCL INFO NET/IB : No device found.", "no-device"),
        ("NCCL INFO Failed to open libibverbs.so[.1]", "verbs-missing"),
        ("NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.", "plugin-missing"),
        ("NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation", "plugin-missing"),
        ("NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory", "memlock"),
        ("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "memlock"),
        ("misc/ibvwrap.cc:213 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory", "memlock"),
    ],
)
def test_reasons(text: str, reason: str) -> None:
    log = nccl_debug.parse(f"1: gpu07:11:12 [4] {text}\n")
    assert log.hosts["gpu07"].reasons == (reason,)
    assert bool(log.hosts["gpu07"].warnings) is ("WARN" in text)


def test_a_warning_behind_a_time_belongs_to_its_host() -> None:
    """From 2.26 on NCCL puts the time before warnings (NCCL_DEBUG_TIMESTAMP_LEVELS); labels come before that."""
    text = "gpu07:11:12 [4] ibvwrap.cc:213 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory"
    for before in ("", "[2026-11-21 10:00:01] ", "[1,3]<stderr>:[2026-11-21 10:00:01] ", "[3] ", "3: "):
        log = nccl_debug.parse(before + text)
        assert list(log.hosts) == ["gpu07"], before
        assert log.hosts["gpu07"].reasons == ("memlock",), before


@pytest.mark.parametrize(
    ("text", "plugin"),
    [
        ("NET/Plugin: Loaded net plugin AWS Libfabric (v9)", "AWS Libfabric"),
        ("NET/Plugin: Loaded net plugin IBext_v8 (v8)", "IBext_v8"),
        ("P2P plugin v9 IBext;", "v9 IBext"),
    ],
)
def test_names_of_plugins_may_have_blanks(text: str, plugin: str) -> None:
    assert nccl_debug.parse(f"gpu07:11:12 [4] NCCL INFO {text}").hosts["gpu07"].plugins == (plugin,)


def test_shared_memory_as_old_releases_call_it() -> None:
    log = nccl_debug.parse("gpu07:11:12 [4] NCCL INFO Channel 00 : 0[1b000] -> 1[3a000] via direct shared memory")
    (channel,) = log.hosts["gpu07"].channels
    assert (channel.via, channel.network) == ("SHM/direct", "")


def test_ranks_of_hosts_interleave() -> None:
    good = lines("Using network IB", "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>").splitlines()
    bad = lines(
        "NET/IB : No device found.", "NET/Socket : Using [0]eth0:10.0.0.2<0>", "Using network Socket", host="gpu02"
    )
    mixed = [line for both in zip(good, bad.splitlines(), strict=False) for line in both] + bad.splitlines()[2:]
    log = nccl_debug.parse("\n".join(mixed))
    assert (log.hosts["gpu01"].devices, log.hosts["gpu01"].uses_socket) == (("mlx5_0:1",), False)
    assert (log.hosts["gpu02"].sockets, log.hosts["gpu02"].uses_socket) == (("eth0",), True)


@pytest.mark.parametrize(
    ("text", "algorithm", "protocol"),
    [
        ("AllReduce: 8589934592 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}", "ring", "simple"),
        ("AllReduce: 8589934592 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}", "nvlstree", "simple"),
        ("AllReduce: 8589934592 Bytes -> Algo NVLSTree proto Simple channel{Lo..Hi}={0..15}", "nvlstree", "simple"),
        ("AllReduce: 8589934592 Bytes -> Algo 0 proto 2 time 2860.208008", "tree", "simple"),
        ("8589934592 Bytes -> Algo 1 proto 2 time 2860.208008", "ring", "simple"),
        ("8589934592 Bytes -> Algo 5 proto 2 time 2860.208008", "nvlstree", "simple"),
    ],
)
def test_algorithms(text: str, algorithm: str, protocol: str) -> None:
    log = nccl_debug.parse(lines(text, "AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}"))
    assert log.algorithm(8589934592) == algorithm
    assert log.choices[0].protocol == protocol
    assert log.algorithm(16) == ""


def test_two_algorithms_for_one_size_are_no_answer() -> None:
    log = nccl_debug.parse(lines("64 Bytes -> Algo 0 proto 2 time 1", "64 Bytes -> Algo 1 proto 2 time 1"))
    assert log.algorithm(64) == ""


def test_communicators() -> None:
    ready = [
        f"ncclCommInitRankConfig comm 0x55ba65abd9d0 rank {n} nranks 4 cudaDev {n} nvmlDev {n} busId a4000 "
        "commId 0x2c1f - Init COMPLETE"
        for n in (0, 1, 3)
    ]
    log = nccl_debug.parse(lines(*ready, "NVLS multicast support is available on dev 0", "NVLS comm 0x55ba headRank 0"))
    assert (log.ranks_ready, log.ranks_expected, log.all_ready) == ((0, 1, 3), 4, False)
    assert (log.nvls, log.nvls_capable) == (True, True)
    more = nccl_debug.parse(
        lines(*ready, ready[0].replace("rank 0", "rank 2"), "MNNVL 1 cliqueId 2 cliqueSize 72 cliqueRank 0")
    )
    assert more.all_ready
    assert more.clique_size == 72


def test_filter_and_provider() -> None:
    log = nccl_debug.parse(
        lines(
            "NCCL_IB_HCA set to =mlx5_0:1,mlx5_1:1",
            "NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)",
            "GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 4 <= 5), read 1 mode Default",
            "GPU Direct RDMA Disabled for GPU 1 / HCA 1 (distance 8 > 5)",
        )
    )
    host = log.hosts["gpu01"]
    assert (host.filters, host.providers, host.provider_nics) == (("=mlx5_0:1,mlx5_1:1",), ("efa",), 32)
    assert host.direct_enabled is False


@pytest.mark.parametrize("text", ["", "all_reduce_perf: not found", "# size count\n  8 2 float\n"])
def test_nothing_of_nccl_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        nccl_debug.parse(text)
