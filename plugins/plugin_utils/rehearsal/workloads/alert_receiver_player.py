# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The receiver of test alerts: always played for real, by the program of the pod itself, on loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from .player import Cast, Json, Part, Player, Process, Scene, labels_of, words_of

LABEL, NAME = "app.kubernetes.io/name", "gpufleet-alert-receiver"
PORT_VARIABLE = "GPUFLEET_REHEARSAL_ALERT_RECEIVER"


def knows(pod: Json) -> bool:
    """Tell whether a pod receives test alerts."""
    return labels_of(pod).get(LABEL) == NAME and words_of(pod)[:1] == ["python3"]


def perform(cast: Cast, _scene: Scene) -> Mapping[str, Part] | None:
    """Return the program, listening where Alertmanager is told that the pod listens; it goes on until it is removed."""
    port = os.environ.get(PORT_VARIABLE, "")
    if not cast.running or not port:
        return None
    pod = cast.running[0]
    argv = (sys.executable, *words_of(pod)[1:])
    process = Process(argv=argv, env={"ADDRESS": "127.0.0.1", "PORT": port})
    return {pod["metadata"]["name"]: Part(process=process, exit_code=None)}


PLAYER = Player(name="alert-receiver", knows=knows, play=perform)
