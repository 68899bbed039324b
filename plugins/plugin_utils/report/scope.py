# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the run is about, which checks did not apply and why, and the software it was made with. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..check.declare import declare
from ..outcome.errors import BringupError
from ..outcome.gates import GATES
from ..outcome.model import Status
from ..verdict.gate import NotDeclared
from .facts import RunFacts
from .words import compressed

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Checks of one gate that do not apply at this site, for one reason."""

    gate: str
    checks: tuple[str, ...]
    reason: str


def scope_words(facts: RunFacts) -> Pairs:
    """Return what the run is about, as names and values."""
    record, site = facts.record, facts.site
    words = [("run", record.run_id), ("started", record.started), ("last written", record.updated or record.started)]
    requested = ", ".join(verdict.gate for verdict in record.phases)
    gates = record.scope if site is None else site.gates
    about = ("phases", requested) if record.validates else ("gates in scope", ", ".join(gates) or "none")
    if record.work is not None:
        about = ("work", record.work.verb)
    if site is None:
        return (*words, about)
    skus = Counter(host.sku for host in site.hosts)
    racks = compressed(site.racks, 6)
    words += [
        ("site profile", site.profile.value),
        ("nodes", f"{len(site.in_scope)} in scope of {len(site.hosts)}{_minimum(site.minimum_nodes)}"),
        ("hardware", ", ".join(f"{count} x {sku}" for sku, count in sorted(skus.items())) or "none"),
        ("racks", racks or "not stated"),
        about,
        ("orchestrator", f"{site.orchestrator}, driver owned by the {site.driver_owner.value}"),
    ]
    return tuple(words)


def _minimum(minimum: int) -> str:
    return f", at least {minimum} asked for" if minimum else ""


def recipe_words(facts: RunFacts) -> Pairs:
    """Return the criteria and the components that the run converged, none without a recipe."""
    recipe, site = facts.recipe, facts.site
    criteria = dict(site.criteria) if site else {}
    if recipe is None:
        return tuple(("criteria", text) for text in [_pairs(criteria.items())] if text)
    configured = recipe.get("criteria")
    criteria |= {str(k): str(v) for k, v in configured.items()} if isinstance(configured, dict) else {}
    refs = {str(ref.get("name")): ref for ref in recipe.get("componentRefs") or () if isinstance(ref, dict)}
    order = [str(name) for name in recipe.get("deploymentOrder") or ()]
    components = ", ".join(f"{name} {refs.get(name, {}).get('version') or ''}".strip() for name in order)
    constraints = recipe.get("constraints")
    return (
        ("criteria", _pairs(criteria.items()) or "none"),
        ("components", components or "none"),
        ("constraints", f"{len(constraints)}" if isinstance(constraints, list) else "0"),
        ("recipe digest (SHA-256)", facts.recipe_digest),
    )


def _pairs(items: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in items)


def software_words(facts: RunFacts) -> Pairs:
    """Return versions and digests."""
    words = list(facts.record.versions.items())
    if facts.site is not None:
        given = {name: ", ".join(sorted(values)) for name, values in sorted(facts.site.settings.items()) if values}
        words += [
            ("settings stated by the site", "; ".join(f"{n} ({v})" for n, v in given.items()) or "none"),
            ("settings digest (SHA-256)", facts.settings_digest),
            ("inventory digest (SHA-256)", facts.site_digest),
        ]
    return tuple(words)


def left_out(facts: RunFacts) -> tuple[LeftOut, ...]:
    """Return the checks that were not declared, by gate and reason; also those of gates that were not reached."""
    found: dict[tuple[str, str], list[str]] = {}
    for gate in GATES:
        if gate.id not in facts.record.scope or facts.record.work is not None:
            continue
        for check in _left_out(facts, gate.id):
            found.setdefault((gate.id, check.reason), []).append(check.id)
    return tuple(LeftOut(gate=gate, checks=tuple(checks), reason=reason) for (gate, reason), checks in found.items())


def _left_out(facts: RunFacts, gate: str) -> tuple[NotDeclared, ...]:
    verdict = facts.record.gate(gate)
    if verdict.status is not Status.PENDING:
        return verdict.not_declared
    if facts.site is None:
        return ()
    try:
        return declare(gate, facts.site).not_declared
    except BringupError:
        # No check of this release belongs to that gate; its message says so.
        return ()
