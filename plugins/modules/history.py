#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of history; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: history
short_description: Take care of the history of a cluster
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Takes over the results that another tool kept, exports results for other programs, makes figures of a day out of
    older results, copies the history while it is written, and tells whether all of it is there and fits together.
  - The variable C(gpufleet_store_url), or the environment variable E(GPUFLEET_STORE_URL), takes the place of O(store).
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: full
    description: Says how many results would be taken over, thinned, or exported, and writes nothing.
options:
  state:
    description:
      - V(imported) takes over the results in O(source). They are claims of another tool, and count for a test of ours
        only if O(tests) says so. Imported again, nothing changes.
      - V(exported) writes the results of a site's cycles and gates into the directory O(dest).
      - V(thinned) makes figures of a day out of results that are older than O(keep_days). The last result, pass and
        failure of every node and test stay as they are.
      - V(backed_up) copies a history file to O(dest) at one moment, and proves the copy before it takes the place of
        what was there.
      - V(checked) fails if the history is damaged, or what is in it does not fit together.
    type: str
    required: true
    choices: [imported, exported, thinned, backed_up, checked]
  store:
    description: File of the history.
    type: path
  site_name:
    description: Name of the site, needed with O(state=imported), O(state=exported) and O(state=thinned).
    type: str
    default: ""
  rehearsal:
    description: Whether the results of rehearsals are meant, which are kept apart.
    type: bool
    default: false
  source:
    description:
      - With O(state=imported), a SQLite file with one table of node, test name, timestamp and result, as the
        continuous validation framework keeps it (C(metadata/validation.db)). It is not changed.
      - Names of columns are taken without case, spaces and signs. A table in which a column can be meant twice is
        refused.
    type: path
  tests:
    description:
      - With O(state=imported), names of tests of theirs with the test of ours that each is. Their pass then counts as
        one of ours until it is too old. A test that is not named here is kept as C(imported/NAME).
    type: dict
    default: {}
  nodes:
    description: With O(state=imported), names of nodes of theirs with the names of the inventory.
    type: dict
    default: {}
  dest:
    description: Directory of an export, or file of a backup.
    type: path
  formats:
    description: Formats of an export; V(parquet) needs the Python package pyarrow.
    type: list
    elements: str
    choices: [csv, parquet]
    default: [csv]
  keep_days:
    description: With O(state=thinned), how many days results stay as they were written, at least 7.
    type: float
    default: 90
"""

EXAMPLES = r"""
- name: Take over what the framework before found
  gpufleet.bringup.history:
    state: imported
    store: /var/lib/gpufleet/history.sqlite
    source: /data/continuous_validation/metadata/validation.db
    site_name: island-1
    nodes: {"001": gpu001}

- name: Copy the history
  gpufleet.bringup.history:
    state: backed_up
    store: /var/lib/gpufleet/history.sqlite
    dest: /backup/history.sqlite
"""

RETURN = r"""
place:
  description: Where the history is, without password.
  type: str
  returned: success
  sample: /var/lib/gpufleet/history.sqlite
rows:
  description: By kind of row (or C(bytes) of a backup), how many were taken over, written, thinned or checked.
  type: dict
  returned: success
  sample: {"results": 1024}
msg:
  description: The same in a sentence.
  type: str
  returned: success
  sample: "history /var/lib/gpufleet/history.sqlite: checked: nothing is wrong"
"""
