# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Commands in pods: `kubectl exec` into a pod of a GPU node runs that host's simulated tools.

KWOK runs such a command on this machine: it looks the program up on its own PATH and adds the environment of the
ClusterExec that names the pod. So KWOK's PATH is a directory of shims, one script per tool; a shim runs the tool of the
same name in the directory that the environment names: the tools of the host on which the pod runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...clients.kube.kinds import PODS, Kind
from .cluster_facts import ClusterFacts
from .cluster_view import CREATE, MERGE, Change, ClusterView, Json, is_deleted, labels_of
from .slurm_operator import COMMANDS, runs_slurms_commands

MANAGER = "rehearsal"
CLUSTER_EXECS = Kind("kwok.x-k8s.io/v1alpha1", "ClusterExec", "clusterexecs", namespaced=False)
TOOLS_VARIABLE = "GPUFLEET_REHEARSAL_TOOLS"
_JOB_LABEL = "batch.kubernetes.io/job-name"
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_COMMON = ("sh", "bash", "cat", "env", "echo", "true", "false", "ls", "uname", "sleep", "timeout")


def exec_shims(rehearsal: Path) -> Path:
    """Return the directory of the shims, which has to be the PATH of KWOK."""
    return rehearsal / "exec" / "bin"


def tools_of(hosts: Path, host: str) -> Path:
    """Return the directory with the simulated tools of a host."""
    return hosts / host / "bin"


def slurm_commands(rehearsal: Path) -> Path:
    """Return the directory with the commands of a simulated Slurm, whose controller is no host."""
    return rehearsal / "exec" / "slurm"


def make_exec_shims(directory: Path, hosts: Path) -> None:
    """Write a shim for every tool that any host has, and for a few programs that every image has."""
    directory.mkdir(parents=True, exist_ok=True)
    tools = {path.name for host in sorted(hosts.glob("*/bin")) for path in host.iterdir() if not path.is_dir()}
    tools |= set(COMMANDS)
    for name in sorted(tools | set(_COMMON)):
        target = f'"${{{TOOLS_VARIABLE}:?}}/{name}"' if name in tools else f'"$(command -v {name})"'
        path = directory / f".{name}.partial"
        path.write_text(f'#!/bin/sh\nexec {target} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
        os.replace(path, directory / name)


def _is_served(pod: Json) -> bool:
    """Tell whether commands can be run in a pod: Jobs make them by the hundred, and nobody calls into those."""
    return not is_deleted(pod) and _JOB_LABEL not in labels_of(pod)


def reconcile(view: ClusterView, facts: ClusterFacts, hosts: Path) -> list[Change]:
    """Return the ClusterExecs to write: one per node, which names the pods on it, and one for those of a Slurm."""
    changes: list[Change] = []
    for node in facts.nodes.values():
        pods = [pod for pod in view.pods_on(node.name) if _is_served(pod) and not runs_slurms_commands(pod)]
        changes += _exec(view, f"host-{node.name}", pods, tools_of(hosts, node.name), {"HOSTNAME": node.name})
    slurm = [pod for pod in view.all(PODS) if runs_slurms_commands(pod) and _is_served(pod)]
    return [*changes, *_exec(view, "slurm", slurm, slurm_commands(hosts.parent), {})]


def _exec(view: ClusterView, name: str, pods: list[Json], tools: Path, more: dict[str, str]) -> list[Change]:
    """Return what to write so that these pods run the programs of that directory."""
    names = sorted(pod["metadata"]["name"] for pod in pods)
    known = view.find(CLUSTER_EXECS, name)
    if known is None:
        variables = {TOOLS_VARIABLE: str(tools), "PATH": f"{tools}:{_SYSTEM_PATH}", **more}
        envs = [{"name": key, "value": value} for key, value in variables.items()]
        spec = {"selector": {"matchNames": names}, "execs": [{"local": {"envs": envs}}]}
        body = {"metadata": {"name": name}, "spec": spec}
        return [Change(MANAGER, CREATE, CLUSTER_EXECS, name, body=body)] if names else []
    if known["spec"]["selector"]["matchNames"] == (names or ["-"]):
        return []
    body = {"spec": {"selector": {"matchNames": names or ["-"]}}}
    return [Change(MANAGER, MERGE, CLUSTER_EXECS, name, body=body)]
