#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of rma_pack; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rma_pack
short_description: Pack what a vendor asks for when a part goes back
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Writes one archive with a page about the part (serial number, place, what is wrong, since when, what is not to
    blame), the output of every tool of its node, the log of its BMC, the results against it and SHA-256 digests.
  - Everything is from the directory of a run, as it was when the fault was seen. Nothing is contacted.
  - Secrets are taken out. Fails if nothing in the run accuses the part.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
attributes:
  check_mode:
    support: full
    description: Tells what the page would say, and writes nothing.
options:
  subject:
    description: The part as results name it, such as V(gpu03/gpu5), V(gpu03/mlx5_2), or V(gpu03) for the node.
    type: str
    required: true
  case:
    description: Number of the case at the vendor.
    type: str
    default: ""
  contact:
    description: Whom the vendor may ask.
    type: str
    default: ""
  files:
    description:
      - Files to be packed besides, such as C(nvidia-bug-report.log.gz). Text, or text that gzip compressed; others are
        refused, because nobody could look for secrets in them.
    type: list
    elements: path
    default: []
  store:
    description: File of the history (SQLite), for what was said of the node before. Without it the page has no history.
    type: path
  dest:
    description: The archive (C(.tar.gz)). By default C(rma/SUBJECT.tar.gz) in the run directory.
    type: path
"""

EXAMPLES = r"""
- name: Pack the GPU that failed last night
  gpufleet.bringup.rma_pack:
    run_dir: .run/latest
    subject: gpu03/gpu5
    case: "00123456"
    files: [nvidia-bug-report.log.gz]
"""

RETURN = r"""
closing_lines:
  description: Where the pack is and what is still to be added, printed as the last lines of the playbook.
  type: list
  elements: str
  returned: success
  sample: ["pack     .run/latest/rma/gpu03-gpu5.tar.gz"]
path:
  description: The archive.
  type: str
  returned: success
  sample: .run/latest/rma/gpu03-gpu5.tar.gz
sha256:
  description: Digest of the archive.
  type: str
  returned: success
page:
  description: The page in Markdown, as it lies in the archive.
  type: str
  returned: success
causes:
  description: What the part is accused of.
  type: list
  elements: str
  returned: success
  sample: [row-remap-failed]
missing:
  description: What a vendor will ask for and the run does not have.
  type: list
  elements: str
  returned: success
exit_code:
  description: 0, 2 for a part that nothing accuses or a file that cannot be packed, 3 for what is not in the run.
  type: int
  returned: always
  sample: 0
"""
