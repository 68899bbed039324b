# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/rbac/roles.yaml, the roles that gates need on a cluster."""

from __future__ import annotations

import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import LEVELS, every_choice
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import (
    continuous_role,
    continuous_test_roles,
    policy_role,
    role_objects,
    snapshot_pod_roles,
    snapshot_role,
    validator_roles,
    wave_role,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS

_HEAD = """# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Generated from what the gates ask (make rbac-docs); a test compares the two. docs/rbac.md says how to use it.
---
"""


class Indented(yaml.SafeDumper):
    """Writes lists indented, as yamllint wants them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def page() -> str:
    """Return docs/rbac/roles.yaml."""
    items = [
        *role_objects(GATE_IDS, LEVELS, every_choice()),
        snapshot_role(),
        wave_role(),
        continuous_role(),
        *continuous_test_roles(),
        policy_role(),
        *snapshot_pod_roles(),
        *validator_roles(),
    ]
    body = {"apiVersion": "v1", "kind": "List", "items": items}
    return _HEAD + yaml.dump(body, Dumper=Indented, sort_keys=False, width=150)
