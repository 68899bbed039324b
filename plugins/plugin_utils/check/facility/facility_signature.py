# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check facility-signature: the record has a valid signature of an allowed signer, and it is this site's record."""

from __future__ import annotations

from typing import Any

from ...clients.signature.ssh_keygen import SignatureFacts, ToolRun, how_to_list
from ...outcome.errors import InputError
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...runtime.redaction import excerpt
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .observation import FacilityObservation
from .observe_facility_record import OBSERVER
from .record import FacilityRecord

SPEC = CheckSpec(
    id="facility-signature",
    gate="facility",
    title="Facility record signed by an allowed signer",
    per=SubjectKind.SITE,
    applies=(needs("facility_record"),),
    causes=("signature-bad", "signature-missing", "signer-unknown", "record-of-other-site"),
)


_IDENTITY = "gpufleet_settings.facility.identity"
# What ssh-keygen prints where the list of allowed signers does not exist.
_NO_FILE = "No such file or directory"


def judge(observed: FacilityObservation, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge in this order: whether the text is what was signed, who signed it, and which site the record is of."""
    answer = Answer.about_site(SPEC, context)
    facts = observed.signature
    if facts.intact is None or facts.principals is None or facts.verified is None:
        hint = f"have the room's owner sign it: ssh-keygen -Y sign -f KEY -n {facts.namespace} {observed.record_path}"
        summary = f"no signature at {facts.signature}{_also_of_another_site(observed, context.site.name)}"
        hint += f", and list the key in {observed.settings.allowed_signers}"
        return (answer.failed("signature-missing", summary, hint),)
    runs = (facts.intact, facts.principals, facts.verified)
    if any(run.rc is None for run in runs):
        return (answer.unknown("signature-not-verified", "ssh-keygen did not end in time", evidence=_evidence(facts)),)
    return (_judge_signature(answer, observed, facts.intact, facts.principals, facts.verified),)


def _judge_signature(
    answer: Answer, observed: FacilityObservation, intact: ToolRun, principals: ToolRun, verified: ToolRun
) -> Outcome:
    facts = observed.signature
    details: dict[str, Any] = {
        "measured": (Measure("signed by", " ".join(principals.stdout.split()) or "nobody known"),),
        "expected": (Expectation("signed by", "==", facts.identity, Basis.RULE),),
        "evidence": _evidence(facts),
    }
    if intact.rc != 0:
        summary = f"the record is not what was signed: {_last_words(intact)}"
        hint = f"restore the signed record, or have {observed.record_path} checked and signed again"
        return answer.failed("signature-bad", summary, hint, **details)
    if principals.rc != 0 and _NO_FILE in principals.stderr:
        summary = f"signed, but the list of allowed signers, {observed.settings.allowed_signers}, does not exist"
        hint = how_to_list(facts.namespace, facts.identity)
        return answer.unknown("signature-not-verified", summary, hint, **details)
    signers = [name for name in principals.stdout.split() if name != facts.identity]
    if verified.rc != 0 and principals.rc == 0 and signers:
        summary = f"signed by {', '.join(signers)}, and {_IDENTITY} is {facts.identity}"
        hint = f"state {_IDENTITY}: {signers[0]} if that is the room's owner, or have {facts.identity} sign the record"
        return answer.failed("signer-unknown", summary, hint, **details)
    if verified.rc != 0:
        summary = f"signed, but not by {facts.identity} as an allowed signer: {_last_words(principals, verified)}"
        hint = f"have an allowed signer sign it, or add the signer's key to {observed.settings.allowed_signers}"
        return answer.failed("signer-unknown", summary, hint, **details)
    if not verified.stdout.startswith(f'Good "{facts.namespace}" signature for {facts.identity} '):
        summary = "ssh-keygen ended well but did not say that the signature is good"
        return answer.unknown("signature-not-verified", summary, **details)
    if not principals.stdout.strip():
        summary = "ssh-keygen did not say which allowed signers the key belongs to"
        return answer.unknown("signature-not-verified", summary, **details)
    try:
        record = observed.record()
    except InputError:
        # The site of an invalid record cannot be known; the checks that need its content report why.
        return answer.unknown("record-invalid", f"well signed by {facts.identity}, but not a valid record", **details)
    return _judge_owner(answer, record, observed, details)


def _judge_owner(
    answer: Answer, record: FacilityRecord, observed: FacilityObservation, details: dict[str, Any]
) -> Outcome:
    facts, site = observed.signature, answer.context.site.name
    if record.signed_by != facts.identity:
        summary = f"the record names {record.signed_by} as its signer, and {_IDENTITY} is {facts.identity}"
        hint = f"have {facts.identity} put the name in and sign it, or correct {_IDENTITY}"
        return answer.failed("signer-unknown", summary, hint, **details)
    if record.site != site:
        summary = f"the record is of site {record.site!r}, this is {site!r}"
        return answer.failed(
            "record-of-other-site", summary, "use this site's record, or correct gpufleet_site_name", **details
        )
    return answer.passed(
        f"signed by {facts.identity}: {facts.verified.stdout.strip() if facts.verified else ''}", **details
    )


def _also_of_another_site(observed: FacilityObservation, site: str) -> str:
    """Return the note that the record is of another site, which its owner should know before signing; empty if it is
    not.

    A record that cannot be read is reported by other checks.
    """
    try:
        record = observed.record()
    except InputError:
        return ""
    return "" if record.site == site else f"; and the record is of site {record.site!r}, this is {site!r}"


def _last_words(*runs: ToolRun) -> str:
    lines = [line for run in runs for line in f"{run.stdout}\n{run.stderr}".splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines))[:300] or "ssh-keygen gave no reason"


def _evidence(facts: SignatureFacts) -> tuple[Evidence, ...]:
    named = (("check-novalidate", facts.intact), ("find-principals", facts.principals), ("verify", facts.verified))
    return tuple(
        Evidence(f"ssh-keygen -Y {name}", "controller", excerpt(f"rc {run.rc}\n{run.stdout}{run.stderr}"))
        for name, run in named
        if run is not None
    )


CHECK = Check(SPEC, OBSERVER, judge)
