# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The one decoder: nothing is guessed or converted; what does not fit is named with its place and the nearest word."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import decode


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    count: int
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    name: str
    kind: Literal["one", "two"] = "one"
    colour: Colour = Colour.RED
    parts: tuple[Part, ...] = ()
    by_name: dict[str, Part] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    flag: bool = False
    free: Any = None

    def __post_init__(self) -> None:
        if self.name == "never":
            raise InputError("name", "is never right.", "choose another")


GOOD: dict[str, Any] = {
    "name": "n", "kind": "two", "colour": "blue", "parts": [{"count": 1, "share": 2}], "by_name": {"a": {"count": 2}},
    "words": ["u"], "flag": True, "free": {"x": [1]},
}  # fmt: skip


def test_what_fits_is_read_and_written_back() -> None:
    whole = decode(Whole, GOOD, "file.yaml")
    assert whole == from_plain(Whole, GOOD, "file.json") == from_plain(Whole, to_plain(whole), "again")
    assert whole.parts[0].share == 2.0 and isinstance(whole.parts[0].share, float)


CASES: list[tuple[dict[str, Any], str]] = [
    ({"nmae": "n"}, "file.yaml: nmae: unknown key. Fix: did you mean 'name'?"),
    ({"kind": "tow"}, "file.yaml: kind: is 'tow', expected one of one, two. Fix: did you mean 'two'?"),
    ({"colour": "bleu"}, "file.yaml: colour: is 'bleu', expected one of red, blue. Fix: did you mean 'blue'?"),
    ({"name": None}, "file.yaml: name: is None, expected text. Fix: correct the value"),
    ({"name": 1}, "file.yaml: name: is 1, expected text. Fix: correct the value"),
    ({"flag": "yes"}, "file.yaml: flag: is 'yes', expected true or false. Fix: correct the value"),
    ({"words": "u"}, "file.yaml: words: is 'u', expected a list. Fix: correct the value"),
    ({"words": ["u", ["v"]]}, "file.yaml: words[1]: is a list, expected text. Fix: correct the value"),
    ({"parts": [{"count": True}]}, "file.yaml: parts[0].count: is True, expected a whole number. Fix: correct"),
    ({"parts": [{"share": 1.0}]}, "file.yaml: parts[0].count: missing. Fix: add count"),
    ({"parts": {"count": 1}}, "file.yaml: parts: is a mapping, expected a list. Fix: correct the value"),
    (
        {"by_name": {"a": {"count": 1, "cuont": 1}}},
        "file.yaml: by_name.a.cuont: unknown key. Fix: did you mean 'count'",
    ),
    ({"by_name": {"a": 3}}, "file.yaml: by_name.a: is 3, expected a mapping. Fix: correct the value"),
    ({"parts": [{"count": 1, "share": math.nan}]}, "file.yaml: parts[0].share: is nan, expected a finite number."),
    ({"name": "never"}, "file.yaml: is never right. Fix: choose another"),
]


@pytest.mark.parametrize(("change", "text"), CASES)
def test_what_a_person_wrote_wrongly_is_one_problem_with_place_and_fix(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ProblemsError) as raised:
        decode(Whole, GOOD | change, "file.yaml")
    (problem,) = raised.value.problems
    assert str(problem).startswith(text)


@pytest.mark.parametrize("change", [change for change, _text in CASES if "share" not in str(change)])
def test_what_a_file_of_ours_must_not_hold_is_refused_with_its_name(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^run\.json: not a valid Whole: "):
        from_plain(Whole, GOOD | change, "run.json")


def test_all_problems_are_listed_unknown_keys_first() -> None:
    wrong = {"nmae": "n", "kind": "tow", "parts": [{"count": "x"}, {}], "words": 5}
    with pytest.raises(ProblemsError) as raised:
        decode(Whole, wrong, "file.yaml")
    places = [problem.subject.removeprefix("file.yaml: ") for problem in raised.value.problems]
    assert places[0] == "nmae"
    assert sorted(places) == [
        "kind",
        "name",
        "nmae",
        "parts[0].count",
        "parts[1].count",
        "words",
    ]


def test_a_single_value_is_read_as_well() -> None:
    assert decode(dict[str, float], {"a": 1}, "here") == {"a": 1.0}
    with pytest.raises(ProblemsError, match="here: a: is 'x', expected a number"):
        decode(dict[str, float], {"a": "x"}, "here")
