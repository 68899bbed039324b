# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the pods of every gate's tests tolerate at a site, and their queue: settings of gate gpu_stack for all."""

from __future__ import annotations

from ...workload.nodes import CORDON, Toleration, tolerations_with
from ..gpu_stack.settings import GATE, GpuStackSettings
from ..spec import JudgeContext, ObserveContext


def tolerations_of(context: ObserveContext | JudgeContext) -> tuple[Toleration, ...]:
    """Return the tolerations of test pods.

    Raises:
        InputError: the site states one that is none.
    """
    stated = tolerations_with(context.settings_of(GATE, GpuStackSettings).tolerations)
    tests_a_wave = isinstance(context, ObserveContext) and bool(context.roll)
    return (*stated, CORDON) if tests_a_wave else stated


def cluster_queue_of(context: ObserveContext) -> str:
    """Return the ClusterQueue of Kueue through which the jobs of tests go; empty for none."""
    return context.settings_of(GATE, GpuStackSettings).cluster_queue
