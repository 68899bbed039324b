# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rows of what passes depend on: one row a digest, so that a thousand passes of one host share its facts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..fingerprint.dependencies import Dependencies, digest
from .tables import tables

_AT_A_TIME = 500


def keep_dependencies(connection: Any, found: Iterable[Dependencies]) -> None:
    """Write what is not there yet."""
    from sqlalchemy.dialects.sqlite import insert

    rows: dict[str, str] = {}
    for entry in found:
        hosts = {name: digest(facts) for name, facts in entry.hosts.items()}
        rows[entry.fingerprint] = _text({"own": entry.own, "hosts": hosts})
        rows |= {hosts[name]: _text(facts) for name, facts in entry.hosts.items()}
    if rows:
        values = [{"digest": key, "facts": text} for key, text in rows.items()]
        connection.execute(insert(tables().fingerprint).on_conflict_do_nothing(), values)


def kept_dependencies(connection: Any, fingerprints: Iterable[str]) -> dict[str, Dependencies]:
    """Return the facts of each fingerprint; one that an older release wrote without facts is left out."""
    results = _read(connection, sorted(set(fingerprints)))
    wanted = {key for result in results.values() for key in result["hosts"].values()}
    hosts = _read(connection, sorted(wanted))
    return {
        key: Dependencies(
            own=result["own"], hosts={name: hosts.get(host, {}) for name, host in result["hosts"].items()}
        )
        for key, result in results.items()
    }


def _read(connection: Any, keys: list[str]) -> dict[str, Any]:
    from sqlalchemy import select

    table = tables().fingerprint
    found: dict[str, Any] = {}
    for start in range(0, len(keys), _AT_A_TIME):
        query = select(table.c.digest, table.c.facts).where(table.c.digest.in_(keys[start : start + _AT_A_TIME]))
        found |= {key: json.loads(text) for key, text in connection.execute(query)}
    return found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
