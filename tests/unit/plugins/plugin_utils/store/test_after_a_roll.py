# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which results a rolled driver and added hosts make stale: those that rest on them, and no other."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fingerprint.dependencies import (
    SiteState,
    dependencies_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.freshness import (
    FreshnessContext,
    Needed,
    Why,
    gate_freshness,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Pass

NAMES = tuple(f"gpu{n:02}" for n in range(1, 7))
WAVE = ("gpu02", "gpu03")
PAIRS = (("gpu01", "gpu02"), ("gpu03", "gpu04"), ("gpu05", "gpu06"))
WHOLE = {"recipe": "r1", "cluster": "c1", "topology": "t1"}
# Gate, check, kind, subject, hosts behind it.
Row = tuple[str, str, SubjectKind, str, tuple[str, ...]]


def site_of(*names: str) -> Site:
    return make_site(tuple(Host(name=n, sku="h100", node_name=n, rack="r1") for n in names), name="lab")


def state_of(*names: str, driver: str = "580.1") -> SiteState:
    return SiteState(hosts={name: {"driver": driver, "kernel": "6.8"} for name in names}, whole=WHOLE)


def rows(*names: str) -> list[Row]:
    """What a site needs: results of every host, of pairs, of all hosts together, and of a component."""
    every = tuple(names)
    return [
        *(("nodes", "gpu-census", SubjectKind.NODE, name, (name,)) for name in every),
        *(("fabric_validation", "nccl-intra-node-bw", SubjectKind.NODE, name, (name,)) for name in every),
        *(("fabric_validation", "nccl-pair-bw", SubjectKind.CLUSTER, "+".join(pair), pair) for pair in PAIRS),
        ("fabric_validation", "nccl-all-nodes-bw", SubjectKind.CLUSTER, "lab", every),
        ("gpu_stack", "component-health", SubjectKind.COMPONENT, "gpu-operator", ()),
    ]  # fmt: skip


def passed(row: Row, site: Site, state: SiteState) -> Pass:
    gate, check, kind, subject, hosts = row
    return Pass(
        gate=gate, check=check, subject=subject, run_id="run-1", passed="2026-11-20T12:00:00Z", gate_passed=True,
        dependencies=dependencies_of(gate, check, kind, subject, hosts, site, state), begun=1,
    )  # fmt: skip


def stale(before: Site, then: SiteState, site: Site, state: SiteState) -> dict[tuple[str, str], Why]:
    passes = [passed(row, before, then) for row in rows(*(host.name for host in before.hosts))]
    context = FreshnessContext(site=site, state=state, now=datetime(2026, 11, 21, 12, tzinfo=UTC), max_age_days=7)
    found = {}
    for gate in ("nodes", "fabric_validation", "gpu_stack"):
        needed = [
            Needed(check=check, kind=kind, subject=subject)
            for of, check, kind, subject, unused in rows(*(host.name for host in site.hosts))
            if of == gate
        ]
        judged = gate_freshness(gate, needed, passes, (), context)
        found |= {(entry.needed.check, entry.needed.subject): entry.why for entry in judged.stale}
    return found


SITE, STATE = site_of(*NAMES), state_of(*NAMES)


def test_a_site_that_did_not_change_has_nothing_stale() -> None:
    assert stale(SITE, STATE, SITE, STATE) == {}


def test_a_driver_that_was_rolled_over_a_wave_makes_its_results_and_those_of_the_whole_stale() -> None:
    rolled = replace(STATE, hosts=STATE.hosts | state_of(*WAVE, driver="580.2").hosts)
    assert stale(SITE, STATE, SITE, rolled) == dict.fromkeys(
        [
            *(("gpu-census", name) for name in WAVE),
            *(("nccl-intra-node-bw", name) for name in WAVE),
            # Each of these pairs has a host of the wave; gpu05 and gpu06 are as they were.
            ("nccl-pair-bw", "gpu01+gpu02"),
            ("nccl-pair-bw", "gpu03+gpu04"),
            ("nccl-all-nodes-bw", "lab"),
        ],
        Why.CHANGED,
    )


@pytest.mark.parametrize("new", [("gpu07",), ("gpu07", "gpu08")])
def test_hosts_that_were_added_are_proven_and_the_old_ones_are_not_proven_again(new: tuple[str, ...]) -> None:
    grown = site_of(*NAMES, *new)
    found = stale(SITE, STATE, grown, state_of(*NAMES, *new))
    assert {key: why for key, why in found.items() if why is Why.NEVER} == dict.fromkeys(
        [(check, name) for name in new for check in ("gpu-census", "nccl-intra-node-bw")], Why.NEVER
    )
    changed = {key for key, why in found.items() if why is Why.CHANGED}
    # What was measured between hosts was measured in another fleet.
    assert changed == {("nccl-all-nodes-bw", "lab"), *(("nccl-pair-bw", "+".join(pair)) for pair in PAIRS)}
