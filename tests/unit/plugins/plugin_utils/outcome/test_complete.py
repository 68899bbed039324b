# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import require_complete, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    name: str
    rate: float = 0.0


@dataclass(frozen=True)
class Whole(Generic[T]):
    first: T
    parts: tuple[T, ...] = ()
    named: dict[str, Part] = field(default_factory=dict)
    one: Part | None = None
    note: str = ""


def saved() -> Any:
    part = Part("a")
    return to_plain(Whole(first=part, parts=(part, part), named={"x": part}, one=part))


def refused(data: Any) -> str:
    with pytest.raises(InputError) as caught:
        require_complete(Whole[Part], data, "what was saved", "look again")
    assert caught.value.subject == "what was saved"
    return caught.value.reason


def test_what_was_written_whole_is_complete() -> None:
    require_complete(Whole[Part], saved(), "what was saved", "look again")
    require_complete(Whole[Part], saved() | {"one": None}, "what was saved", "look again")


@pytest.mark.parametrize(
    ("way", "lacking"),
    [
        (("note",), "note"),
        (("first", "rate"), "first.rate"),
        (("parts", 1, "rate"), "parts[1].rate"),
        (("named", "x", "rate"), "named[x].rate"),
        (("one", "rate"), "one.rate"),
    ],
)
def test_a_field_that_is_gone_is_named_though_it_has_a_default(way: tuple[Any, ...], lacking: str) -> None:
    data = saved()
    place = data
    for step in way[:-1]:
        place = place[step]
    del place[way[-1]]
    assert refused(data) == f"has no {lacking}, which is always written."


@pytest.mark.parametrize("wrong", [{"first": None}, {"parts": None}, {"note": 1}, {"surprise": 1}])
def test_what_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    assert "not a valid" in refused(saved() | wrong)


@dataclass(frozen=True)
class Narrow(Whole[Part]):
    more: int = 0


def test_a_class_made_of_a_general_one_is_looked_into() -> None:
    data = to_plain(Narrow(first=Part("a")))
    require_complete(Narrow, data, "what was saved", "look again")
    del data["first"]["rate"]
    with pytest.raises(InputError, match=r"has no first\.rate"):
        require_complete(Narrow, data, "what was saved", "look again")
