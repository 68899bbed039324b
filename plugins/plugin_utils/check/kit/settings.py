# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings as typed dataclasses: declared once, with unit, meaning and bounds; made from plain values by name.

A check names its class on its SPEC, a gate as `SETTINGS` in `check/<gate>/settings.py`. A default stands in the class,
with its source above it. Two kinds of values stand in `recipes/thresholds/<gate>.yaml` instead, in the form of
`gpufleet_settings`: what depends on the kind of GPU or fabric, and images, which are pinned there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, TypeVar, get_type_hints

from ...outcome.errors import BringupError, InputError, ProblemsError
from ...runtime.strict import decode

T = TypeVar("T")
Use = Literal["run", "judge"]
"""What a setting is for: how the gate observes (fixed once it has observed), or how it judges."""
_SETTING, _PART = "gpufleet_setting", "gpufleet_part"
_NO_DEFAULT: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    meaning: str
    unit: str = ""
    name: str = ""
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    keys: tuple[str, ...] = ()
    use: Use | None = None
    release_only: bool = False
    default: Any = _NO_DEFAULT


def setting(
    meaning: str,
    *,
    default: Any = _NO_DEFAULT,
    unit: str = "",
    name: str = "",
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    keys: tuple[str, ...] = (),
    use: Use | None = None,
) -> Any:
    """Declare a field of a settings class that a site may configure.

    Args:
        meaning: what it is, for the reference; if it is a formula, in words.
        default: its value as a site would write it, a list for a tuple. Without one `thresholds/` or the site has it.
        unit: of its number, such as `s`.
        name: what it is called in `gpufleet_settings`, if not as the field.
        minimum: least value; of a list or mapping, of every number in it.
        above: the value must be more than this.
        maximum: largest value.
        below: the value must be less than this.
        keys: the only keys that a mapping may have.
        use: see Use. Default: that of the part, else `judge`.
    """
    declared = _Declared(
        meaning=meaning,
        unit=unit,
        name=name,
        minimum=minimum,
        above=above,
        maximum=maximum,
        below=below,
        keys=keys,
        use=use,
        default=default,
    )
    return _described({_SETTING: declared})


def with_default(kind: type[Any], name: str, default: Any) -> Any:
    """Declare a field of a subclass as its base `kind` declares it, with a default of its own."""
    declared = next(entry.metadata[_SETTING] for entry in fields(kind) if entry.name == name)
    return _described({_SETTING: replace(declared, default=default)})


def release_data(meaning: str) -> Any:
    """Declare a field that comes with the release or a private overlay; a site cannot configure it in its settings."""
    return _described({_SETTING: _Declared(meaning=meaning, release_only=True)})


def part(use: Use = "judge") -> Any:
    """Declare a field whose type is a settings class too. Its settings are configured beside the others, without a
    level of their own."""
    return _described({_PART: use})


