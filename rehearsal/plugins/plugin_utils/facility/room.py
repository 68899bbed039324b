# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documents of the rehearsal's room: a facility record, its evidence, a key and a signature, with faults on demand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.signature.ssh_keygen import make_key, sign_file
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import decode

# The documents and their faults.

SIGNER = "facility@rehearsal.invalid"
_NAMESPACE = "gpufleet-facility"
# Evidence of the rehearsal: file name and content.
EVIDENCE = {"load-bank-test.txt": "load bank test of the feeds", "floor-survey.txt": "survey of the raised floor"}
# Limits for a rack whose SKU lacks the fact. The gate then reports that the fact is not known.
_UNKNOWN_KW, _UNKNOWN_KG = 60.0, 1500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """Limits of a rack in the record, as a multiple of what its hosts need. Under 1 is a fault."""

    power: float = 1.25
    cooling: float = 1.25
    floor_load: float = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomState:
    """Section `facility` of the cluster model. The defaults are a healthy room, a fault is a patch to them.

    - `signer`: `stranger` is a key that is not among the allowed signers, `nobody` is no signature.
    - `tampered`: every power budget was raised by 1 kW after signing.
    - `changed_evidence`, `missing_evidence`: names in EVIDENCE whose file has other content or is missing.
    - `evidence_listed`: false: the record names no evidence.
    - `bare_racks`: racks without PDUs in the record.
    - `feed_kw`: capacity of each PDU of a rack, on feeds A and B; 0: not in the record.
    - `site`: site of the record, empty for this one.

    Days count from the day of the run.
    """

    signer: Literal["allowed", "stranger", "nobody"] = "allowed"
    tampered: bool = False
    issued_days_ago: int = 30
    expires_in_days: int = 335
    changed_evidence: tuple[str, ...] = ()
    missing_evidence: tuple[str, ...] = ()
    margins: dict[str, Margins] = field(default_factory=dict)
    absent_racks: tuple[str, ...] = ()
    dead_pdus: tuple[str, ...] = ()
    bare_racks: tuple[str, ...] = ()
    evidence_listed: bool = True
    feed_kw: float = 0.0
    feeds: tuple[str, ...] = ("A", "B")
    site: str = ""


