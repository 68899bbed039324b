# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: a RayCluster is placed as a whole or not at all, by the scheduler that the recipe configures in KubeRay.

A scheduler may place gangs correctly that name it themselves, while KubeRay creates pods without a group, for the
default scheduler. Ray's head then waits for workers that hold nothing.
"""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, ObserveContext, Promised, needs, observer_of
from .gang_admission import judged
from .observe_gang import GangResult, observe_with
from .ray_gang import KUBERAY, has_ray_gangs, ray_provider

_UNASKED = (
    f"needs {KUBERAY} with a batchScheduler that is Volcano, KAI or the scheduler plugins, and more than one host: "
    "the recipe has none"
)
SPEC = CheckSpec(
    id="ray-gang-admission",
    gate="gpu_stack",
    phase="conformance",
    title="Ray clusters are placed all or nothing",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=25.0,
    applies=(needs("kubernetes"), Promised(has_ray_gangs, _UNASKED)),
    causes=("gang-not-admitted", "gang-overcommitted", "gang-partial", "kuberay-missing", "no-gang-scheduler"),
)


def observe(context: ObserveContext) -> GangResult:
    """Run the test with RayClusters and remove what it created. Its settings are those of gang-admission.

    Raises:
        BringupError: the API server does not respond, or refuses the objects of the test.
    """
    provider = ray_provider(context.recipe)
    if not provider:
        return GangResult(provider="", problem="not-in-recipe", reason="the recipe has no gangs of Ray")
    return observe_with(context, provider, ray=True)


def judge(observed: GangResult, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome. As for other gangs, exactly one of two RayClusters must be placed, as a whole."""
    answer = Answer.about_cluster(SPEC, context)
    if observed.problem == "kuberay-missing":
        hint = f"kubectl get crd rayclusters.ray.io; helm status {KUBERAY}"
        return (answer.failed(observed.problem, f"KubeRay is not there: {observed.reason}", hint),)
    return judged(answer, observed)


OBSERVER = observer_of("ray_gang", GangResult, observe)
CHECK = Check(SPEC, OBSERVER, judge)
