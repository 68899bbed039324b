# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lookup rehearsal: a playbook of the rehearsal collection, or the one that reports how to install it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rehearsal
short_description: Playbook of a rehearsal, or the one that says how to get it
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - A rehearsal is of a collection of its own, C(gpufleet.rehearsal), which a controller that only brings clusters up
    does not need. The playbooks C(gpufleet.bringup.rehearse) and those of that kind import what this returns.
options:
  _terms:
    description: Names of playbooks of C(gpufleet.rehearsal).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Rehearse
  ansible.builtin.import_playbook: "{{ lookup('gpufleet.bringup.rehearsal', 'rehearse') }}"
"""

RETURN = r"""
_raw:
  description:
    - For each name that playbook where C(gpufleet.rehearsal) is installed in the version of this collection, else a
      playbook that ends with the command that installs it.
  type: list
  elements: str
"""

from typing import Any

from ansible.plugins.lookup import LookupBase

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.version import COLLECTION, collection_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import REHEARSAL, collection_root

_MISSING = f"{COLLECTION}.parts.rehearsal_missing"


class LookupModule(LookupBase):
    """Name of a playbook."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return the names of playbooks that Ansible can find."""
        self.set_options(var_options=variables, direct=kwargs)
        root = collection_root(REHEARSAL)
        there = root is not None and collection_version(root) == collection_version()
        return [f"{REHEARSAL}.{name}" if there else _MISSING for name in terms]
