# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of rack PDUs: PowerDistribution, its mains and its outlets.

Sources: DMTF DSP2056 (Redfish for power distribution equipment) and DSP0268 (PowerDistribution, Circuit, Outlet,
PowerDistributionMetrics); the older place `PowerDistribution` in the service root: mrlhansen/idrac_exporter and the
HPE G2 PDU (rudimartinsen.com, 2018).
"""

from __future__ import annotations

from dataclasses import dataclass

from .redfish_json import Condition, Resource, above_zero, condition, path_of, reading, unlike, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Mains:
    """One input of a PDU: volts of every reported phase, watts, and the state of its breaker (Normal, Tripped, Off)."""

    name: str
    condition: Condition
    volts: tuple[float, ...] = ()
    nominal_v: float | None = None
    watts: float | None = None
    rated_a: float | None = None
    breaker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """One outlet: `power` is On or Off, empty if it is not switched."""

    path: str
    name: str
    condition: Condition
    power: str = ""
    watts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pdu:
    """One unit with its inputs and outlets. `watts` is the load of the whole unit, None if it is not measured."""

    path: str
    name: str
    condition: Condition
    mains: tuple[Mains, ...] = ()
    outlets: tuple[Outlet, ...] = ()
    watts: float | None = None

    @property
    def load_w(self) -> float | None:
        """Load in W: of the unit, else the sum of its inputs, else None."""
        if self.watts is not None:
            return self.watts
        reported = [mains.watts for mains in self.mains if mains.watts is not None]
        return sum(reported) if reported and len(reported) == len(self.mains) else None


def parse_pdu(
    body: Resource,
    mains: tuple[Resource, ...] = (),
    outlets: tuple[Resource, ...] = (),
    metrics: Resource | None = None,
) -> Pdu:
    """Return a unit from its resource PowerDistribution, its circuits, its outlets and its metrics.

    Raises:
        InputError: one is not what a Redfish service writes.
    """
    return Pdu(
        path=path_of(body),
        name=words(body, "UserLabel") or words(body, "Name") or words(body, "Id"),
        condition=condition(body),
        mains=tuple(_mains(entry) for entry in mains),
        outlets=tuple(_outlet(entry) for entry in outlets),
        watts=reading(metrics, "PowerWatts") if metrics else None,
    )


def _mains(body: Resource) -> Mains:
    phases = body.get("PolyPhaseVoltage") or {}
    if not isinstance(phases, dict):
        raise unlike("PolyPhaseVoltage", phases, "an object of sensors")
    single = reading(body, "Voltage")
    found = [value for name in sorted(phases) if (value := reading(phases, name)) is not None]
    nominal = "".join(letter for letter in words(body, "NominalVoltage") if letter.isdecimal() or letter == " ")
    return Mains(
        name=words(body, "Name") or words(body, "Id"),
        condition=condition(body),
        volts=tuple(found) or (() if single is None else (single,)),
        # AC230V, AC208V, DCNeg48V; AC200To240V is a range and has no nominal voltage.
        nominal_v=float(nominal) if nominal.isdecimal() and len(nominal) <= 3 else None,
        watts=reading(body, "PowerWatts"),
        rated_a=above_zero(body, "RatedCurrentAmps"),
        breaker=words(body, "BreakerState"),
    )


def _outlet(body: Resource) -> Outlet:
    return Outlet(
        path=path_of(body),
        name=words(body, "Id") or words(body, "Name"),
        condition=condition(body),
        power=words(body, "PowerState"),
        watts=reading(body, "PowerWatts"),
    )
