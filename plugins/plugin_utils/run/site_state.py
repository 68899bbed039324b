# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The state of the site in a run: the facts on which results depend, from what is saved in the run directory."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from ..check.kit.saved_settings import private_thresholds
from ..check.observation import saved_observation
from ..collect.host_evidence import FABRIC, read_evidence
from ..fingerprint.dependencies import THRESHOLDS, SiteState, digest
from ..outcome.codec import dumps, load, load_json, to_plain
from ..outcome.errors import BringupError, InputError
from ..probe.text import guid_text
from ..runtime.files import CLUSTER, STATE, write_atomic
from ..site.cabling import site_cabling
from ..site.model import DriverOwner
from .run import Run

if TYPE_CHECKING:
    from ..check.facility.observation import FacilityObservation
    from ..probe.iblinkinfo import LinkEnd

_SHORT = 12
_NO_FABRIC = "no InfiniBand"


def collect_state(run: Run, gates: tuple[str, ...], today: date) -> SiteState:
    """Return the state so far, with what those gates observe read anew; it is saved for later gates.

    Args:
        run: the run.
        gates: the gates whose observations and evidence are new.
        today: the day of the run.
    """
    path = run.path / STATE
    known = load(SiteState, path) if path.is_file() else SiteState()
    whole = known.whole | {"recipe": _recipe(run.recipe), "cluster": _cluster(run)}
    whole[THRESHOLDS] = _thresholds(run)
    whole |= _without_fabric(run)
    if "facility" in gates:
        whole |= _facility(run, today)
    if "fabric" in gates:
        whole |= _fabric(run)
    hosts = known.hosts
    in_pods = run.site.driver_owner is DriverOwner.OPERATOR and "gpu_stack" in gates
    if "nodes" in gates or in_pods:
        # Each gate observes other facts, and needs only the readers of these.
        from ..collect.identity import host_facts_of

        hosts = host_facts_of(run.path, run.site)
    state = replace(known, hosts=hosts, whole={name: text for name, text in whole.items() if text})
    write_atomic(path, dumps(state))
    return state


def _thresholds(run: Run) -> str:
    """Return the settings of private recipe directories, as JSON."""
    configured = private_thresholds(run.path)
    return json.dumps(configured, sort_keys=True) if configured else ""


def _recipe(recipe: dict[str, Any] | None) -> str:
    """Return every component with its version, and a digest over the rest that decides the state of the cluster."""
    if recipe is None:
        return ""
    components = [f"{entry['name']} {entry.get('version', '')}".strip() for entry in recipe.get("componentRefs", [])]
    rest = {key: recipe.get(key) for key in ("criteria", "componentRefs", "deploymentOrder", "constraints")}
    return ", ".join([*components, f"values {digest(rest)[:_SHORT]}"])


def _cluster(run: Run) -> str:
    path = run.path / CLUSTER
    if not path.is_file():
        return ""
    observed = load_json(path)
    return (
        f"{observed.get('uid', '')}, {observed.get('version', '')}"
        if isinstance(observed, dict) and observed.get("uid")
        else ""
    )


def _facility(run: Run, today: date) -> dict[str, str]:
    from ..check.facility.observe_facility_record import OBSERVER as FACILITY_RECORD

    try:
        observed = saved_observation(run.path, "facility", FACILITY_RECORD.key)
        if observed.error is not None:
            return {}
        found = FACILITY_RECORD.restore(observed.data, run.path, run.site)
        record = found.record()
    except InputError:
        return {}
    left_days = (record.expires_on - today).days
    return {
        "record": digest(found.record_text)[:_SHORT],
        "signature": _signature(found),
        "evidence": digest(to_plain(found.digests))[:_SHORT],
        "in force": "yes" if left_days > found.settings.expiry_warning_days else f"until {record.expires}",
    }


def _signature(found: FacilityObservation) -> str:
    facts = found.signature
    runs = (facts.intact, facts.principals, facts.verified)
    good = all(run is not None and run.rc == 0 for run in runs)
    return f"{'good' if good else 'not good'}, {facts.identity}"


def _fabric(run: Run) -> dict[str, str]:
    try:
        plan = site_cabling(run.site, run.hardware)
    except InputError:
        plan = None
    cables = to_plain((plan.links, plan.switches, plan.node_names)) if plan is not None else None
    whole = {"cabling plan": digest(cables)[:_SHORT]} if cables else {}
    files = sorted((run.path / "evidence" / FABRIC).glob("*.json"))
    links = [link for path in files[:1] for link in _links(path)]
    ends = sorted({_ends(link) for link in links if link.up and link.peer is not None})
    return whole | ({"topology": f"{len(ends)} links {digest(ends)[:_SHORT]}"} if ends else {})


def _without_fabric(run: Run) -> dict[str, str]:
    """Return that there is no topology, where no host has InfiniBand and no cabling plan is configured."""
    try:
        return {"topology": _NO_FABRIC} if site_cabling(run.site, run.hardware) is None else {}
    except BringupError:
        return {}


def _links(path: Any) -> list[LinkEnd]:
    from ..check.fabric.fabric_facts import subnets_of
    from ..collect.tool_reading import ProbeFailure

    try:
        evidence = read_evidence(path)
    except InputError:
        return []
    found: list[LinkEnd] = []
    for subnet in subnets_of(evidence) if evidence.reached else ():
        if isinstance(subnet.links, ProbeFailure):
            # Half a topology would look like a change of it.
            return []
        found.extend(subnet.links)
    return found


def _ends(link: LinkEnd) -> str:
    peer = link.peer
    if peer is None:
        return ""
    ends = ((link.guid, link.name, link.port), (peer.guid, peer.name, peer.port))
    return " ".join(f"{guid_text(guid) if guid else ''} {name}:{port}" for guid, name, port in ends)
