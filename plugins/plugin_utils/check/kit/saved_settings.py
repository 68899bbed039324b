# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The settings saved with a run, so that it is judged again with the values of that time.

Preflight writes settings.json: every value with the layers that set it. Gates 5 to 8 and facility also save their
settings with their observations. Runs of releases before settings.json have the limits of nodes and fabric in the
observation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ...outcome.codec import dumps, from_plain, load_json, to_plain
from ...outcome.errors import InputError
from ...runtime.files import SETTINGS, write_atomic
from ...runtime.redaction import redact_data, redact_settings
from ...site.model import Site
from ..spec import ObserveContext, Observer
from .settings import by_name, settings_in
from .settings_layers import SITE, Kinds, Loaded, Value, settings_for

Seen = TypeVar("Seen")
_VERSION = 1
_RECIPE = "recipe"
# Where a release without settings.json saved limits: the observation, and the path to them in its data.
_OLD_LIMITS = (("nodes/hosts.json", ("rules", "limits")), ("gpu_stack/hosts.json", ("rules", "limits")),
               ("fabric/fabric.json", ("limits",)))  # fmt: skip


def _kept(name: str, entry: Value) -> Any:
    """Return a value as it is saved, with secrets masked.

    Only what the site configured can be given back to tasks. Environments in threshold files, which are shared, are
    masked by their names alone.
    """
    return (redact_settings if SITE in entry.sources else redact_data)({name: entry.value})[name]


def settings_document(loaded: Loaded) -> dict[str, Any]:
    """Return settings.json: by gate or check id and name, the value, secrets masked, and the layers that set it."""
    values = {
        key: {
            name: {"value": _kept(name, entry), "sources": list(entry.sources)}
            for name, entry in sorted(entries.items())
        }
        for key, entries in sorted(loaded.items())
    }
    return {"schema_version": _VERSION, "settings": values}


def save_recipe_settings(run_dir: Path, key: str, values: Mapping[str, Any]) -> None:
    """Save what the recipe sets for a gate, over its defaults. A run without settings.json is left as it is.

    Raises:
        InputError: settings.json is not what this release writes.
    """
    path = run_dir / SETTINGS
    if path.is_file():
        document: Any = load_json(path)
        entries = {name: {"value": value, "sources": [_RECIPE]} for name, value in values.items()}
        document["settings"][key] = {**document["settings"].get(key, {}), **entries}
        write_atomic(path, dumps(document))


def read_settings(run_dir: Path, kinds: Callable[[], Kinds]) -> dict[str, dict[str, Any]]:
    """Return the values that were saved with a run, by gate or check id and name.

    `kinds` is called for runs without settings.json only.

    Raises:
        InputError: settings.json is not what this release writes.
    """
    if not (run_dir / SETTINGS).is_file():
        return _old_limits(run_dir, kinds())
    return {
        key: {name: entry["value"] for name, entry in named.items()} for key, named in saved_entries(run_dir).items()
    }


