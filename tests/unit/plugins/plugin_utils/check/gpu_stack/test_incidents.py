# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public incidents of Kubernetes stacks with a confirmed cause, replayed as evidence: the cause is named, or what the
pods say is quoted; never a pass. Each names the thread that it is taken from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_cluster import (
    speakers,
    with_last_words,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status

from .conftest import NAMES, changed_node, changed_operand, context, healthy, judged, workload

DRIVER, PLUGIN = "nvidia-driver-daemonset", "nvidia-device-plugin-daemonset"
CRASH = {"state": "failed", "cause": "pod-crash-looping", "reason": "CrashLoopBackOff, last exit code 1", "ready": 3,
         "nodes": ("gpu02",), "pod": "pod-x"}  # fmt: skip


def _held(view: ClusterState) -> list[Outcome]:
    return [o for o in judged(view, context()) if o.status is not Status.PASSED and not o.blocked_by]


def _crashing(app: str, said: str, **more: Any) -> ClusterState:
    return changed_operand(changed_node(healthy(), "gpu02", allocatable={}), app, **{**CRASH, "said": said, **more})


@pytest.mark.parametrize(
    ("app", "said", "cause"),
    [
        # NVIDIA/gpu-operator#460: strategy single on a node with mixed slices.
        (
            PLUGIN,
            "panic: At least one device with migEnabled=true was not configured correctly: More than one MIG device "
            "type present on node",
            "mig-strategy-mismatch",
        ),
        # NVIDIA/gpu-operator#751: a driver older than the kernel.
        (
            DRIVER,
            "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'",
            "driver-build-failed",
        ),
        # NVIDIA/k8s-device-plugin#23: nvidia is not the runtime of containers.
        (
            PLUGIN,
            "Loading NVML\nFailed to start nvml with error: could not load NVML library\nfailed",
            "runtime-not-configured",
        ),
        # NVIDIA/gpu-operator#1374: containerd was configured and not restarted.
        (
            PLUGIN,
            'exec: "nvidia-smi": executable file not found in $PATH: unknown',
            "runtime-not-configured",
        ),
        # siderolabs/talos#8402: a kernel for which the distribution has no precompiled driver.
        (
            DRIVER,
            "Installing NVIDIA driver kernel modules...\n"
            "E: Unable to locate package linux-objects-nvidia-535-server-6.1.51-talos\n"
            "Unmounting NVIDIA driver rootfs...",
            "driver-build-failed",
        ),
        # siderolabs/extensions#227: Secure Boot.
        (
            DRIVER,
            "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
            "driver-module-refused",
        ),
        # NVIDIA/gpu-operator#1687, #1276: the driver lies where the operator does not look.
        (
            PLUGIN,
            'time="2025" level=info msg="Attempting to validate a driver container installation"\n'
            'level=warning msg="failed to validate the driver, retrying after 5 seconds"',
            "driver-not-found",
        ),
        # siderolabs/extensions#1073: a new dependency of the fabric manager.
        (
            DRIVER,
            "nv-fabricmanager: error while loading shared libraries: libz.so.1: cannot open shared object file",
            "image-library-missing",
        ),
    ],
)
def test_a_crashing_operand_names_its_cause_in_its_log(app: str, said: str, cause: str) -> None:
    (found,) = _held(_crashing(app, said))
    assert (found.check, found.status, found.cause) == ("cluster-policy-ready", Status.FAILED, cause)
    assert {"gpu02", f"gpu-operator/{app}"} <= {subject.name for subject in found.subjects}
    assert any(line in found.summary for line in said.splitlines())


def test_every_gpu_container_is_refused_by_the_toolkit() -> None:
    """awslabs/amazon-eks-ami#2062, NVIDIA/nvidia-container-toolkit#797: in the status, not in a log."""
    words = (
        "container gpu-feature-discovery of pod x: RunContainerError (failed to create task: OCI runtime create: "
        "error running hook #0: Auto-detected mode as 'legacy' nvidia-container-cli: error parsing IMEX info: "
        "unsupported IMEX channel value: all: unknown)"
    )
    view = _crashing(PLUGIN, "", cause="pod-config-error", reason=words, ready=0, nodes=NAMES)
    for name in NAMES:
        view = changed_node(view, name, allocatable={})
    (found,) = _held(view)
    assert (found.check, found.cause) == ("cluster-policy-ready", "container-runtime-hook-failed")
    assert "unsupported IMEX channel value" in found.summary


def test_imex_runs_on_the_host_already() -> None:
    """kubernetes-sigs/dra-driver-nvidia-gpu#524: ComputeDomains never become ready."""
    sick = workload("nvidia-dra-driver-gpu-main", "nvidia-dra-driver-gpu/nvidia-dra-driver-gpu", ready=0,
                    state="failed", cause="pod-crash-looping", reason="CrashLoopBackOff", pod="p",
                    said="Failed to allocate Imex channel: NV_ERR_IN_USE")  # fmt: skip
    view = healthy()
    workloads = tuple(sick if entry.name == sick.name else entry for entry in view.workloads or ())
    (found,) = _held(replace(view, workloads=workloads))
    assert (found.check, found.cause) == ("component-health", "imex-service-on-host")
    assert "systemctl disable --now nvidia-imex" in found.hint


def test_a_log_that_names_no_known_cause_is_quoted() -> None:
    (found,) = _held(_crashing(DRIVER, "Stopping NVIDIA persistence daemon...\nsomething that nobody has seen"))
    assert found.cause == "operand-not-ready"
    assert "it says: something that nobody has seen" in found.summary


@pytest.mark.parametrize(
    ("log", "quoted"),
    [
        ("[Vector addition of 50000 elements]\nFailed to allocate device vector A (error code initialization error)!\n"
         "[Vector addition of 50000 elements]", "Failed to allocate device vector A"),
        ("error: first\nlevel=fatal msg=second\nstopping", "second"),
    ],
)  # fmt: skip
def test_the_line_of_the_error_is_quoted_and_not_what_is_printed_after_it(log: str, quoted: str) -> None:
    (found,) = _held(_crashing(DRIVER, log))
    assert f"it says: {quoted}" in found.summary or f"msg={quoted}" in found.summary


def test_an_operand_that_no_node_wants_has_no_logs_to_read() -> None:
    """incident nfd-taint: NFD's pods are kept away by a taint, so that no node is labelled."""
    (found,) = [
        o
        for o in _held(changed_operand(healthy(), PLUGIN, desired=0, ready=0, state="failed", pod="", nodes=()))
        if o.check == "cluster-policy-ready"
    ]
    assert "kubectl logs" not in found.hint and "nvidia.com/gpu.present" in found.hint


def test_the_dra_driver_names_the_root_that_it_was_given() -> None:
    """kubernetes-sigs/dra-driver-nvidia-gpu#389"""
    said = "run: chroot /driver-root nvidia-smi\nchroot: failed to run command 'nvidia-smi': No such file or directory"
    sick = workload("nvidia-dra-driver-gpu-main", "nvidia-dra-driver-gpu/nvidia-dra-driver-gpu", ready=0,
                    state="failed", cause="pod-crash-looping", reason="Init:0/1", pod="p", said=said)  # fmt: skip
    view = healthy()
    workloads = tuple(sick if entry.name == sick.name else entry for entry in view.workloads or ())
    (found,) = _held(replace(view, workloads=workloads))
    assert (found.check, found.cause) == ("component-health", "driver-root-wrong")
    assert "nvidiaDriverRoot" in found.hint


def test_the_dra_driver_waits_for_a_fabric_that_gpus_have_not_joined() -> None:
    """kubernetes-sigs/dra-driver-nvidia-gpu#864"""
    sick = workload("nvidia-dra-driver-gpu-main", "nvidia-dra-driver-gpu/nvidia-dra-driver-gpu", ready=0,
                    state="failed", cause="pod-crash-looping", reason="CrashLoopBackOff", pod="p",
                    said="Error: error creating driver: empty cluster UUID, refusing to start")  # fmt: skip
    view = healthy()
    workloads = tuple(sick if entry.name == sick.name else entry for entry in view.workloads or ())
    (found,) = _held(replace(view, workloads=workloads))
    assert (found.check, found.cause) == ("component-health", "nvlink-fabric-not-registered")


def test_no_gpus_after_an_upgrade_of_the_device_plugin() -> None:
    """NVIDIA/k8s-device-plugin#1645: its pod is ready and offers nothing; a restart of it helps."""
    (found,) = _held(changed_node(healthy(), "gpu02", allocatable={"nvidia.com/gpu": 0}))
    assert (found.check, found.cause, found.subjects[0].name) == ("gpu-allocatable", "gpu-not-advertised", "gpu02")
    assert "restart that pod" in found.hint


def test_a_gpu_stays_out_after_a_contained_memory_error() -> None:
    """An XID marks a GPU unhealthy, and the device plugin never takes it back."""
    view = changed_node(healthy(), "gpu02", allocatable={"nvidia.com/gpu": 7}, capacity={"nvidia.com/gpu": 8})
    (found,) = [o for o in _held(view) if o.check == "gpu-allocatable"]
    assert (found.cause, found.subjects[0].name) == ("gpu-marked-unhealthy", "gpu02")


def test_hosts_that_never_joined() -> None:
    """Azure/aks-gpu#170: the image waits for a fabric manager that does not exist; the kubelet never starts."""
    view = healthy()
    view = replace(view, nodes=tuple(node for node in view.nodes or () if node.name != "gpu02"))
    assert ("node-ready", "node-missing") in {(o.check, o.cause) for o in _held(view)}


def test_exporters_that_the_kernel_ends_on_hosts_with_many_gpus() -> None:
    """pytorch/ci-infra#1011, NVIDIA/dcgm-exporter#609: ready in between, and then gone again."""
    (found,) = _held(changed_operand(healthy(), "nvidia-dcgm-exporter", killed=("gpu02", "gpu03")))
    assert (found.check, found.cause, found.rating) == (
        "cluster-policy-ready",
        "operand-out-of-memory",
        Rating.MARGINAL,
    )
    assert [subject.name for subject in found.subjects[1:]] == ["gpu-operator/nvidia-dcgm-exporter", "gpu02", "gpu03"]


class _Logs:
    """A cluster with one pod whose container failed; it answers for logs as the API server does."""

    def __init__(self, *containers: dict[str, Any], readable: bool = True) -> None:
        self.pod = {"metadata": {"name": "pod-x"}, "status": {"containerStatuses": list(containers)}}
        self.readable = readable
        self.asked: list[tuple[str, bool]] = []

    def find_listed(self, _kind: Any, _name: str, _namespace: str) -> dict[str, Any]:
        return self.pod

    def logs(self, _pod: str, _namespace: str, *, container: str, tail_lines: int, previous: bool) -> str:
        if not self.readable:
            raise BringupError("pod pod-x", "forbidden.", "")
        assert tail_lines > 0
        self.asked.append((container, previous))
        return f"{container} said this"


CRASHED = {"name": "ctr", "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
           "lastState": {"terminated": {"exitCode": 1}}}  # fmt: skip
FINE = {"name": "side", "ready": True, "state": {"running": {}}}


def _with_broken_plugin() -> ClusterState:
    view = changed_operand(healthy(), PLUGIN, **CRASH)
    broken = tuple(operand.workload for operand in view.operands or () if operand.workload.app == PLUGIN)
    return replace(view, workloads=(*(view.workloads or ()), *broken))


def test_the_log_before_the_crash_is_read_and_of_no_container_that_works() -> None:
    cluster: Any = _Logs(CRASHED, FINE)
    seen = with_last_words(cluster, _with_broken_plugin())
    assert cluster.asked == [("ctr", True)]
    assert [o.workload.said for o in seen.operands or () if o.workload.app == PLUGIN] == ["ctr said this"]
    waiting = {"status": {"initContainerStatuses": [{"name": "init", "state": {"running": {}}}]}}
    assert speakers(waiting) == [("init", False)]


def test_who_may_not_read_logs_still_sees_the_status() -> None:
    cluster: Any = _Logs(CRASHED, readable=False)
    assert with_last_words(cluster, _with_broken_plugin()) == _with_broken_plugin()
    nobody: Any = None
    assert with_last_words(nobody, healthy()) == healthy()
