# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rows of what passes depend on: one row a digest, so that a thousand passes of one host share its facts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..fingerprint.dependencies import Dependencies, digest
from .fact_rows import keep_facts, kept_facts


def keep_dependencies(connection: Any, found: Iterable[Dependencies]) -> None:
    """Write what is not there yet."""
    facts: dict[str, Any] = {}
    for entry in found:
        hosts = {name: digest(seen) for name, seen in entry.hosts.items()}
        facts[entry.fingerprint] = {"own": entry.own, "hosts": hosts}
        facts |= {hosts[name]: seen for name, seen in entry.hosts.items()}
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
