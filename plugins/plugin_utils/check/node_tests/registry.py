# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tests of an idle node: one file each in this package."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module

from ...outcome.errors import BringupError, InputError
from ..spec import ObserveContext
from .pair_spec import refuse_pairs
from .spec import NodeTest


@cache
def node_tests() -> dict[str, type[NodeTest]]:
    """Return the tests by id: the TEST of each file of this package, in the order of file names.

    Raises:
        BringupError: two of them have the same id.
    """
    package = import_module(str(__package__))
    found: dict[str, type[NodeTest]] = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        kind = getattr(import_module(f"{package.__name__}.{info.name}"), "TEST", None)
        if kind is None:
            continue
        if kind.id in found:
            raise BringupError(f"test {kind.id}", "is there twice.", "this is a defect: report it")
        found[kind.id] = kind
    return found


def enabled_tests(context: ObserveContext, requested: Sequence[str] = ()) -> tuple[NodeTest, ...]:
    """Return the tests that cycles of this site run, each with its settings; with `requested` only those.

    Raises:
        ProblemsError: all problems of the values that the site configures for a test.
        InputError: a requested test is not enabled, or one needs two nodes and Slurm gives each test one.
    """
    tests = (kind(context) for kind in node_tests().values())
    found = tuple(test for test in tests if test.common.enabled)
    unknown = [name for name in requested if name not in {test.id for test in found}]
    if unknown:
        known = ", ".join(test.id for test in found) or "none"
        raise InputError("tests", f"{', '.join(unknown)}: not enabled here.", f"enabled are {known}")
    chosen = tuple(test for test in found if not requested or test.id in requested)
    if context.site.orchestrator == "slurm":
        refuse_pairs(chosen, "a cycle over Slurm")
    return chosen
