# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of log entries of a BMC (`LogServices/{id}/Entries`, LogEntry), and which logs tell of hardware.

Sources: DMTF DSP0268; where vendors keep the events of hardware: mrlhansen/idrac_exporter,
internal/collector/client.go (Dell `Sel` under the manager, HPE `IML`, Lenovo `PlatformLog` or `StandardLog`, Supermicro
`Log1` under the system, Fujitsu `SystemEventLog`); spyroot/redfish_ctl, tests (GB300: `SEL`, `EventLog`, beside
`Journal`, `Dump`, `PostCodes`, `FDR`, which are no events).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from .redfish_json import Resource, unlike, words

# Under a system every log of events counts; under a manager only what is the hardware's log, not the BMC's own chatter.
_OF_SYSTEM = frozenset({"sel", "eventlog", "iml", "log1", "log", "platformlog", "standardlog", "faultlog"})
_OF_MANAGER = frozenset({"sel", "systemeventlog"})
_SEVERITIES = frozenset({"OK", "Warning", "Critical"})
# An event log of a BMC that lost its clock begins here again.
_EARLIEST_YEAR = 2010


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One event: `severity` OK, Warning, Critical or empty; `created` ISO 8601 in UTC, empty: no time known. `code` is
    `Assert` or `Deassert` of an event that begins and ends (DSP0268, EntryCode), `sensor` whose it is."""

    log: str
    id: str
    created: str
    severity: str
    message: str
    message_id: str
    resolved: bool = False
    code: str = ""
    sensor: str = ""


def tells_of_hardware(path: str) -> bool:
    """Tell whether the log service of that path has events of the hardware."""
    words_of = path.rstrip("/").split("/")
    name = words_of[-1].lower()
    return name in (_OF_MANAGER if "Managers" in words_of else _OF_SYSTEM)


def parse_entry(body: Resource, log: str) -> LogEntry:
    """Return one entry of that log.

    Raises:
        InputError: it is not what a Redfish service writes, or says neither what happened nor how bad it is.
    """
    severity = words(body, "Severity") or words(body, "MessageSeverity")
    message = words(body, "Message")
    if severity and severity not in _SEVERITIES:
        raise unlike("LogEntry", severity, "Severity OK, Warning or Critical")
    if not severity and not message:
        raise unlike("LogEntry", sorted(body), "Severity and Message")
    resolved = body.get("Resolved")
    return LogEntry(
        log=log,
        id=words(body, "Id"),
        created=_instant(words(body, "Created") or words(body, "EventTimestamp")),
        severity=severity,
        message=message,
        message_id=words(body, "MessageId"),
        resolved=resolved is True,
        code=words(body, "EntryCode"),
        sensor=_sensor(body),
    )


def _sensor(body: Resource) -> str:
    kind, number = words(body, "SensorType"), body.get("SensorNumber")
    known = isinstance(number, int) and not isinstance(number, bool)
    return f"{kind} {number}" if kind and known else ""


def _instant(text: str) -> str:
    """Return a time of a BMC in UTC, empty for none; some write no zone, and a cleared clock begins in 1970."""
    try:
        found = datetime.fromisoformat(text)
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        found = found.astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return found.isoformat(timespec="seconds") if found.year >= _EARLIEST_YEAR else ""
