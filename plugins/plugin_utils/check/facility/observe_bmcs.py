# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads the BMC of every host whose address the inventory states: one session each, a bounded number at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...clients.redfish.errors import RedfishError
from ...clients.redfish.service import RedfishService
from ...collect.bmc import read_bmc
from ...outcome.errors import InputError
from ...runtime.files import write_atomic
from ...runtime.pool import map_bounded
from ...runtime.secret_keys import redact_data
from ...site.model import Host
from ..spec import ObserveContext, observer_of
from .bmc_access import BMC_REACHED, BmcAccess
from .bmc_observation import SeenBmc, SeenBmcs
from .record import parse_record
from .settings import GATE, FacilitySettings

_DIRECTORY = "evidence/facility"


def observe(context: ObserveContext) -> SeenBmcs:
    """Return what every BMC says, or why it could not be read."""
    settings = context.settings_of(BMC_REACHED, BmcAccess)
    hosts = [host for host in context.site.in_scope if host.bmc]
    found = map_bounded(lambda host: _look(context, settings, host), hosts, settings.at_once)
    read = sum(bmc.facts is not None for bmc in found)
    context.emit(f"{read} of {len(found)} BMCs read")
    return SeenBmcs(bmcs=tuple(found), record_issued=_record_issued(context))


def _record_issued(context: ObserveContext) -> str:
    """Return the day of the facility record; empty where there is none that can be read, of which its own checks say
    what is wrong."""
    stated = context.settings_of(GATE, FacilitySettings).record
    if not stated:
        return ""
    path = Path(stated).expanduser()
    try:
        return parse_record(path.read_text(encoding="utf-8"), str(path)).issued_on.isoformat()
    except (OSError, ValueError, InputError):
        return ""


def _look(context: ObserveContext, settings: BmcAccess, host: Host) -> SeenBmc:
    resources: dict[str, Any] = {}
    seen = SeenBmc(host=host.name, url=host.bmc, checked=settings.validate_certs)
    try:
        with RedfishService(host.bmc, f"BMC of {host.name}", settings.account(host.name), settings.access) as bmc:

            def get(path: str) -> Mapping[str, Any]:
                found = bmc.get(path)
                resources[path] = found
                return found

            facts = read_bmc(bmc.root, get)
    except RedfishError as error:
        return _with(seen, resources, cause=error.cause, reason=f"{error.subject}: {error.reason}", hint=error.hint)
    except InputError as error:
        return _with(seen, resources, cause="bmc-account-missing", reason=error.reason, hint=error.hint)
    file = f"{_DIRECTORY}/bmc-{host.name}.json"
    write_atomic(context.run_dir / file, json.dumps(redact_data(resources), indent=1, sort_keys=True) + "\n")
    return _with(seen, resources, facts=facts, file=file)


def _with(seen: SeenBmc, resources: Mapping[str, Any], **more: Any) -> SeenBmc:
    return SeenBmc(host=seen.host, url=seen.url, checked=seen.checked, reads=len(resources), **more)


OBSERVER = observer_of("bmcs", SeenBmcs, observe)
