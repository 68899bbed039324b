# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Completion in a shell, by the package argcomplete where it is installed."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..outcome.errors import BringupError
from ..recipe.criteria import ORDER
from ..recipe.request import catalogue_of
from .questions import KEPT

Completer = Callable[..., Iterable[str]]


def complete(parser: ArgumentParser, parsers: Iterable[ArgumentParser], cache: Path) -> None:
    """Return the completions to the shell and end; without the package there are none, and no message.

    Args:
        parser: the parser of all commands.
        parsers: those of the commands.
        cache: the directory of this user for cached files.
    """
    try:
        from argcomplete import autocomplete
    except ModuleNotFoundError:
        os._exit(1)
    for action in (action for each in parsers for action in each._actions):
        if action.dest in ORDER or action.dest == "component":
            action.completer = _completer(action.dest, cache)  # type: ignore[attr-defined]
    autocomplete(parser)


def _completer(name: str, cache: Path) -> Completer:
    def words(parsed_args: Namespace, **_more: Any) -> Iterable[str]:
        try:
            catalogue = catalogue_of([Path(text) for text in parsed_args.data or ()], cache / KEPT)
        except BringupError:
            return ()
        if name == "component":
            return sorted(catalogue.registry)
        dimension = catalogue.vocabulary.dimensions.get(name)
        return sorted(dimension.values) if dimension is not None else ()

    return words
