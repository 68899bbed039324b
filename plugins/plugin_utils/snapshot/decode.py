# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From text to a snapshot: ours strictly, upstream's in its words."""

from __future__ import annotations

import json
from typing import Any

from ..outcome.codec import dumps, from_plain
from ..outcome.errors import InputError
from ..runtime.strict import parse_yaml
from .model import KIND, SCHEMA_VERSION, Snapshot
from .upstream import from_upstream, is_upstream

_AGAIN = "take it again with this release"
# Left out, these would be read as what was never seen. Earlier releases did not write `rehearsal`: without it nobody
# knows, which is told of the snapshot and not taken for a no.
_WRITTEN = frozenset(Snapshot.__dataclass_fields__) - {"rehearsal"}


def to_text(snapshot: Snapshot) -> str:
    """Return the snapshot as JSON; the same snapshot is always the same text."""
    return dumps(snapshot)


def parse_snapshot(text: str, source: str) -> Snapshot:
    """Return the snapshot that a text holds, ours or upstream's.

    Args:
        text: JSON or YAML.
        source: where it comes from, for messages.

    Raises:
        InputError: it is neither, of another schema, or not whole.
    """
    return from_data(_decoded(text, source), source)


def _decoded(text: str, source: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(source, f"not JSON: {error}.", "is the file cut off?") from None
    return parse_yaml(text, source)


def from_data(data: Any, source: str) -> Snapshot:
    """Return the snapshot in decoded data (see parse_snapshot)."""
    if not isinstance(data, dict):
        raise InputError(source, "holds no snapshot: it is no mapping.", "give the file that playbook snapshot wrote")
    if is_upstream(data):
        return from_upstream(data, source)
    if data.get("kind") != KIND:
        found = f"kind is {data.get('kind')!r}, expected {KIND}, or Snapshot of the upstream tool."
        raise InputError(source, found, "give the file that playbook snapshot wrote")
    if data.get("schema_version") != SCHEMA_VERSION:
        found = f"schema_version is {data.get('schema_version')!r}, this release reads {SCHEMA_VERSION}."
        raise InputError(source, found, _AGAIN)
    missing = sorted(_WRITTEN - set(data))
    if missing:
        raise InputError(source, f"has no {missing[0]}, which is always written.", _AGAIN)
    return from_plain(Snapshot, data, source)
