# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The receiver of test alerts: the pod's own program always really runs, on loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from .pod_simulator import Json, PodGroup, PodOutput, PodSimulator, RealProcess, SimContext, labels_of, words_of

LABEL, NAME = "app.kubernetes.io/name", "gpufleet-alert-receiver"
PORT_VARIABLE = "GPUFLEET_REHEARSAL_ALERT_RECEIVER"


def handles(pod: Json) -> bool:
    return labels_of(pod).get(LABEL) == NAME and words_of(pod)[:1] == ["python3"]


def simulate(group: PodGroup, _context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the program, on the port at which Alertmanager reaches the pod. It runs until it is removed."""
    port = os.environ.get(PORT_VARIABLE, "")
    if not group.running or not port:
        return None
    pod = group.running[0]
    argv = (sys.executable, *words_of(pod)[1:])
    process = RealProcess(argv=argv, env={"ADDRESS": "127.0.0.1", "PORT": port})
    return {pod["metadata"]["name"]: PodOutput(process=process, exit_code=None)}


SIMULATOR = PodSimulator(name="alert-receiver", handles=handles, simulate=simulate)
