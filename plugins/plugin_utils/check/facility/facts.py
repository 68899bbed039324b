# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What gate facility works on: the site's settings for it, and what its observer saw."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...clients.signature.ssh_keygen import SignatureFacts
from ...outcome.codec import to_plain
from ...outcome.errors import InputError
from ...outcome.model import Evidence, Subject, SubjectKind
from ...runtime.recipe_files import RECIPES
from ...runtime.redaction import excerpt
from ...runtime.strict import decode, read_yaml
from ...site.model import Site
from .record import FacilityRecord, parse_record

THRESHOLDS = RECIPES / "thresholds" / "facility.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What stands in a rack beside the GPU hosts: switches, panels, cables."""

    power_kw: float = 0.0
    cooling_kw: float = 0.0
    weight_kg: float = 0.0

    def __post_init__(self) -> None:
        if min(self.power_kw, self.cooling_kw, self.weight_kg) < 0:
            raise InputError("switch_allowance", "a value is negative.", "state what the switches draw and weigh")


@dataclass(frozen=True, slots=True, kw_only=True)
class FacilitySettings:
    """`gpufleet_settings.facility`: where the record is, who may sign it, and the site's limits.

    `identity` is who must have signed; empty: the person that the record names in signed_by. `rack_allowances`
    replace `switch_allowance` for the racks they name.
    """

    record: str
    allowed_signers: str
    expiry_warning_days: int
    switch_allowance: Allowance
    identity: str = ""
    rack_allowances: dict[str, Allowance] = field(default_factory=dict)

    def allowance(self, rack: str) -> Allowance:
        """Return what stands in that rack beside its GPU hosts."""
        return self.rack_allowances.get(rack, self.switch_allowance)


def facility_settings(site_settings: Mapping[str, Any]) -> FacilitySettings:
    """Return the settings of the gate, with the limits of recipes/thresholds/facility.yaml where the site gives none.

    Raises:
        InputError: record or allowed_signers is not given, an unknown key, a wrong type.
    """
    source = "gpufleet_settings.facility"
    for name in ("record", "allowed_signers"):
        if not site_settings.get(name):
            raise InputError(
                f"{source}.{name}",
                "not set; gate facility needs a signed record.",
                "make one with playbook gpufleet.bringup.facility_record (docs/facility.md), or, where the room is not "
                "yours, set gpufleet_profile: cloud",
            )
    return decode(FacilitySettings, {**read_yaml(THRESHOLDS), **site_settings}, source)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceDigest:
    """What was found at the path of one evidence file: its digest, or why there is none."""

    path: str
    sha256: str = ""
    problem: str = ""
    readable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FacilityObservation:
    """What the observer saw. `record_text` is the whole record as signed; the checks parse it again."""

    record_path: str
    record_text: str
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
        """Return what an outcome shows as read."""
        return (Evidence(self.record_path, "controller", excerpt(self.record_text)),)

    def rack_evidence(self, rack: str) -> tuple[Evidence, ...]:
        """Return what an outcome about that rack shows as read: the rack's own lines of the record.

        Raises:
            InputError: the record is not valid.
        """
        text = json.dumps({rack: to_plain(self.record().racks.get(rack))}, ensure_ascii=False)
        return (Evidence(self.record_path, "controller", excerpt(text)),)


def site_subject(site: Site) -> Subject:
    """Return the subject for the whole site."""
    return Subject(SubjectKind.SITE, site.name)


def rack_subject(rack: str) -> Subject:
    """Return the subject for a rack."""
    return Subject(SubjectKind.RACK, rack)
