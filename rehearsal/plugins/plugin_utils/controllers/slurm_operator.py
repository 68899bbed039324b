# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of Slinky's operator and of the Slurm in its pods: the number of ready workers, and Slurm's commands.

Pods have the labels of SlinkyProject/slurm-operator at v1.2.0 (internal/builder/labels). A worker's Slurm node has the
name of its pod's host, which a label of the pod has (internal/controller/nodeset/utils): the key of its NodeSet and a
number (helm/slurm/templates/nodeset/nodeset-cr.yaml). The commands' output is that of Slurm 22.05.8 (Debian's
slurm-wlm) for the same queries: healthy, with nodes down, with its partition down and with slurmctld ended.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS, Kind

from .cluster_facts import MERGE, Change, ClusterFacts, ClusterView, Json, is_deleted, is_true, key_of, labels_of

MANAGER = "slurm-operator"
GROUP = "slinky.slurm.net"
NODE_SETS = Kind(f"{GROUP}/v1beta1", "NodeSet", "nodesets")
CONTROLLERS = Kind(f"{GROUP}/v1beta1", "Controller", "controllers")
WATCHED = (NODE_SETS, CONTROLLERS)
COMMANDS = ("scontrol", "srun")
_APP, _OF = "app.kubernetes.io/name", "app.kubernetes.io/instance"
_HOST = "nodeset.slinky.slurm.net/pod-hostname"
_HEAD, _WORKER, _LOGIN = "slurmctld", "slurmd", "login"
_NUMBER = re.compile(r"(\d+)$")
_SILENT = "Unable to contact slurm controller (connect failure)"


def runs_slurms_commands(pod: Json) -> bool:
    """Tell whether Slurm's own commands run in a pod."""
    return labels_of(pod).get(_APP) in (_HEAD, _LOGIN)


class SlurmOperator:
    """The operator, and the Slurm of its pods."""

    def __init__(self, directory: Path) -> None:
        """Set the directory for the commands, which are written once there is a Slurm."""
        self._directory = directory

    def reconcile(self, view: ClusterView, facts: ClusterFacts) -> list[Change]:
        """Return the state of the sets of workers."""
        if not any(True for _item in view.all(CONTROLLERS)):
            return []
        changes: list[Change] = []
        nodes: list[str] = []
        for item in view.all(NODE_SETS):
            if is_deleted(item):
                continue
            workers = [pod for pod in view.all(PODS) if _is_of(pod, item)]
            ready = sorted(pod["metadata"]["name"] for pod in workers if is_true(pod, "Ready") and not is_deleted(pod))
            nodes += [_node_name(item, name) for name in ready]
            changes += [_labelled(pod, item) for pod in workers if _HOST not in labels_of(pod) and not is_deleted(pod)]
            status = {"replicas": len(workers), "readyReplicas": len(ready)}
            if any((item.get("status") or {}).get(key) != value for key, value in status.items()):
                namespace, name = key_of(item)
                body = {"status": status}
                changes.append(Change(MANAGER, MERGE, NODE_SETS, name, namespace, body, subresource="status"))
        _write_commands(self._directory, nodes, facts.model.stack.slurm if facts.model else "ok")
        return changes


def _is_of(pod: Json, item: Json) -> bool:
    labels, (namespace, name) = labels_of(pod), key_of(item)
    return pod["metadata"]["namespace"] == namespace and (labels.get(_APP), labels.get(_OF)) == (_WORKER, name)


def _labelled(pod: Json, item: Json) -> Change:
    namespace, name = key_of(pod)
    body = {"metadata": {"labels": {_HOST: _node_name(item, name)}}}
    return Change(MANAGER, MERGE, PODS, name, namespace, body)


def _node_name(item: Json, pod: str) -> str:
    key = item["metadata"]["name"].rpartition("-worker-")[2]
    number = _NUMBER.search(pod)
    return f"{key}-{number.group(1) if number else 0}"


def _write_commands(directory: Path, nodes: Iterable[str], state: str) -> None:
    names = sorted(nodes)
    blocks = [_node(name, "DOWN+NOT_RESPONDING" if state == "nodes-down" else "IDLE+DYNAMIC_NORM") for name in names]
    shown = "\n".join(blocks) or "No nodes in the system"
    not_reporting = state == "silent"
    reported = "DOWN" if not_reporting else "UP"
    texts = {
        "scontrol": [
            'case "$1" in',
            f"ping) echo 'Slurmctld(primary) at slurm-controller is {reported}'; exit {int(not_reporting)};;",
            f"show) {_fails(f'slurm_load_node error: {_SILENT}') if not_reporting else _prints(shown)};;",
            "*) exit 1;;",
            "esac",
        ],
        "srun": [_job(names, state)],
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, lines in texts.items():
        path, text = directory / name, "\n".join(["#!/bin/sh", *lines, ""])
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        partial = directory / f".{name}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o755)
        os.replace(partial, path)


def _node(name: str, state: str) -> str:
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=8 \n   Gres=gpu:8\n   State={state} ThreadsPerCore=1 TmpDisk=0\n"
        "   Partitions=all \n   CfgTRES=cpu=8,mem=1000M,billing=8\n"
    )


def _job(names: list[str], state: str) -> str:
    """Return the shell text of a job: it runs the words after its options on the first node."""
    if state == "silent":
        return _fails(f"srun: error: Unable to allocate resources: {_SILENT}")
    if state != "ok" or not names:
        queued = "srun: Partition in DOWN state" if state == "no-jobs" else "srun: Required node not available"
        return _fails(f"{queued}\nsrun: error: Unable to allocate resources: Requested nodes are busy")
    words = 'while [ "${1#-}" != "$1" ]; do shift; done'
    return f'{words}; SLURMD_NODENAME={names[0]} exec "$@"'


def _prints(text: str) -> str:
    return f"printf '%s\\n' '{text}'"


def _fails(text: str) -> str:
    return f"{_prints(text)} >&2; exit 1"
