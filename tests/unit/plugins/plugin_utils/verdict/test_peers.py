# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The peer rule over simulated fleets: who must be found, how rarely a good one, and when the cohort is at fault."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.peers import as_slow, compare, confirmed

TRIALS = 1500


@dataclass(frozen=True)
class Rates:
    found: float
    false: float
    blamed: float


def simulate(nodes: int, bad: int, loss: float, noise: float, runs: int) -> Rates:
    draw = random.Random(f"{nodes}/{bad}/{loss}/{noise}/{runs}")
    found = false = blamed = 0
    for _trial in range(TRIALS):
        values = {
            str(n): median(draw.gauss(400 * (1 - loss) if n < bad else 400, 400 * noise) for _run in range(runs))
            for n in range(nodes)
        }
        verdict = compare(values)
        blamed += verdict.cohort_to_blame
        found += sum(int(name) < bad for name in verdict.suspects)
        false += sum(int(name) >= bad for name in verdict.suspects)
    good = nodes - bad
    return Rates(found / (bad * TRIALS) if bad else 1.0, false / (good * TRIALS), blamed / TRIALS)


# Nodes, bad ones, their loss, noise of a run, the least part of them that must be found with three runs.
TABLE = [
    (16, 1, 0.10, 0.02, 0.96),
    (64, 1, 0.07, 0.02, 0.85),
    (64, 8, 0.10, 0.02, 0.98),
    (64, 0, 0.00, 0.02, 1.0),
    (8, 2, 0.10, 0.02, 0.88),
    (8, 2, 0.10, 0.01, 0.99),
    (4, 1, 0.10, 0.02, 0.85),
    (4, 0, 0.00, 0.02, 1.0),
    (8, 0, 0.00, 0.02, 1.0),
]


@pytest.mark.parametrize(("nodes", "bad", "loss", "noise", "least"), TABLE)
def test_fleets(nodes: int, bad: int, loss: float, noise: float, least: float) -> None:
    rates = simulate(nodes, bad, loss, noise, 3)
    assert rates.found >= least
    assert rates.false <= 0.001
    assert rates.blamed <= 0.005


def test_noise_widens_the_tolerance_and_never_narrows_it() -> None:
    quiet = compare({str(n): 400.0 for n in range(8)})
    # The median of eight is not known for certain: 5 % x sqrt(1 + 2 / 8).
    assert quiet.limit == pytest.approx(377.64, abs=0.01)
    noisy = compare({str(n): 400.0 + 20 * (n % 5) for n in range(10)})
    assert noisy.limit < noisy.median * 0.95


@given(st.floats(0.0, 0.999), st.lists(st.floats(0.995, 1.005), min_size=4, max_size=40))
def test_a_slow_cohort_is_to_blame_and_no_member(share: float, values: list[float]) -> None:
    verdict = compare({str(n): 400 * 0.85 * share * value for n, value in enumerate(values)}, least_median=342.0)
    assert verdict.cohort_to_blame
    assert not verdict.suspects


@pytest.mark.parametrize("slow", [1, 3, 4, 6])
def test_up_to_half_of_a_cohort_is_named(slow: int) -> None:
    verdict = compare({str(n): 300.0 if n < slow else 400.0 for n in range(12)})
    assert (len(verdict.suspects), verdict.cohort_to_blame) == (slow, False)


def test_more_than_half_of_a_cohort_is_found_and_nobody_blamed() -> None:
    verdict = compare({str(n): 300.0 if n < 7 else 400.0 for n in range(12)})
    assert len(verdict.suspects) == 7
    assert verdict.cohort_to_blame


def test_two_of_four_at_four_fifths_are_suspect() -> None:
    verdict = compare({"a": 370.0, "b": 370.0, "c": 300.0, "d": 300.0})
    assert (verdict.suspects, verdict.cohort_to_blame, verdict.median) == (("c", "d"), False, 370.0)


def test_of_two_the_slower_is_suspect_and_agreement_proves_nothing() -> None:
    verdict = compare({"a": 370.0, "b": 300.0})
    assert (verdict.suspects, verdict.cohort_to_blame, verdict.enough) == (("b",), False, False)
    alike = compare({"a": 370.0, "b": 365.0})
    assert (alike.evaluated, alike.enough, alike.suspects) == (True, False, ())


def test_much_slower_members_do_not_hide_slower_ones() -> None:
    values = {"a": 1.0, "b": 1.01, "c": 0.99, "d": 1.0, "e": 0.9, "f": 0.88, "g": 0.86, "h": 0.4}
    verdict = compare(values)
    assert (set(verdict.suspects), verdict.cohort_to_blame) == ({"e", "f", "g", "h"}, False)


