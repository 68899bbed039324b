# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared volume as a test of one idle node: what it asks for, and what its end says."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from simulated_training import hardware
from sites import make_site
from storage_fleet import sample

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.registry import node_tests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.storage_io import StorageIo
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.settings import KEY
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, PodResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import job_objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import (
    storage_settings,
)

HOST = BenchmarkHost(name="gpu01", node="n-gpu01", sku="dgx-h100")


def a_test(**stated: Any) -> StorageIo:
    settings = {KEY: stated or storage_settings(4), "storage_io": {"rate_mib_s": 100}}
    site = make_site((), settings=settings)
    return StorageIo(ObserveContext(site=site, run_dir=Path(), today=date(2026, 1, 1), hardware=hardware()))


def read(log: str, state: Any = "succeeded", reason: str = "") -> NodeResult:
    pod = PodResult(name="p", node="n-gpu01", hostname="p", exit_code=0, log=log, role="launcher")
    result = JobResult(name="t", state=state, reason=reason, pods=(pod,), started="2026-01-01T00:00:00Z", duration_s=3)
    return a_test().read("c1", HOST, result, 7.0)


def test_it_is_one_of_the_tests_of_idle_nodes() -> None:
    assert node_tests()["storage_io"] is StorageIo


def test_every_pattern_is_kept_with_its_rate_and_percentiles() -> None:
    found = read(sample())
    assert (found.status, found.rating, found.node, found.test) == (Status.PASSED, Rating.GOOD, "gpu01", "storage_io")
    assert len(found.figures) == 4 * 5 and all(figure.number > 0 for figure in found.figures)
    assert {"random-read p99.9", "sequential-write", "random-write operations"} <= {f.name for f in found.figures}
    assert "fio-3.33" in found.cohort and "direct" in found.cohort and "100 MiB/s" in found.cohort


@pytest.mark.parametrize(
    ("log", "state", "status", "cause"),
    [
        (sample().replace("begin\n", "begin\ncrc32c: verify failed at file /data/x offset 0\n"), "failed",
         Status.FAILED, "data-corrupt"),
        ("", "succeeded", Status.OTHER, "output-incomplete"),
        ("", "timeout", Status.OTHER, "run-hung"),
        (sample(), "preempted", Status.PENDING, "launch-preempted"),
        (sample(), "image", Status.OTHER, "launch-image"),
    ],
)  # fmt: skip
def test_anything_else_is_no_pass(log: str, state: str, status: Status, cause: str) -> None:
    found = read(log, state, "why")
    assert (found.status, found.cause, found.figures) == (status, cause, ())


def test_without_a_volume_no_host_is_fit_and_with_one_every_host_is() -> None:
    assert "states neither volume nor claim" in a_test(size_mib=1).unfit(HOST)
    assert a_test().unfit(HOST) == ""


def test_its_pod_writes_below_the_volume_alone_and_at_the_rate_for_users() -> None:
    spec = a_test().job("storage-1", HOST)
    assert spec.env["FIO_RATE"] == str(100 * (1 << 20) // 2)
    pod = job_objects(spec, TemporaryNamespace(None, "test", 60.0, ()))[-1]["spec"]["template"]["spec"]  # type: ignore[arg-type]
    (volume,), (container,) = pod["volumes"], pod["containers"]
    assert volume == {"hostPath": {"path": "/mnt/shared"}, "name": "data"}
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    assert pod["securityContext"]["runAsUser"] == 65534 and "resources" not in container


@pytest.mark.parametrize(
    ("volume", "words"),
    [({"hostPath": {"path": "/mnt/all"}}, ""), ({"nfs": {"server": "a", "path": "/b"}}, "state the directory")],
)
def test_over_slurm_the_volume_is_a_directory_that_nodes_have(volume: dict[str, Any], words: str) -> None:
    site = make_site((), settings={KEY: {"volume": volume}}, orchestrator="slurm")
    test = StorageIo(ObserveContext(site=site, run_dir=Path(), today=date(2026, 1, 1), hardware=hardware()))
    assert not test.unfit(HOST)
    said = test.unready(HOST)
    assert words in said and bool(said) is bool(words)
    assert not a_test(volume=volume).unready(HOST), "pods mount any volume"
