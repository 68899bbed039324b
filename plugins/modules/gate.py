#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of gate; the action plugin of the same name does the work on the controller."""

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
    accepted. Anything else is a failed task, unless O(not_passed) says otherwise.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.gate
attributes:
  check_mode:
    support: full
    description: Says what can be seen without a test. Nothing is decided or written, and the gate stays pending.
options:
  problem:
    description: Why the gate could not be looked at, because what it converges failed. The gate is then C(other).
    type: str
    default: ""
  not_passed:
    description:
      - What to do if the gate is not passed. V(fail) fails.
      - V(report) only returns the verdict, for a gate after which others are run that do not depend on it;
        M(gpufleet.bringup.run_end) fails then.
    type: str
    default: fail
    choices: [fail, report]
  store:
    description:
      - File of the history (SQLite), made if it is not there. The decided gate is recorded in it with its results and
        passes.
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
passed:
  description: Whether the gate opens those that depend on it. It is passed, or skipped because nothing is to be proven.
  type: bool
  returned: always
  sample: true
verdict:
  description: The verdict of the gate.
  type: dict
  returned: always
  contains:
    gate:
      description: Id of the gate.
      type: str
      returned: always
      sample: nodes
    status:
      description: Status of the gate in the words of CTRF.
      type: str
      returned: always
      sample: passed
    message:
      description: Why, in one sentence.
      type: str
      returned: always
      sample: every declared check passed
    key_figure:
      description: The figure that sums the gate up, or why it has none.
      type: str
      returned: always
    checks:
      description: Number of declared checks.
      type: int
      returned: always
      sample: 19
    counts:
      description: Number of results by status. A waived failure stays a failure here.
      type: dict
      returned: always
      contains:
        passed:
          description: Observed and good.
          type: int
          returned: once the gate is decided
        failed:
          description: Observed and bad.
          type: int
          returned: once the gate is decided
        skipped:
          description: The check says nothing about such a subject.
          type: int
          returned: once the gate is decided
        pending:
          description: Marginal, so that a person decides, or not judged because another check has to pass first.
          type: int
          returned: once the gate is decided
        other:
          description: Not known.
          type: int
          returned: once the gate is decided
    blocking:
      description: What holds the gate, at most 50 entries.
      type: list
      elements: dict
      returned: always
      contains:
        check:
          description: Id of the check.
          type: str
          returned: always
        subject:
          description: Its subjects, as people read them.
          type: str
          returned: always
        status:
          description: Status of the result, in the words of CTRF.
          type: str
          returned: always
        cause:
          description: What is wrong, as one word of the check's causes.
          type: str
          returned: always
        summary:
          description: What was found and what was expected.
          type: str
          returned: always
        hint:
          description: What to do about it.
          type: str
          returned: always
        blocked_by:
          description: The check whose result it waits for, or empty.
          type: str
          returned: always
        subjects:
          description: What it is about; none where no result came back.
          type: list
          elements: dict
          returned: always
          contains: &subjects
            kind:
              description: Kind of the subject, such as C(node), C(gpu) or C(link).
              type: str
              returned: always
            name:
              description: Its name among those of its kind.
              type: str
              returned: always
            node:
              description: The node that it belongs to, or empty.
              type: str
              returned: always
    waived:
      description: Results that waivers keep from holding the gate.
      type: list
      elements: dict
      returned: always
      contains: &decisions
        check:
          description: Id of the check.
          type: str
          returned: always
        subject:
          description: The subjects of the result, as people read them.
          type: str
          returned: always
        cause:
          description: The cause that is decided about.
          type: str
          returned: always
        who:
          description: Who decided.
          type: str
          returned: always
        reason:
          description: Why.
          type: str
          returned: always
        until:
          description: Last day on which it counts.
          type: str
          returned: always
        subjects:
          description: What it is about.
          type: list
          elements: dict
          returned: always
          contains: *subjects
    accepted:
      description: Marginal results that a person accepted.
      type: list
      elements: dict
      returned: always
      contains: *decisions
    expired:
      description: Decisions whose last day has passed.
      type: list
      elements: dict
      returned: always
      contains: *decisions
    not_declared:
      description: Checks that are not asked at this site.
      type: list
      elements: dict
      returned: always
      contains:
        id:
          description: Id of the check.
          type: str
          returned: always
        title:
          description: What it demands.
          type: str
          returned: always
        reason:
          description: Why it is not asked.
          type: str
          returned: always
    taken_over:
      description: The earlier passes that count for a gate that was not run; none where it was run.
      type: dict
      returned: always
      contains:
        runs:
          description: The runs that they are from.
          type: list
          elements: str
          returned: always
        oldest:
          description: When the oldest was seen (RFC 3339).
          type: str
          returned: always
        newest:
          description: When the newest was seen.
          type: str
          returned: always
        results:
          description: How many.
          type: int
          returned: always
        not_looked_at:
          description: What nobody looked at again.
          type: list
          elements: str
          returned: always
    started:
      description: When it began (RFC 3339).
      type: str
      returned: always
    duration_s:
      description: Seconds that it took.
      type: float
      returned: always
      sample: 12.5
    schema_version:
      description: Version of this form.
      type: int
      returned: always
      sample: 2
stats:
  description: The facts of the run for C(set_stats), which AWX passes on to the next node of a workflow.
  type: dict
  returned: always
  contains:
    gpufleet_run_id:
      description: Name of the run.
      type: str
      returned: always
      sample: 20261121T101500Z-3fa2
    gpufleet_verdict:
      description: The verdict of the run in one sentence.
      type: str
      returned: always
      sample: accepted 64 of 64 nodes
    gpufleet_passed:
      description: Whether every gate in scope is passed.
      type: bool
      returned: always
      sample: true
    gpufleet_exit_code:
      description: 0 if every gate in scope is passed, else 8.
      type: int
      returned: always
      sample: 0
    gpufleet_was_rehearsal:
      description: Whether the hardware is simulated.
      type: bool
      returned: always
      sample: false
    gpufleet_gates_by_status:
      description: By status, the gates.
      type: dict
      returned: always
      sample: {passed: [facility, fabric], pending: [nodes]}
    gpufleet_report:
      description: Path of the report.
      type: str
      returned: always
      sample: /srv/acceptance/.run/20261121T101500Z-3fa2/report.html
    gpufleet_brought_up:
      description: Directory of the run, which jobs behind it in a workflow keep.
      type: str
      returned: where the run is a bring-up
      sample: /srv/acceptance/.run/20261121T101500Z-3fa2
just_read:
  description:
    - Hosts that were read after the load of this gate so short a time ago that the next load needs no other reading.
    - The next load takes it for the state of the host before it.
  type: list
  elements: str
  returned: for a gate that loads hosts, decided outside check mode
  sample: [gpu01, gpu02]
exit_code:
  description: 0 if the gate opens the next one, else 8 (2 for wrong input).
  type: int
  returned: always
  sample: 0
"""
