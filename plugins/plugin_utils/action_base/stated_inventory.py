# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The variables of a site in its inventory and on the command line, for the inventory of its rehearsal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import template
from ansible.errors import AnsibleError
from jinja2.exceptions import TemplateError

from ..runtime.inventory_values import AsWritten, StatedInventory, plain
from ..runtime.progress import Emit

# Variables of one run and not of the site, if they are on the command line.
_OF_A_RUN = frozenset(
    ("gpufleet_gates", "gpufleet_from_gate", "gpufleet_phases", "gpufleet_run", "gpufleet_snapshot")
)  # fmt: skip
# A context of the site's own kubeconfig; what the rehearsal was started with; how a machine is reached.
_NEVER = ("gpufleet_context", "gpufleet_rehearsal_", "ansible_")
# Variables that Ansible itself sets for a host or a play.
_MAGIC = frozenset((
    "environment", "group_names", "groups", "hostvars", "inventory_dir", "inventory_file", "inventory_hostname",
    "inventory_hostname_short", "omit", "play_hosts", "playbook_dir", "role_name", "role_names", "role_path", "vars",
))  # fmt: skip
_VAULTED = ("AnsibleVaultEncryptedUnicode", "EncryptedString")


def stated_inventory(
    group: str, task_vars: Mapping[str, Any], instead: Mapping[str, Any], emit: Emit
) -> StatedInventory:  # fmt: skip
    """Return variables and groups of the inventory and of the command line, with their values.

    Args:
        group: the group of the hosts that are simulated.
        task_vars: variables of a task on localhost.
        instead: values that replace those of localhost.
        emit: gets a line for what is left out because it is in a vault.
    """
    hostvars, groups = task_vars["hostvars"], task_vars.get("groups", {})
    dropped = _OF_A_RUN & extra_variables(task_vars).keys() | _MAGIC
    secret: set[str] = set()
    found: dict[str, dict[str, Any]] = {}
    for host in ("localhost", *(name for name in groups.get("all", ()) if name != "localhost")):
        variables, raw = hostvars[host], hostvars.raw_get(host)
        names = [name for name in raw if not name.startswith(_NEVER) and name not in dropped]
        secret |= {name for name in names if vaulted(raw[name])}
        found[host] = {name: _value(variables, raw, name) for name in names if name not in secret}
    if secret:
        emit(f"rehearsal: left out of its inventory, for they are vaulted: {', '.join(sorted(secret))}")
    everywhere = {**found.pop("localhost"), **instead}
    return StatedInventory(
        group=group,
        everywhere=everywhere,
        hosts={
            host: {name: value for name, value in configured.items() if everywhere.get(name) != value}
            for host, configured in found.items()
        },
        groups={name: list(hosts) for name, hosts in groups.items() if name not in ("all", "ungrouped", group)},
    )


def extra_variables(task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the extra variables of the command line. Ansible has no public interface for them."""
    return getattr(getattr(task_vars["hostvars"], "_variable_manager", None), "extra_vars", None) or {}


def _value(variables: Mapping[str, Any], raw: Mapping[str, Any], name: str) -> Any:
    """Return the value. Where it cannot be resolved yet, return the text of the inventory, for the run that can."""
    written = plain(raw[name])
    try:
        value = plain(variables[name])
    except (AnsibleError, TemplateError, TypeError):
        return _as_written(written)
    # Ansible before 2.19 leaves unresolved values unchanged.
    return _as_written(written) if value == written and not hasattr(template, "trust_as_template") else value


def _as_written(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_written(item) for item in value]
    return AsWritten(value) if isinstance(value, str) else value


def vaulted(value: Any) -> bool:
    """Return whether a raw variable, or a part of it, is in a vault."""
    if type(value).__name__ in _VAULTED:
        return True
    if isinstance(value, Mapping):
        return any(vaulted(item) for item in value.values())
    return isinstance(value, list) and any(vaulted(item) for item in value)
