# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads the BMC of every host with an address in the inventory: one session each, a bounded number at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...clients.redfish.service import RedfishService
from ...clients.redfish.wire import RedfishError
from ...collect.redfish import BmcFacts, read_bmc
from ...outcome.errors import InputError
from ...outcome.model import Evidence, Outcome
from ...runtime.files import write_atomic
from ...runtime.pool import map_bounded
from ...runtime.redaction import redact_data
from ...site.model import Host
from ..kit.finding import Report
from ..kit.host_context import HostContext, per_host
from ..spec import CheckSpec, JudgeContext, ObserveContext, observer_of
from .bmc_access import BMC_REACHED, BmcAccess
from .record import parse_record
from .settings import GATE, FacilitySettings

# The observation of the BMCs, and how a check judges one host by it.


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBmc:
    """One BMC: its facts, or why there are none (a cause, a reason and a hint).

    `file` has the resources as they were read; `checked` is whether its certificate was verified.
    """

    host: str
    url: str
    facts: BmcFacts | None = None
    cause: str = ""
    reason: str = ""
    hint: str = ""
    file: str = ""
    reads: int = 0
    checked: bool = True


@dataclass(frozen=True, kw_only=True)
class SeenBmcs:
    """All BMCs that the inventory names. `record_issued` is the day of the facility record (YYYY-MM-DD), empty for
    none."""

    bmcs: tuple[SeenBmc, ...]
    record_issued: str = ""

    def of(self, host: str) -> SeenBmc | None:
        """Return the BMC of a host, None if the inventory names none."""
        return self._by_host.get(host)

    @cached_property
    def _by_host(self) -> dict[str, SeenBmc]:
        return {bmc.host: bmc for bmc in self.bmcs}


@dataclass(frozen=True)
class BmcContext(HostContext[SeenBmcs]):
    """One host whose BMC the inventory names."""

    @property
    def bmc(self) -> SeenBmc | None:
        """The observation of its BMC."""
        return self.seen.of(self.name)

    @property
    def facts(self) -> BmcFacts:
        """The facts of its BMC; per_bmc makes sure that there are some."""
        bmc = self.bmc
        if bmc is None or bmc.facts is None:
            raise AssertionError("unreachable: per_bmc asks for the facts")
        return bmc.facts

    def evidence(self, text: str) -> tuple[Evidence, ...]:
        """Return the evidence of an outcome about this host."""
        bmc = self.bmc
        return (Evidence(f"Redfish {bmc.url}", self.name, text, bmc.file),) if bmc else ()


def per_bmc(
    spec: CheckSpec,
    observed: SeenBmcs,
    context: JudgeContext,
    judge_host: Callable[[BmcContext], Report | Outcome],
    *,
    part: str = "",
    needs_sku: bool = True,
) -> tuple[Outcome, ...]:
    """Return the outcomes of every host whose BMC the inventory names.

    Args:
        spec: the check.
        observed: the observation of all BMCs.
        context: the context of the judgement.
        judge_host: judges one host whose BMC was read.
        part: the facts that the check needs (collect/redfish.py); where these were not read completely, nothing is
            judged.
        needs_sku: the judge uses the hardware facts of the host.
    """
    hosts = tuple(host for host in context.site.hosts if host.bmc)
    named = replace(context, site=replace(context.site, hosts=hosts))

    def before(host: BmcContext) -> Outcome | None:
        bmc = host.bmc
        if bmc is None or bmc.facts is None:
            return host.answer.blocked(by=BMC_REACHED, because="its BMC was not read")
        problem = bmc.facts.problems.get(part, "")
        if problem:
            hint = f"look at it in {bmc.file}, or with a browser at {bmc.url}/redfish/v1/"
            text = f"what the BMC says of {part} was not read whole: {problem}"
            return host.answer.unknown(f"bmc-{part}-not-read", text, hint, evidence=host.evidence(problem))
        return None

    def make(one: CheckSpec, around: JudgeContext, found: SeenBmcs, host: Host) -> BmcContext:
        return BmcContext(one, around, found, host)

    return per_host(make, spec, observed, named, judge_host, before=before, needs_sku=needs_sku)


_DIRECTORY = "evidence/facility"


def observe(context: ObserveContext) -> SeenBmcs:
    """Return the facts of every BMC, or why it could not be read."""
    settings = context.settings_of(BMC_REACHED, BmcAccess)
    hosts = [host for host in context.site.in_scope if host.bmc]
    found = map_bounded(lambda host: _look(context, settings, host), hosts, settings.at_once)
    read = sum(bmc.facts is not None for bmc in found)
    context.emit(f"{read} of {len(found)} BMCs read")
    return SeenBmcs(bmcs=tuple(found), record_issued=_record_issued(context))


def _record_issued(context: ObserveContext) -> str:
    """Return the day of the facility record, empty where none can be read. The checks of the record report its
    problems."""
    configured = context.settings_of(GATE, FacilitySettings).record
    if not configured:
        return ""
    path = Path(configured).expanduser()
    try:
        return parse_record(path.read_text(encoding="utf-8"), str(path)).issued_on.isoformat()
    except (OSError, ValueError, InputError):
        return ""


def _look(context: ObserveContext, settings: BmcAccess, host: Host) -> SeenBmc:
    resources: dict[str, Any] = {}
    observed = SeenBmc(host=host.name, url=host.bmc, checked=settings.validate_certs)
    try:
        with RedfishService(host.bmc, f"BMC of {host.name}", settings.account(host.name), settings.access) as bmc:

            def get(path: str) -> Mapping[str, Any]:
                found = bmc.get(path)
                resources[path] = found
                return found

            facts = read_bmc(bmc.root, get)
    except RedfishError as error:
        return _with(observed, resources, cause=error.cause, reason=f"{error.subject}: {error.reason}", hint=error.hint)
    except InputError as error:
        return _with(observed, resources, cause="bmc-account-missing", reason=error.reason, hint=error.hint)
    file = f"{_DIRECTORY}/bmc-{host.name}.json"
    write_atomic(context.run_dir / file, json.dumps(redact_data(resources), indent=1, sort_keys=True) + "\n")
    return _with(observed, resources, facts=facts, file=file)


def _with(observed: SeenBmc, resources: Mapping[str, Any], **more: Any) -> SeenBmc:
    return SeenBmc(host=observed.host, url=observed.url, checked=observed.checked, reads=len(resources), **more)


OBSERVER = observer_of("bmcs", SeenBmcs, observe)
