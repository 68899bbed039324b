# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The pods of a namespace while a gate waits for them: listed when something changed, watched in between.

The list is what is believed. A watch only says that it is time for another one, so whatever becomes of a watch (it is
refused, it breaks, the server forgets its version) costs a list at the most.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import GoneError
from ..clients.kube.kinds import PODS
from ..outcome.errors import BringupError
from ..runtime.clock import Deadline

Json = dict[str, Any]
# Pods start in bursts: one list for what comes within this time.
_BURST_S = 0.4
# A list that no watch has contradicted is believed so long.
_BELIEVED_S = 30.0


@dataclass(slots=True)
class PodView:
    """The pods of one namespace."""

    cluster: Cluster
    namespace: str
    _pods: tuple[Json, ...] = ()
    _version: str = ""
    _listed_at: float = 0.0
    _known: bool = False

    def pods(self) -> tuple[Json, ...]:
        """Return the pods as they are, or as they were listed if nothing changed since.

        Raises:
            BringupError: the cluster does not answer.
        """
        if not self._known or time.monotonic() - self._listed_at > _BELIEVED_S:
            self._listed_at = time.monotonic()
            found, self._version = self.cluster.list_with_version(PODS, self.namespace)
            self._pods, self._known = tuple(found), bool(self._version)
        return self._pods

    def forget(self) -> None:
        """Let the next look be a list: we changed something ourselves."""
        self._known = False

    def wait(self, limit_s: float) -> None:
        """Wait until a pod changes, and at most `limit_s`; nothing that happens to the watch is an error here."""
        deadline = Deadline.after(limit_s)
        if self._known and deadline.left_s > 0:
            try:
                with closing(self.cluster.watch(PODS, deadline, self.namespace, version=self._version)) as changes:
                    if next(changes, None) is not None:
                        self._known = False
                        time.sleep(min(_BURST_S, max(deadline.left_s, 0.0)))
                        return
            except GoneError:
                self._known = False
            except BringupError:
                # Not allowed, or not possible now: as without a watch.
                self._known = False
        time.sleep(max(deadline.left_s, 0.0))
