# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests about constraints and versions; each has its documentation in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import parse_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import satisfies as _satisfies
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError


def satisfies(actual: Any, expression: str, unit: str = "") -> bool:
    """Tell whether a measured value satisfies a constraint expression; one that was not measured does not."""
    if actual is None:
        return False
    try:
        return _satisfies(actual, str(expression), unit)
    except BringupError as error:
        raise AnsibleFilterError(str(error)) from None


def newer_than(version: Any, other: Any) -> bool:
    """Tell whether a version is newer than another, all numbers compared and a missing one being 0."""
    try:
        return parse_version(str(version)).padded > parse_version(str(other)).padded
    except BringupError as error:
        raise AnsibleFilterError(str(error)) from None


class TestModule:
    """The tests of this file."""

    def tests(self) -> dict[str, Callable[..., bool]]:
        """Return the tests by name."""
        return {"satisfies": satisfies, "newer_than": newer_than}
