# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The settings of the user: the inventory's, overridden by those of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.template import Templar

from ..outcome.errors import InputError
from ..run.settings_sources import SET, replaced_options
from ..runtime.layers import laid_over
from ..runtime.progress import Emit

VARIABLE = "gpufleet_settings"


def stated_settings(
    options: Mapping[str, Any], task_vars: Mapping[str, Any], templar: Templar, emit: Emit
) -> dict[str, Any]:
    """Return the options with the inventory's settings, overridden by those of an extra variable.

    Ansible lets an extra variable replace a dictionary of the inventory as a whole. The record of the facility and
    everything else that only the inventory sets would be lost without a warning.

    Raises:
        InputError: the inventory's settings cannot be read beneath the extra variable.
    """
    hostvars = task_vars.get("hostvars")
    manager = getattr(hostvars, "_variable_manager", None)
    if VARIABLE not in (getattr(manager, "extra_vars", None) or {}):
        return dict(options)
    beneath = _beneath(hostvars, manager, templar)
    given = options["settings"]
    for name in replaced_options(beneath, given):
        emit(f"settings: the extra variable {VARIABLE} replaces {name} of the inventory")
    kept = sorted(set(beneath) - set(given))
    if kept:
        emit(f"settings: the extra variable {VARIABLE} leaves the inventory's {', '.join(kept)} as they are")
    return {**options, "settings": laid_over(beneath, given)}


def _beneath(hostvars: Any, manager: Any, templar: Templar) -> Mapping[str, Any]:
    """Return the variable as it is without extra variables. Ansible has no public interface for that."""
    hint = f"state it in the inventory alone, and what this run changes in {SET} (check.option=value)"
    try:
        extra, manager._extra_vars = manager._extra_vars, {}
        try:
            host = hostvars._inventory.get_host("localhost")
            configured = manager.get_vars(host=host, include_hostvars=False).get(VARIABLE)
        finally:
            manager._extra_vars = extra
    except AttributeError:
        reason = "is an extra variable, and this Ansible does not show what the inventory states beneath it."
        raise InputError(VARIABLE, reason, hint) from None
    found = templar.template(configured) if configured is not None else {}
    if not isinstance(found, Mapping):
        reason = f"is {type(found).__name__} in the inventory and an extra variable as well; expected mappings."
        raise InputError(VARIABLE, reason, hint)
    return found
