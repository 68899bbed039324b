# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the settings loader: which layer wins, and what is refused with which words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings import (
    build,
    by_name,
    merged,
    part,
    release_data,
    setting,
    settings_in,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import (
    SITE,
    Layer,
    Loaded,
    load_settings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    timeout_s: float = setting("Longest time.", unit="s", above=0, maximum=100)
    image: str = setting("Image.", name="run_image")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gate:
    run: _Run = part("run")
    kind: Literal["job", "mpijob"] = setting("How it is run.")
    limits: dict[str, int] = setting("By counter.", minimum=0, keys=("a", "b"))
    width: int | None = setting("Lanes.", minimum=1)
    strict: bool = setting("Whether it is strict.")
    names: tuple[str, ...] = release_data("Names of networks.")

    def __post_init__(self) -> None:
        if self.strict and self.kind == "mpijob":
            raise InputError("", "strict needs kind job.", "choose one")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    offset_s: float = setting("Offset.", unit="s", minimum=0)


KINDS: dict[str, tuple[type[Any], ...]] = {"gate": (_Gate,), "clock-sync": (_Check,), "bare": ()}
SHIPPED = {
    "gate": {
        "timeout_s": 10, "run_image": "a", "kind": "job", "limits": {"a": 1, "b": 2}, "width": None, "strict": False,
        "names": ["IB"],
    },
    "clock-sync": {"offset_s": 0.001},
}  # fmt: skip
RELEASE = Layer("release", SHIPPED, release=True)


def loaded(*layers: Layer) -> tuple[Loaded, list[BringupError]]:
    """Load layers over the shipped one."""
    return load_settings(KINDS, (RELEASE, *layers))


def problems(stated: dict[str, Any]) -> list[str]:
    """Return what is wrong with what a site states."""
    return [str(problem) for problem in loaded(Layer(SITE, stated))[1]]


def test_what_ships_is_right_and_later_layers_win() -> None:
    values, wrong = loaded(
        Layer("/own/thresholds/gate.yaml", {"gate": {"names": ["EFA"], "limits": {"a": 5}}}, release=True),
        Layer("recipe", {"gate": {"timeout_s": 20, "width": 8}}),
        Layer("SKU h100", {"clock-sync": {"offset_s": 0.01}}),
        Layer(SITE, {"gate": {"timeout_s": 30.0, "limits": {"b": 7}}}),
    )
    assert not wrong
    gate = values["gate"]
    assert (gate["timeout_s"].value, gate["timeout_s"].sources) == (30.0, (SITE,))
    assert (gate["limits"].value, gate["limits"].sources) == (
        {"a": 5, "b": 7},
        ("release", "/own/thresholds/gate.yaml", SITE),
    )
    assert gate["width"].sources == ("recipe",)
    assert values["clock-sync"]["offset_s"].sources == ("SKU h100",)
    made = build(_Gate, {name: entry.value for name, entry in gate.items()}, "gate")
    assert (made.run.timeout_s, made.run.image, made.names) == (30.0, "a", ("EFA",))


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"gat": {}}, ["gpufleet_settings.gat: is no gate, check or test of nodes.", "did you mean 'gate'?"]),
        ({"gate.timeout_s": "5"}, ["is no gate", "Fix: did you mean -e gpufleet_set=gate.timeout_s=5?"]),
        ({"gate": 5}, ["gpufleet_settings.gate: is int, expected options."]),
        ({"gate": {"timeout": 5}}, ["gpufleet_settings.gate.timeout: unknown setting.", "did you mean 'timeout_s'?"]),
        ({"gate": {"offset_s": 5}}, ["gpufleet_settings.gate.offset_s: unknown", "it is a setting of clock-sync"]),
        ({"bare": {"x": 5}}, ["gpufleet_settings.bare.x: unknown setting.", "bare has no settings"]),
        ({"gate": {"timeout_s": "soon"}}, ["gpufleet_settings.gate.timeout_s: is 'soon', expected a number."]),
        ({"gate": {"timeout_s": "5"}}, ["gpufleet_settings.gate.timeout_s: is '5', expected a number."]),
        ({"gate": {"timeout_s": True}}, ["gpufleet_settings.gate.timeout_s: is True, expected a number."]),
        ({"gate": {"timeout_s": 0}}, ["is 0, expected more than 0 and 100 or less."]),
        ({"gate": {"timeout_s": 101}}, ["is 101, expected more than 0 and 100 or less."]),
        ({"gate": {"kind": "jb"}}, ["is 'jb', expected one of job, mpijob.", "did you mean 'job'"]),
        ({"gate": {"limits": {"a": -1}}}, ["gpufleet_settings.gate.limits: is -1, expected 0 or more."]),
        ({"gate": {"limits": {"a": "1"}}}, ["gpufleet_settings.gate.limits.a: is '1', expected a whole number."]),
        ({"gate": {"limits": {"c": 1}}}, ["gpufleet_settings.gate.limits.c: unknown key.", "a, b"]),
        ({"gate": {"width": 1.5}}, ["gpufleet_settings.gate.width: is 1.5, expected a whole number."]),
        ({"gate": {"run_image": 570.10}}, ["gate.run_image: is 570.1, expected text. Fix: write it in quotes"]),
        ({"gate": {"run_image": ["a"]}}, ["gate.run_image: is a list, expected text. Fix: correct the value"]),
        ({"gate": {"strict": "yes"}}, ["is 'yes', expected true or false."]),
        ({"gate": {"names": ["TCP"]}}, ["gpufleet_settings.gate.names: is data of the release"]),
        ({"gate": {"strict": True, "kind": "mpijob"}}, ["gpufleet_settings.gate: strict needs kind job."]),
    ],
)
def test_what_is_wrong_is_one_line(stated: dict[str, Any], words: list[str]) -> None:
    (line,) = problems(stated)
    assert all(word in line for word in words), line


