# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the check after a refused call would refuse: it is added to the same list, which saves one more run.

It is computed only where something is wrong already, and left out wherever it may follow from that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.loader import action_loader
from ansible.template import Templar
from jinja2.exceptions import TemplateError

from ..features.inventory.variables import PREFIX, meant
from ..outcome.errors import BringupError, ProblemsError
from ..run.version import COLLECTION
from ..runtime.inventory_values import plain
from .arguments import argument_spec
from .call import Stated
from .stated import stated_settings

INVENTORY = "preflight_inventory"
REHEARSAL = "gpufleet.rehearsal.rehearsal_start"
# Options of the next module whose variables have other names.
CALLED: dict[str, dict[str, str]] = {
    INVENTORY: {"pools": "gpufleet_recipe_pools"},
    REHEARSAL: {name: f"gpufleet_rehearsal_{name}" for name in ("nodes", "sku", "faults", "world", "play")},
}
# For the entries of these the next check reports every mistake, the call only what an entry lacks.
_DECISIONS = frozenset(f"{PREFIX}{name}" for name in ("waivers", "acceptances", "quarantine"))
# What is read through these decides what is checked: with a wrong one nothing else is certain.
_DECIDING = frozenset(f"{PREFIX}{name}" for name in ("group", "profile", "gates", "recipe_data", "check_dirs"))


def with_problems_ahead(
    wanted: str, found: Sequence[BringupError], configured: Stated, task_vars: Mapping[str, Any], templar: Templar
) -> list[BringupError]:
    """Return what is wrong with the call and what the next check would refuse.

    Args:
        wanted: the module of the next check, with the collection before it if it is another one; its action has
            `ahead`.
        found: what is wrong with the call.
        configured: the variables with which the call was checked.
        task_vars: the variables of the task.
        templar: resolves templates.
    """
    about = _named(found, configured)
    if not found or about & _DECIDING:
        return list(found)
    try:
        options = _options(wanted, configured, about, task_vars, templar)
        hosts = dict.fromkeys(["localhost", *(task_vars.get("groups") or {}).get(options["group"], ())])
        values = {host: _values(configured, host) for host in hosts}
        ahead = list(action_loader.get(_whole_name(wanted), class_only=True).ahead(options, task_vars, values))
    except ProblemsError as error:
        ahead = list(error.problems)
    except BringupError as error:
        ahead = [error]
    except (AnsibleError, TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # A value for which the call is refused may have any type. The next run checks again.
        return list(found)
    in_full = {name for name in _DECISIONS if any(_subject_of(problem, name) for problem in ahead)}
    kept = [problem for problem in found if not any(_subject_of(problem, name) for name in in_full)]
    return [*kept, *(problem for problem in ahead if not _mentions(problem, about - in_full))]


def _whole_name(module: str) -> str:
    return module if "." in module else f"{COLLECTION}.{module}"


def _subject_of(problem: BringupError, name: str) -> bool:
    return bool(re.match(rf"{name}\b", problem.subject))


def _named(found: Iterable[BringupError], configured: Stated) -> frozenset[str]:
    """Return the variables that are known to be wrong, and those that misspelled ones are meant to be."""
    names = {name for problem in found for name in re.findall(rf"\b{PREFIX}\w+", problem.subject)}
    every = {name for variables in (configured.extra, *configured.raw.values()) for name in variables}
    return frozenset(names | {meant(name) for name in every} - {""})


def _mentions(problem: BringupError, names: Iterable[str]) -> bool:
    return any(re.search(rf"\b{name}\b", str(problem)) for name in names)


def _values(configured: Stated, host: str) -> dict[str, Any]:
    """Return our variables of a host. A misspelled one counts as the one it means; one without a value is left out."""
    found: dict[str, Any] = {}
    for name in sorted(configured.raw[host], key=lambda name: bool(meant(name))):
        if name.startswith(PREFIX):
            try:
                found.setdefault(meant(name) or name, plain(configured.hostvars[host][name]))
            except (AnsibleError, TemplateError, LookupError, TypeError):
                continue
    return found


def _options(
    wanted: str, configured: Stated, about: frozenset[str], task_vars: Mapping[str, Any], templar: Templar
) -> dict[str, Any]:
    """Return the options of the next module as its role would pass them."""
    spec = {name: option for name, option in argument_spec(wanted).items() if not option.get("required")}
    values = _values(configured, "localhost")
    # A playbook with its own scope sets it for its plays.
    scope = {"gpufleet_gates": task_vars.get("gpufleet_gates")} if "gpufleet_gates" not in values else {}
    values |= {name: templar.template(value) for name, value in scope.items() if value is not None}
    given = {name: values.get(CALLED[wanted].get(name, f"{PREFIX}{name}")) for name in spec}
    right = {
        name: value
        for name, value in given.items()
        if value is not None and CALLED[wanted].get(name, f"{PREFIX}{name}") not in about
    }
    options: dict[str, Any] = ArgumentSpecValidator(spec).validate(right).validated_parameters
    for variable in _DECISIONS & values.keys():
        if variable.removeprefix(PREFIX) in spec and isinstance(values[variable], list):
            options[variable.removeprefix(PREFIX)] = values[variable]
    return stated_settings(options, task_vars, templar, lambda _line: None) if "settings" in options else options
