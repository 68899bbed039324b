# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What bandwidths are compared with: hosts without a published figure, and a fabric that is tapered by design."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from nccl_fleet import Fleet, findings

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Plan, Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.transport import (
    between_hosts,
    nvls_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Acceptance
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status

MakeFleet = Callable[..., Fleet]


def unpublished(fleet: Fleet) -> Fleet:
    """A fleet of a SKU of which nobody published a bandwidth within a host."""
    sku = replace(fleet.hardware["dgx-h100"], intra_node_busbw_gbps={}, nvlink_links=0, nvlink_generation=None)
    fleet.hardware = {**fleet.hardware, "dgx-h100": sku}
    return fleet


def held(outcomes: tuple[Outcome, ...]) -> list[tuple[str, str]]:
    return sorted({(o.check, o.cause) for o in outcomes if o.status is not Status.PASSED and not o.blocked_by})


@pytest.mark.parametrize("share", [1.0, 0.2])
@pytest.mark.parametrize("count", [2, 4, 8])
def test_hosts_that_agree_prove_nothing_without_a_published_figure(fleet: MakeFleet, count: int, share: float) -> None:
    """PCIe hosts whose peer-to-peer traffic is blocked on all of them agree as well as healthy ones do."""
    here = unpublished(fleet(count))
    here.nvlink = dict.fromkeys(here.hosts, share)
    outcomes = here.outcomes()
    (found,) = [o for o in outcomes if o.check == "nccl-intra-node-bw"]
    assert (found.status, found.rating, found.cause) == (Status.OTHER, Rating.MARGINAL, "no-reference")
    assert {s.name for s in found.subjects} == {"here", *here.hosts}
    assert "gpufleet_acceptances" in found.hint
    person = Acceptance(check=found.check, subject="*", reason="measured on good hosts", who="ab", until="2026-12-31")
    assert person.covers(found)


def test_one_host_slower_than_equals_is_seen_without_a_published_figure(fleet: MakeFleet) -> None:
    here = unpublished(fleet(8, nvlink={"gpu03": 0.6}))
    named = [o for o in here.outcomes() if o.check == "nccl-intra-node-bw" and o.cause == "slow-nvlink"]
    assert [o.subjects[0].name for o in named] == ["gpu03"]


def on_two_leaves(plan: Plan, half: int = 0) -> Plan:
    half = half or len(plan.hosts) // 2
    names = [tuple(f"leaf-{'ab'[n >= half]}-rail{rail}" for rail in range(8)) for n in range(len(plan.hosts))]
    return replace(plan, hosts=tuple(replace(h, leaves=leaves) for h, leaves in zip(plan.hosts, names, strict=True)))


def tapered(fleet: MakeFleet, taper: float, **faults: object) -> Fleet:
    here = fleet(8, algorithm="RING", whole=0.5, plan_change=on_two_leaves, settings={"taper": taper}, **faults)
    first, second = here.hosts[:4], here.hosts[4:]
    here.paths |= {frozenset((one, other)): 0.5 for one in first for other in second}
    return here


def test_a_designed_taper_is_no_fault(fleet: MakeFleet) -> None:
    assert held(tapered(fleet, 2.0).outcomes()) == []


@pytest.mark.parametrize(("slow", "named"), [({}, []), ({("gpu01", rail): 0.4 for rail in range(8)}, ["gpu01"])])
def test_a_pair_across_leaves_is_held_to_what_a_taper_leaves_of_a_ring(
    fleet: MakeFleet, slow: dict[tuple[str, int], float], named: list[str]
) -> None:
    """Two hosts under one leaf and four under the other: of the first pairs some are across and one is not."""
    here = fleet(6, algorithm="RING", whole=0.5, plan_change=lambda plan: on_two_leaves(plan, 2), settings={"taper": 2},
                 nics=slow)  # fmt: skip
    # Within a leaf NVLink is the limit (360 GB/s), across half of what the adapters carry (8 x 47.5 GB/s).
    here.paths |= {frozenset((one, other)): 190 / 360 for one in here.hosts[:2] for other in here.hosts[2:]}
    found = [o for o in here.outcomes() if o.status is not Status.PASSED and not o.blocked_by]
    assert [o.subjects[0].name for o in found if o.cause == "slow-node"] == named
    assert [(o.cause, o.summary) for o in found if o.cause != "slow-node"] == []


def test_a_taper_that_nobody_designed_is_one(fleet: MakeFleet) -> None:
    assert held(tapered(fleet, 1.0).outcomes()) != []


def test_within_a_leaf_nothing_is_tapered(fleet: MakeFleet) -> None:
    here = tapered(fleet, 2.0, nics={("gpu02", rail): 0.4 for rail in range(8)})
    slow = [o for o in here.outcomes() if o.cause == "slow-node"]
    assert [o.subjects[0].name for o in slow] == ["gpu02"]


def test_a_slow_path_within_a_leaf_is_not_blamed_on_links_between_leaves(fleet: MakeFleet) -> None:
    same = fleet(8, plan_change=lambda plan: replace(plan, hosts=tuple(replace(h, leaves=("l",)) for h in plan.hosts)))
    pair = same.results().in_phase("pair")[1].record.hosts
    same.paths = {frozenset(pair): 0.5}
    hints = {o.hint for o in same.outcomes() if o.cause == "slow-path"}
    assert len(hints) == 1
    assert "between their leaves" not in hints.pop()


def test_a_slow_rail_names_its_leaf_switch(fleet: MakeFleet) -> None:
    here = fleet(8, plan_change=on_two_leaves)
    here.nics = {(name, 3): 0.4 for name in here.hosts}
    (found,) = [o for o in here.outcomes() if o.cause == "slow-rail"]
    assert "leaf-a-rail3, leaf-b-rail3" in found.summary


class Racks(Fleet):
    """Hosts in two racks that are NVLink domains: inside one NVLink carries everything, between them the adapters."""

    def speed(self, want: Wanted) -> float:
        inside = 670.0 * min(self.nvlink.get(name, 1.0) for name in want.hosts)
        if want.phase == "node":
            return inside
        places = {self.hosts.index(name) % 2 for name in want.hosts}
        if want.phase == "pair" and len(places) == 1:
            return 843.0
        adapters = 188.0 * min(self.nics.get((name, 0), 1.0) for name in want.hosts)
        return adapters / self.gpus if want.phase == "adapters" else adapters


def in_two_racks(hardware: dict[str, Sku], **faults: object) -> Fleet:
    def by_turns(plan: Plan) -> Plan:
        return replace(plan, hosts=tuple(replace(h, rack=f"r{n % 2}") for n, h in enumerate(plan.hosts)))

    names = tuple(f"gpu{n:02d}" for n in range(1, 7))
    facts = {"sku": "gb200-nvl72", "gpus": 4, "algorithm": "RING", "plan_change": by_turns, **faults}
    return Racks(hosts=names, hardware=hardware, **facts)  # type: ignore[arg-type]


def test_a_pair_of_two_racks_is_not_compared_with_pairs_inside_one(hardware: dict[str, Sku]) -> None:
    """With one host out, the others are paired across racks too: 0.94 of what adapters carry is healthy there."""
    here = in_two_racks(hardware, nvlink={"gpu05": 0.5})
    assert findings(here.outcomes()) == [("nccl-intra-node-bw", "slow-nvlink", "gpu05")]


def test_slow_adapters_are_seen_between_racks(hardware: dict[str, Sku]) -> None:
    here = in_two_racks(hardware, nvlink={"gpu05": 0.5}, nics={("gpu06", 0): 0.5})
    found = {(check, names) for check, _cause, names in findings(here.outcomes())}
    assert found == {("nccl-intra-node-bw", "gpu05"), ("nccl-pair-bw", "gpu06")}


_CLIQUE = "MNNVL 1 cliqueId 7ffe cliqueSize {size} cliqueRank 0 nvlDomainSize {size}\nUsing network IB"
_NVLS = "NVLS comm 0x5598478a0000 headRank 0 nHeads 8 nvlsRanks 8 buffSize 1048576 nvlsPerRankSize 201326592"
_NET = "Using network IB\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"
_P2P = "Channel 00/0 : 0[0] -> 8[0] via P2P/MNNVL"


@pytest.mark.parametrize(
    ("said", "algorithm", "between", "nvls"),
    [
        (_NET, "NVLS_TREE", "network", "not shown"),
        (f"{_NET}\n{_NVLS}", "NVLS_TREE", "network", "used"),
        (f"{_NET}\n{_NVLS}", "RING", "network", "not shown"),
        ("Using network IB", "RING", "not shown", "not shown"),
        ("NET/Socket : Using [0]eth0:10.0.0.1<0>\nUsing network Socket", "RING", "sockets", "not shown"),
        (f"{_CLIQUE.format(size=32)}\n{_P2P}\n{_NVLS}", "NVLS", "NVLink", "used"),
        (f"{_CLIQUE.format(size=32)}\n{_P2P}", "RING", "NVLink", "not shown"),
        (f"{_CLIQUE.format(size=32)}\n{_P2P}\n{_NET}", "RING", "more than one", "not shown"),
        (f"{_CLIQUE.format(size=16)}\n{_P2P}\n{_NET}", "NVLS_TREE", "more than one", "not shown"),
        (f"{_CLIQUE.format(size=8)}\n{_NET}", "NVLS_TREE", "network", "not shown"),
    ],
)
def test_the_log_of_a_run_proves_which_way_data_went_between_hosts(
    fleet: MakeFleet, said: str, algorithm: str, between: str, nvls: str
) -> None:
    here = fleet(4, algorithm=algorithm)
    here.says = dict.fromkeys(here.hosts, said)
    run = here.run(Wanted(phase="all", hosts=here.hosts), here.plan(), 1)
    assert (between_hosts(run), nvls_of(run)) == (between, nvls)


def test_the_figure_of_all_hosts_carries_the_way_it_went(fleet: MakeFleet) -> None:
    (whole,) = [o for o in fleet(4).outcomes() if o.check == "nccl-all-nodes-bw"]
    assert {"between hosts": "network", "NVLS": "not shown"}.items() <= {
        m.name: m.value for m in whole.measured
    }.items()
