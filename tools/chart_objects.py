# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a chart renders to as objects, and how two renderings of it differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import PlainYamlError, documents

Json = dict[str, Any]
MADE_ANEW = "(made anew at each rendering)"
_SHOWN = 60


def objects_of(text: str) -> dict[str, Json]:
    """Return the objects of a rendering by `Kind namespace/name`; a test of helm's own is none.

    Raises:
        InputError: it is not YAML.
    """
    found: dict[str, Json] = {}
    try:
        bodies = documents(text)
    except PlainYamlError as error:
        raise InputError("the rendering of the chart", f"is not YAML: {error}.") from None
    for body in bodies:
        if not isinstance(body, dict) or "kind" not in body:
            continue
        metadata = body.get("metadata") or {}
        if str((metadata.get("annotations") or {}).get("helm.sh/hook", "")).startswith("test"):
            continue
        place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        found[f"{body['kind']} {place}{metadata.get('name', '')}"] = body
    return found


def steady(first: Any, second: Any) -> Any:
    """Return a rendering in which what another one of the same has differently (passwords, certificates) is masked."""
    if isinstance(first, Mapping) and isinstance(second, Mapping) and set(first) == set(second):
        return {key: steady(value, second[key]) for key, value in first.items()}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [steady(one, other) for one, other in zip(first, second, strict=True)]
    return first if first == second else MADE_ANEW


def differences(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    """Return one line for each change; one that many objects have alike (a version label) is said once."""
    lines = [f"{title} is gone" for title in before if title not in after]
    lines += [f"{title} is new" for title in after if title not in before]
    changes: dict[str, list[str]] = {}
    for title in before:
        if title in after:
            for text in _changes(before[title], after[title], ""):
                changes.setdefault(text, []).append(title)
    for text, titles in changes.items():
        more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
        lines.append(f"{titles[0]}{more}: {text}")
    return lines


def _changes(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}, key=str):
            at = f"{path}.{key}" if path else str(key)
            if key not in after:
                yield f"{at} is gone, was {_shown(before[key])}"
            elif key not in before:
                yield f"{at} is new: {_shown(after[key])}"
            else:
                yield from _changes(before[key], after[key], at)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _in_list(before, after, path)
    elif before != after:
        yield f"{path} is {_shown(after)}, was {_shown(before)}"


def _in_list(before: list[Any], after: list[Any], path: str) -> Iterator[str]:
    """Entries with a name are compared by it, others by their place."""
    named = [_by_name(entries) for entries in (before, after)]
    if named[0] is not None and named[1] is not None:
        yield from _changes(
            {f"[{name}]": entry for name, entry in named[0].items()},
            {f"[{name}]": entry for name, entry in named[1].items()},
            path,
        )
    elif len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _changes(one, other, f"{path}[{number}]")
    else:
        yield f"{path} is {_shown(after)}, was {_shown(before)}"


def _by_name(entries: list[Any]) -> dict[str, Any] | None:
    names = [entry.get("name") if isinstance(entry, Mapping) else None for entry in entries]
    if not entries or None in names or len(set(names)) != len(names):
        return None
    return dict(zip([str(name) for name in names], entries, strict=True))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
