# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/reference/settings.md, the reference of every setting, from their classes and recipes/thresholds/."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings import (
    GateSettings,
    Setting,
    settings_in,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.registry import node_tests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.settings import CONTINUOUS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import (
    all_settings,
    all_specs,
    release_settings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import BURN_IN, GATES, READINESS

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null"}
_LONGEST_DEFAULT = 60
_INTRODUCTION = """<!--
SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
SPDX-License-Identifier: GPL-3.0-or-later
-->

# Settings

Every setting of every gate, check and test of idle nodes, written by `make reference`. Preflight and `--tags plan`
check all of them before anything is touched, also those of gates outside the scope: an unknown name, a wrong
type and an impossible value are one line each, with the nearest valid name. Nothing is converted: `"5"` is not 5, and
a version such as `"570.10"` needs its quotes.

## Where a setting is stated

All places have the same form: id of the gate, check or test, name, value. A later place wins; mappings are merged
key by key, everything else is replaced.

| place | form |
| --- | --- |
| the release | its class; images, and what differs by kind of GPU or fabric: `recipes/thresholds/<gate>.yaml` |
| a private directory (`gpufleet_recipe_data`) | `thresholds/*.yaml`; the only place of what is marked *data* below |
| a SKU (`recipes/hardware/`, or private) | `settings:`, for the checks of gate nodes, for hosts of that SKU |
| the site | `gpufleet_settings`, for example `gpufleet_settings: {clock-sync: {clock_offset_s: 0.01}}` |
| a survey, a command line | `gpufleet_set`, for example `-e gpufleet_set=clock-sync.clock_offset_s=0.01` |

`settings.json` in the run directory has every value of a run, with the places that state it. A run is judged again by
those values. *run* says how a gate looks: what it saw cannot be judged by another value later. *judge* is what is
judged by.

Waivers, acceptances and quarantine are no settings: `gpufleet_waivers` and `gpufleet_acceptances` are lists of
`{check, subject, reason, who, until}` (a check's id; a name or a pattern with `*` and `?`; a day such as 2026-12-31),
`gpufleet_quarantine` of `{node, reason, ticket, who}`. An unknown check, and a subject that matches nothing, are
refused by preflight, too.

Every gate also takes `ctrf` (run, default {}): """


def page() -> str:
    """Return docs/reference/settings.md."""
    return _INTRODUCTION + next(iter(settings_in(GateSettings).values())).meaning + "\n" + "".join(_gates())


def _gates() -> Iterator[str]:
    kinds, specs, tests = all_settings(), all_specs(), node_tests().values()
    titles = {gate.id: f"{gate.number}. {gate.title}" for gate in GATES}
    for place, title in {**titles, READINESS: "Before gate 4: readiness", BURN_IN: "Hours of load: burn-in"}.items():
        keys = {place: "the gate"} if place in titles else {}
        keys |= {spec.id: f"check `{spec.id}`: {spec.title}" for spec in specs if spec.gate == place}
        rows = {key: [entry for kind in kinds[key] if kind is not GateSettings for entry in settings_in(kind).values()]
                for key in keys}  # fmt: skip
        stated = {key: entries for key, entries in rows.items() if entries}
        if stated:
            yield f"\n## {title}\n"
        for key, entries in stated.items():
            yield from _table(key, keys[key], entries)
    yield "\n## Continuous validation\n"
    for key, title in {CONTINUOUS: "cycles", **{test.id: f"test {test.id}: {test.title}" for test in tests}}.items():
        yield from _table(key, title, [entry for kind in kinds[key] for entry in settings_in(kind).values()])
    yield _none(kinds)


def _table(key: str, title: str, entries: list[Setting]) -> Iterator[str]:
    yield f"\n### `{key}`\n\nSettings of {title}.\n\n"
    yield "| name | type | default | unit | for | meaning |\n| --- | --- | --- | --- | --- | --- |\n"
    yield from (_row(key, entry) for entry in entries)


def _none(kinds: dict[str, tuple[type[Any], ...]]) -> str:
    names = [f"`{key}`" for key, own in kinds.items() if not own]
    return f"\n## Checks without settings\n\n{', '.join(names)}\n"


def _row(key: str, entry: Setting) -> str:
    default = json.dumps(release_settings()[key][entry.name], ensure_ascii=False)
    shown = f"`{default}`" if len(default) <= _LONGEST_DEFAULT else f"`{_file(key, entry)}`"
    bounds = f", {entry.bounds}" if entry.bounds else ""
    keys = f", keys {', '.join(entry.keys)}" if entry.keys else ""
    use = "data" if entry.release_only else entry.use
    cells = (f"`{entry.name}`", f"{_type(entry.type)}{keys}{bounds}", shown, entry.unit, use, entry.meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _file(key: str, entry: Setting) -> str:
    """Return the file in which the default stands."""
    if entry.has_default:
        return f"plugins/{entry.module.partition('.plugins.')[2].replace('.', '/')}.py"
    gate = {spec.id: spec.gate for spec in all_specs()}.get(key, key)
    return f"recipes/thresholds/{gate}.yaml"


def _type(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(option) for option in inner)
    if origin is Literal:
        return " or ".join(str(word) for word in inner)
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"mapping to {_type(inner[1])}"
    if is_dataclass(kind):
        return f"mapping of {', '.join(field.name for field in fields(kind))}"
    return _WORDS.get(kind, "any value")
