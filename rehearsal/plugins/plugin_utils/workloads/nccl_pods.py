# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nccl-tests: the launcher's log has the output of all ranks. The other pods only run an SSH server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model.values import ClusterModel
from .benchmark import benchmark_of, named_test, rank_pod
from .nccl_run import simulate_run
from .pod_simulator import (
    INDEX_LABEL,
    ROLE_LABEL,
    STDOUT,
    Json,
    PodGroup,
    PodOutput,
    PodSimulator,
    SimContext,
    labels_of,
    words_of,
)

_SSHD_LINES = ((STDOUT, "Server listening on 0.0.0.0 port 2222."),)


def handles(pod: Json) -> bool:
    """Tell whether a pod runs nccl-tests, or belongs to an MPIJob."""
    return ROLE_LABEL in labels_of(pod) or bool(named_test(words_of(pod)))


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the outputs once the launcher and all pods with ranks run."""
    launcher = next((pod for pod in group.pods if _is_launcher(pod)), None)
    members = [pod for pod in group.pods if labels_of(pod).get(ROLE_LABEL) != "launcher"]
    if launcher is None or not _all_run([launcher, *members], group):
        return None
    run = benchmark_of(launcher, members)
    if run is None:
        return None
    # Pods of a Job have names `<job>-<index>-<random>`. The job's name seeds the noise, so that repeated runs differ.
    output = simulate_run(run, context.model, context.skus, launcher["metadata"]["name"].rpartition("-")[0])
    outputs = {
        # The workers of a Job end with the launcher. Those of an MPIJob run until they are removed.
        _name(pod): PodOutput(lines=_SSHD_LINES, exit_code=_member_exit_code(pod, output.exit_code), run_s=output.run_s)
        for pod in members
    }
    lines = (*output.lines, *limits_of(launcher, members, context.model)) if output.exit_code else output.lines
    outputs[_name(launcher)] = PodOutput(lines=lines, exit_code=output.exit_code, run_s=output.run_s)
    return outputs


def limits_of(launcher: Json, members: Sequence[Json], model: ClusterModel) -> list[tuple[str, str]]:
    """Return the output of `ulimit -l` on every pod, if the launcher's script runs it."""
    if not any("ulimit -l" in word for word in words_of(launcher)):
        return []
    lines = []
    for pod in members:
        place = rank_pod(pod, 0)
        node = model.node(place.node)
        # As in NVIDIA/nccl-tests#206. With a kernel that cannot provide memory the limit tells nothing.
        limit = "8192" if not node.performance.memory_lock else "unlimited"
        lines.append((STDOUT, f"gpufleet: locked memory of {place.hostname} is {limit}"))
    return lines


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def _member_exit_code(pod: Json, launcher_exit_code: int | None) -> int | None:
    return 0 if launcher_exit_code is not None and INDEX_LABEL in labels_of(pod) else None


def _all_run(pods: Sequence[Json], group: PodGroup) -> bool:
    running = {_name(pod) for pod in group.running}
    return all(_name(pod) in running for pod in pods)


def _is_launcher(pod: Json) -> bool:
    labels = labels_of(pod)
    if ROLE_LABEL in labels:
        return labels[ROLE_LABEL] == "launcher"
    return labels.get(INDEX_LABEL, "0") == "0"


SIMULATOR = PodSimulator(name="nccl-tests", handles=handles, simulate=simulate)
