# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The one loader of settings: what each layer sets, which layer wins, and all problems found in them.

Layers, later ones win: defaults of the classes, `thresholds/` of the release, then of private recipe directories, the
recipe, the SKU, the site. All have one form: gate or check id, name, value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ...outcome.errors import BringupError, InputError, ProblemsError
from ...outcome.gates import GATE_IDS
from ...runtime.files import RECIPES, recipe_directories
from ...runtime.strict import nearest_hint, read_yaml
from .settings import GateSettings, Setting, build, defaults_of, merged, settings_in

T = TypeVar("T")
Stated = Mapping[str, Mapping[str, Any]]
Kinds = Mapping[str, Sequence[type[Any]]]
"""The settings classes by gate or check id. A gate has its own class and the one that all gates share."""
SITE = "gpufleet_settings"
_RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings of one place. `source` names it in messages; only a `release` layer may set release data."""

    source: str
    stated: Mapping[str, Any]
    release: bool = False

    def at(self, *names: str) -> str:
        """Return the name of that place of the layer for messages."""
        path = ".".join(names)
        return f"{self.source}.{path}" if self.source == SITE else f"{self.source}: {path}"


@dataclass(frozen=True, slots=True)
class Value:
    """A value that applies, and the layers that set it; the last of them wins."""

    value: Any
    sources: tuple[str, ...]


Loaded = dict[str, dict[str, Value]]


@cache
def _release_thresholds() -> dict[str, dict[str, Any]]:
    """Return what `thresholds/` of this release states, by gate or check id.

    Raises:
        InputError: a file is missing or invalid.
    """
    found: dict[str, dict[str, Any]] = {}
    for layer in threshold_layers(()):
        found |= layer.stated
    return found


def shipped(key: str, *kinds: type[Any]) -> dict[str, Any]:
    """Return the values of a gate or check as this release ships them, by name.

    Args:
        key: gate or check id.
        kinds: its classes; none: only what `thresholds/` states.

    Raises:
        InputError: a file of thresholds is missing or invalid.
    """
    values: dict[str, Any] = {}
    for kind in kinds:
        values |= defaults_of(kind)
    return {**values, **_release_thresholds().get(key, {})}


def shipped_layers(kinds: Kinds, extra: Sequence[str | Path] = ()) -> list[Layer]:
    """Return the layers under recipe, SKU and site: the defaults of the classes, then threshold_layers.

    Defaults of checks that a site has written are of the file of the check.

    Raises:
        InputError: a file cannot be read, or is no mapping.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for key, classes in kinds.items():
        for kind in classes:
            if defaults := defaults_of(kind):
                found.setdefault(_source(kind), {}).setdefault(key, {}).update(defaults)
    layers = [Layer(source, configured, release=True) for source, configured in found.items()]
    return [*layers, *threshold_layers(extra)]


def _source(kind: type[Any]) -> str:
    if kind.__module__.startswith(f"{__name__.partition('.plugin_utils.')[0]}."):
        return _RELEASE
    return str(getattr(import_module(kind.__module__), "__file__", kind.__module__))


def threshold_layers(extra: Sequence[str | Path]) -> list[Layer]:
    """Return a layer for every file of `thresholds/`, those of the release first, then of private recipe directories.

    Raises:
        InputError: a file cannot be read, or is no mapping.
    """
    layers = []
    for directory in recipe_directories("thresholds", extra):
        own = directory.parent == RECIPES
        for path in sorted(directory.glob("*.yaml")):
            content = read_yaml(path)
            if not isinstance(content, dict):
                raise InputError(str(path), "is no mapping of gate or check id to settings.", "correct the file")
            layers.append(Layer(_RELEASE if own else str(path), content, release=True))
    return layers


def load_settings(kinds: Kinds, layers: Iterable[Layer]) -> tuple[Loaded, list[BringupError]]:
    """Return every value that applies, with its sources, and all problems.

    There is one problem for each unknown name, wrong type, impossible value or contradiction. A wrong value does not
    apply.
    """
    loaded: Loaded = {}
    problems: list[BringupError] = []
    stated_last: dict[str, Layer] = {}
    for layer in layers:
        for key, options in layer.stated.items():
            settings = _settings_of(kinds, layer, key, options, problems)
            for name, entry in settings.items():
                wrong = entry.problems(options[name], layer.at(key, name))
                problems.extend(wrong)
                if not wrong:
                    stated_last[key] = layer
                    _put(loaded.setdefault(key, {}), name, options[name], layer.source)
    for key, layer in stated_last.items():
        values = {name: entry.value for name, entry in loaded[key].items()}
        for kind in kinds[key]:
            try:
                build(kind, values, layer.at(key))
            except ProblemsError as error:
                problems.extend(error.problems)
            except InputError as error:
                problems.append(error)
    return loaded, problems