def write_facility(
    *,
    site: str,
    racks: Mapping[str, Sequence[str]],
    hardware: Mapping[str, Sku],
    directory: Path,
    today: date,
    state: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Write record, signature, allowed signers and evidence, and return `gpufleet_settings.facility` for them.

    Args:
        site: the site's name (`gpufleet_site_name`).
        racks: SKU name or alias of every host, by rack. Every rack gets the PDUs `<rack>-pdu-a` and `<rack>-pdu-b`.
        hardware: the SKU facts.
        directory: where to write. It is created if it does not exist, and older files of the same names are replaced.
        today: the day of the run.
        state: section `facility` of the cluster model (see RoomState); None is a healthy room.

    Returns:
        `record`, `allowed_signers` and `identity`, ready for `gpufleet_settings["facility"]`.

    Raises:
        ProblemsError: the state has an unknown key or a wrong type.
        NotFoundError: ssh-keygen is not installed.
    """
    room = decode(RoomState, dict(state or {}), "facility section of the cluster model")
    directory.mkdir(parents=True, exist_ok=True)
    record, signers = directory / "record.json", directory / "allowed_signers"
    content = _record(site, racks, hardware, today, room, _write_evidence(directory))
    write_atomic(record, _json(content))
    allowed = make_key(directory / "signer.key", SIGNER)
    stranger = directory / "stranger.key"
    write_atomic(signers, f'{SIGNER} namespaces="{_NAMESPACE}" {allowed}\n')
    record.with_name("record.json.sig").unlink(missing_ok=True)
    if room.signer == "stranger":
        make_key(stranger, "stranger@rehearsal.invalid")
    if room.signer != "nobody":
        sign_file(record, directory / "signer.key" if room.signer == "allowed" else stranger, namespace=_NAMESPACE)
    _break(directory, record, content, room)
    return {"record": str(record), "allowed_signers": str(signers), "identity": SIGNER}


def _write_evidence(directory: Path) -> list[dict[str, str]]:
    entries = []
    for name, what in EVIDENCE.items():
        text = f"REHEARSAL: {what}. Every value was within its limit.\n"
        write_atomic(directory / "evidence" / name, text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        entries.append({"path": f"evidence/{name}", "sha256": digest, "what": what})
    return entries


def _record(
    site: str,
    racks: Mapping[str, Sequence[str]],
    hardware: Mapping[str, Sku],
    today: date,
    room: RoomState,
    evidence: list[dict[str, str]],
) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "site": room.site or site,
        "signed_by": SIGNER,
        "issued": (today - timedelta(days=room.issued_days_ago)).isoformat(),
        "expires": (today + timedelta(days=room.expires_in_days)).isoformat(),
        "racks": {
            rack: _rack(rack, [hardware[sku] for sku in skus], room)
            for rack, skus in sorted(racks.items())
            if rack not in room.absent_racks
        },
        "evidence": evidence if room.evidence_listed else [],
    }


def _rack(rack: str, skus: Sequence[Sku], room: RoomState) -> dict[str, Any]:
    margins = room.margins.get(rack, Margins())
    power_kw, heat_kw, weight_kg = _needs(skus)
    return {
        "power_kw": round((power_kw or _UNKNOWN_KW) * margins.power, 1),
        "cooling_kw": round((heat_kw or _UNKNOWN_KW) * margins.cooling, 1),
        "floor_load_kg": round((weight_kg or _UNKNOWN_KG) * margins.floor_load),
        "pdus": [] if rack in room.bare_racks else [_pdu(f"{rack}-pdu-{n}", room, i) for i, n in enumerate("ab")],
    }


def _pdu(name: str, room: RoomState, number: int) -> dict[str, Any]:
    feed = room.feeds[number % len(room.feeds)]
    configured = {"feed": feed, "capacity_kw": room.feed_kw} if room.feed_kw else {}
    return {"name": name, "energized": name not in room.dead_pdus, **configured}


def _needs(skus: Sequence[Sku]) -> tuple[float, float, float]:
    """Return power and heat in kW and weight in kg. A SKU specified as a rack system counts as whole racks."""
    power_w = heat_w = weight_kg = 0.0
    for sku in {sku.name: sku for sku in skus}.values():
        hosts = sum(other.name == sku.name for other in skus)
        whole_racks = -(-hosts // sku.rack_hosts) if sku.rack_hosts else 0
        power_w += hosts * (sku.power_max_w or 0) or whole_racks * (sku.rack_power_max_w or 0)
        heat_w += hosts * (sku.heat_max_w or 0) or whole_racks * (sku.rack_heat_max_w or 0)
        weight_kg += hosts * (sku.weight_kg or 0) or whole_racks * (sku.rack_weight_kg or 0)
    return power_w / 1000, heat_w / 1000, weight_kg


def _break(directory: Path, record: Path, content: dict[str, Any], room: RoomState) -> None:
    """Apply the faults that happen after signing."""
    if room.tampered:
        racks = {rack: {**budget, "power_kw": budget["power_kw"] + 1} for rack, budget in content["racks"].items()}
        write_atomic(record, _json({**content, "racks": racks}))
    for name in room.changed_evidence:
        path = directory / "evidence" / name
        write_atomic(path, path.read_text(encoding="utf-8").replace("was within", "was not in", 1))
    for name in room.missing_evidence:
        (directory / "evidence" / name).unlink()


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


# Date of the facility record. A real room's record is not issued anew every day, so a rehearsal's is not either:
# results that one run based on it still hold in a run of the next day.

# Up to this age nothing changes in a record that is valid for a year.
KEPT_DAYS = 30


def day_of_record(file: Path, today: date) -> date:
    """Return the date of this room's record: today if it is the first one or too old.

    Args:
        file: keeps the date between runs.
        today: the day of the run.

    Raises:
        OSError: the file cannot be written.
    """
    try:
        kept = date.fromisoformat(file.read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        kept = None
    if kept is not None and 0 <= (today - kept).days <= KEPT_DAYS:
        return kept
    write_atomic(file, f"{today.isoformat()}\n")
    return today
