# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads every PDU whose address the site states, with the account of the BMCs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...clients.redfish.errors import RedfishError
from ...clients.redfish.service import RedfishService
from ...collect.pdu import read_pdus
from ...outcome.errors import InputError
from ...runtime.files import write_atomic
from ...runtime.pool import map_bounded
from ...runtime.secret_keys import redact_data
from ...site.bmc import service_url
from ..spec import ObserveContext, observer_of
from .bmc_access import BMC_REACHED, BmcAccess
from .pdu_observation import PDU_FEEDS, PduSettings, RackPdu, SeenPdu, SeenPdus


def observe(context: ObserveContext) -> SeenPdus:
    """Return what every PDU says, or why it could not be read."""
    access = context.settings_of(BMC_REACHED, BmcAccess)
    stated = context.settings_of(PDU_FEEDS, PduSettings).pdus
    found = map_bounded(lambda name: _look(context, access, name, stated[name]), sorted(stated), access.at_once)
    context.emit(f"{sum(bool(pdu.units) for pdu in found)} of {len(found)} PDUs read")
    return SeenPdus(pdus=tuple(found))


def _look(context: ObserveContext, access: BmcAccess, name: str, stated: RackPdu) -> SeenPdu:
    resources: dict[str, Any] = {}
    try:
        url = service_url(stated.address)
        with RedfishService(url, f"PDU {name}", access.account(name), access.access) as service:

            def get(path: str) -> Mapping[str, Any]:
                found = service.get(path)
                resources[path] = found
                return found

            units = read_pdus(service.root, get)
    except ValueError as error:
        hint = f"correct gpufleet_settings pdu-feeds.pdus.{name}.address"
        return SeenPdu(name=name, stated=stated, cause="pdu-address-wrong", reason=f"its address {error}", hint=hint)
    except RedfishError as error:
        cause = error.cause.replace("bmc-", "pdu-", 1)
        return SeenPdu(
            name=name, stated=stated, cause=cause, reason=f"{error.subject}: {error.reason}", hint=error.hint
        )
    except InputError as error:
        reason = f"{error.subject}: {error.reason}"
        hint = error.hint or "look at the PDU's own page"
        return SeenPdu(name=name, stated=stated, cause="pdu-not-read", reason=reason, hint=hint)
    file = f"evidence/facility/pdu-{name.replace('/', '_')}.json"
    write_atomic(context.run_dir / file, json.dumps(redact_data(resources), indent=1, sort_keys=True) + "\n")
    return SeenPdu(name=name, stated=stated, units=units, file=file)


OBSERVER = observer_of("pdus", SeenPdus, observe)
