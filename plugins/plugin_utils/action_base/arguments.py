# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options of modules and variables of roles: converted to their types, with our own messages for what does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import ArgumentTypeError, ArgumentValueError
from ansible.plugins.loader import fragment_loader
from ansible.utils.plugin_docs import get_docstring

from ..outcome.errors import BringupError, InputError, ProblemsError
from ..run.version import COLLECTION
from ..runtime.files import COLLECTION_ROOT, collection_root
from ..runtime.strict import nearest, nearest_hint

_EXPECTED = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list", "dict": "a mapping",
    "path": "a path", "str": "text",
}  # fmt: skip
_VARIABLE = re.compile(r"\bgpufleet_\w+")
_LONGEST = 60


@cache
def argument_spec(module: str) -> dict[str, Any]:
    """Return the argument spec in DOCUMENTATION of plugins/modules/<module>.py, with its fragments.

    Args:
        module: its name; that of a module of another collection with the collection before it.
    """
    other, _dot, name = module.rpartition(".")
    root = (collection_root(other) if other else None) or COLLECTION_ROOT
    path = root / "plugins" / "modules" / f"{name}.py"
    documentation = get_docstring(
        str(path), fragment_loader, collection_name=other or COLLECTION, is_module=True, plugin_type="module"
    )[0]
    return plain_spec(documentation.get("options") or {})


