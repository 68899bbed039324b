# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Drafts a facility record from the inventory: needs are computed; what the room grants is for its owner to write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from ...hardware.sku import Sku
from ...outcome.errors import InputError
from .load import HEAT, POWER, WEIGHT, Quantity, rack_load
from .record import NAMESPACE, SCHEMA_VERSION, EvidenceFile
from .settings import Allowance

# By field of the record: the quantity, and the field of the allowance that adds to it.
_FIELDS: tuple[tuple[str, Quantity, str], ...] = (
    ("power_kw", POWER, "power_kw"), ("cooling_kw", HEAT, "cooling_kw"), ("floor_load_kg", WEIGHT, "weight_kg"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a draft is made from.

    Attributes:
        site: name of the site.
        signed_by: who signs the record.
        issued: first day on which it is valid.
        expires: last day on which it is valid.
        racks: the SKU of every host, by rack.
        allowances: what is in a rack beside its hosts, as in the settings of the gate.
        budgets: what the owner already named: rack to `power_kw`, `cooling_kw`, `floor_load_kg`.
        pdus: the power distribution units, by rack.
        evidence: files that back the record.
    """

    site: str
    signed_by: str
    issued: date
    expires: date
    racks: Mapping[str, Sequence[str]]
    allowances: Mapping[str, Allowance] = field(default_factory=dict)
    budgets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    pdus: Mapping[str, Sequence[str]] = field(default_factory=dict)
    evidence: tuple[EvidenceFile, ...] = ()


def draft_text(draft: Draft, hardware: Mapping[str, Sku]) -> str:
    """Return the record as YAML with the need of every rack as a comment.

    A budget that the owner did not name is null, and a PDU is not energized. Such a record is refused until its owner
    has written the real values, so that no one signs our own arithmetic by mistake.
    """
    lines = [
        "# Facility record, drafted from the inventory. The needs are comments; write what the room grants and set",
        "# `energized` as found, then sign it:",
        f"#   ssh-keygen -Y sign -f KEY -n {NAMESPACE} RECORD",
        "---",
        f"schema_version: {SCHEMA_VERSION}",
        f"site: {json.dumps(draft.site)}",
        f"signed_by: {json.dumps(draft.signed_by)}",
        f"issued: {draft.issued.isoformat()}",
        f"expires: {draft.expires.isoformat()}",
        "racks:",
    ]
    for rack in sorted(draft.racks):
        lines += _rack_lines(rack, draft, hardware)
    lines.append("evidence:" if draft.evidence else "evidence: []")
    for entry in draft.evidence:
        lines += [f"  - path: {json.dumps(entry.path)}", f"    sha256: {json.dumps(entry.sha256)}"]
        lines.append(f"    what: {json.dumps(entry.what)}")
    return "\n".join(lines) + "\n"


def _rack_lines(rack: str, draft: Draft, hardware: Mapping[str, Sku]) -> list[str]:
    granted, beside = draft.budgets.get(rack, {}), draft.allowances.get(rack, Allowance())
    lines = [f"  {json.dumps(rack)}:"]
    for name, quantity, allowed in _FIELDS:
        value = json.dumps(granted[name]) if name in granted else "null"
        need = _need(quantity, draft.racks[rack], hardware, getattr(beside, allowed))
        lines += [f"    # hosts {quantity.verb} {need}", f"    {name}: {value}"]
    units = draft.pdus.get(rack, ())
    lines.append("    pdus:" if units else "    pdus: []")
    lines += [f"      - {{name: {json.dumps(unit)}, energized: false}}" for unit in units]
    return lines


def _need(quantity: Quantity, skus: Sequence[str], hardware: Mapping[str, Sku], beside: float) -> str:
    try:
        return rack_load(quantity, skus, hardware, beside).arithmetic
    except InputError as error:
        return f"an amount that is not known: {error.subject}: {error.reason}"
