# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: all ranks get the same bits from the same arithmetic, cold and hot.

In training itself an error in one rank's forward or backward pass reaches all others with the gradients, so that
nothing differs at the end. A product of whole numbers with a known result exposes a faulty GPU even without peers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...outcome.model import Measure, Outcome, SubjectKind
from ...verdict.majority import Majority, majority
from ..benchmark.preconditions import nodes
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import SkuCohort, cohorts_of
from .model import PlannedHost, Rank, Results
from .observe_training import OBSERVER
from .preconditions import before_host, judge_hosts
from .rendering import evidence, gpus

SPEC = CheckSpec(
    id="training-digest",
    gate="training_acceptance",
    title="Every GPU computes the same bits",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes"),),
    causes=("arithmetic-wrong", "digest-differs", "digest-changes"),
)
_WRONG = "this GPU computes wrong, silently: take it out of service; `dcgmi diag -r 4` on the host"
_LIBRARIES = "so many GPUs are not wrong at once: look at the image (PyTorch, CUDA, cuBLAS) and at the driver"
_UNLIKE = "equal GPUs with one image give equal bits: compare GPU part numbers, driver and image of these ranks"
# Once cold, and once hot at the end of the load.
_LEAST = 2
Kind = tuple[str, str]
# By kind of rank, the majority among the first digests of all ranks of all runs.
Usual = Mapping[Kind, Majority[tuple[int, int], tuple[str, str]]]


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host. If no digest has a majority of the ranks: one for all hosts of a SKU."""
    outcomes: list[Outcome] = []
    for cohort in cohorts_of(results, context.hardware):
        common = (_all_wrong(context, cohort) or _no_majority(context, cohort)) if cohort.complete else None
        judge_one = partial(_judge_host, _usual(cohort))
        outcomes += [common] if common else judge_hosts(SPEC, context, cohort, judge_one)
    return tuple(outcomes)


def _judge_host(usual: Usual, answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    early = before_host(answer, cohort, host)
    if early is not None:
        return early
    proof = evidence(cohort, host.name)
    mine = [rank for run in cohort.complete for rank in run.ranks_of(host.name)]
    if any(len(rank.log.digests) < _LEAST for rank in mine):
        text = "this run did not record digests of the arithmetic"
        return answer.unknown("not-recorded", text, "run the gate again", evidence=proof)
    wrong = {rank.gpu: text for rank in mine if (text := _wrong(rank))}
    if wrong:
        text = "; ".join(f"{gpu} {what}" for gpu, what in list(wrong.items())[:4])
        return answer.failed("arithmetic-wrong", text, _WRONG, more_subjects=gpus(wrong), evidence=proof)
    changing = {rank.gpu: text for rank in mine if (text := _changes(rank))}
    other = {rank.gpu: text for rank in mine if (text := _differs(rank, usual)) and rank.gpu not in changing}
    details: dict[str, Any] = {
        "measured": (
            Measure("digests of a rank", len(mine[0].log.digests), "count"), Measure("ranks", len(mine), "count"),
        ),
        "evidence": proof,
    }  # fmt: skip
    if changing:
        text = "; ".join(f"{gpu} {what}" for gpu, what in list(changing.items())[:4])
        return answer.failed("digest-changes", text, _WRONG, more_subjects=gpus((*changing, *other)), **details)
    if other:
        text = "; ".join(f"{gpu} {what}" for gpu, what in list(other.items())[:4])
        return answer.failed("digest-differs", text, _WRONG, more_subjects=gpus(other), **details)
    with_whom = f"{len(cohort.complete[-1].ranks)} ranks" if len(cohort.complete[-1].ranks) > 1 else "itself only"
    return answer.passed(f"{len(mine)} ranks, the same digests every time, compared with {with_whom}", **details)


def _wrong(rank: Rank) -> str:
    """Return how a rank got a product of whole numbers wrong, whose result is known. Empty: it never did."""
    found = next((digest for digest in rank.log.digests if digest.wrong_rows), None)
    return f"got {found.wrong_rows} rows of a known product wrong after {found.step} steps" if found else ""


def _digests(rank: Rank) -> list[tuple[str, str]]:
    return [(digest.gemm, digest.attention) for digest in rank.log.digests]


def _changes(rank: Rank) -> str:
    """Return how a rank's own digests differ, although it did the same each time. Empty: they do not."""
    found = _digests(rank)
    if len(set(found)) <= 1:
        return ""
    n = next(n for n, digest in enumerate(found) if digest != found[0])
    what = _what(found[0], found[n])
    return f"gave another digest of {what} after {rank.log.digests[n].step} steps than at the beginning"


def _differs(rank: Rank, usual: Usual) -> str:
    reported, found = usual[_kind(rank)], _digests(rank)[0]
    if found == reported.usual:
        return ""
    return f"gave another digest of {_what(reported.usual, found)} than {reported.agreeing} of {reported.total} ranks"


def _what(one: tuple[str, str], other: tuple[str, str]) -> str:
    names = [name for name, a, b in zip(("matrix products", "attention"), one, other, strict=True) if a != b]
    return " and ".join(names)


def _kind(rank: Rank) -> Kind:
    """Return the kind of a rank, GPU product and PyTorch release. Ranks of one kind must give the same bits."""
    setup = rank.log.setup
    return (setup.device_name, setup.torch) if setup else ("", "")


def _usual(cohort: SkuCohort) -> Usual:
    """Return the majority among the first digests, by kind of rank."""
    found: dict[Kind, dict[tuple[int, int], tuple[str, str]]] = {}
    for run in cohort.complete:
        for rank in run.ranks:
            if rank.log.digests:
                found.setdefault(_kind(rank), {})[run.record.attempt, rank.log.rank] = _digests(rank)[0]
    return {kind: reported for kind, digests in found.items() if (reported := majority(digests)) is not None}


def _all_wrong(context: JudgeContext, cohort: SkuCohort) -> Outcome | None:
    """Return the outcome if most ranks get the known product wrong: then their software is at fault, not the GPUs."""
    ranks = cohort.complete[-1].ranks
    wrong = [text for rank in ranks if (text := _wrong(rank))]
    if len(ranks) < 2 or len(wrong) * 2 <= len(ranks):
        return None
    text = f"{len(wrong)} of {len(ranks)} ranks {wrong[0]}"
    return Answer.about_cluster(SPEC, context).failed(
        "arithmetic-wrong", text, _LIBRARIES, more_subjects=nodes(host.name for host in cohort.hosts),
        evidence=evidence(cohort),
    )  # fmt: skip


def _no_majority(context: JudgeContext, cohort: SkuCohort) -> Outcome | None:
    """Return the outcome if no digest is that of more than half of the ranks, so that no GPU can be named."""
    for (product, release), reported in _usual(cohort).items():
        if reported.split:
            ranks = f"{reported.total} ranks on {product} with PyTorch {release}"
            text = f"{ranks} gave so many digests that at most {reported.agreeing} agree"
            return Answer.about_cluster(SPEC, context).unknown(
                "digests-unlike", text, _UNLIKE, more_subjects=nodes(host.name for host in cohort.hosts),
                evidence=evidence(cohort),
            )  # fmt: skip
    return None


CHECK = Check(SPEC, OBSERVER, judge)
