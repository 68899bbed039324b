# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Shared rows, one for each digest: what passes depend on, the parts of a node, the results its GPUs computed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..fingerprint.dependencies import Dependencies, digest
from .database import insert_into
from .tables import tables

# Facts that many rows share, one row for each digest: what passes depend on, the parts of a node, the results its GPUs
# computed.

_AT_A_TIME = 500


def keep_facts(connection: Any, facts: Mapping[str, Any]) -> None:
    """Write the facts of each digest, if they are not there yet."""
    if facts:
        values = [{"digest": key, "facts": fact_text(value)} for key, value in facts.items()]
        connection.execute(insert_into(connection, tables().fingerprint).on_conflict_do_nothing(), values)


def kept_facts(connection: Any, keys: list[str]) -> dict[str, Any]:
    """Return the facts of each digest; a missing one is left out."""
    from sqlalchemy import select

    table = tables().fingerprint
    found: dict[str, Any] = {}
    for start in range(0, len(keys), _AT_A_TIME):
        query = select(table.c.digest, table.c.facts).where(table.c.digest.in_(keys[start : start + _AT_A_TIME]))
        found |= {key: json.loads(text) for key, text in connection.execute(query)}
    return found


def fact_text(value: Any) -> str:
    """Return JSON that is the same for the same facts."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


# Rows of what passes depend on: one row for each digest, so that a thousand passes of one host share its facts.


def keep_dependencies(connection: Any, found: Iterable[Dependencies]) -> None:
    """Write the dependencies that are not there yet."""
    facts: dict[str, Any] = {}
    for entry in found:
        hosts = {name: digest(observed) for name, observed in entry.hosts.items()}
        facts[entry.fingerprint] = {"own": entry.own, "hosts": hosts}
        facts |= {hosts[name]: observed for name, observed in entry.hosts.items()}
    keep_facts(connection, facts)


def kept_dependencies(connection: Any, fingerprints: Iterable[str]) -> dict[str, Dependencies]:
    """Return the facts of each fingerprint; one that an older release wrote without facts is left out."""
    results = kept_facts(connection, sorted(set(fingerprints)))
    wanted = {key for result in results.values() for key in result["hosts"].values()}
    hosts = kept_facts(connection, sorted(wanted))
    return {
        key: Dependencies(
            own=result["own"], hosts={name: hosts.get(host, {}) for name, host in result["hosts"].items()}
        )
        for key, result in results.items()
    }
