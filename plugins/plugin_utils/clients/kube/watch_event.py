# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One line of a watch."""

from __future__ import annotations

import json
from typing import Any

from ...outcome.errors import UnavailableError
from ...runtime.redaction import excerpt
from .errors import GoneError

Json = dict[str, Any]


def watch_event(line: bytes, path: str) -> tuple[str, Json]:
    """Return type and object of one event.

    Raises:
        GoneError: the version that the watch began with is forgotten.
        UnavailableError: it is another error, or no event.
    """
    try:
        event = json.loads(line)
        kind, found = str(event["type"]), event["object"]
        if kind != "ERROR":
            return kind, {**found, "metadata": dict(found["metadata"])}
    except (ValueError, KeyError, TypeError):
        subject = f"Kubernetes API watch {path}"
        raise UnavailableError(subject, f"not an event: {excerpt(line[:200].decode(errors='replace'), 200)}.") from None
    if isinstance(found, dict) and found.get("code") == 410:
        raise GoneError(f"Kubernetes API watch {path}", "version expired.", "list again")
    said = found.get("message", found) if isinstance(found, dict) else found
    raise UnavailableError(f"Kubernetes API watch {path}", excerpt(str(said), 300))
