# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate over whole fleets: healthy ones pass, each fault is found once, with its cause and its subject."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from nccl_fleet import Fleet, findings
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Plan, Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_nccl import NcclBenchmark
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.settings import (
    FabricValidationSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

MakeFleet = Callable[..., Fleet]
SOCKET = (
    "NET/Socket : Using [0]eth0:10.0.0.2<0>\nUsing network Socket\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0"
)


@pytest.mark.quickly(4)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 16, 17, 64])
@pytest.mark.parametrize("algorithm", ["RING", "NVLS_TREE"])
def test_healthy(fleet: MakeFleet, count: int, algorithm: str) -> None:
    here = fleet(count, algorithm=algorithm)
    results = here.results()
    outcomes = here.outcomes(results)
    assert [o for o in outcomes if o.status is not Status.PASSED] == []
    phases = Counter(run.record.phase for run in results.runs)
    assert phases["node"] == count
    assert phases["adapters"] == phases["pair"]
    assert phases["pair"] == ((count + 1) // 2 if count > 1 else 0)
    assert phases["all"] == (1 if count > 2 else 0)
    assert phases["rail"] == phases["loop"] == 0
    assert len({o.check for o in outcomes}) == (5 if count > 1 else 2)


def test_five_healthy_runs_of_64_raise_no_alarm(fleet: MakeFleet) -> None:
    for seed in range(5):
        here = fleet(64, noise=0.01)
        here.draw = random.Random(seed)
        assert findings(here.outcomes()) == []


@pytest.mark.parametrize("count", [4, 7, 8, 16])
def test_nvlink(fleet: MakeFleet, count: int) -> None:
    here = fleet(count, nvlink={"gpu03": 0.7})
    assert findings(here.outcomes()) == [("nccl-intra-node-bw", "slow-nvlink", "gpu03")]


@pytest.mark.quickly(5)
@pytest.mark.parametrize("count", [2, 3, 4, 8, 9, 16])
@pytest.mark.parametrize("part", [0.5, 0.63])
@pytest.mark.parametrize("algorithm", ["RING", "NVLS_TREE"])
def test_slow_adapter(fleet: MakeFleet, count: int, part: float, algorithm: str) -> None:
    """At two nodes as at sixteen: also where NVLink hides it, because a tree sends little over the network."""
    here = fleet(count, nics={("gpu02", 5): part}, algorithm=algorithm)
    assert findings(here.outcomes()) == [("nccl-pair-bw", "slow-adapter", "gpu02 gpu02/mlx5_5")]


def test_slow_adapter_of_the_one_left_over(fleet: MakeFleet) -> None:
    here = fleet(9)
    alone = [
        name for name in here.hosts if all(name not in r.record.hosts for r in here.results().in_phase("pair")[:4])
    ]
    bad = fleet(9, nics={(alone[0], 2): 0.4})
    assert findings(bad.outcomes()) == [("nccl-pair-bw", "slow-adapter", f"{alone[0]} {alone[0]}/mlx5_2")]


def test_slow_host(fleet: MakeFleet) -> None:
    here = fleet(16, nics={("gpu11", rail): 0.5 for rail in range(8)})
    assert findings(here.outcomes()) == [("nccl-pair-bw", "slow-node", "gpu11")]


@pytest.mark.parametrize("count", [4, 8, 16])
def test_slow_rail(fleet: MakeFleet, count: int) -> None:
    here = fleet(count)
    here.nics = {(name, 3): 0.4 for name in here.hosts}
    (found,) = findings(here.outcomes())
    assert found[:2] == ("nccl-pair-bw", "slow-rail")
    assert found[2].startswith("rail3 ")
    assert set(found[2].split()[1:]) == set(here.hosts)


def test_slow_path(fleet: MakeFleet) -> None:
    pair = fleet(8).results().in_phase("pair")[1].record.hosts
    here = fleet(8, paths={frozenset(pair): 0.5})
    found = findings(here.outcomes())
    assert {(check, cause) for check, cause, _names in found} == {("nccl-pair-bw", "slow-path")}
    assert {names.split()[0] for _check, _cause, names in found} == set(pair)


def test_a_slow_cohort_blames_nobody(fleet: MakeFleet) -> None:
    here = fleet(16)
    here.nics = {(name, rail): 0.4 for name in here.hosts for rail in range(8)}
    (found,) = findings(here.outcomes())
    assert found[:2] == ("nccl-pair-bw", "cohort-slow")
    assert found[2].startswith("here ")
    slow_inside = fleet(8, nvlink={f"gpu{n:02d}": 0.6 for n in range(1, 9)})
    assert [entry[:2] for entry in findings(slow_inside.outcomes())] == [("nccl-intra-node-bw", "cohort-slow")]


@pytest.mark.parametrize("count", [4, 8, 16])
def test_slow_hosts_in_every_pair_of_round_one_are_named(fleet: MakeFleet, count: int) -> None:
    """Every second half of a pair is slow: what all pairs share seems to be, until they are paired anew."""
    found = fleet(count)
    slow = found.hosts[count // 2 :]
    found.nics = {(name, rail): 0.5 for name in slow for rail in range(8)}
    bad = [o for o in found.outcomes() if o.check == "nccl-pair-bw" and o.status is not Status.PASSED]
    assert {(o.cause, o.subjects[0].name) for o in bad} == {("slow-node", name) for name in slow}


def test_slow_hosts_of_one_rack_blame_the_rack(fleet: MakeFleet) -> None:
    found = fleet(8)
    slow = found.hosts[4:]
    found.nics = {(name, rail): 0.5 for name in slow for rail in range(8)}
    found.shared = {name: {"rack": "r2" if name in slow else "r1"} for name in found.hosts}
    bad = [o for o in found.outcomes() if o.check == "nccl-pair-bw" and o.status is not Status.PASSED]
    assert [(o.cause, o.status, o.subjects[0].name) for o in bad] == [("slow-group", Status.FAILED, "r2")]
    assert {subject.name for subject in bad[0].subjects[1:]} == set(slow)


def test_hosts_of_one_rack_with_slow_nvlink_blame_the_rack(fleet: MakeFleet) -> None:
    found = fleet(8)
    slow = found.hosts[4:]
    found.nvlink = dict.fromkeys(slow, 0.6)
    found.shared = {name: {"rack": "r2" if name in slow else "r1"} for name in found.hosts}
    bad = [o for o in found.outcomes() if o.check == "nccl-intra-node-bw" and o.status is not Status.PASSED]
    assert [(o.cause, o.subjects[0].name) for o in bad] == [("slow-group", "r2")]


@pytest.mark.quickly(2)
@pytest.mark.parametrize("share", [0.6, 0.7])
@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_a_fabric_at_a_part_of_its_rate_is_bad_not_marginal(fleet: MakeFleet, count: int, share: float) -> None:
    here = fleet(count)
    here.nics = {(name, rail): share for name in here.hosts for rail in range(8)}
    outcomes = [o for o in here.outcomes() if o.status is Status.FAILED]
    assert {o.cause for o in outcomes} == {"pair-bandwidth-low" if count == 2 else "cohort-slow"}


@pytest.mark.quickly(5)
@pytest.mark.drawn(10)
@pytest.mark.parametrize("count", [4, 6, 8, 12, 16, 64])
@pytest.mark.parametrize("kind", ["first half", "every second", "two by two", "folded blocks"])
def test_half_of_the_hosts_slow_are_named_and_only_they(fleet: MakeFleet, count: int, kind: str) -> None:
    here = fleet(count)
    half = {
        "first half": here.hosts[: count // 2],
        "every second": here.hosts[::2],
        "two by two": [name for n, name in enumerate(here.hosts) if n // 2 % 2 == 0],
        "folded blocks": [name for n, name in enumerate(here.hosts) if (n % 4 in (0, 3)) == (n < count // 2)],
    }[kind]
    here.nics = {(name, rail): 0.5 for name in half for rail in range(8)}
    assert findings(here.outcomes()) == [("nccl-pair-bw", "slow-node", name) for name in sorted(half)]


def test_a_slow_adapter_beside_a_slow_rail_is_named_too(fleet: MakeFleet) -> None:
    here = fleet(8)
    here.nics = {(name, 3): 0.4 for name in here.hosts} | {("gpu06", 5): 0.5}
    found = findings(here.outcomes())
    assert [entry[:2] for entry in found] == [("nccl-pair-bw", "slow-adapter"), ("nccl-pair-bw", "slow-rail")]
    assert found[0][2] == "gpu06 gpu06/mlx5_5"
    assert found[1][2].split()[0] == "rail3"


def test_nccl_tests_that_do_not_split_prove_nothing_about_adapters(fleet: MakeFleet) -> None:
    def whole(want: Wanted, text: str) -> str:
        return re.sub(r"Group +\d+", "Group  0", text) if want.phase == "adapters" else text

    outcomes = fleet(8, change=whole).outcomes()
    ((check, cause, names),) = findings(outcomes)
    assert (check, cause, len(names.split())) == ("nccl-pair-bw", "adapters-not-split", 9)
    assert not [o for o in outcomes if o.check == "nccl-pair-bw" and o.status is Status.PASSED]


def test_a_run_without_the_leg_over_adapters_is_no_pass(fleet: MakeFleet) -> None:
    old = fleet(4, plan_change=lambda plan: replace(plan, adapter_runs=False)).outcomes()
    assert {entry[:2] for entry in findings(old)} == {("nccl-pair-bw", "adapters-not-measured")}


def test_of_two_hosts_the_one_with_the_slow_adapter_is_named(fleet: MakeFleet) -> None:
    here = fleet(2, nics={("gpu01", 4): 0.63})
    results = here.results()
    assert {run.record.phase for run in results.runs} == {"node", "pair", "adapters", "rail", "loop"}
    outcomes = here.outcomes(results)
    assert findings(outcomes) == [("nccl-pair-bw", "slow-adapter", "gpu01 gpu01/mlx5_4")]
    (other,) = [o for o in outcomes if o.check == "nccl-pair-bw" and o.subjects[0].name == "gpu02"]
    assert (other.status, other.blocked_by) == (Status.OTHER, "nccl-pair-bw")


# What NCCL says on every host without a plugin of its fabric's maker, those of plain InfiniBand among them.
NO_PLUGIN = "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n"


def test_two_hosts_with_a_slow_path_cannot_be_told_apart(fleet: MakeFleet) -> None:
    found = findings(fleet(2, paths={frozenset(("gpu01", "gpu02")): 0.3}).outcomes())
    assert {entry[:2] for entry in found} == {("nccl-pair-bw", "pair-bandwidth-low")}
    assert all("gpu01--gpu02" in names for _check, _cause, names in found)


def test_whole_slower_than_its_pairs(fleet: MakeFleet) -> None:
    (found,) = findings(fleet(16, whole=0.5).outcomes())
    assert found[:2] == ("nccl-all-nodes-bw", "all-nodes-bandwidth-low")
    (found,) = findings(fleet(16, whole=0.84).outcomes())
    assert found[:2] == ("nccl-all-nodes-bw", "all-nodes-bandwidth-marginal")


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        ("NCCL_IB_HCA set to =mlx5_0:1\nNET/IB : No device found.\n" + SOCKET, "hca-filter-no-match"),
        (NO_PLUGIN + SOCKET, "net-plugin-missing"),
        (f"{NO_PLUGIN}Failed to open libibverbs.so[.1]\n{SOCKET}", "verbs-missing"),
        (
            "WARN Call to ibv_create_cq failed with error Cannot allocate memory\n" + SOCKET,
            "memory-registration-failed",
        ),
        ("WARN libibverbs: Warning: RLIMIT_MEMLOCK is 32768 bytes\n" + SOCKET, "memlock-limit"),
        (SOCKET, "socket-transport"),
        ("Using network IB\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0", "gpudirect-missing"),
        (
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\nUsing network IB\n"
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
            "hca-set-differs",
        ),
        ("Using network FasTrak\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/FasTrak/0/GDRDMA", "wrong-network"),
    ],
)
@pytest.mark.parametrize("count", [4, 16])
def test_transport(fleet: MakeFleet, count: int, says: str, cause: str) -> None:
    here = fleet(count, says={"gpu03": says})
    # Full speed all the same: a transport that is not what it should be fails whatever the bandwidth.
    assert findings(here.outcomes()) == [("nccl-transport", cause, "gpu03")]


def test_no_resource_anywhere(fleet: MakeFleet) -> None:
    here = fleet(2, plan_change=lambda plan: replace(plan, rdma_resource=""))
    here.says = dict.fromkeys(here.hosts, "NET/IB : No device found.\n" + SOCKET)
    assert {entry[:2] for entry in findings(here.outcomes())} == {("nccl-transport", "rdma-resource-missing")}


def test_no_resource_on_one_node(fleet: MakeFleet) -> None:
    def without(plan: Plan) -> Plan:
        hosts = (*plan.hosts[:2], replace(plan.hosts[2], rdma_offered=0), *plan.hosts[3:])
        return replace(plan, hosts=hosts)

    here = fleet(8, plan_change=without)
    assert findings(here.outcomes()) == [("nccl-transport", "rdma-resource-missing", "gpu03")]
    assert not here.results().with_host("gpu03", ("pair", "all"))


def test_silent_log_is_no_proof(fleet: MakeFleet) -> None:
    found = findings(fleet(4, says={"gpu02": ""}).outcomes())
    assert found == [("nccl-transport", "transport-unproven", "gpu02")]


def test_closed_host(fleet: MakeFleet) -> None:
    def closed(plan: Plan) -> Plan:
        return replace(plan, hosts=(replace(plan.hosts[0], closed="cordoned"), *plan.hosts[1:]))

    here = fleet(6, plan_change=closed)
    outcomes = here.outcomes()
    assert findings(outcomes) == [("nccl-results", "no-capacity", "gpu01")]
    assert sum(o.status is Status.PASSED for o in outcomes) == 4 * 5


def test_one_bad_sample_of_three_is_no_fault(fleet: MakeFleet) -> None:
    def once(want: Wanted, text: str) -> str:
        if want.phase != "node" or want.hosts != ("gpu02",) or want.attempt > 1:
            return text
        return slowed(text)

    here = fleet(8, change=once)
    results = here.results()
    assert len(results.of("node", ["gpu02"])) == 3
    assert findings(here.outcomes(results)) == []


def slowed(text: str) -> str:
    rows = []
    for line in text.splitlines():
        words = line.split()
        if line.startswith("  ") and len(words) == 13:
            words[7] = words[11] = f"{float(words[7]) * 0.5:.2f}"
            line = "  " + " ".join(words)
        rows.append(line)
    return "\n".join(rows) + "\n"


def test_unsaturated_is_marginal(fleet: MakeFleet) -> None:
    def growing(want: Wanted, text: str) -> str:
        if want.phase != "all":
            return text
        return text.replace(next(x for x in text.splitlines() if x.startswith("  8589934592")),
                            "  8589934592 2147483648 float sum -1 10.0 1.0 250.0 0 10.0 1.0 250.0 0").replace(
            next(x for x in text.splitlines() if x.startswith("  4294967296")),
            "  4294967296 1073741824 float sum -1 10.0 1.0 200.0 0 10.0 1.0 200.0 0")  # fmt: skip

    (found,) = findings(fleet(16, change=growing).outcomes())
    assert found[:2] == ("nccl-all-nodes-bw", "unsaturated")


def test_two_bad_of_eight(fleet: MakeFleet) -> None:
    here = fleet(16, nics={("gpu02", 5): 0.5, ("gpu09", 1): 0.6})
    found = findings(here.outcomes())
    assert found == [
        ("nccl-pair-bw", "slow-adapter", "gpu02 gpu02/mlx5_5"),
        ("nccl-pair-bw", "slow-adapter", "gpu09 gpu09/mlx5_1"),
    ]


def test_any_host_any_adapter(fleet: MakeFleet) -> None:
    draw = random.Random(3)
    for _time in range(8):
        name, rail = f"gpu{draw.randint(1, 16):02d}", draw.randrange(8)
        here = fleet(16, nics={(name, rail): draw.uniform(0.2, 0.7)})
        assert findings(here.outcomes()) == [("nccl-pair-bw", "slow-adapter", f"{name} {name}/mlx5_{rail}")]


def test_measures_carry_what_a_baseline_needs(fleet: MakeFleet) -> None:
    (whole,) = [o for o in fleet(4).outcomes() if o.check == "nccl-all-nodes-bw"]
    measured = {m.name: m.value for m in whole.measured}
    assert measured["algorithm"] == "nvlstree"
    assert (measured["nodes"], measured["ranks"], measured["nccl"]) == (4, 32, "2.27.7+cuda12.9")
    assert measured["size"] == 8 << 30
    assert f"busbw at {8 << 30} B" in measured
    (expected,) = whole.expected
    assert "8 x 400 Gb/s / 8 = 400 GB/s" in expected.arithmetic


def test_unknown_setting(fleet: MakeFleet) -> None:
    with pytest.raises(InputError, match="larges"):
        fleet(2, settings={"larges": 5}).results()


@pytest.mark.parametrize("phase", ["node", "pair", "all"])
@pytest.mark.parametrize("state", ["unschedulable", "preempted"])
def test_what_passes_by_itself_is_tried_again(fleet: MakeFleet, phase: str, state: str) -> None:
    def once(want: Wanted) -> tuple[str, int | None]:
        return (state, None) if want.phase == phase and want.attempt == 1 else ("succeeded", 0)

    here = fleet(8, state=once)
    results = here.results()
    assert findings(here.outcomes(results)) == []
    assert {run.record.attempt for run in results.in_phase(phase)} == {1, 2}  # type: ignore[arg-type]


def test_a_slow_host_that_was_preempted_first_is_repeated_all_the_same(fleet: MakeFleet) -> None:
    here = fleet(
        8,
        nvlink={"gpu02": 0.6},
        state=lambda want: ("preempted", None) if "gpu02" in want.hosts and want.attempt == 1 else ("succeeded", 0),
    )
    results = here.results()
    assert [run.record.attempt for run in results.of("node", ["gpu02"])] == [1, 2, 3, 4]
    assert findings(here.outcomes(results)) == [("nccl-intra-node-bw", "slow-nvlink", "gpu02")]


@pytest.mark.parametrize(("hosts", "times"), [(1, 1.0), (1000, 1.0), (5000, 5.0)])
def test_a_larger_fleet_gets_more_time(hosts: int, times: float, tmp_path: Path) -> None:
    site = make_site(tuple(Host(name=f"gpu{n:04d}", sku="h100", node_name=f"gpu{n:04d}") for n in range(hosts)))
    context = ObserveContext(site=site, run_dir=tmp_path, today=date(2026, 1, 1))
    settings = checked_settings(FabricValidationSettings, "fabric_validation", {"total_s": 100})
    assert NcclBenchmark(context, settings).total_s == 100 * times
