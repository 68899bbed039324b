# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Permissions of credentials: as values, and with the answer of the API server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission: `verb` on `resource` of `group`, in `namespace` (empty for all)."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    subresource: str = ""

    @property
    def text(self) -> str:
        """Its name in messages: `list deployments.apps`, `get pods/log`, `get secrets in models`."""
        group = f".{self.group}" if self.group else ""
        part = f"/{self.subresource}" if self.subresource else ""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{part}{group}{place}"


def stream_permissions(subresource: str) -> tuple[Permission, ...]:
    """Return the permissions for a stream of a pod (`exec`, `portforward`).

    A websocket begins with GET, which is the verb `get` for the server (kubernetes/kubernetes#78741). Since 1.35 it
    requires `create` as well, as for SPDY (kubernetes/kubernetes#134577).
    """
    return tuple(Permission(verb, "pods", subresource=subresource) for verb in ("get", "create"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPermission(Permission):
    """A permission with the answer of the server."""

    allowed: bool
    reason: str = ""
