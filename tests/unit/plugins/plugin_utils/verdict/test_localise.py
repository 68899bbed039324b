# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Localisation: whoever is broken is named, and nobody else, over any fleet and any set of bad nodes and paths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.localise import (
    Blame,
    Pair,
    PairVerdict,
    blame,
    disjoint_pairs,
    other_pairings,
    second_round,
)


def names(count: int) -> list[str]:
    return [f"gpu{n:02d}" for n in range(count)]


@given(st.integers(0, 40))
def test_pairs_are_disjoint_and_complete(count: int) -> None:
    nodes = names(count)
    seen = [name for pair in disjoint_pairs(nodes) for name in pair]
    assert sorted(seen) == nodes[count % 2 :]


@given(st.integers(3, 12), st.data())
def test_no_half_of_the_nodes_hides_in_every_pairing(count: int, data: st.DataObject) -> None:
    """However half of the nodes is slow: in one of the pairings two sound ones meet."""
    nodes = names(count)
    ways = (disjoint_pairs(nodes), *other_pairings(nodes))
    for pairs in ways:
        seen = [name for pair in pairs for name in pair]
        assert len(set(seen)) == len(seen) >= count - 1 - (count % 4 == 1)
    slow = set(data.draw(st.permutations(nodes))[: count // 2])
    assert any(not (set(pair) & slow) for pairs in ways for pair in pairs)


@given(st.integers(0, 12), st.integers(0, 12))
def test_second_round(suspects: int, good: int) -> None:
    doubt, fine = names(suspects), [f"ok{n}" for n in range(good)]
    before: set[Pair] = {(name, fine[0]) for name in doubt[:1] if fine}
    waves = second_round(doubt, fine, before)
    placed = [pair for wave in waves for pair in wave]
    for wave in waves:
        used = [name for pair in wave for name in pair]
        assert len(used) == len(set(used))
    assert all(pair not in before and pair[1] in fine for pair in placed)
    assert len({first for first, _partner in placed}) == len(placed)
    if len(fine) > 1 or (fine and not before):
        assert {first for first, _partner in placed} == set(doubt)


def two_rounds(nodes: list[str], bad: set[str], paths: set[Pair]) -> Blame:
    """Both rounds over a fleet in which we know who is broken."""

    def good(pair: Pair) -> bool:
        return not (set(pair) & bad) and pair not in paths and (pair[1], pair[0]) not in paths

    pairs = disjoint_pairs(nodes)
    verdicts = [PairVerdict(pair, good(pair)) for pair in pairs]
    fine = [name for verdict in verdicts if verdict.good for name in verdict.pair]
    doubt = [name for verdict in verdicts if not verdict.good for name in verdict.pair]
    waves = second_round(doubt, fine, pairs)
    return blame([*verdicts, *(PairVerdict(pair, good(pair)) for wave in waves for pair in wave)])


@given(st.integers(3, 24).map(lambda half: 2 * half), st.data())
def test_whoever_is_bad_is_named_and_nobody_else(count: int, data: st.DataObject) -> None:
    nodes = names(count)
    bad = set(data.draw(st.lists(st.sampled_from(nodes), unique=True, max_size=count // 2 - 2)))
    found = two_rounds(nodes, bad, set())
    assert set(found.nodes) == bad
    assert (found.paths, found.unclear) == ((), ())


@given(st.integers(3, 24).map(lambda half: 2 * half), st.data())
def test_a_path_is_not_a_node(count: int, data: st.DataObject) -> None:
    nodes = names(count)
    path = data.draw(st.sampled_from(disjoint_pairs(nodes)))
    found = two_rounds(nodes, set(), {path})
    assert found == Blame(paths=(path,))


def test_two_nodes_cannot_be_told_apart() -> None:
    assert blame([PairVerdict(("a", "b"), False)]) == Blame(unclear=(("a", "b"),))


def test_one_placement_names_nobody() -> None:
    assert blame([PairVerdict(("a", "b"), False), PairVerdict(("c", "d"), True)]).nodes == ()
    # The second placement was bad with another suspect: that proves nothing about either.
    both = blame([PairVerdict(("a", "b"), False), PairVerdict(("a", "c"), False)])
    assert (both.nodes, both.unclear) == ((), (("a", "b"), ("a", "c")))
    assert blame([]).nobody
