# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outcomes, decisions and their JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, from_plain, load, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Acceptance, Quarantine, Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Basis,
    Evidence,
    Expectation,
    Measure,
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)

GOOD = Outcome(
    check="gpu-census",
    gate="nodes",
    status=Status.PASSED,
    rating=Rating.GOOD,
    subjects=(node_subject("gpu01"),),
    summary="8",
)
BAD = replace(
    GOOD, status=Status.FAILED, rating=Rating.BAD, cause="gpu-missing", hint="reseat the GPU", summary="7 of 8"
)
MARGINAL = replace(GOOD, status=Status.OTHER, rating=Rating.MARGINAL, cause="dcgm-warn")
UNKNOWN = replace(GOOD, status=Status.OTHER, rating=Rating.UNKNOWN, cause="timeout")


@pytest.mark.parametrize(
    "change",
    [
        {"status": Status.FAILED},
        {"rating": Rating.MARGINAL},
        {"cause": "gpu-missing"},
        {"subjects": ()},
        {"summary": ""},
        {"schema_version": 2},
        {"status": Status.FAILED, "rating": Rating.BAD, "cause": "Not A Slug", "hint": "x"},
        {"status": Status.FAILED, "rating": Rating.BAD, "cause": "slug", "hint": ""},
        {"status": Status.OTHER, "rating": Rating.UNKNOWN, "cause": ""},
        {"status": Status.SKIPPED, "rating": Rating.GOOD},
        {"blocked_by": "gpu-census"},
        {
            "status": Status.OTHER,
            "rating": Rating.MARGINAL,
            "cause": "blocked-by-gpu-census",
            "blocked_by": "gpu-census",
        },
        {"status": Status.OTHER, "rating": Rating.UNKNOWN, "cause": "timeout", "blocked_by": "gpu-census"},
        {"status": Status.OTHER, "rating": Rating.UNKNOWN, "cause": "blocked-by-nvlink", "blocked_by": "gpu-census"},
    ],
)
def test_an_outcome_that_contradicts_itself_cannot_be_made(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        replace(GOOD, **change)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
subjects = st.builds(Subject, st.sampled_from(list(SubjectKind)), st.text(min_size=1), st.text())
outcomes = st.builds(
    Outcome,
    check=st.text(min_size=1),
    gate=st.just("nodes"),
    status=st.just(Status.FAILED),
    rating=st.just(Rating.BAD),
    subjects=st.lists(subjects, min_size=1, max_size=3).map(tuple),
    summary=st.text(min_size=1),
    cause=st.just("some-cause"),
    hint=st.text(min_size=1),
    measured=st.lists(st.builds(Measure, st.text(), scalars, st.text())).map(tuple),
    expected=st.lists(st.builds(Expectation, st.text(), st.text(), scalars, st.sampled_from(list(Basis)))).map(tuple),
    evidence=st.lists(st.builds(Evidence, st.text())).map(tuple),
    duration_s=st.floats(0, 1e6),
)


@given(outcomes)
def test_every_outcome_comes_back_from_its_json_unchanged(outcome: Outcome) -> None:
    assert from_plain(Outcome, json.loads(dumps(outcome)), "test") == outcome


def test_plain_data_holds_no_enum() -> None:
    plain = to_plain(GOOD)
    assert [value.__class__ for value in (plain["status"], plain["subjects"][0]["kind"])] == [str, str]


def test_scalars_keep_their_type_in_json() -> None:
    for value in (True, 1, 1.5, "1", None):
        back = from_plain(Measure, json.loads(dumps(Measure("m", value))), "test")
        assert back.value == value and type(back.value) is type(value)


def test_unknown_and_missing_keys_are_refused_with_their_place() -> None:
    plain = to_plain(GOOD)
    with pytest.raises(InputError, match="busbw"):
        from_plain(Outcome, plain | {"busbw": 1}, "file.json")
    del plain["summary"]
    with pytest.raises(InputError, match="summary"):
        from_plain(Outcome, plain, "file.json")


@pytest.mark.parametrize(
    ("key", "value"),
    [("summary", None), ("summary", 5), ("duration_s", "1"), ("schema_version", True), ("measured", "x")],
)
def test_nothing_is_converted_on_the_way_in(key: str, value: object) -> None:
    with pytest.raises(InputError):
        from_plain(Outcome, to_plain(GOOD) | {key: value}, "file.json")


def test_a_file_that_is_not_json_names_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(InputError, match="cannot be read"):
        load(Outcome, path)
    path.write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        load(Outcome, path)


def _waiver(**change: str) -> Waiver:
    return Waiver(
        **{"check": "gpu-census", "subject": "gpu01", "reason": "spare", "who": "ada", "until": "2026-12-31"} | change
    )


def test_a_waiver_holds_through_its_last_day_and_not_longer() -> None:
    assert _waiver().active_on(date(2026, 12, 31))
    assert not _waiver().active_on(date(2027, 1, 1))


@pytest.mark.parametrize(
    ("waiver", "covered"),
    [
        (_waiver(), True),
        (_waiver(subject="gpu0*"), True),
        (_waiver(subject="gpu02"), False),
        (_waiver(check="gpu-ecc"), False),
    ],
)
def test_a_waiver_covers_exactly_what_it_names(waiver: Waiver, covered: bool) -> None:
    assert waiver.covers(BAD) is covered


def test_a_waiver_for_a_node_reaches_its_parts_but_never_other_nodes() -> None:
    part = replace(BAD, subjects=(Subject(SubjectKind.GPU, "gpu01/gpu3", "gpu01"),))
    both = replace(BAD, subjects=(node_subject("gpu01"), node_subject("gpu02")))
    assert _waiver().covers(part)
    assert not _waiver().covers(both)


def test_an_acceptance_covers_marginal_outcomes_only() -> None:
    acceptance = Acceptance(check="gpu-census", subject="*", reason="seen", who="ada", until="2026-12-31")
    assert acceptance.covers(MARGINAL)
    assert not acceptance.covers(BAD)
    assert not acceptance.covers(UNKNOWN)


@pytest.mark.parametrize("field", ["check", "subject", "reason", "who", "until"])
def test_an_unsigned_or_undated_decision_does_not_count(field: str) -> None:
    with pytest.raises(InputError):
        _waiver(**{field: ""})


def test_a_quarantine_needs_all_four_fields() -> None:
    with pytest.raises(InputError, match="ticket"):
        Quarantine(node="gpu01", reason="r", ticket=" ", who="w")
