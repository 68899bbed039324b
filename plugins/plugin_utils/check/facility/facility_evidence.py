# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check facility-evidence: every evidence file still has the digest that is in the signed record."""

from __future__ import annotations

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .budget import judge_record
from .observation import EvidenceDigest, FacilityObservation
from .observe_facility_record import OBSERVER
from .record import EvidenceFile, FacilityRecord

SPEC = CheckSpec(
    id="facility-evidence",
    gate="facility",
    title="Evidence unchanged since it was signed for",
    per=SubjectKind.SITE,
    applies=(needs("facility_record"),),
    causes=("evidence-changed", "evidence-missing", "evidence-none"),
)


def judge(observed: FacilityObservation, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge all files in one outcome, which names every file that differs."""
    return judge_record(SPEC, observed, context, lambda answer, record: _judge(answer, record, observed))


def _judge(answer: Answer, record: FacilityRecord, observed: FacilityObservation) -> Outcome:
    if not record.evidence:
        hint = "add the reports that back the budgets (load test, floor survey) and sign the record again"
        return answer.failed("evidence-none", "the record names no evidence", hint, evidence=observed.evidence())
    found = {digest.path: digest for digest in observed.digests}
    verdicts = [_compared(entry, found.get(entry.path)) for entry in record.evidence]
    return _summed(answer, record.evidence, verdicts, observed)


def _compared(entry: EvidenceFile, digest: EvidenceDigest | None) -> tuple[str, str]:
    """Return cause and text about one file; both are empty for a file as signed."""
    if digest is None:
        return "evidence-not-read", f"{entry.path} was not read"
    if digest.problem:
        return ("evidence-missing" if digest.readable else "evidence-not-read"), f"{entry.path}: {digest.problem}"
    if digest.sha256 != entry.sha256:
        text = f"{entry.path} ({entry.what}) has digest {digest.sha256[:12]}..., signed was {entry.sha256[:12]}..."
        return "evidence-changed", text
    return "", ""


def _summed(
    answer: Answer, entries: tuple[EvidenceFile, ...], verdicts: list[tuple[str, str]], observed: FacilityObservation
) -> Outcome:
    bad = [(cause, text) for cause, text in verdicts if cause]
    details = {
        "measured": (Measure("files as signed", len(entries) - len(bad), "count"),),
        "expected": (Expectation("files as signed", "==", len(entries), Basis.RECORD, "count"),),
        "evidence": tuple(
            Evidence(digest.path, "controller", digest.sha256 or digest.problem) for digest in observed.digests
        ),
    }
    if not bad:
        return answer.passed(f"{len(entries)} evidence file(s) as signed", **details)
    causes = [cause for cause, _text in bad]
    summary = "; ".join(text for _cause, text in bad)
    hint = f"restore the signed files beside {observed.record_path}, or have the new ones recorded and signed again"
    for cause in ("evidence-changed", "evidence-missing"):
        if cause in causes:
            return answer.failed(cause, summary, hint, **details)
    return answer.unknown("evidence-not-read", summary, "make the files readable and run the gate again", **details)


CHECK = Check(SPEC, OBSERVER, judge)
