# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DL unit test of a world: the gate's own jobs, run by their simulator and by no cluster."""

from __future__ import annotations

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.model import SavedObservation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.settings import ID, DlUnitSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_dl_unit import (
    DlUnitBenchmark,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.dl_unit_pods import simulate

from .computed import keep_runs
from .place import Place


def observe(place: Place) -> None:
    """Make all runs of the DL unit test and keep them as a run does."""
    context = place.observing()
    bench = DlUnitBenchmark(context, context.settings_of(ID, DlUnitSettings))
    keep_runs(place, "dl_unit", bench, SavedObservation, simulate)
