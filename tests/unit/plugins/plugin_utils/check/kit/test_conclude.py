# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From findings to outcomes, and one host at a time."""

from __future__ import annotations

from datetime import date

from known_hardware import HARDWARE
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.answer import Answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.finding import (
    Finding,
    Report,
    conclude,
    one_per_cause,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.host_context import HostContext, per_host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import CheckSpec, JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Evidence,
    Measure,
    Outcome,
    Status,
    Subject,
    SubjectKind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.wording import count
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

SPEC = CheckSpec(id="probe", gate="nodes", title="t", per=SubjectKind.NODE)
SKU = sorted(HARDWARE)[0]
HOSTS = (
    *(Host(name=f"gpu0{n}", sku=SKU, node_name=f"gpu0{n}") for n in (1, 2, 3)),
    Host(name="gpu04", sku="x", node_name="gpu04"),
)
SITE = make_site(HOSTS, quarantine=(Quarantine(node="gpu03", reason="r", ticket="t", who="w"),))
CONTEXT = JudgeContext(gate="nodes", site=SITE, today=date(2026, 11, 22), hardware=HARDWARE)
GPUS = [Subject(SubjectKind.GPU, f"gpu01/gpu{number}", "gpu01") for number in range(4)]
LOST = [Finding(cause="gpu-lost", text=f"{gpu.name} is lost", hint="reboot", subjects=(gpu,)) for gpu in GPUS[:2]]
WARM = Finding(cause="gpu-warm", text="90 C", hint="cool it", subjects=(GPUS[2],), marginal=True)
SEEN = Evidence("nvidia-smi -q -x", "gpu01")
Hosts = HostContext[dict[str, str]]


def test_without_findings_the_check_passed_with_its_figures() -> None:
    report = Report(summary="8 GPUs", measured=(Measure("gpus", 8, "count"),), evidence=(SEEN,))
    (outcome,) = conclude(Answer.about_host(SPEC, CONTEXT, "gpu01"), report)
    assert (outcome.status, outcome.summary, outcome.evidence) == (Status.PASSED, "8 GPUs", (SEEN,))
    assert outcome.measured == report.measured


def test_every_finding_is_an_outcome_and_failed_ones_come_first() -> None:
    own = Finding(cause="gpu-hot", text="99 C", hint="cool it", measured=(Measure("temperature", 99, "C"),))
    report = Report(summary="s", findings=(WARM, own), measured=(Measure("gpus", 8, "count"),), evidence=(SEEN,))
    hot, warm = conclude(Answer.about_site(SPEC, CONTEXT), report)
    assert [(o.cause, o.status) for o in (hot, warm)] == [("gpu-hot", Status.FAILED), ("gpu-warm", Status.OTHER)]
    assert hot.measured == own.measured and warm.measured == report.measured
    assert warm.subjects == (Subject(SubjectKind.SITE, "lab"), GPUS[2]) and warm.evidence == (SEEN,)


def test_findings_of_one_cause_are_one_about_all_their_subjects() -> None:
    lost, warm = one_per_cause([LOST[0], WARM, LOST[1], LOST[0]])
    assert lost.text == "gpu01/gpu0 is lost; gpu01/gpu1 is lost" and lost.subjects == tuple(GPUS[:2])
    assert warm == WARM
    assert one_per_cause([]) == ()


def judged(judge: dict[str, Report | Outcome], **options: object) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}

    def judge_host(host: Hosts) -> Report | Outcome:
        return judge.get(host.name, Report(summary=host.seen[host.name]))

    seen = {host.name: f"saw {host.name}" for host in HOSTS}
    for outcome in per_host(Hosts, SPEC, seen, CONTEXT, judge_host, **options):  # type: ignore[arg-type]
        found.setdefault(outcome.subjects[0].name, []).append(outcome)
    return found


def test_every_host_in_scope_is_judged_and_its_causes_are_merged() -> None:
    found = judged({"gpu01": Report(summary="s", findings=(*LOST, WARM))})
    assert list(found) == ["gpu01", "gpu02", "gpu04"], "a quarantined host is not in scope"
    assert [(o.cause, len(o.subjects)) for o in found["gpu01"]] == [("gpu-lost", 3), ("gpu-warm", 2)]
    assert found["gpu02"][0].summary == "saw gpu02"


def test_a_host_without_hardware_facts_is_not_judged_unless_none_are_needed() -> None:
    assert [o.cause for o in judged({})["gpu04"]] == ["sku-unknown"]
    assert judged({}, needs_sku=False)["gpu04"][0].status is Status.PASSED


def test_what_is_known_before_ends_the_judgement() -> None:
    def before(host: Hosts) -> Outcome | None:
        return host.answer.blocked(by="host-reached", because="not reached") if host.name == "gpu01" else None

    found = judged({"gpu01": Report(summary="never asked")}, before=before)
    assert found["gpu01"][0].blocked_by == "host-reached" and found["gpu02"][0].status is Status.PASSED


def test_a_host_names_its_parts_and_its_hardware() -> None:
    host: Hosts = HostContext(SPEC, CONTEXT, {}, HOSTS[0])
    assert host.part(SubjectKind.GPU, "gpu3") == GPUS[3]
    assert host.sku is HARDWARE[SKU]


def test_counting() -> None:
    assert [count(number, "GPU") for number in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]
