# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of gate facility: where the signed record is, who may sign it, and what is in the racks beside hosts."""

from __future__ import annotations

from dataclasses import dataclass

from ...outcome.errors import InputError
from ..kit.settings import setting
from ..kit.settings_layers import SITE

GATE = "facility"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What is in a rack beside the GPU hosts: switches, panels, cables."""

    power_kw: float = 0.0
    cooling_kw: float = 0.0
    weight_kg: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FacilitySettings:
    """Settings of gate facility."""

    record: str = setting("Path of the signed record of the room's budgets.", default="", use="run")
    allowed_signers: str = setting(
        "Path of the list of who may sign it, as `ssh-keygen -Y` reads it.", default="", use="run"
    )
    identity: str = setting(
        "Who must have signed; empty: the person that the record names in signed_by.", default="", use="run"
    )
    expiry_warning_days: int = setting(
        "A record that ends within this many days is marginal: time to renew it before the gate closes.",
        default=30,
        unit="days",
        minimum=0,
    )
    # Nothing is assumed; a site states its switches.
    switch_allowance: Allowance = setting(
        "What stands in every rack beside its GPU hosts (power_kw, cooling_kw, weight_kg); the budget must cover it.",
        default={"power_kw": 0, "cooling_kw": 0, "weight_kg": 0},
        minimum=0,
    )
    rack_allowances: dict[str, Allowance] = setting(
        "The same for single racks, by the rack's name, in place of switch_allowance.", default={}, minimum=0
    )

    # Two feeds are a design of the site, not a law.
    redundant_feeds: bool = setting(
        "Every rack must run on when one of its feeds is lost; the record then has feed and capacity_kw of each unit.",
        default=False,
    )

    def allowance(self, rack: str) -> Allowance:
        """Return what is in that rack beside its GPU hosts."""
        return self.rack_allowances.get(rack, self.switch_allowance)

    def require_record(self) -> None:
        """Make sure that the paths of the record and of the signers are configured.

        Raises:
            InputError: record or allowed_signers is not configured.
        """
        for name, value in (("record", self.record), ("allowed_signers", self.allowed_signers)):
            if not value:
                raise InputError(
                    f"{SITE}.{GATE}.{name}",
                    "not set; gate facility needs a signed record.",
                    "make one with playbook gpufleet.bringup.facility_record (docs/facility.md), or, where the room is "
                    "not yours, set gpufleet_profile: cloud",
                )


SETTINGS = FacilitySettings
