# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Base of all Redfish parsers: a resource from its text, its links, and values whose types firmware mixes up.

Sources: DMTF DSP0266 (Redfish specification) for links and collections; the drift of types (numbers as text, members as
text, a missing Status) is described in mrlhansen/idrac_exporter, internal/collector/unmarshal.go, and
bb-Ricardo/check_redfish.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..outcome.errors import InputError

Resource = Mapping[str, Any]
_LONGEST = 400
ABSENT = "Absent"


@dataclass(frozen=True, slots=True)
class Condition:
    """`Status` of a resource. A missing value is empty, and never counts as good."""

    state: str = ""
    health: str = ""

    @property
    def absent(self) -> bool:
        """Whether the slot exists and is empty."""
        return self.state == ABSENT

    def __str__(self) -> str:
        """Return it for a message."""
        return f"State {self.state or 'not stated'}, Health {self.health or 'not stated'}"


def unlike(what: str, found: object, expected: str) -> InputError:
    """Return the error for a resource that does not follow the Redfish schema."""
    return InputError(
        f"Redfish {what}", f"found {str(found)[:160]!r}, expected {expected}.", "look at it with a browser"
    )


def resource(text: str, what: str = "resource") -> Resource:
    """Return the resource in a text.

    Raises:
        InputError: not JSON, or not an object.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise unlike(what, text, "a JSON object") from None
    if not isinstance(found, dict):
        raise unlike(what, text, "a JSON object")
    return found


def words(body: Resource, name: str) -> str:
    """Return a text, empty if it is missing. `Id` is a number on some BMCs.

    Raises:
        InputError: it is something else.
    """
    value = body.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise unlike(name, value, "text")
    return str(value).strip()[:_LONGEST]


def number(body: Resource, name: str) -> float | None:
    """Return a number, None if it is missing. A text that is a number counts.

    Raises:
        InputError: it is something else, or NaN.
    """
    value = body.get(name)
    if value is None or value == "":
        return None
    try:
        # A boolean is no reading, though Python could convert it.
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise unlike(name, value, "a number")
    return found


def above_zero(body: Resource, name: str) -> float | None:
    """Return a number; None if it is missing or 0, which some firmware writes for a value that it cannot measure."""
    value = number(body, name)
    return None if value is None or value == 0 else value


def reading(body: Resource, name: str) -> float | None:
    """Return `Reading` of a sensor excerpt such as `InputVoltage: {Reading: 230.2}`; for an array the first one."""
    value = body.get(name)
    if isinstance(value, list):
        value = value[0] if value else None
    if value is None:
        return None
    if isinstance(value, (int, float, str)):
        return number(body, name)
    if not isinstance(value, dict):
        raise unlike(name, value, "an excerpt of a sensor")
    return number(value, "Reading")


def condition(body: Resource) -> Condition:
    """Return the Status of a resource."""
    status = body.get("Status")
    if status is None:
        return Condition()
    if not isinstance(status, dict):
        raise unlike("Status", status, "an object with State and Health")
    # Some services write a part's health only as a rollup with the parts below it (HWMgmt-DeviceMgr-PSME, pull request
    # 5).
    health = words(status, "Health") or words(status, "HealthRollup")
    # Old iDRACs write Ok.
    return Condition(words(status, "State"), health.upper() if health.upper() == "OK" else health)


def link(body: Resource, *names: str) -> str:
    """Return the path of a link, empty without one: `{"@odata.id": "/redfish/v1/Chassis"}`.

    Raises:
        InputError: it is no link, or leads to another server.
    """
    place: Any = body
    for name in names:
        if not isinstance(place, dict):
            raise unlike(name, place, "an object with links")
        place = place.get(name)
        if place is None:
            return ""
    return path_of(place)


def path_of(value: Any) -> str:
    """Return the path of a reference: `{"@odata.id": ...}`, `{"href": ...}`, `{"Member": ...}` or the path alone.

    Raises:
        InputError: it is none, or is no path of this service.
    """
    if isinstance(value, dict):
        value = next((value[key] for key in ("@odata.id", "href", "Member") if key in value), None)
    if not isinstance(value, str) or not value.startswith("/") or value.startswith("//") or ".." in value:
        raise unlike("link", value, "a path that begins with /redfish/v1")
    if len(value) > _LONGEST or any(letter.isspace() or not letter.isprintable() for letter in value):
        raise unlike("link", value, "a path that begins with /redfish/v1")
    return value


@dataclass(frozen=True, slots=True)
class Members:
    """One page of a collection: paths of its members, embedded members, the next page, and the total number.

    `total` is None if the service does not count. DMTF's own mock-up counts too few.
    """

    paths: tuple[str, ...]
    whole: tuple[Resource, ...]
    next_page: str
    total: int | None


def members(body: Resource) -> Members:
    """Return one page of a collection.

    Raises:
        InputError: it has no Members, or one is no reference.
    """
    found = body.get("Members")
    if not isinstance(found, list):
        raise unlike("collection", sorted(body), "an array Members")
    count = number(body, "Members@odata.count")
    paths = [path_of(entry) for entry in found]
    whole = [entry for entry in found if isinstance(entry, dict) and len(entry) > 1]
    further = body.get("Members@odata.nextLink", body.get("@odata.nextLink"))
    next_page = path_of(further) if further else ""
    return Members(tuple(paths), tuple(whole), next_page, None if count is None else int(count))


def objects(body: Resource, name: str) -> tuple[Resource, ...]:
    """Return the objects of an array, none if it is missing. Some firmware writes a single one without an array.

    Raises:
        InputError: it is something else.
    """
    value = body.get(name)
    if value is None:
        return ()
    found = [value] if isinstance(value, dict) else value
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise unlike(name, value, "an array of objects")
    return tuple(found)
