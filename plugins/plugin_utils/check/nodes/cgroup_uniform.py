# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check cgroup-uniform: every host has the same hierarchy of control groups (cgroup2fs is version 2).

Kubelet, container runtime and slurmd choose their driver by it, and limits of memory and devices hold differently.
"""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...outcome.model import Outcome, SubjectKind
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .observe_hosts import OBSERVER
from .same_everywhere import judge_same
from .uniform import VersionSettings

SPEC = CheckSpec(
    id="cgroup-uniform",
    gate="nodes",
    title="One version of control groups in the fleet",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    requires=("host_access",),
    settings=VersionSettings,
)


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """A difference may be meant, so it is marginal: a named person accepts it, or the host is brought into line."""
    return judge_same(SPEC, seen, context, field="cgroup", word="control groups")


CHECK = Check(SPEC, OBSERVER, judge)