def test_one_alone_is_compared_with_nobody() -> None:
    for values in ({}, {"a": 5.0}):
        verdict = compare(values)
        assert (verdict.evaluated, verdict.suspects, verdict.cohort_to_blame) == (False, (), False)


# The noise of one run, as its standard deviation: nccl-tests repeated on four B200 hosts vary by 0.1 % (ring), 1.0 %
# (SHARP) and 1.8 % (NVLS), as published with the figures of NCCL 2.28 and 2.30 on that system; normal, independent.
# Members differ by noise alone. That healthy GPUs differ lastingly at compute (8 % on average over five clusters, "Not
# All GPUs Are Created Equal", SC22, arXiv 2208.11035) is why gates that compare compute have larger tolerances.
NOISES = (0.001, 0.010, 0.018)
SIZES = tuple(range(2, 65))


def cohort(draw: random.Random, size: int, slow: int, part: float, noise: float) -> dict[str, float]:
    """The median of three runs of each; the first `slow` members run at that part of the full speed."""
    return {str(n): median(draw.gauss(part if n < slow else 1.0, noise) for _run in range(3)) for n in range(size)}


@pytest.mark.parametrize("noise", NOISES)
def test_whatever_part_of_a_cohort_is_slow_is_found(noise: float) -> None:
    draw = random.Random(f"found/{noise}")
    missed = members = named_wrongly = good = 0
    for size in SIZES:
        for tenths in range(1, 10):
            slow = min(size - 1, max(1, round(size * tenths / 10)))
            part = draw.choice((0.5, 0.7, 0.8, 0.85))
            verdict = compare(cohort(draw, size, slow, part, noise))
            wrong = {str(n) for n in range(slow)}
            assert verdict.cohort_to_blame == (len(verdict.suspects) > max(size // 2, 2 if size >= 8 else 1))
            missed += len(wrong - set(verdict.suspects))
            named_wrongly += len(set(verdict.suspects) - wrong)
            members, good = members + slow, good + size - slow
            if wrong - set(verdict.suspects):
                # A cohort of which one is missed is still not a healthy one.
                assert verdict.suspects
    assert members > 9000
    assert missed / members < 0.001
    assert named_wrongly / good < 0.0001


@pytest.mark.parametrize("noise", NOISES)
def test_healthy_cohorts_of_every_size_raise_no_alarm(noise: float) -> None:
    draw = random.Random(f"healthy/{noise}")
    alarms = members = blamed = cohorts = 0
    for size in SIZES:
        for _trial in range(1 + 1000 // size):
            verdict = compare(cohort(draw, size, 0, 1.0, noise))
            alarms, members = alarms + len(verdict.suspects), members + size
            blamed, cohorts = blamed + verdict.cohort_to_blame, cohorts + 1
    assert members > 60_000
    assert alarms / members < 0.0001
    assert blamed / cohorts < 0.0001


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.floats(1, 900), min_size=4, max_size=30), st.floats(0.01, 100)
)
def test_the_unit_does_not_matter(values: dict[str, float], factor: float) -> None:
    scaled = compare({name: value * factor for name, value in values.items()})
    edge = compare(values)
    on_the_edge = any(abs(value - edge.limit) < 1e-6 * value for value in values.values())
    assert on_the_edge or scaled.suspects == edge.suspects


@st.composite
def healthy(draw: st.DrawFn, least: int) -> dict[str, float]:
    """Hosts that differ by a percent."""
    values = draw(st.lists(st.floats(0.995, 1.005), min_size=least, max_size=30))
    return {f"gpu{n:02d}": 400 * value for n, value in enumerate(values)}


@given(healthy(2), st.floats(1.2, 20.0))
def test_one_fast_host_makes_no_other_slow(values: dict[str, float], factor: float) -> None:
    fast = {**values, "fast": 400 * factor}
    reached = compare(fast, least_median=390.0)
    assert (reached.alone, reached.suspects, reached.cohort_to_blame) == ("fast", (), False)
    assert reached.median < 403 and "without fast" in reached.arithmetic and not reached.undecided
    # Nobody says what they must reach: then nobody is named, and nobody is called good, but where twenty and more are
    # compared, of which one may be set aside. If they miss what they must reach, it is the same for any number.
    unknown = compare(fast)
    if len(fast) >= 20:
        assert (unknown.alone, unknown.suspects, unknown.cohort_to_blame) == ("fast", (), False)
    for verdict in (*([unknown] if len(fast) < 20 else []), compare(fast, least_median=390.0 * factor)):
        assert (verdict.alone, verdict.cohort_to_blame) == ("fast", True)
        assert set(verdict.suspects) == set(values) and "fast alone is faster" in verdict.undecided


@given(healthy(4), st.floats(1.2, 20.0), st.floats(0.4, 0.85), st.data())
def test_beside_one_fast_host_the_slow_ones_are_named(
    values: dict[str, float], factor: float, part: float, data: st.DataObject
) -> None:
    slow = set(list(values)[: data.draw(st.integers(1, len(values) // 2))])
    seen = {name: value * (part if name in slow else 1.0) for name, value in values.items()}
    verdict = compare({**seen, "fast": 400 * factor}, least_median=390.0)
    assert (set(verdict.suspects), verdict.cohort_to_blame) == (slow, False)


@given(healthy(4), st.floats(0.4, 0.85))
def test_two_hosts_and_more_are_a_mode(values: dict[str, float], part: float) -> None:
    fast = set(list(values)[:2])
    seen = {name: value * (1.0 if name in fast else part) for name, value in values.items()}
    for verdict in (compare(seen), compare(seen, least_median=390.0 * part)):
        assert (verdict.alone, set(verdict.suspects)) == ("", set(values) - fast)
    half = {name: value * (part if n % 2 else 1.0) for n, (name, value) in enumerate(values.items())}
    found = compare(half)
    slow = {name for n, name in enumerate(values) if n % 2}
    assert (found.alone, set(found.suspects), found.cohort_to_blame) == ("", slow, False)


def test_all_that_is_fast_in_one_host_is_one_host() -> None:
    rates = {f"gpu{host}/gpu{gpu}": 1.3 if host == 2 else 1.0 for host in range(4) for gpu in range(8)}
    by_host = compare(rates, hosts=lambda name: (name.partition("/")[0],))
    assert (by_host.alone, by_host.cohort_to_blame, compare(rates).alone) == ("gpu2", True, "")
    two = {name: 1.3 if name.startswith("gpu1") else rate for name, rate in rates.items()}
    assert compare(two, hosts=lambda name: (name.partition("/")[0],)).alone == ""
    # A pair is of two hosts.
    pairs = {"a+b": 400.0, "c+d": 300.0, "e+f": 300.0}
    assert compare(pairs, hosts=lambda name: name.split("+")).alone == ""


def test_confirmation() -> None:
    assert confirmed([True, True, False])
    assert confirmed([True, False, True])
    assert not confirmed([True, False, False])
    assert not confirmed([True])
    assert not confirmed([True, True])


def test_of_many_hosts_one_high_outlier_is_set_aside_and_of_few_it_leaves_all_undecided() -> None:
    draw = random.Random(5)
    for others, decided in ((4, False), (18, False), (19, True), (64, True), (1000, True)):
        values = {f"h{n}": draw.gauss(400, 1.6) for n in range(others)}
        well = compare({**values, "fast": 520.0})
        assert (well.alone, well.cohort_to_blame) == ("fast", not decided), others
        assert bool(well.suspects) is not decided and ("fast" in well.undecided) is not decided
        # A slow one is found beside it, and the fast one is never a suspect.
        slow = compare({**values, "fast": 520.0, "slow": 300.0})
        assert not decided or (slow.suspects, slow.cohort_to_blame) == (("slow",), False), others
        # What all must reach decides for any number: nothing passes for being many.
        low = compare({**values, "fast": 520.0}, least_median=450.0)
        assert low.cohort_to_blame and set(low.suspects) == set(values)


def test_two_hosts_that_are_fast_alike_are_a_mode_among_any_number() -> None:
    draw = random.Random(6)
    for others in (19, 64, 1000):
        values = {f"h{n}": draw.gauss(400, 1.6) for n in range(others)}
        verdict = compare({**values, "fast1": 520.0, "fast2": 519.0})
        assert verdict.cohort_to_blame and set(verdict.suspects) == set(values)


def test_the_tails_of_real_noise_seldom_keep_a_healthy_fleet_undecided() -> None:
    """Student's t with three degrees of freedom, 1 % a run: a figure far above all others is nothing rare."""
    draw, undecided, fleets = random.Random(7), 0, 200
    for _fleet in range(fleets):
        noise = (draw.gauss(0, 1) / (sum(draw.gauss(0, 1) ** 2 for _k in range(3)) / 3) ** 0.5 for _host in range(64))
        undecided += compare({f"h{n}": 400 * (1 + 0.01 * value) for n, value in enumerate(noise)}).cohort_to_blame
    assert undecided <= 0.05 * fleets, undecided


def test_what_differs_by_less_than_noise_is_as_slow() -> None:
    values = {"a": 0.90, "b": 0.909, "c": 0.911, "d": 1.0}
    assert as_slow(values, ["a"], 1.0) == {"a", "b"}
    assert as_slow(values, [], 1.0) == frozenset()
