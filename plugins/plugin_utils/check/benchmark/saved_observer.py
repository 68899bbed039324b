# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The observer of a benchmark: it saves plan and records of the runs, and reads their logs again to judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...outcome.codec import from_plain
from ...site.model import Site
from ..kit.saved_settings import with_plan_settings
from ..spec import ObserveContext, Observer
from .records import SavedRuns, kept_text, require_planned
from .run_loop import Benchmark


def benchmark_observer(
    key: str,
    result: type[Any],
    *,
    saved: Any,
    make: Callable[[ObserveContext], Benchmark[Any, Any, Any]],
    settings: tuple[str, type[Any]],
    run_of: Callable[[Any, str, Any], Any],
    require: Callable[[Any], None] | None = None,
) -> Observer[Any]:
    """Return an observer that makes the runs of a benchmark.

    Its `observe` raises InputError for invalid settings, NotFoundError for a SKU without facts, and BringupError as
    Benchmark.observe does.

    Args:
        key: name of the observation.
        result: type that judges get, made of plan, runs and leftovers.
        saved: type that is saved, a SavedRuns.
        make: makes the benchmark.
        settings: key and class of the settings in the plan.
        run_of: reads a run from its record, its log and these settings.
        require: refuses saved data whose records do not fit the plan.
    """
    where, (settings_key, kind) = f"observation {key}", settings

    def observe(context: ObserveContext) -> SavedRuns[Any, Any]:
        found = make(context).observe()
        records = tuple(run.record for run in found.runs)
        whole: SavedRuns[Any, Any] = saved(
            plan=found.plan, records=records, made=len(records), leftovers=found.leftovers
        )
        return whole

    def restore(data: Any, run_dir: Path, site: Site) -> Any:
        complete = with_plan_settings(data, kind, settings_key, site, run_dir)
        observed = from_plain(saved, complete, where)
        require_planned(observed.plan.hosts, site, where)
        observed.require_all(where)
        if require is not None:
            require(observed)
        runs = tuple(
            run_of(record, kept_text(run_dir, record.log), observed.plan.settings) for record in observed.records
        )
        return result(plan=observed.plan, runs=runs, leftovers=observed.leftovers)

    return Observer(key, result, observe, restore, saved=saved)
