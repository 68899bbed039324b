#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of ai_conformance; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ai_conformance
short_description: Write evidence for CNCF's AI conformance from a run
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Writes a page for each requirement of CNCF's list and an index, from the results that the gates or phases of a run
    have left. No cluster is asked.
  - A requirement is C(PASS) if all of its checks answered and passed, C(FAIL) if one failed or is not known, and
    C(SKIP) if not all of them were asked; the page says why.
  - Fails if a requirement is C(FAIL); the pages are written all the same.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
attributes:
  check_mode:
    support: full
    description: Judges and writes nothing.
options:
  dest:
    description:
      - Directory for the pages. By default C(ai_conformance) in the run directory.
      - Pages of requirements that are not judged now, of another list or of other features, are taken away.
    type: path
  list_version:
    description: Version of CNCF's list. By default the newest that is known.
    type: str
  features:
    description:
      - Only these requirements, by their id or by the name of a feature such as V(secure-access).
      - By default all of the list.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Write the evidence of the last run
  gpufleet.bringup.ai_conformance:
    run_dir: .run/latest

- name: Only what concerns scheduling
  gpufleet.bringup.ai_conformance:
    run_dir: .run/latest
    features: [gang-scheduling, dra-support]
    list_version: "1.34"
"""

RETURN = r"""
closing_lines:
  description: What is not met, the count and the path of the index, printed as the last lines of the playbook.
  type: list
  elements: str
  returned: always
  sample: ["verdict  5 of 9 requirements met, 0 not met, 4 not proven (2 of them MUST)"]
list_version:
  description: Version of the list.
  type: str
  returned: always
  sample: "1.37"
index:
  description: Path of the index.
  type: str
  returned: always
requirements:
  description: The verdicts, in the order of the list.
  type: list
  elements: dict
  returned: always
  contains:
    id:
      description: Id of the requirement.
      type: str
      returned: always
      sample: gang_scheduling
    level:
      description: C(MUST) or C(SHOULD).
      type: str
      returned: always
      sample: MUST
    verdict:
      description: C(PASS), C(SKIP) or C(FAIL).
      type: str
      returned: always
      sample: PASS
    reason:
      description: Why, in one sentence.
      type: str
      returned: always
"""
