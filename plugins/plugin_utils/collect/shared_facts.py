# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What hosts may have in common with others, so that it and not they can be why they are slow."""

from __future__ import annotations

from pathlib import Path

from ..outcome.codec import load
from ..outcome.errors import BringupError
from ..runtime.run_dir import CABLING
from ..site.cabling import CablingPlan
from ..site.model import Site
from .identity import host_facts_of

# Facts of hosts that several hosts can share; serial numbers and GUIDs cannot.
_KINDS = ("driver", "GPU firmware", "adapter firmware", "OFED", "kernel")


def shared_facts(run_dir: Path, site: Site) -> dict[str, dict[str, str]]:
    """Return by host, and there by kind, what it may share: rack, leaf switches, driver, firmware, OFED, kernel.

    What was not seen is left out. Kinds stand in the order in which they are blamed: cables before software.
    """
    leaves = _leaves(run_dir)
    seen = host_facts_of(run_dir, site)
    found = {}
    for host in site.in_scope:
        facts = {"rack": host.rack, "leaf": leaves.get(host.name, "")}
        facts |= {kind: seen.get(host.name, {}).get(kind, "") for kind in _KINDS}
        found[host.name] = {kind: value for kind, value in facts.items() if value}
    return found


def _leaves(run_dir: Path) -> dict[str, str]:
    path = run_dir / CABLING
    try:
        plan = load(CablingPlan, path) if path.is_file() else None
    except BringupError:
        # Gate fabric says what is wrong with it; here the leaves are not known.
        return {}
    found: dict[str, set[str]] = {}
    for link in plan.links if plan is not None else ():
        if link.host and link.far is not None:
            found.setdefault(link.host, set()).add(link.far.node)
    return {host: ", ".join(sorted(names)) for host, names in found.items()}
