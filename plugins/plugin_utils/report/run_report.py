# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every report of a run, rewritten whole after each gate: for people, for pull requests, for programs."""

from __future__ import annotations

from pathlib import Path

from ..outcome.codec import dumps, to_plain
from ..runtime.files import MACHINE, METRICS, PAGE, SUMMARY, write_atomic
from ..runtime.redaction import redact_data
from ..verdict.run import RunRecord
from .facts import AlreadyRead, load_facts
from .html import render_page
from .markdown import render_markdown
from .metrics import render_metrics


def write_report(
    run_dir: Path, record: RunRecord, differences: tuple[str, ...] = (), read: AlreadyRead | None = None
) -> None:
    """Write the page, the summary, the record and the metrics; each file is whole or absent.

    Args:
        run_dir: the run directory, with the gates' CTRF files.
        record: the verdicts.
        differences: recorded results that a later judgement could not confirm.
        read: what the caller has read from the directory already.

    Raises:
        OSError: the directory cannot be written.
    """
    facts = load_facts(run_dir, record, differences, read)
    write_atomic(run_dir / PAGE, render_page(facts))
    write_atomic(run_dir / SUMMARY, render_markdown(facts))
    write_atomic(run_dir / MACHINE, dumps(redact_data(to_plain(record))))
    if not record.what_if and not record.check_mode:
        # Samples of a site are actual observations.
        write_atomic(run_dir / METRICS, render_metrics(facts))
