# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of every setting of every gate and check: each has a default, and each refuses what is not one."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings import Setting, settings_in
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import (
    SITE,
    Layer,
    applied,
    load_settings,
    shipped_layers,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain

SETTINGS: list[tuple[str, Setting]] = [
    (key, entry) for key, kinds in all_settings().items() for kind in kinds for entry in settings_in(kind).values()
]


RELEASE = shipped_layers(all_settings())
DEFAULTS, WRONG = load_settings(all_settings(), RELEASE)


@cache
def release_of(key: str) -> tuple[Layer, ...]:
    """What the release states of one gate or check: all that is stated of it is judged by itself."""
    return tuple(replace(layer, stated={key: layer.stated[key]}) for layer in RELEASE if key in layer.stated)


def problems(key: str, stated: dict[str, Any]) -> list[str]:
    found = load_settings(all_settings(), [*release_of(key), Layer(SITE, {key: stated})])[1]
    return [str(problem) for problem in found]


def test_what_ships_is_complete_and_right() -> None:
    assert not WRONG
    assert {(key, entry.name) for key, entry in SETTINGS} == {(key, name) for key in DEFAULTS for name in DEFAULTS[key]}
    for key, kinds in all_settings().items():
        for kind in kinds:
            assert json.dumps(to_plain(applied(DEFAULTS, kind, key)))


@pytest.mark.quickly(60)
@pytest.mark.parametrize(("key", "entry"), SETTINGS, ids=[f"{key}.{entry.name}" for key, entry in SETTINGS])
def test_a_setting_takes_its_default_and_refuses_what_it_cannot_be(key: str, entry: Setting) -> None:
    default = DEFAULTS[key][entry.name].value
    stated = problems(key, {entry.name: default})
    if entry.release_only:
        assert len(stated) == 1 and "is data of the release" in stated[0]
        return
    assert stated == []
    assert len(problems(key, {entry.name: object()})) == 1
    assert len(problems(key, {f"{entry.name}x": default})) == 1
    if entry.minimum is not None and not isinstance(default, dict):
        assert len(problems(key, {entry.name: int(entry.minimum) - 1})) == 1
    assert entry.meaning.endswith(".")


@given(st.sampled_from(sorted(all_settings())), st.text(min_size=1))
def test_an_unknown_name_is_refused_by_every_gate_alike(key: str, name: str) -> None:
    if (key, name) not in {(known, entry.name) for known, entry in SETTINGS}:
        (line,) = problems(key, {name: 1})
        assert line.startswith(f"gpufleet_settings.{key}.{name}: unknown setting. Fix: ")