def test_everything_that_is_wrong_is_in_the_list() -> None:
    lines = problems({"gate": {"largst": 5, "timeout_s": "soon", "width": 0}, "clock-syn": {"offset_s": 1}})
    assert len(lines) == 4


def test_what_is_wrong_does_not_apply() -> None:
    values, wrong = loaded(Layer(SITE, {"gate": {"timeout_s": -1}}))
    assert wrong and values["gate"]["timeout_s"].value == 10


def test_a_wrong_file_of_a_private_recipe_directory_is_named() -> None:
    _values, (problem,) = loaded(Layer("/own/thresholds/gate.yaml", {"gate": {"timeot_s": 1}}, release=True))
    assert str(problem).startswith(
        "/own/thresholds/gate.yaml: gate.timeot_s: unknown setting. Fix: did you mean 'timeo"
    )


@given(st.text(min_size=1), st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.integers())))
def test_an_unknown_name_is_always_refused_and_never_raises(name: str, value: Any) -> None:
    if name not in settings_in(_Check):
        (line,) = problems({"clock-sync": {name: value}})
        assert "unknown setting" in line
    if name not in KINDS:
        (line,) = problems({name: {}})
        assert "is no gate, check or test of nodes" in line


@given(st.one_of(st.none(), st.booleans(), st.text(), st.lists(st.integers()), st.dictionaries(st.text(), st.text())))
def test_a_value_of_another_type_is_always_refused(value: Any) -> None:
    assert len(problems({"clock-sync": {"offset_s": value}})) == 1


def test_mappings_are_merged_by_key_and_lists_replaced() -> None:
    assert merged({"a": {"x": 1, "y": [1]}}, {"a": {"y": [2]}, "b": 3}) == {"a": {"x": 1, "y": [2]}, "b": 3}


def test_saved_values_come_back_by_name_and_foreign_ones_are_refused() -> None:
    assert by_name(_Gate, {"run": {"image": "x"}, "width": 4}, "saved") == {"run_image": "x", "width": 4}
    with pytest.raises(InputError, match="has imag, which this release does not know"):
        by_name(_Gate, {"run": {"imag": "x"}}, "saved")
    with pytest.raises(InputError, match="holds no settings"):
        by_name(_Gate, None, "saved")
