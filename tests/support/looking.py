# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bench has beside the controllers of a rehearsal: it looks at the cluster over and over, and does its part."""

from __future__ import annotations

import sys
import threading
from typing import ClassVar

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError


class Looking(threading.Thread):
    """Looks every `pause_s` seconds until `stopped` is set; what the API server does not answer is printed."""

    called: ClassVar[str]
    pause_s: ClassVar[float] = 0.5

    def __init__(self, cluster: Cluster) -> None:
        """Remember the cluster; nothing is asked yet."""
        super().__init__(daemon=True)
        self._cluster, self.stopped = cluster, threading.Event()

    def run(self) -> None:
        """Look until it is stopped."""
        while not self.stopped.wait(self.pause_s):
            try:
                self._look()
            except BringupError as error:
                print(f"{self.called}: {error}", file=sys.stderr)

    def _look(self) -> None:
        raise NotImplementedError


class LookingAlone(Looking):
    """Looks over a connection of its own, as another controller does, and closes it."""

    def run(self) -> None:
        """Look until it is stopped."""
        with self._cluster:
            super().run()