def _described(metadata: dict[str, Any]) -> Any:
    # The callers use this in the body of a dataclass, which pylint cannot see from here.
    return field(metadata=metadata)  # pylint: disable=invalid-field-call


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as declared: its name, its place in the class, its type, and its possible values.

    `module` is that of the class. `default` counts if `has_default`.
    """

    name: str
    path: tuple[str, ...]
    type: Any
    meaning: str
    unit: str
    use: Use
    minimum: float | None
    above: float | None
    maximum: float | None
    below: float | None
    keys: tuple[str, ...]
    release_only: bool
    default: Any
    module: str

    @property
    def has_default(self) -> bool:
        """Whether the class states its default."""
        return self.default is not _NO_DEFAULT

    def problems(self, value: Any, where: str) -> list[BringupError]:
        """Return all problems of a value: its type, its keys, its bounds."""
        found: list[BringupError] = []
        try:
            decode(self.type, value, where)
        except ProblemsError as error:
            found.extend(_placed(problem, where) for problem in error.problems)
        if found:
            return found
        wrong_keys = [key for key in value if key not in self.keys] if self.keys and isinstance(value, Mapping) else []
        found += [
            InputError(f"{where}.{key}", "unknown key.", f"known: {', '.join(self.keys)} (text)") for key in wrong_keys
        ]
        bad = [number for number in _numbers(value) if not self._possible(number)]
        if bad:
            found.append(InputError(where, f"is {bad[0]:g}, expected {self.bounds}.", "correct the value"))
        return found

    @property
    def bounds(self) -> str:
        """The bounds in words, empty without any."""
        least = f"{self.minimum:g} or more" if self.minimum is not None else ""
        least = f"more than {self.above:g}" if self.above is not None else least
        most = f"{self.maximum:g} or less" if self.maximum is not None else ""
        most = f"less than {self.below:g}" if self.below is not None else most
        return " and ".join(text for text in (least, most) if text)

    def _possible(self, number: float) -> bool:
        return (
            (self.minimum is None or number >= self.minimum)
            and (self.above is None or number > self.above)
            and (self.maximum is None or number <= self.maximum)
            and (self.below is None or number < self.below)
        )


def _placed(problem: BringupError, where: str) -> BringupError:
    """Return the problem of a value with its place as one path: `a.b.c` instead of `a.b: c`."""
    inner = problem.subject.removeprefix(f"{where}: ")
    dot = "" if inner.startswith("[") else "."
    subject = f"{where}{dot}{inner}" if inner != problem.subject else problem.subject
    # YAML reads 570.10 as the number 570.1.
    unquoted = problem.reason.endswith("expected text.") and not problem.reason.startswith("is a ")
    return InputError(subject, problem.reason, "write it in quotes" if unquoted else problem.hint)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _numbers(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _numbers(inner)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def settings_in(kind: type[Any]) -> dict[str, Setting]:
    """Return the settings of a class and of its parts by name, in the order of declaration."""
    # mypy does not accept every class as hashable.
    known: Any = kind
    return _settings_in(known)


@cache
def _settings_in(kind: Any) -> dict[str, Setting]:
    return {entry.name: entry for entry in _declared(kind, (), "judge")}


def _declared(kind: type[Any], path: tuple[str, ...], use: Use) -> Iterator[Setting]:
    hints = get_type_hints(kind)
    for entry in fields(kind):
        place = (*path, entry.name)
        if _PART in entry.metadata:
            yield from _declared(hints[entry.name], place, entry.metadata[_PART])
            continue
        reported: _Declared = entry.metadata[_SETTING]
        yield Setting(
            name=reported.name or entry.name,
            path=place,
            type=hints[entry.name],
            meaning=reported.meaning,
            unit=reported.unit,
            use=reported.use or use,
            minimum=reported.minimum,
            above=reported.above,
            maximum=reported.maximum,
            below=reported.below,
            keys=reported.keys,
            release_only=reported.release_only,
            default=reported.default,
            module=kind.__module__,
        )


def defaults_of(kind: type[Any]) -> dict[str, Any]:
    """Return the defaults that a class and its parts state, by name of the setting."""
    return {name: entry.default for name, entry in settings_in(kind).items() if entry.has_default}


def build(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Return a settings class from the plain values of all its settings, by name.

    Raises:
        InputError: a value has the wrong type, or the values contradict each other.
    """
    return _built(kind, values, where, ())  # type: ignore[no-any-return]


def _built(kind: Any, values: Mapping[str, Any], where: str, path: tuple[str, ...]) -> Any:
    hints = get_type_hints(kind)
    arguments: dict[str, Any] = {}
    for entry in fields(kind):
        if _PART in entry.metadata:
            arguments[entry.name] = _built(hints[entry.name], values, where, (*path, entry.name))
        else:
            name = entry.metadata[_SETTING].name or entry.name
            if name not in values:
                raise InputError(f"{where}.{name}", "has no value.", "state it")
            arguments[entry.name] = decode(hints[entry.name], values[name], f"{where}.{name}")
    try:
        return kind(**arguments)
    except ProblemsError:
        raise
    except InputError as error:
        raise InputError(where, error.reason, error.hint) from None


def by_name(kind: type[Any], nested: Any, where: str) -> dict[str, Any]:
    """Return the values of a saved settings object (plain data, parts as levels) by name, without those that it lacks.

    Raises:
        InputError: it is no mapping, or has a value that this release does not know.
    """
    if not isinstance(nested, Mapping):
        raise InputError(where, "holds no settings.", "judge it with the release that made it")
    found: dict[str, Any] = {}
    hints = get_type_hints(kind)
    known = {entry.name: entry for entry in fields(kind)}
    unknown = sorted(str(name) for name in nested if name not in known)
    if unknown:
        reason = f"has {', '.join(unknown)}, which this release does not know."
        raise InputError(where, reason, "judge it with the release that made it")
    for name, entry in known.items():
        if name not in nested:
            continue
        if _PART in entry.metadata:
            found |= by_name(hints[name], nested[name], f"{where}.{name}")
        else:
            found[entry.metadata[_SETTING].name or name] = nested[name]
    return found


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with others merged over them: mappings key by key, everything else replaced."""
    result = dict(base)
    for name, value in over.items():
        below = result.get(name)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[name] = merged(below, value) if both else value  # type: ignore[arg-type]
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Settings that every gate has beside its own."""

    ctrf: dict[str, str] = setting(
        "Third-party suites that the gate declares: name of the suite to the path of its CTRF file.",
        default={},
        use="run",
    )
