# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers that got slices of a GPU in MIG mode see these and no others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from lease_cluster import MemoryCluster

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    gpu_containers,
    secure_accelerator_access,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.access import NodeAccess, owner_seen
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_access import objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads import access_pods

from .test_gpu_access import SETTINGS, UUIDS, on_gpu02, seen_on


@pytest.mark.parametrize(
    ("devices", "own", "others"),
    [
        (1, (Status.PASSED, ""), (Status.PASSED, "")),
        # The GPU is there and its slice is not: no program can use it.
        (0, (Status.FAILED, "gpus-not-visible"), (Status.OTHER, "blocked-by-gpu-containers")),
        # All slices of the GPU, those of others as well: it is one GPU all the same.
        (7, (Status.OTHER, "blocked-by-secure-accelerator-access"), (Status.FAILED, "gpu-not-its-own")),
    ],
)
def test_of_a_gpu_in_mig_mode_the_slices_count(
    devices: int, own: tuple[Status, str], others: tuple[Status, str]
) -> None:
    """`nvidia-smi -L` prints a line for the GPU, and one for each of its devices (NVIDIA, MIG User Guide)."""
    lines = [f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUIDS[0]})"]
    lines += [f"  MIG 1g.10gb     Device  {n}: (UUID: MIG-{n:08x}-0000-0000-0000-000000000000)" for n in range(devices)]
    ended = [{"name": "owner", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]
    pod = {"metadata": {"name": "n2-owner"}, "status": {"phase": "Succeeded", "containerStatuses": ended}}
    owner = owner_seen(pod, "\n".join(lines), "", "")
    seen = seen_on(total=7, free=7, asked=1, resource="nvidia.com/mig-1g.10gb", owner=owner)
    for check, expected in ((gpu_containers, own), (secure_accelerator_access, others)):
        found = on_gpu02(check, seen)
        assert (found.status, found.cause) == expected


@pytest.mark.parametrize(("resource", "lines"), [("nvidia.com/mig-1g.10gb", 2), ("nvidia.com/gpu", 1)])
def test_a_rehearsed_container_with_a_slice_lists_it_below_its_gpu(resource: str, lines: int) -> None:
    gpu = SimpleNamespace(product="NVIDIA H100 80GB HBM3", uuid=UUIDS[0])
    there = SimpleNamespace(kubernetes=SimpleNamespace(open_devices=False, blind_containers=False), working_gpus=[gpu])
    body = objects(
        TemporaryNamespace(MemoryCluster().api, "gpufleet-test-access-1", 60.0, ()),
        [NodeAccess(node="gpu02", total=7, free=7, resource=resource, asked=1)],
        SETTINGS,
    )[0]
    pod = {**body, "spec": {**body["spec"], "nodeName": "gpu02"}, "status": {}}
    group = SimpleNamespace(running=[pod])
    context = SimpleNamespace(model=SimpleNamespace(node=lambda _name: there), claimed={})
    printed = (access_pods.simulate(group, context) or {})[body["metadata"]["name"]]  # type: ignore[arg-type]
    assert len(printed.lines) == lines
    log = "\n".join(text for _stream, text in printed.lines)
    ended = [{"name": "owner", "state": {"terminated": {"exitCode": 0}}}]
    owner = owner_seen({"status": {"phase": "Succeeded", "containerStatuses": ended}}, log, "", "")
    seen = seen_on(total=7, free=7, asked=1, resource=resource, owner=owner)
    assert on_gpu02(secure_accelerator_access, seen).status is Status.PASSED
