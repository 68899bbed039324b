# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The commands about runs: status, judge, history."""

from __future__ import annotations

import os
import shlex
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..features.fleet.clusters import unconfirmed_record
from ..outcome.codec import to_plain
from ..outcome.errors import BringupError, InputError, NotFoundError
from ..run.run import Run, existing_run_dir
from ..verdict.restart import interrupted_lines
from ..verdict.run import has_ended, nothing_holds, run_summary
from .answer import formatted, warn, write, write_lines

_STATES = {"check": "checked", "export": "exported", "backup": "backed_up"}
_NEEDED = {"check": (), "export": ("site_name", "dest"), "backup": ("dest",)}
_SERVER, _NO_STORE = "GPUFLEET_STORE_URL", ".run/history.sqlite"


def status(arguments: Namespace) -> int:
    """Print the state or the result of a run: gates, what blocks them, the verdict. Nothing is queried or computed.

    A judgement that could not confirm the run is its verdict, as in the reports, until one confirms it.
    """
    run = Run(existing_run_dir(arguments.run, refused=True))
    judged = unconfirmed_record(run.path)
    record = judged or run.record
    passed = nothing_holds(record)
    at_work = run.at_work and not has_ended(record)
    if arguments.format in (None, "text"):
        from ..report.console import closing_lines

        write_lines([f"run      {record.run_id}, site {record.site}, last written {record.updated or record.started}"])
        write_lines(closing_lines(record, run.path, at_work=at_work))
        if judged is not None:
            write_lines([f"do: gpufleet judge {shlex.quote(arguments.run)} lists what differs"])
        elif not at_work:
            write_lines(interrupted_lines(record))
    else:
        data = {
            "run_dir": str(run.path),
            "passed": passed,
            "running": at_work,
            "verdict": run_summary(record),
            "record": to_plain(record),
        }
        write(formatted(data, arguments.format))
    return 0 if passed or not arguments.exit_code else BringupError.exit_code


def judge(arguments: Namespace) -> int:
    """Compute the verdicts of a saved run again; it ends with 8 if the run did not pass or differs from its records."""
    from ..features.judge.app import judge_run

    options: dict[str, Any] = {
        "settings": {},
        "set": arguments.set or [],
        "thresholds": arguments.thresholds,
        "recipe_data": arguments.data or [],
        "what_if_dir": arguments.what_if_dir,
    }
    text = arguments.format in (None, "text")
    run = Run(existing_run_dir(arguments.run))
    write_report, by = not arguments.dry_run, "--thresholds current"
    result = judge_run(run, options, _line if text else _not_reporting, write=write_report, by=by)
    warn(result.pop("warnings", []))
    if not text:
        write(formatted(result, arguments.format))
    return int(result["exit_code"])


def _line(text: str) -> None:
    write_lines([text])


def _not_reporting(_text: str) -> None:
    return


def history(arguments: Namespace) -> int:
    """Check a history, write a backup of it, or export the results of a site."""
    for name in _NEEDED[arguments.action]:
        if not getattr(arguments, name):
            flag = f"--{name.replace('_', '-')}"
            raise InputError(flag, f"is needed to {arguments.action} a history.", "see gpufleet history --help")
    from ..features.history.app import care_for
    from ..runtime.clock import now_utc
    from ..store.database import place_of, url_from

    options: dict[str, Any] = {
        "state": _STATES[arguments.action],
        "store": arguments.store or url_from(os.environ.get(_SERVER, "").strip()) or _NO_STORE,
        "site_name": arguments.site_name,
        "rehearsal": arguments.rehearsal,
        "dest": arguments.dest,
        "formats": arguments.formats or ["csv"],
    }
    place = place_of(str(options["store"]))
    if isinstance(place, Path) and not place.is_file():
        raise NotFoundError(f"history {place}", "no such file.", "name the history that is meant with --store")
    _changed, rows = care_for(options, time.time(), now_utc(), write=True)
    counted = ", ".join(f"{number} {name}" for name, number in rows.items())
    write_lines([f"wrote {arguments.dest}, {counted}" if counted else f"history {place}: nothing is wrong"])
    return 0