def saved_entries(run_dir: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return `value` and `sources` of every setting in settings.json, by gate or check id and name.

    Empty for a run without that file.

    Raises:
        InputError: an entry is not complete.
    """
    path = run_dir / SETTINGS
    if not path.is_file():
        return {}
    document = load_json(path)
    if not isinstance(document, dict) or document.get("schema_version") != _VERSION:
        raise InputError(str(path), f"its schema_version is not {_VERSION}.", "judge it with the release that made it")
    settings = document.get("settings")
    lacking = "settings" if not isinstance(settings, Mapping) else next(_not_whole(settings), "")
    if lacking:
        reason = f"{lacking} is not whole: a setting has value and sources, which are always written."
        raise InputError(str(path), reason, "restore the file as the run wrote it")
    return settings  # type: ignore[return-value]


def _not_whole(settings: Mapping[str, Any]) -> Iterator[str]:
    for key, entries in settings.items():
        if not isinstance(entries, Mapping):
            yield key
            continue
        for name, entry in entries.items():
            sources = entry.get("sources") if isinstance(entry, Mapping) else None
            if not isinstance(sources, list) or "value" not in entry or not all(isinstance(s, str) for s in sources):
                yield f"{key}.{name}"


def _old_limits(run_dir: Path, kinds: Kinds) -> dict[str, dict[str, Any]]:
    limits: dict[str, Any] = {}
    for name, way in _OLD_LIMITS:
        path = run_dir / "observations" / name
        level: Any = load_json(path).get("data") if path.is_file() else {}
        for step in way:
            level = level.get(step) if isinstance(level, Mapping) else {}
        limits |= level if isinstance(level, Mapping) else {}
    found: dict[str, dict[str, Any]] = {}
    for key, classes in kinds.items():
        names = {name for kind in classes for name in settings_in(kind)} & limits.keys()
        if names:
            found[key] = {name: limits[name] for name in names}
    return found


def with_settings(data: Any, kind: type[Any], key: str, site: Site, run_dir: Path) -> dict[str, Any]:
    """Return saved data with its settings completed.

    A setting that the release of that run did not have gets the default of this release. What the site configures wins,
    so that a run can be judged with other settings than those that it was made with.

    Args:
        data: plain data with the settings as `settings` (`rules` in older runs).
        kind: the settings class.
        key: gate id.
        site: the site.
        run_dir: the run. Its settings.json must agree with the data; older releases wrote none.

    Raises:
        InputError: the data has a setting that this release does not know, a value is wrong, or settings.json has
            another
            value.
    """
    if not isinstance(data, Mapping):
        raise InputError(f"observation of {key}", "is no mapping.", "judge it with the release that made it")
    saved = by_name(kind, data.get("settings", data.get("rules")), f"settings of {key}")
    _require_the_runs(saved, kind, key, run_dir)
    others = {name: value for name, value in data.items() if name != "rules"}
    return {**others, "settings": to_plain(settings_for(kind, key, site.settings.get(key, {}), saved))}


def _require_the_runs(saved: Mapping[str, Any], kind: type[Any], key: str, run_dir: Path) -> None:
    """Refuse settings of an observation that could not have been configured, or that differ from those of the run."""
    known, where = settings_in(kind), f"observation of {key}"
    for name, value in saved.items():
        wrong = known[name].problems(value, f"{where}: setting {name}")
        if wrong:
            raise wrong[0]
    configured = read_settings(run_dir, dict).get(key, {})
    own = by_name(kind, to_plain(settings_for(kind, key, {}, configured)), where)
    before, now = (_masked(settings) for settings in (own, saved))
    for name in configured.keys() & now.keys():
        if now[name] != before[name]:
            reason = f"its setting {name} is {now[name]}, the run's own is {before[name]}."
            raise InputError(where, reason, f"run gate {key} again")


def _masked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as a file of the run has them: plain, with secrets masked."""
    plain: dict[str, Any] = json.loads(json.dumps(redact_settings(dict(settings))))
    return plain


def with_plan_settings(data: Any, kind: type[Any], key: str, site: Site, run_dir: Path) -> dict[str, Any]:
    """Return saved data whose `plan` has the settings (see with_settings)."""
    if not isinstance(data, Mapping):
        return {"plan": None}
    return {**data, "plan": with_settings(data.get("plan"), kind, key, site, run_dir)}


def observer_with_settings(
    key: str, result: type[Seen], observe: Callable[[ObserveContext], Seen], kind: type[Any], gate: str
) -> Observer[Seen]:
    """Return an observer whose result is saved as it is and has the settings of its gate as `settings`."""

    def restore(data: Any, run_dir: Path, site: Site) -> Seen:
        return from_plain(result, with_settings(data, kind, gate, site, run_dir), f"observation {key}")

    return Observer(key, result, observe, restore, saved=result)


def stated_by_thresholds(run_dir: Path, configured: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return those of these values that no layer above the thresholds (recipe, SKU, site) set in that run.

    Raises:
        InputError: settings.json cannot be read.
    """
    saved = saved_entries(run_dir)
    found: dict[str, dict[str, Any]] = {}
    for key, options in configured.items():
        entries = saved.get(key, {})
        mine = {
            name: value
            for name, value in options.items()
            if all(_is_thresholds(source) for source in entries.get(name, {}).get("sources", ()))
        }
        if mine:
            found[key] = mine
    return found


def private_thresholds(run_dir: Path) -> dict[str, dict[str, Any]]:
    """Return the values that the `thresholds/` of private recipe directories set in that run.

    Raises:
        InputError: settings.json cannot be read.
    """
    saved = saved_entries(run_dir)
    found = {
        key: {
            name: entry["value"]
            for name, entry in entries.items()
            if any(source != "release" and _is_thresholds(source) for source in entry["sources"])
        }
        for key, entries in saved.items()
    }
    return {key: values for key, values in found.items() if values}


def _is_thresholds(source: str) -> bool:
    # A default in a site's own check is of the file of that check.
    return source == "release" or Path(source).parent.name == "thresholds" or source.endswith(".py")
