# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nccl-tests: the launcher's log has the output of every rank; the other pods only let it in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .benchmark import benchmark_of, named_test
from .play import play
from .player import INDEX_LABEL, ROLE_LABEL, STDOUT, Cast, Json, Part, Player, Scene, labels_of, words_of

_DOOR = ((STDOUT, "Server listening on 0.0.0.0 port 2222."),)


def knows(pod: Json) -> bool:
    """Tell whether a pod runs nccl-tests, or serves an MPIJob."""
    return ROLE_LABEL in labels_of(pod) or bool(named_test(words_of(pod)))


def perform(cast: Cast, scene: Scene) -> Mapping[str, Part] | None:
    """Return the parts once the launcher and every pod with ranks run."""
    launcher = next((pod for pod in cast.pods if _is_launcher(pod)), None)
    members = [pod for pod in cast.pods if labels_of(pod).get(ROLE_LABEL) != "launcher"]
    if launcher is None or not _all_run([launcher, *members], cast):
        return None
    run = benchmark_of(launcher, members)
    if run is None:
        return None
    # A Job's pods are called `<job>-<index>-<random>`: a run that is repeated under another name differs a little.
    played = play(run, scene.model, scene.skus, launcher["metadata"]["name"].rpartition("-")[0])
    parts = {
        # The workers of a Job end when the launcher tells them; those of an MPIJob serve until they are removed.
        pod["metadata"]["name"]: Part(lines=_DOOR, exit_code=_told(pod, played.exit_code), run_s=played.run_s)
        for pod in members
    }
    parts[launcher["metadata"]["name"]] = Part(lines=played.lines, exit_code=played.exit_code, run_s=played.run_s)
    return parts


def _told(pod: Json, launchers: int | None) -> int | None:
    return 0 if launchers is not None and INDEX_LABEL in labels_of(pod) else None


def _all_run(pods: Sequence[Json], cast: Cast) -> bool:
    running = {pod["metadata"]["name"] for pod in cast.running}
    return all(pod["metadata"]["name"] in running for pod in pods)


def _is_launcher(pod: Json) -> bool:
    labels = labels_of(pod)
    if ROLE_LABEL in labels:
        return labels[ROLE_LABEL] == "launcher"
    return labels.get(INDEX_LABEL, "0") == "0"


PLAYER = Player(name="nccl-tests", knows=knows, play=perform)
