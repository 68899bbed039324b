# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A problem that keeps a run from starting, as its report shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ..outcome.errors import BringupError
from ..runtime.files import SUMMARY
from .run import Run


@contextmanager
def problem_recorded(run: Run) -> Iterator[None]:
    """Write a problem that keeps the run from starting into its report, and let it go on."""
    try:
        yield
    except BringupError as error:
        run.save_record(replace(run.record, problem=str(error)))
        error.told_in = str(run.path / SUMMARY)
        raise
