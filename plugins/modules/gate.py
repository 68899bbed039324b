#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the verb gate; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gate
short_description: Decide a gate
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Judges what was observed, writes the gate's CTRF and JUnit files and the report, and decides from the CTRF
    file that it reads back.
  - The gate is passed only if every declared check of every expected subject is passed, waived or, if marginal,
    accepted. Anything else is a failed task.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.gate
attributes:
  check_mode:
    support: full
    description: Writes nothing outside the run directory; the history is left alone.
options:
  problem:
    description: Why the gate could not be looked at, because what it converges failed. The gate is then C(other).
    type: str
    default: ""
  store:
    description:
      - File of the history (SQLite), made if it is not there. The decided gate is recorded in it with its results,
        passes and, if the gate is passed, the figures that later ones are compared with.
      - A history that cannot be written is a warning. It never changes a verdict.
      - Without it nothing is recorded.
    type: path
"""

EXAMPLES = r"""
- name: Decide
  gpufleet.bringup.gate:
    run_dir: "{{ gpufleet_run }}"
    gate: nodes
    store: "{{ gpufleet_store }}"
"""

RETURN = r"""
verdict:
  description: The verdict with counts, what blocks, what is waived, accepted and expired, and the key figure.
  type: dict
  returned: always
stats:
  description: The few facts of the run for C(set_stats).
  type: dict
  returned: always
exit_code:
  description: 0 if the gate opens the next one, else 8 (2 for wrong input).
  type: int
  returned: always
  sample: 0
"""
