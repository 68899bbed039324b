# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of NVIDIA's DRA driver: whole GPUs, their MIG devices, and those that a taint keeps claims away from.

Attributes as kubernetes-sigs/dra-driver-nvidia-gpu publishes them: cmd/gpu-kubelet-plugin/{deviceinfo,mig}.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import dra_allocation, dra_slices
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.kube_objects import slice_state
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_dra import (
    _nothing_free,
    free_devices,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import node_capacity

from .conftest import context, healthy, site

Json = dict[str, Any]
DRIVER = "gpu.nvidia.com"
XID = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}


def device(name: str, kind: str, *, beta: bool = False, taints: tuple[Json, ...] = (), **more: str) -> Json:
    said = {key: {"string": text} for key, text in {"type": kind, **more}.items()}
    body: Json = {"attributes": said, **({"taints": list(taints)} if taints else {})}
    return {"name": name, "basic": body} if beta else {"name": name, **body}


def gpus(count: int, **more: Any) -> list[Json]:
    return [device(f"gpu-{n}", "gpu", uuid=f"GPU-{n}", **more) for n in range(count)]


def parts(count: int, each: int) -> list[Json]:
    """MIG devices of GPUs that were parted beforehand, which are not listed themselves."""
    return [
        device(f"gpu-{n}-mig-{m}", "mig", uuid=f"MIG-{n}-{m}", parentUUID=f"GPU-{n}", profile="1g.10gb")
        for n in range(count)
        for m in range(each)
    ]


def sliced(devices: list[Json], node: str = "gpu01", driver: str = DRIVER) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {"spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}}


def claim(*results: Json) -> Json:
    return {"status": {"allocation": {"devices": {"results": list(results)}}}}


def slices_of(devices: list[Json]) -> Outcome:
    """What check dra-slices says of a node with these devices, the others being whole."""
    seen = healthy()
    kept = tuple(entry for entry in seen.slices or () if entry.node != "gpu01")
    seen = replace(seen, slices=(*kept, slice_state(sliced(devices))))
    given = context(site=site(capabilities=("kubernetes", "dra")))
    return next(o for o in dra_slices.judge(seen, given) if o.subjects[0].name == "gpu01")


@pytest.mark.parametrize("beta", [False, True])
def test_every_gpu_is_published_whole_or_in_parts(beta: bool) -> None:
    assert slices_of(gpus(8, beta=beta)).status is Status.PASSED
    # All parted, as by a MIG configuration of the node; some; and with the parts that may be made listed beside them.
    assert slices_of(parts(8, 7)).status is Status.PASSED
    assert slices_of([*gpus(8)[4:], *parts(4, 7)]).status is Status.PASSED
    assert slices_of([*gpus(8), *parts(8, 19)]).status is Status.PASSED
    # For virtual machines each is listed once more.
    twice = [device(f"gpu-vfio-{n}", "vfio", uuid=f"GPU-{n}") for n in range(8)]
    assert slices_of([*gpus(8), *twice]).status is Status.PASSED


@pytest.mark.parametrize(
    "devices",
    [
        gpus(7),
        parts(7, 7),
        # One is there, and its health monitor lost it.
        [*gpus(7), device("gpu-7", "gpu", uuid="GPU-7", taints=(XID,))],
        [*gpus(7), device("gpu-7", "gpu", beta=True, uuid="GPU-7", taints=(XID,))],
    ],
    ids=["gpu", "parted", "tainted", "tainted-beta"],
)
def test_a_gpu_that_no_claim_gets_is_missing(devices: list[Json]) -> None:
    outcome = slices_of(devices)
    assert (outcome.status, outcome.cause) == (Status.FAILED, "dra-device-count-mismatch")
    assert "7 of 8 GPUs" in outcome.summary and "taint" in outcome.hint


def test_a_taint_without_an_effect_takes_nothing_away() -> None:
    told = {"key": "gpu.nvidia.com/unmonitored", "effect": "None"}
    assert slices_of([*gpus(7), device("gpu-7", "gpu", uuid="GPU-7", taints=(told,))]).status is Status.PASSED


def test_devices_that_a_claim_holds_are_not_free() -> None:
    listed = [sliced(gpus(2), "a"), sliced([device("gpu-0", "daemon")], "a", "compute-domain.nvidia.com")]
    held = {"driver": DRIVER, "pool": "a", "device": "gpu-1"}
    assert free_devices(listed, [claim(held), {}], ["a"]) == {"a": 1}
    assert free_devices(listed, [claim(held)], ["b"]) == {}
    # Who only watches it, and who holds a device of another driver with the same pool and name.
    assert free_devices(listed, [claim({**held, "adminAccess": True})], ["a"]) == {"a": 2}
    assert free_devices(listed, [claim({**held, "driver": "net.example"})], ["a"]) == {"a": 2}


def test_parts_and_tainted_gpus_are_not_free_for_a_claim_of_whole_ones() -> None:
    devices = [*gpus(2), *parts(2, 7), device("gpu-7", "gpu", uuid="GPU-7", taints=(XID,))]
    assert free_devices([sliced(devices, "a")], [], ["a"]) == {"a": 2}
    node = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert node_capacity([node], [], [], [sliced(devices, "a")], {"a"})["a"].total == 2


def test_where_all_gpus_are_parted_the_claim_is_not_known_and_nobody_is_blamed() -> None:
    seen = _nothing_free([sliced(parts(8, 7), "a")], ["a"])
    assert seen.problem == "no-whole-gpus"
    (outcome,) = dra_allocation.judge(seen, context(site=site(capabilities=("kubernetes", "dra"))))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "no-whole-gpus")
    assert "56 devices" in outcome.summary
    assert _nothing_free([sliced(gpus(8), "a")], ["a"]).problem == "no-devices"
    assert _nothing_free([], ["a"]).problem == "no-devices"
