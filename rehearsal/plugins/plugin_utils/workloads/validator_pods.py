# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pods of validator images: a stand-in image whose arguments are its output and exit code.

The work of such an image on a real node is left out. The stand-in follows the contract (NVIDIA/aicr, "Validator
Development Guide"): lines on stdout, a message in /dev/termination-log, the exit code.
"""

from __future__ import annotations

from collections.abc import Mapping

from .pod_simulator import STDOUT, Json, PodGroup, PodOutput, PodSimulator, SimContext, words_of

IMAGE = "rehearsal.gpufleet.invalid/validator"


def handles(pod: Json) -> bool:
    container = (pod["spec"].get("containers") or [{}])[0]
    return str(container.get("image", "")).startswith(IMAGE)


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the output by its arguments: `exit=1`, `message=text`, `run_s=3`, and every other one is a line."""
    del context
    if not group.running:
        return None
    pod = group.running[0]
    reported = dict(
        word.split("=", 1) for word in words_of(pod) if word.partition("=")[0] in ("exit", "message", "run_s")
    )
    lines = [word for word in words_of(pod) if word.partition("=")[0] not in reported]
    return {
        pod["metadata"]["name"]: PodOutput(
            lines=tuple((STDOUT, line) for line in lines),
            exit_code=int(reported.get("exit", "0")),
            message=reported.get("message", ""),
            run_s=float(reported.get("run_s", "0")),
        )
    }


SIMULATOR = PodSimulator(name="validator", handles=handles, simulate=simulate)