def _settings_of(
    kinds: Kinds, layer: Layer, key: str, options: Any, problems: list[BringupError]
) -> dict[str, Setting]:
    """Return the settings among the options of a gate or check, and add a problem for each option that is none."""
    if key not in kinds:
        # `-e gpufleet_settings=check.option=value` is a mapping of that form as well.
        dotted = str(key).partition(".")[0] in kinds and not isinstance(options, Mapping) and "." in str(key)
        hint = f"did you mean -e gpufleet_set={key}={options}?" if dotted else nearest_hint(str(key), kinds)
        problems.append(InputError(layer.at(key), "is no gate, check or test of nodes.", hint))
        return {}
    if not isinstance(options, Mapping):
        reason = f"is {type(options).__name__}, expected options."
        problems.append(InputError(layer.at(key), reason, "write option: value"))
        return {}
    known = _known(kinds, key)
    for name in options:
        if name not in known:
            problems.append(InputError(layer.at(key, str(name)), "unknown setting.", _unknown_hint(kinds, key, name)))
        elif known[name].release_only and not layer.release:
            hint = f"state it in thresholds/ of a private recipe directory ({key}: {name})"
            problems.append(InputError(layer.at(key, name), "is data of the release, not of a site.", hint))
    return {
        name: entry for name, entry in known.items() if name in options and (layer.release or not entry.release_only)
    }


def _known(kinds: Kinds, key: str) -> dict[str, Setting]:
    return {name: entry for kind in kinds[key] for name, entry in settings_in(kind).items()}


def _unknown_hint(kinds: Kinds, key: str, name: Any) -> str:
    owners = [owner for owner in kinds if name in _known(kinds, owner)]
    if owners:
        return f"it is a setting of {' and '.join(owners)}"
    known = [word for word, entry in _known(kinds, key).items() if not entry.release_only]
    return nearest_hint(str(name), known) if known else f"{key} has no settings"


def _put(values: dict[str, Value], name: str, value: Any, source: str) -> None:
    below = values.get(name)
    if below is None:
        values[name] = Value(value, (source,))
        return
    both = isinstance(below.value, Mapping) and isinstance(value, Mapping)
    sources = (*(old for old in below.sources if old != source), source) if both else (source,)
    values[name] = Value(merged({name: below.value}, {name: value})[name], sources)


def applied(loaded: Loaded, kind: type[T], key: str) -> T:
    """Return the typed settings of a gate or check as loaded.

    Raises:
        InputError: they contradict each other.
    """
    return build(kind, {name: entry.value for name, entry in loaded[key].items()}, f"{SITE}.{key}")


def resolved(ours: Mapping[str, Any], saved: Mapping[str, Any] | None, *above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a gate or check by name. This is the one place that decides which layer wins.

    What was saved with a run is complete (see saved_settings.py) and is taken as it is; a name that its release did not
    have gets the default of this release (`ours`, see shipped). The layers `above` are merged over it; later ones win,
    mappings key by key.
    """
    values = {**ours, **(saved or {})}
    for layer in above:
        values = merged(values, layer)
    return values


def settings_for(
    kind: type[T],
    key: str,
    configured: Mapping[str, Any],
    saved: Mapping[str, Any] | None = None,
    sku: Mapping[str, Any] | None = None,
) -> T:
    """Return the typed settings of a gate or check in a run.

    Args:
        kind: the class.
        key: gate or check id.
        configured: what the site configures; it wins.
        saved: values by name that were saved with the run (see resolved).
        sku: what the SKU of the host sets, for a check of one host.

    Raises:
        InputError: a value is wrong. Preflight refuses it before, unless the run skipped preflight.
    """
    return build(kind, resolved(shipped(key, kind), saved, sku or {}, configured), f"{SITE}.{key}")


def checked_settings(
    kind: type[T], key: str, configured: Mapping[str, Any], saved: Mapping[str, Any] | None = None
) -> T:
    """Return the typed settings of a gate or check (see settings_for) for an observer, which relies on them.

    Raises:
        ProblemsError: all problems of what the site configures.
    """
    kinds = {key: (kind, GateSettings) if key in GATE_IDS else (kind,)}
    lower = resolved(shipped(key, *kinds[key]), saved)
    layers = (Layer(_RELEASE, {key: lower}, release=True), Layer(SITE, {key: configured}))
    problems = load_settings(kinds, layers)[1]
    if problems:
        raise ProblemsError(f"settings of {key}", tuple(problems))
    return settings_for(kind, key, configured, saved)
