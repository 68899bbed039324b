# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that is never the same for two moments and two clients: who is slow, who is not, and what nobody can tell.

That a file system has transients of minutes is what a year of measurements shows (Lockwood et al., "A Year in the Life
of a Parallel File System", SC18); how far it goes is drawn here, as in tests/support/noisy_volume.py.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from seeds import drawing
from storage_fleet import StorageFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.settings import PATTERNS

THROUGHPUT, SLOW = "storage-throughput", "gpu05"
UNSTATED: dict[str, Any] = {"floor_mib_s": {}, "p99_ms": {}, "parallel": 8}


def volume(
    seed: int, load: float, storms: float = 0.0, slow: Mapping[str, float] | None = None, **stated: Any
) -> StorageFleet:
    """Sixteen hosts on a volume that is so busy, with storms in a part of the groups."""

    def busy(group: int) -> float:
        draw = random.Random(f"{seed} {load} {storms} {group}")
        usual = load * draw.uniform(0.8, 1.2)
        return min(0.95, usual * draw.uniform(1.5, 3)) if draw.random() < storms else usual

    def rate(host: str, group: int) -> float:
        own = random.Random(f"{seed} {host} {group}")
        left = 1 - min(0.98, busy(group) * own.lognormvariate(0, 0.3))
        return left * own.lognormvariate(0, 0.1) * (slow or {}).get(host, 1.0)

    return StorageFleet(nodes=16, seed=seed, rate=rate, stated={**UNSTATED, **stated})


def statuses(fleet: StorageFleet) -> dict[str, str]:
    """What the check says of each host."""
    said = [outcome for outcome in fleet.outcomes() if outcome.check == THROUGHPUT]
    return {subject.name: outcome.status.value for outcome in said for subject in outcome.subjects}


def seeds(count: int) -> list[int]:
    draw = drawing("moments of a volume")
    return [draw.randrange(10**6) for _number in range(count)]


@pytest.mark.parametrize(("load", "storms"), [(0.2, 0.0), (0.5, 0.0), (0.7, 0.0), (0.35, 0.3), (0.5, 0.3)])
def test_a_client_at_a_quarter_never_passes_and_no_healthy_one_fails(load: float, storms: float) -> None:
    for seed in seeds(3):
        told = statuses(volume(seed, load, storms, {SLOW: 0.25}))
        assert told.pop(SLOW) in ("failed", "other"), seed
        assert "failed" not in told.values(), (seed, told)


@pytest.mark.parametrize(
    ("seed", "load", "storms"),
    [(659036, 0.35, 0.3), (126762, 0.7, 0.0), (529828, 0.7, 0.0), (925611, 0.7, 0.0), (475778, 0.5, 0.0)],
)
def test_bad_luck_three_times_is_no_proof_where_hosts_differ_from_themselves(
    seed: int, load: float, storms: float
) -> None:
    """The faster half happened to agree, and a host had little of what others had in each of its runs: by such draws
    healthy hosts failed."""
    fleet = volume(seed, load, storms, {SLOW: 0.25})
    told = statuses(fleet)
    assert told.pop(SLOW) in ("failed", "other") and "failed" not in told.values(), told
    said = [o.summary for o in fleet.outcomes() if o.check == THROUGHPUT and "from one moment to the next" in o.summary]
    assert said, told


def test_a_host_that_is_slow_each_time_alike_fails_whatever_others_had_once() -> None:
    """One host of those measured beside it had a bad moment: what all of them differ from themselves by is little."""

    def rate(host: str, group: int) -> float:
        own = random.Random(f"{host} {group}").uniform(0.9, 1.1)
        return own * (0.25 if host == SLOW else 0.4 if (host, group) == ("gpu02", 3) else 1.0)

    told = statuses(StorageFleet(nodes=16, rate=rate, stated=UNSTATED))
    assert told.pop(SLOW) == "failed" and set(told.values()) == {"passed"}


def test_where_hosts_differ_little_all_pass_and_the_slow_one_fails() -> None:
    told: Counter[str] = Counter()
    for seed in seeds(4):
        assert set(statuses(volume(seed, 0.1)).values()) == {"passed"}, seed
        told[statuses(volume(seed, 0.1, slow={SLOW: 0.25}))[SLOW]] += 1
    assert told == {"failed": 4}


def test_hosts_that_differ_too_much_are_told_once_with_what_could_hide_among_them() -> None:
    """From a quarter more to a third less than the middle: no host is far off, and a slow one could be among them."""
    parts = {f"gpu{n:02d}": 1.25 - 0.6 * n / 16 for n in range(1, 17)}
    wide = {name: part if part > 0.9 else part * 0.75 for name, part in parts.items()}
    fleet = StorageFleet(nodes=16, rate=lambda host, _group: wide[host], stated={**UNSTATED, "peer_spreads": 6})
    told = statuses(fleet)
    said = [o for o in fleet.outcomes() if o.check == THROUGHPUT and "could pass for one of them" in o.summary]
    assert len(said) == 1 and len(said[0].subjects) > 8 and "floor_mib_s" in said[0].hint, told
    assert set(told.values()) == {"other"}
    # A floor decides, however they differ.
    floors = dict.fromkeys(PATTERNS, 1.0)
    stated = {**UNSTATED, "peer_spreads": 6, "floor_mib_s": floors}
    sure = StorageFleet(nodes=16, rate=lambda host, _group: wide[host], stated=stated)
    assert set(statuses(sure).values()) == {"passed"}


def test_a_storm_over_the_first_group_blames_none_of_its_hosts_nor_their_rack() -> None:
    """It comes back when they are measured again: then others beside them are as slow."""

    def rate(_host: str, group: int) -> float:
        return 1.0 if group in (2, 3, 4) else 0.3

    racks = {f"gpu{n:02d}": {"rack": "rack-a1" if n <= 8 else "rack-a2"} for n in range(1, 33)}
    fleet = StorageFleet(nodes=32, rate=rate, stated=UNSTATED, shared=racks)
    told = statuses(fleet)
    assert {told[f"gpu{n:02d}"] for n in range(1, 9)} == {"other"} and "failed" not in told.values()
    found = [entry for entry in fleet.findings() if entry[0] == THROUGHPUT]
    assert {entry[1] for entry in found} == {"slow-mount-uneven"}


def test_a_client_that_was_measured_in_a_quiet_moment_is_held_against_those_beside_it() -> None:
    """It has half of what others have, and was measured when the volume was faster."""

    def rate(host: str, group: int) -> float:
        return (1.0 if group == 1 else 0.7) * (0.5 if host == SLOW else 1.0)

    fleet = StorageFleet(nodes=32, rate=rate, stated=UNSTATED)
    told = statuses(fleet)
    assert told.pop(SLOW) in ("failed", "other") and set(told.values()) == {"passed"}
    assert sum(SLOW in group for group in fleet.groups) == 3


def test_suspects_are_half_of_a_group_at_most() -> None:
    faults = tuple(f"storage-mount-slow@gpu{n:02d}" for n in range(1, 7))
    racks = {f"gpu{n:02d}": {"rack": "rack-a1" if n <= 6 else "rack-a2"} for n in range(1, 17)}
    fleet = StorageFleet(nodes=16, faults=faults, stated=UNSTATED, shared=racks)
    assert fleet.findings() == [(THROUGHPUT, "slow-group", "failed", "rack-a1")]
    slow = {fault.partition("@")[2] for fault in faults}
    assert all(len(slow & set(group)) <= 4 and len(group) == 8 for group in fleet.groups[2:])
