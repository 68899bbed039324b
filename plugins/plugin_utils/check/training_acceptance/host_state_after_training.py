# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check host-state-after-training: the training load left no error on the host."""

from __future__ import annotations

from ...collect.loads import LoadBrackets
from ...outcome.model import Outcome
from ..kit.load_growth import growth_spec, judge_growth
from ..spec import Check, JudgeContext
from .observe_host_state import OBSERVER

SPEC = growth_spec("host-state-after-training", "training_acceptance", "The load of training left no error on the host")


def judge(observed: LoadBrackets, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return what grew between the readings before and after the load, in the gate that made it."""
    return judge_growth(SPEC, observed, context)


CHECK = Check(SPEC, OBSERVER, judge)
