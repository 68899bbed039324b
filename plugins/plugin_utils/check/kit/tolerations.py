# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tolerations of the test pods of every gate, and their Kueue queue: settings of gate gpu_stack that apply to all."""

from __future__ import annotations

from ...workload.nodes import CORDON, Toleration, tolerations_with
from ..gpu_stack.settings import GATE, GpuStackSettings
from ..spec import JudgeContext, ObserveContext


def tolerations_of(context: ObserveContext | JudgeContext) -> tuple[Toleration, ...]:
    """Return the tolerations of test pods.

    Raises:
        InputError: the site configures one that is not valid.
    """
    configured = tolerations_with(context.settings_of(GATE, GpuStackSettings).tolerations)
    tests_a_wave = isinstance(context, ObserveContext) and bool(context.roll)
    return (*configured, CORDON) if tests_a_wave else configured


def cluster_queue_of(context: ObserveContext) -> str:
    """Return the ClusterQueue of Kueue through which test jobs go; empty for none."""
    return context.settings_of(GATE, GpuStackSettings).cluster_queue
