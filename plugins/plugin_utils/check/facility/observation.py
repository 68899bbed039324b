# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The observation of gate facility: the record as text, its signature, the digests of its evidence."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...clients.signature.ssh_keygen import SignatureFacts
from ...outcome.codec import to_plain
from ...outcome.model import Evidence, Subject, SubjectKind
from ...runtime.redaction import excerpt
from .record import FacilityRecord, parse_record
from .settings import FacilitySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceDigest:
    """The digest of one evidence file, or why there is none."""

    path: str
    sha256: str = ""
    problem: str = ""
    readable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FacilityObservation:
    """The record, its signature and the digests of its evidence.

    `record_text` is the whole record as signed, `record_sha256` its digest; the checks parse it again.
    """

    record_path: str
    record_text: str
    record_sha256: str = ""
    signature: SignatureFacts
    digests: tuple[EvidenceDigest, ...]
    settings: FacilitySettings

    def record(self) -> FacilityRecord:
        """Return the record.

        Raises:
            InputError: it is not a valid record.
        """
        return parse_record(self.record_text, self.record_path)

    def evidence(self) -> tuple[Evidence, ...]:
        """Return the evidence of an outcome about the record."""
        return (Evidence(self.record_path, "controller", excerpt(self.record_text)),)

    def rack_evidence(self, rack: str) -> tuple[Evidence, ...]:
        """Return the evidence of an outcome about that rack: the rack's own lines of the record.

        Raises:
            InputError: the record is not valid.
        """
        text = json.dumps({rack: to_plain(self.record().racks.get(rack))}, ensure_ascii=False)
        return (Evidence(self.record_path, "controller", excerpt(text)),)


def rack_subject(rack: str) -> Subject:
    return Subject(SubjectKind.RACK, rack)
