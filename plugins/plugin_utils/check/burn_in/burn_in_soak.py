# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check burn-in-soak: every test of every round passed on the host, for the requested hours."""

from __future__ import annotations

from dataclasses import dataclass

from ...outcome.gates import BURN_IN
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, Status, Subject, SubjectKind
from ...outcome.wording import first_of
from ...runtime.clock import hours_text, part_of_hours
from ...runtime.text import extra_variable
from ..benchmark.preconditions import leftovers_of
from ..kit.answer import Answer
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .model import Soak, SoakResult
from .observe_soak import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakSettings:
    """Settings of check burn-in-soak."""

    # A day: parts that die young mostly do so in it.
    hours: float = setting(
        "How long tests that pass have to load the GPUs of each host; the rest of a round does not count.",
        default=24.0,
        unit="h",
        above=0,
    )
    # Heat and throttling show after 5 to 15 minutes of load (training_acceptance.yaml); most of a round is load then.
    load_s: float = setting(
        "How long test dl_unit keeps all GPUs of a host at work in every round; 0: not, and what counts is the time of "
        "pods, which a person has to accept.",
        default=1800.0,
        unit="s",
        minimum=0,
        use="run",
    )
    # Products of large matrices in bfloat16 take a GPU to its limit; what waits for adapters or the processor does not.
    load_share: float = setting(
        "Part of its power limit from which a GPU counts as under load, read every second.",
        default=0.8,
        above=0,
        maximum=1,
        use="run",
    )
    # Levels 3 and 4 load the GPUs for a quarter of an hour and for hours; a site that wants them says so.
    dcgm_level: int = setting(
        "Level of `dcgmi diag -r` that every round ends with, where the driver is the GPU operator's; 0: none.",
        default=0,
        minimum=0,
        maximum=4,
        use="run",
    )


SPEC = CheckSpec(
    id="burn-in-soak",
    gate=BURN_IN,
    title="Hours of load, test after test, and none of them failed",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    applies=(needs("kubernetes"),),
    causes=("failed-under-load",),
    settings=SoakSettings,
)
TOO_SHORT = "soak-too-short"
_AGAIN = "the same command goes on with it if it names the directory of this run (-e gpufleet_burn_in_run=DIRECTORY)"


def judge(observed: Soak, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host in scope, and one about the cluster where pods of the burn-in are left in it."""
    hours = context.settings_of(SPEC.id, SoakSettings).hours
    names = [host.name for host in context.site.in_scope]
    hosts = tuple(_judge_host(observed, hours, name, Answer.about_host(SPEC, context, name)) for name in names)
    left = leftovers_of(Answer.about_cluster(SPEC, context), observed.leftovers)
    return (*hosts, left) if left else hosts


def _judge_host(observed: Soak, hours: float, host: str, answer: Answer) -> Outcome:
    results, soaked_h = observed.of_host(host), observed.soaked_s(host) / 3600
    facts = {
        "measured": (Measure("soaked", round(soaked_h, 3), "h"), Measure("rounds", _rounds(results), "count")),
        "expected": (Expectation("soaked", ">=", hours, Basis.RULE, "h"),),
        "evidence": tuple(Evidence(f"{entry.test}, round {entry.round}", host, entry.summary, entry.log)
                          for entry in results if entry.status is not Status.PASSED)[:4],
    }  # fmt: skip
    if host not in observed.hosts:
        return answer.unknown("not-soaked", f"{host} was not part of the burn-in", _AGAIN, **facts)
    failed = [entry for entry in results if entry.status is Status.FAILED]
    if failed:
        text = f"{_reported(failed[0])}, after {hours_text(round(soaked_h, 4))} of load"
        parts = tuple(Subject(_kind(part), f"{host}/{part}", host) for part in failed[0].parts)
        return answer.failed("failed-under-load", text, _do(observed, failed[0]), more_subjects=parts, **facts)
    unknown = [entry for entry in results if entry.status not in (Status.PASSED, Status.SKIPPED, Status.PENDING)]
    lacking = observed.lacking(host)
    if soaked_h < hours or lacking:
        why = observed.note or (_reported(unknown[-1]) if unknown else f"rounds: {observed.rounds}")
        never = f"; {first_of(lacking, 3)} never gave an answer" if lacking else ""
        text = f"{part_of_hours(soaked_h, hours)} under load{never}: {why}"
        return answer.unknown(TOO_SHORT, text, _AGAIN, **facts)
    if unknown:
        text = f"{len(unknown)} of {len(results)} tests said nothing; the last: {_reported(unknown[-1])}"
        return answer.unknown("soak-unclear", text, _AGAIN, **facts)
    if not observed.load_s:
        text = f"{soaked_h:.2f} h of tests in {_rounds(results)} rounds, nothing failed; no test kept the GPUs at work"
        hint = "enable test dl_unit and state burn-in-soak.load_s, or accept hours of tests in place of hours of load"
        return answer.marginal("gpus-not-loaded", text, hint, **facts)
    return answer.passed(f"{soaked_h:.2f} h under load in {_rounds(results)} rounds, nothing failed", **facts)


def _do(observed: Soak, failed: SoakResult) -> str:
    """Return the next steps: read the log, pack the part for the vendor, burn in the repaired host again."""
    part = "/".join((failed.host, *failed.parts[:1]))
    words = [extra_variable("gpufleet_rma", part)]
    words += [extra_variable("gpufleet_run", observed.directory)] if observed.directory else []
    read = f"read {failed.log}; " if failed.log else ""
    again = extra_variable("gpufleet_burn_in_nodes", failed.host)
    pack = f"pack the part: ansible-playbook gpufleet.bringup.rma {' '.join(words)}"
    return f"{read}{pack}; burn in the repaired host alone with {again}"


def _kind(part: str) -> SubjectKind:
    return SubjectKind.GPU if part.startswith("gpu") else SubjectKind.HCA


def _rounds(results: tuple[SoakResult, ...]) -> int:
    return len({entry.round for entry in results if entry.status is Status.PASSED})


def _reported(entry: SoakResult) -> str:
    return f"{entry.test} in round {entry.round}: {entry.cause}: {entry.summary}"


CHECK = Check(SPEC, OBSERVER, judge)
