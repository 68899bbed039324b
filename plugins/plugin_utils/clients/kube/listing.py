# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A list of the API server, read page by page. Each object is reduced as it comes, so that memory stays small."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...outcome.errors import DeadlineError, UnavailableError
from ...runtime.clock import Deadline
from .errors import GoneError
from .objects import Kind
from .transport import Transport

PAGE = 500
_RESTARTS = 3
T = TypeVar("T")
Keep = Callable[[dict[str, Any]], T]


def list_kept(
    transport: Transport,
    kind: Kind,
    keep: Keep[T],
    namespace: str = "",
    query: Mapping[str, str | int] | None = None,
    deadline: Deadline | None = None,
) -> tuple[list[T], str]:
    """Return what `keep` makes of every object of a kind, and the version of the collection.

    Args:
        transport: the server.
        kind: the kind to list.
        keep: returns what to keep of an object.
        namespace: the namespace, empty for all.
        query: selectors.
        deadline: when to give up; checked between two pages.

    Raises:
        NotFoundError: the server does not serve the kind.
        DeadlineError: the time is over.
        UnavailableError: the server does not answer, or not with a list.
    """
    for _restart in range(_RESTARTS):
        try:
            return _pages(transport, kind, keep, namespace, {"limit": PAGE, **(query or {})}, deadline)
        except GoneError:
            # The list took longer than the server keeps its versions: start over.
            continue
    reason = "the list expired three times while reading it."
    raise UnavailableError(f"Kubernetes API list {kind.title}", reason)


def _pages(
    transport: Transport,
    kind: Kind,
    keep: Keep[T],
    namespace: str,
    query: Mapping[str, str | int],
    deadline: Deadline | None,
) -> tuple[list[T], str]:
    kept: list[T] = []
    token = ""
    while True:
        if deadline is not None and deadline.left_s <= 0:
            reason = f"{len(kept)} objects were read when the time was over."
            raise DeadlineError(
                f"Kubernetes API list {kind.title}", reason, "raise timeout_s (gpufleet_snapshot_timeout_s)"
            )
        page = query if not token else {**query, "continue": token}
        answer = transport.json("GET", kind.path(namespace=namespace), query=page, verb="list")
        found = answer.get("items") if isinstance(answer, dict) else None
        if found is None and "items" not in (answer or {}):
            raise UnavailableError(f"Kubernetes API list {kind.title}", "the answer has no items.")
        kept += [keep(entry) for entry in found or ()]
        metadata = answer.get("metadata") or {}
        token = metadata.get("continue") or ""
        if not token:
            return kept, str(metadata.get("resourceVersion", ""))
