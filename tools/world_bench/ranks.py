# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks that look for each other in a world: the gate's own jobs, run by their simulator and by no cluster."""

from __future__ import annotations

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_ranks import (
    RanksBenchmark,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.rank_model import (
    CHECK_ID,
    NetworkingSettings,
    SavedObservation,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.rank_pods import simulate

from .computed import keep_runs
from .place import Place


def observe(place: Place) -> None:
    """Make all runs of the ranks and keep them as a run does."""
    context = place.observing()
    bench = RanksBenchmark(context, context.settings_of(CHECK_ID, NetworkingSettings))
    keep_runs(place, "ranks", bench, SavedObservation, simulate)
