# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings from several places, laid over each other by check and option."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..outcome.errors import BringupError, InputError, ProblemsError
from ..runtime.foreign_yaml import documents, kubernetes_loader
from ..runtime.layers import laid_over

SET = "gpufleet_set"


def merged_settings(
    configured: Mapping[str, Any], assigned: Iterable[str], forced: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `configured`, with the `check.option=value` of `assigned` over it, and `forced` over both.

    Raises:
        ProblemsError: every assignment that cannot be read.
    """
    return laid_over(laid_over(configured, _assignments(assigned)), forced)


def held_options(options: Mapping[str, Any]) -> list[str]:
    """Return the options that a site sets and a rehearsal forces to another value, as `check.option`."""
    return replaced_options(merged_settings(options["settings"], options["set"], {}), options["forced_settings"])


def replaced_options(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> list[str]:
    """Return the options of `lower` that have another value in `upper`, as `check.option`."""
    return [
        f"{name}.{option}"
        for name, options in upper.items()
        if isinstance(options, Mapping) and isinstance(lower.get(name), Mapping)
        for option, value in options.items()
        if option in lower[name] and lower[name][option] != value
    ]


def _assignments(texts: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    problems: list[BringupError] = []
    for text in (line.strip() for entry in texts for line in entry.splitlines()):
        path, equals, value = text.partition("=")
        check, dot, option = path.strip().partition(".")
        if not (check and dot and option and equals):
            if text:
                hint = "write check.option=value, for example dcgm-diag.level=2"
                problems.append(InputError(SET, f"{text!r} assigns no option of a check.", hint))
            continue
        try:
            found.setdefault(check, {})[option] = _typed(value)
        except ValueError as error:
            problems.append(InputError(SET, f"the value of {path} is not YAML: {error}.", "quote the value"))
    if problems:
        raise ProblemsError("settings", tuple(problems))
    return found


def _typed(text: str) -> Any:
    """Return the value as YAML parses it.

    Raises:
        ValueError: it is not YAML.
    """
    found = documents(text, kubernetes_loader(strict=True))
    if len(found) > 1:
        raise ValueError("more than one document")
    return found[0] if found else None
