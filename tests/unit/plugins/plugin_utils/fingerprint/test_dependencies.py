# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What changed between two looks at what a result depends on, and in which words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings import settings_in
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fingerprint.dependencies import (
    NOT_JUDGING,
    NOT_SEEN,
    Change,
    Dependencies,
    SiteState,
    changes,
    dependencies_of,
    in_words,
    unseen,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

NAMES = ("gpu01", "gpu02")
SITE = make_site(tuple(Host(name=name, sku="h100", node_name=name, rack="r1") for name in NAMES), name="s")
FACTS = {"driver": "580.1", "kernel": "6.8", "GPUs": "GPU-a, GPU-b"}
WHOLE = {
    "record": "r", "signature": "good, a", "evidence": "e", "in force": "yes", "topology": "64 links",
    "cabling plan": "p", "recipe": "operator 1, values v", "cluster": "uid",
}  # fmt: skip
STATE = SiteState(hosts={name: dict(FACTS) for name in NAMES}, whole=WHOLE)


def of(gate: str, kind: SubjectKind, subject: str, hosts: tuple[str, ...] = (), **changed: Any) -> Dependencies:
    site, state = changed.get("site", SITE), changed.get("state", STATE)
    return dependencies_of(gate, "some-check", kind, subject, hosts, site, state)


NODE = of("nodes", SubjectKind.NODE, "gpu01", ("gpu01",))


SEEN = st.dictionaries(st.text(), st.text(min_size=1))


@given(SEEN, st.dictionaries(st.text(), SEEN))
def test_nothing_changed_means_the_same_fingerprint_and_no_words(
    own: dict[str, str], hosts: dict[str, dict[str, str]]
) -> None:
    known = Dependencies(own=own, hosts={name: facts | {"kernel": "6.8"} for name, facts in hosts.items()})
    again = Dependencies(own=dict(own), hosts={name: dict(facts) for name, facts in known.hosts.items()})
    assert changes(known, again) == () and known.fingerprint == again.fingerprint


@given(st.sampled_from(sorted(FACTS)), st.text(min_size=1).filter(lambda text: ", " not in text))
def test_any_other_word_of_a_host_is_a_change_and_another_fingerprint(name: str, word: str) -> None:
    now = Dependencies(own=NODE.own, hosts={"gpu01": FACTS | {name: word}})
    assert (changes(NODE, now) == ()) is (FACTS[name] == word) is (NODE.fingerprint == now.fingerprint)


@pytest.mark.parametrize(
    ("before", "now", "line"),
    [
        ({"driver": "580.1"}, {"driver": "580.2"}, "driver 580.1 -> 580.2 on gpu01"),
        ({"GPUs": "a, b, c"}, {"GPUs": "a, c, d"}, "GPUs b -> d on gpu01"),
        ({"GPUs": "a, b"}, {"GPUs": "a"}, "GPUs b -> nothing on gpu01"),
        ({"GPUs": "a, b", "kernel": "6"}, {"kernel": "6"}, "GPUs a, b -> not seen on gpu01"),
        ({"kernel": "6"}, {"kernel": "6", "OFED": "25"}, "OFED not seen -> 25 on gpu01"),
        ({"kernel": "6"}, {}, "host seen -> not seen on gpu01"),
        ({}, {"kernel": "6"}, "host not seen -> seen on gpu01"),
        ({}, {}, "host not seen -> not seen on gpu01"),
    ],
)
def test_a_change_is_told_in_words(before: dict[str, str], now: dict[str, str], line: str) -> None:
    found = changes(Dependencies(hosts={"gpu01": before}), Dependencies(hosts={"gpu01": now}))
    assert in_words(found) == [line]


def test_the_same_change_on_many_hosts_is_one_line() -> None:
    found = [Change(f"gpu{number:02d}", "driver", "1", "2") for number in range(1, 6)]
    assert in_words(found) == ["driver 1 -> 2 on 5 hosts (gpu01, gpu02, gpu03 and 2 more)"]


def test_what_cannot_be_seen_without_the_tests_is_no_change_and_is_told() -> None:
    before = Dependencies(own={"NCCL": "2.28", "topology": "t"}, hosts={"gpu01": {"driver": "1", "kernel": "6"}})
    now = Dependencies(own={"topology": "t"}, hosts={"gpu01": {"kernel": "6"}})
    assert changes(before, now, ("driver",)) == ()
    assert unseen(before, now, ("driver",)) == {"NCCL", "driver"}
    # Seen after all, it counts.
    other = Dependencies(own={"topology": "t"}, hosts={"gpu01": {"kernel": "6", "driver": "2"}})
    assert changes(before, other, ("driver",)) == (Change("gpu01", "driver", "1", "2"),)
    assert changes(before, now) == (Change("gpu01", "driver", "1", NOT_SEEN),)


def test_a_swapped_node_voids_its_own_results_and_those_of_the_whole_alone() -> None:
    swapped = replace(STATE, hosts=STATE.hosts | {"gpu02": FACTS | {"GPUs": "GPU-c, GPU-d"}})
    results = {
        "gpu01": ("nodes", SubjectKind.NODE, "gpu01", ("gpu01",)),
        "gpu02": ("nodes", SubjectKind.NODE, "gpu02", ("gpu02",)),
        "stack of gpu01": ("gpu_stack", SubjectKind.NODE, "gpu01", ("gpu01",)),
        "a component": ("gpu_stack", SubjectKind.COMPONENT, "volcano", NAMES),
        "whole": ("fabric_validation", SubjectKind.CLUSTER, "s", NAMES),
        "rack": ("facility", SubjectKind.RACK, "r1", NAMES),
        "fabric": ("fabric", SubjectKind.SITE, "s", NAMES),
    }
    void = {name for name, case in results.items() if changes(of(*case), of(*case, state=swapped))}
    assert void == {"gpu02", "whole"}


def test_another_set_of_hosts_voids_results_of_the_whole_and_of_their_rack() -> None:
    grown = replace(SITE, hosts=(*SITE.hosts, Host(name="gpu03", sku="h100", node_name="gpu03", rack="r1")))
    for case in (("gpu_stack", SubjectKind.CLUSTER, "s", NAMES), ("facility", SubjectKind.RACK, "r1")):
        assert "gpu03" in in_words(changes(of(*case), of(*case, site=grown)))[0]
    one = ("nodes", SubjectKind.NODE, "gpu01", ("gpu01",))
    assert changes(of(*one), of(*one, site=grown)) == ()


@pytest.mark.parametrize(
    ("settings", "void"),
    [
        ({"some-check": {"level": 1}}, True),
        ({"nodes": {"limit": 2}}, True),
        ({"nodes": {"timeout_s": 2}}, True),
        ({"some-check": {"clock_offset_s": 100}}, True),
        ({"nodes": {"url": "http://there"}}, True),
        ({"other-check": {"level": 1}}, False),
    ],
)
def test_what_the_inventory_sets_for_a_check_is_part_of_its_result(settings: dict[str, Any], void: bool) -> None:
    now = of("nodes", SubjectKind.NODE, "gpu01", ("gpu01",), site=replace(SITE, settings=settings))
    assert bool(changes(NODE, now)) is void


@pytest.mark.parametrize(
    ("thresholds", "void"),
    [
        ({"some-check": {"level": 1}}, True),
        ({"nodes": {"limit": 2}}, True),
        ({"some-check": {"start_s": 2}}, True),
        ({"other-check": {"level": 1}}, False),
    ],
)
def test_what_private_thresholds_set_for_a_check_is_part_of_its_result(thresholds: dict[str, Any], void: bool) -> None:
    state = replace(STATE, whole=STATE.whole | {"thresholds": json.dumps(thresholds)})
    now = of("nodes", SubjectKind.NODE, "gpu01", ("gpu01",), state=state)
    assert bool(changes(NODE, now)) is void


@pytest.mark.parametrize("fact", ["recipe", "cluster", "topology"])
def test_what_was_seen_neither_then_nor_now_is_a_change(fact: str) -> None:
    """A rebuilt cluster whose UID may not be read is not the cluster of then."""
    blind = replace(STATE, whole={name: word for name, word in STATE.whole.items() if name != fact})
    result = of("training_acceptance", SubjectKind.NODE, "gpu01", ("gpu01",), state=blind)
    assert changes(result, result) == (Change("", fact, NOT_SEEN, NOT_SEEN),)


@pytest.mark.parametrize("key", sorted(NOT_JUDGING))
def test_only_waiting_and_places_are_left_out_and_all_of_them_exist(key: str) -> None:
    declared = {name for kind in all_settings()[key] for name in settings_in(kind)}
    assert NOT_JUDGING[key] <= declared
    settings = {key: dict.fromkeys(NOT_JUDGING[key], 1)}
    gate = key if key in GATE_IDS else "gpu_stack"
    site = replace(SITE, settings=settings)
    then = dependencies_of(gate, key, SubjectKind.CLUSTER, "s", NAMES, SITE, STATE)
    assert changes(then, dependencies_of(gate, key, SubjectKind.CLUSTER, "s", NAMES, site, STATE)) == ()
