# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of ours that a chart does not have: no default, and no template that reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.nearest import nearest
from tools.chart_files import Chart, Path_


def unknown_keys(chart: Chart, values: Mapping[str, Any]) -> Iterator[tuple[Path_, str]]:
    """Yield the path of every value that changes nothing, and why.

    Below a default that is empty, a list or null anything may be; it has to be read all the same.
    """
    yield from _below(chart, values, chart.values, ())


def unread_path(chart: Chart, path: Path_) -> str:
    """Return why a path that may be set has no meaning for a chart; empty if it has one."""
    value: Any = "any"
    for step in reversed(path):
        value = {step: value}
    return next((reason for _path, reason in unknown_keys(chart, value)), "")


def _below(chart: Chart, values: Mapping[str, Any], defaults: Any, path: Path_) -> Iterator[tuple[Path_, str]]:
    for key, value in values.items():
        at = (*path, str(key))
        part = chart.parts.get(str(key)) if not path else None
        if part is not None and isinstance(value, Mapping):
            for below, reason in unknown_keys(part, value):
                own = (*at, *below)
                if not (_has(defaults, (str(key), *below)) or chart.names(own) or chart.hands_on(own)):
                    yield own, f"{reason} (chart {part.name} in it)"
        elif not path and key == "global":
            yield from _global(chart, value, at)
        else:
            yield from _one(chart, value, defaults, at)


def _one(chart: Chart, value: Any, defaults: Any, path: Path_) -> Iterator[tuple[Path_, str]]:
    key = path[-1]
    known = isinstance(defaults, Mapping) and key in defaults
    default = defaults[key] if known else None
    if isinstance(value, Mapping) and value and isinstance(default, Mapping) and default:
        yield from _below(chart, value, default, path)
    elif isinstance(value, Mapping) and value and not known and _opened(chart, path):
        yield from _below(chart, value, {}, path)
    elif chart.names(path) or chart.hands_on(path):
        return
    elif known:
        yield path, "values.yaml has it, and no template reads it"
    else:
        near = nearest(key, [str(name) for name in defaults]) if isinstance(defaults, Mapping) else ""
        yield path, "values.yaml does not have it, and no template reads it" + (f"; is {near!r} meant?" if near else "")


def _opened(chart: Chart, path: Path_) -> bool:
    """Whether templates name something below a path that has no default, and never the path itself."""
    return path not in chart.reads and chart.names(path)


def _global(chart: Chart, value: Any, path: Path_) -> Iterator[tuple[Path_, str]]:
    charts = [chart, *chart.parts.values()]
    for key in value if isinstance(value, Mapping) else ():
        at = (*path, str(key))
        if not any(one.names(at) or one.hands_on(at) for one in charts) and not _has(chart.values, at):
            yield at, "no template of the chart or of those in it reads it"


def _has(tree: Any, path: Path_) -> bool:
    for step in path:
        if not isinstance(tree, Mapping) or step not in tree:
            return False
        tree = tree[step]
    return True
