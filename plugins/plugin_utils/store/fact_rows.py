# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Facts that many rows share, one row a digest: what passes depend on, the parts of a node, what its GPUs computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .dialect import insert_into
from .tables import tables

_AT_A_TIME = 500


def keep_facts(connection: Any, facts: Mapping[str, Any]) -> None:
    """Write the facts of each digest, if they are not there yet."""
    if facts:
        values = [{"digest": key, "facts": fact_text(value)} for key, value in facts.items()]
        connection.execute(insert_into(connection, tables().fingerprint).on_conflict_do_nothing(), values)


def kept_facts(connection: Any, keys: list[str]) -> dict[str, Any]:
    """Return the facts of each digest; one that is not there is left out."""
    from sqlalchemy import select

    table = tables().fingerprint
    found: dict[str, Any] = {}
    for start in range(0, len(keys), _AT_A_TIME):
        query = select(table.c.digest, table.c.facts).where(table.c.digest.in_(keys[start : start + _AT_A_TIME]))
        found |= {key: json.loads(text) for key, text in connection.execute(query)}
    return found


def fact_text(value: Any) -> str:
    """Return JSON, the same for the same facts."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
