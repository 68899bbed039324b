#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of run_look; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_look
short_description: Read on behind a gate that is not passed
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - After a gate that is not passed it says what else is wrong, as far as that can be read without a test and without a
    load, so that everything can be mended at once.
  - What it finds is observed and not proven. It opens no gate, changes no verdict, and no later run takes it over.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.secrets
options:
  step:
    description: V(begin) says which gates can be read, V(judge) judges what was read into the directory that it named.
    type: str
    choices: [begin, judge]
    required: true
  look_on:
    description: Whether it reads on. Without it, where the last gate in scope never passed at this site.
    type: bool
  helm:
    description: The helm that the cluster is looked at with.
    type: str
    default: helm
  store:
    description: File of the history, which knows what passed at this site.
    type: path
"""

EXAMPLES = r"""
- name: Ask what can be read on
  gpufleet.bringup.run_look:
    run_dir: "{{ gpufleet_run }}"
    step: begin
  register: __look
"""

RETURN = r"""
gates:
  description: Gates that are read, none where it does not read on.
  type: list
  elements: str
  returned: success
  sample: [nodes, gpu_stack]
directory:
  description: Directory that what is read of hosts is written to.
  type: str
  returned: success
  sample: /srv/acceptance/.run/20261121T101500Z-3fa2/looks
findings:
  description: What is wrong, at most 100 of them; none with O(step=begin).
  type: list
  elements: dict
  returned: success
  sample: [{gate: nodes, check: gpu-census, subject: gpu03/gpu5, cause: gpu-missing}]
  contains:
    gate:
      description: Gate whose check it is.
      type: str
      returned: always
      sample: nodes
    check:
      description: Id of the check.
      type: str
      returned: always
      sample: gpu-census
    subject:
      description: What it is about.
      type: str
      returned: always
      sample: gpu03/gpu5
    cause:
      description: The cause.
      type: str
      returned: always
      sample: gpu-missing
"""