def plain_spec(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return documented options, of a module or of a role, in the form of Ansible's validator."""
    kept = ("type", "required", "default", "choices", "elements", "aliases", "no_log")
    spec: dict[str, Any] = {}
    for name, option in options.items():
        spec[name] = {key: option[key] for key in kept if option.get(key) is not None}
        below = option.get("suboptions") or option.get("options")
        if below:
            spec[name]["options"] = plain_spec(below)
    return spec


def checked_options(module: str, task: Any) -> dict[str, Any]:
    """Return the arguments of a task with their types and defaults.

    Raises:
        InputError: every argument that does not fit, by the name of its variable where the task takes it from one.
    """
    spec = argument_spec(module)
    given = {name: _list_of(spec.get(name, {}), value) for name, value in task.args.items()}
    variables = _variables(task)
    problems: list[BringupError] = [
        InputError(f"module {module}", f"has no option {name!r}.", nearest_hint(name, spec))
        for name in sorted(set(given) - _names(spec))
    ]
    for name, option in spec.items():
        label = variables.get(name, f"module {module}: {name}")
        problems += value_problems(label, name, option, given)
    refuse(f"module {module}", problems)
    return {**given, **ArgumentSpecValidator(spec).validate(given).validated_parameters}


def _list_of(option: Mapping[str, Any], value: Any) -> Any:
    """Return an empty list where a list option is an empty text, as AWX sends it for a survey question left empty."""
    return [] if option.get("type") == "list" and isinstance(value, str) and not value.strip() else value


def value_problems(
    label: str, name: str, option: Mapping[str, Any], given: Mapping[str, Any], *, typed: bool = True
) -> Iterator[BringupError]:
    """Yield what is wrong with one value: it is missing, has another type, or is none of the choices.

    Args:
        label: the name that the user knows.
        name: the option.
        option: its spec.
        given: every value that is given.
        typed: whether it is set on the command line; else in the inventory.
    """
    value = next((given[key] for key in (name, *option.get("aliases", ())) if given.get(key) is not None), None)
    value = _list_of(option, value)
    if value is None:
        if option.get("required"):
            configured = f"state it: -e {label}=..." if label.startswith("gpufleet_") else "state it"
            yield InputError(label, "is not set and is needed.", configured)
        return
    if option.get("elements") == "dict" and isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        for number, entry in enumerate(value):
            yield from value_problems(
                f"{label}[{number}]", name, {**option, "elements": None, "type": "dict"}, {name: entry}
            )
        return
    checked = ArgumentSpecValidator({name: {**option, "required": False, "aliases": []}}).validate({name: value})
    for error in checked.errors:
        kind, choices = option.get("type", "str"), option.get("choices") or ()
        if isinstance(error, ArgumentTypeError) and str(error).startswith(f"argument '{name}' is of type"):
            yield InputError(label, f"is {_shown(value, option)}, expected {expected(option)}.", _example(label, kind))
            return
        if isinstance(error, ArgumentValueError) and choices and option.get("type") == "list":
            yield from _no_choices(label, checked.validated_parameters.get(name, value), choices)
        elif isinstance(error, ArgumentValueError) and choices and not isinstance(value, list | dict):
            listed = ", ".join(str(choice) for choice in choices)
            near = nearest(str(value), [str(choice) for choice in choices])
            own = re.fullmatch(_VARIABLE, label)
            meant = f"did you mean {f'-e {label}={near[0]}' if own and typed else near[0]}? " if near else ""
            hint = f"{meant}choose one: {listed}" + ("" if typed else "; it is stated in the inventory")
            yield InputError(label, f"is {_shown(value, option)}, expected {expected(option)}.", hint)
        else:
            where = f" found in {name}"
            yield InputError(label, f"does not fit: {str(error).removesuffix(where)}.", f"expected {expected(option)}")


def _no_choices(label: str, value: Any, choices: Sequence[Any]) -> Iterator[InputError]:
    """Yield each element of a list that is none of the choices."""
    known = [str(choice) for choice in choices]
    for word in value if isinstance(value, list) else [part.strip() for part in str(value).split(",")]:
        if str(word) not in known:
            yield InputError(label, f"{str(word)!r} is none of its values.", nearest_hint(str(word), known))


def refuse(subject: str, problems: list[BringupError]) -> None:
    """Raise the problems in the list: one by itself, several as one list."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ProblemsError(subject, tuple(problems))


def _names(spec: Mapping[str, Any]) -> set[str]:
    return {*spec, *(alias for option in spec.values() for alias in option.get("aliases", ()))}


def _variables(task: Any) -> dict[str, str]:
    """Return, for each argument in the task's YAML, the first variable of ours in its template."""
    configured = task.get_ds() or {}
    raw = next((value for key, value in configured.items() if key == task.action and isinstance(value, dict)), {})
    found = {str(key): _VARIABLE.search(text) for key, text in raw.items() if isinstance(text, str)}
    return {key: match[0] for key, match in found.items() if match}


def expected(option: Mapping[str, Any]) -> str:
    """Return in words which values an option takes."""
    choices = option.get("choices")
    if choices:
        return f"{'some' if option.get('type') == 'list' else 'one'} of {', '.join(str(choice) for choice in choices)}"
    kind = option.get("type", "str")
    inner = {"str": "texts", "int": "whole numbers", "dict": "mappings", "path": "paths"}.get(
        option.get("elements", ""), ""
    )
    below = option.get("options")
    keys = f" with {', '.join(below)}" if below else ""
    return f"{_EXPECTED.get(kind, kind)}{f' of {inner}' if inner else ''}{keys}"


def _shown(value: Any, option: Mapping[str, Any]) -> str:
    """Return the value where it can be shown: a mapping or its text may contain a password."""
    if isinstance(value, bool | int | float) and not option.get("no_log"):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, str):
        shown = option.get("type") in ("int", "float", "bool") or option.get("choices")
        return repr(str(value))[:_LONGEST] if shown and not option.get("no_log") else "text"
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else type(value).__name__


def _example(label: str, kind: str) -> str:
    if not label.startswith("gpufleet_"):
        return f"state {_EXPECTED.get(kind, kind)}"
    if kind == "dict":
        return f"state it as YAML in the inventory, or -e '{{\"{label}\": {{...}}}}'"
    if kind == "list":
        return f"state it as YAML in the inventory, or -e '{{\"{label}\": [...]}}'"
    value = "... (true or false)" if kind == "bool" else "NUMBER"
    return f"-e {label}={value}, or the same in the inventory"
