# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `mlxlink` (MFT and mstflint): state, error rates and module of a port, as text or `--json`.

Fields and sections are those of Mellanox/mstflint, mlxlink/modules. `15E-255` is what it prints for an error rate while
no error was ever seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .blocks import blocks
from .json_output import an_object, read_json
from .text import unreadable

TOOL = "mlxlink"
_FIELD = re.compile(r"([A-Za-z][^:]{0,60}?)\s*:(?: (.*))?")
_COMPLAINT = re.compile(r"-[EW]- (.{1,300})")
_RULE = re.compile(r"-{3,80}")
_RATE = re.compile(r"(\d{1,4}(?:\.\d{1,20})?)[eE](-?\d{1,3})")
_PLAIN_RATE = re.compile(r"\d{1,4}(?:\.\d{1,40})?")
_DEGREES = re.compile(r"(-?\d{1,4}(?:\.\d{1,6})?)\s*(?:\[(-?\d{1,4}(?:\.\d{1,6})?)\.\.(-?\d{1,4}(?:\.\d{1,6})?)\])?")
_NONE = ("", "N/A", "_N/A", "0.0_N/A")
_NO_ERROR = -200
_KNOWN = ("State", "Effective Physical BER", "Raw Physical BER", "Raw Physical BER Per Lane")
# Conditions of the module, of all lanes or of each: NVIDIA's manual of mlxlink, "Module Info".
_FAULTS = ("Module FW Fault", "DataPath FW Fault", "Tx Fault", "Tx LOS", "Tx CDR LOL", "Rx LOS", "Rx CDR LOL")
_NO_FAULT = ("0", "no", "false", "n/a", "_n/a", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLink:
    """One port. None: the tool does not report it for this port.

    Error rates are 0.0 while no error was seen. `temperature_limit_c` is where the module itself raises an alarm,
    `since_clear_min` are the minutes that counters and rates cover, `faults` conditions of the module, `complaint` is
    what the tool could not do.
    """

    device: str
    state: str | None = None
    physical_state: str | None = None
    speed: str | None = None
    width: int | None = None
    fec: str | None = None
    status_opcode: str | None = None
    recommendation: str | None = None
    firmware: str | None = None
    since_clear_min: float | None = None
    symbol_errors: int | None = None
    symbol_ber: float | None = None
    effective_errors: int | None = None
    effective_ber: float | None = None
    raw_errors_per_lane: tuple[int, ...] = ()
    raw_ber: float | None = None
    raw_ber_per_lane: tuple[float, ...] = ()
    link_downed: int | None = None
    link_recoveries: int | None = None
    temperature_c: float | None = None
    temperature_limit_c: float | None = None
    module_vendor: str | None = None
    module_part: str | None = None
    module_serial: str | None = None
    faults: tuple[str, ...] = ()
    complaint: str = ""

    @property
    def worst_raw_ber(self) -> float | None:
        """The rate before the correction, of the worst lane where lanes are reported."""
        return max((*self.raw_ber_per_lane, *(() if self.raw_ber is None else (self.raw_ber,))), default=None)


def parse(text: str) -> tuple[PortLink, ...]:
    """Return the ports in the tool's order; `device` is empty where no line names it.

    Raises:
        InputError: no field of a port, a field twice, a device twice, or a value of another kind than the field has.
    """
    found = []
    for device, lines in blocks(text, TOOL).items():
        body = "\n".join(lines).strip()
        fields, complaint = _from_json(body) if body.startswith("{") else _from_text(lines)
        if not complaint and not any(name in fields for name in _KNOWN):
            raise unreadable(TOOL, f"{device or 'a port'}: {body[:80]}", f"one of {', '.join(_KNOWN)}")
        found.append(_port(device, fields, complaint))
    if not any(port.state or port.raw_ber is not None or port.effective_ber is not None for port in found):
        raise unreadable(TOOL, found[0].complaint or "no value", "state or error rates of at least one port")
    return tuple(found)


def _from_text(lines: list[str]) -> tuple[dict[str, str], str]:
    fields: dict[str, str] = {}
    complaint = ""
    for line in lines:
        stripped = line.strip()
        if match := _COMPLAINT.fullmatch(stripped):
            complaint = complaint or match.group(1)
        elif match := _FIELD.fullmatch(stripped):
            _keep(fields, match.group(1), (match.group(2) or "").strip())
        elif stripped and not _RULE.fullmatch(stripped) and not stripped[0].isalpha():
            raise unreadable(TOOL, stripped, "`State : Active`, or the title of a section")
    return fields, complaint


def _from_json(body: str) -> tuple[dict[str, str], str]:
    root = an_object(read_json(body, TOOL), TOOL, "the document")
    status = an_object(root.get("status", {}), TOOL, "status")
    complaint = str(status.get("message", "")) if status.get("code", 0) not in (0, "0") else ""
    result = an_object(root.get("result", {}), TOOL, "result")
    output = result.get("output")
    if complaint and not output:
        return {}, complaint
    fields: dict[str, str] = {}
    for values in an_object(output, TOOL, "output").values():
        # Sections of other forms, such as histograms, say nothing that is read here.
        for name, value in values.items() if isinstance(values, dict) else ():
            _keep(fields, name, _word(value))
    return fields, complaint


def _keep(fields: dict[str, str], name: str, value: str) -> None:
    if fields.setdefault(name, value) != value:
        raise unreadable(TOOL, f"{name} is {fields[name]} and {value}", "every field of a port once")


def _word(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("values", "")
    if isinstance(value, list):
        return ",".join(str(part) for part in value)
    return str(value).strip()


def _port(device: str, fields: dict[str, str], complaint: str) -> PortLink:
    def word(name: str) -> str | None:
        value = fields.get(name, "")
        return None if value in _NONE else value

    def whole(name: str) -> int | None:
        value = word(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) < 25):
            raise unreadable(TOOL, f"{name}: {value}", "a whole number")
        return int(value)

    temperature, limit = _temperature(word("Temperature [C]"))
    width = (word("Width") or "").removesuffix("x").removesuffix("X")
    return PortLink(
        device=device,
        state=word("State"),
        physical_state=word("Physical state"),
        speed=word("Speed"),
        width=int(width) if width.isascii() and width.isdigit() and len(width) < 3 else None,
        fec=word("FEC"),
        status_opcode=word("Status Opcode"),
        recommendation=word("Recommendation"),
        firmware=word("Firmware Version"),
        since_clear_min=_minutes(word("Time Since Last Clear [Min]")),
        symbol_errors=whole("Symbol Errors"),
        symbol_ber=_rate("Symbol BER", word("Symbol BER")),
        effective_errors=whole("Effective Physical Errors"),
        effective_ber=_rate("Effective Physical BER", word("Effective Physical BER")),
        raw_errors_per_lane=_lanes(word("Raw Physical Errors Per Lane")),
        raw_ber=_rate("Raw Physical BER", word("Raw Physical BER")),
        raw_ber_per_lane=_lane_rates(word("Raw Physical BER Per Lane")),
        faults=_faults(fields),
        link_downed=whole("Link Down Counter"),
        link_recoveries=whole("Link Error Recovery Counter"),
        temperature_c=temperature,
        temperature_limit_c=limit,
        module_vendor=word("Vendor Name"),
        module_part=word("Vendor Part Number"),
        module_serial=word("Vendor Serial Number"),
        complaint=complaint,
    )


def _rate(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    match = _RATE.fullmatch(text)
    if match is not None:
        return 0.0 if int(match.group(2)) <= _NO_ERROR else float(text)
    if _PLAIN_RATE.fullmatch(text):
        return float(text)
    raise unreadable(TOOL, f"{name}: {text}", "an error rate such as 4E-9")


def _minutes(text: str | None) -> float | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?", text):
        raise unreadable(TOOL, f"Time Since Last Clear [Min]: {text}", "minutes")
    return float(text)


def _lanes(text: str | None) -> tuple[int, ...]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip() not in _NONE]
    if not all(part.isascii() and part.isdigit() and len(part) < 25 for part in parts):
        raise unreadable(TOOL, f"Raw Physical Errors Per Lane: {text}", "a whole number for each lane")
    return tuple(int(part) for part in parts)


def _lane_rates(text: str | None) -> tuple[float, ...]:
    parts = (part.strip() for part in (text or "").split(","))
    rates = (_rate("Raw Physical BER Per Lane", part) for part in parts if part not in _NONE)
    return tuple(rate for rate in rates if rate is not None)


def _faults(fields: dict[str, str]) -> tuple[str, ...]:
    """Return the conditions that the tool reports, such as `Rx LOS 1,0,0,0`."""
    found = []
    for name, value in fields.items():
        title = name.partition(" [")[0].strip()
        if title in _FAULTS and any(part.strip().lower() not in _NO_FAULT for part in value.split(",")):
            found.append(f"{title} {value}"[:80])
    return tuple(found)


def _temperature(text: str | None) -> tuple[float | None, float | None]:
    if text is None:
        return None, None
    match = _DEGREES.fullmatch(text)
    if match is None:
        raise unreadable(TOOL, f"Temperature [C]: {text}", "degrees such as `56 [-5..75]`")
    low, high = (float(text) if text else 0.0 for text in match.group(2, 3))
    # Modules without thresholds report 0 for both.
    return float(match.group(1)), high if high > max(low, 0.0) else None
