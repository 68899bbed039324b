# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gates fabric_validation and training_acceptance on one rehearsal: healthy they pass, and every fault of the catalogue
is found, wherever it is."""

from __future__ import annotations

import random
from typing import Any

import pytest
from gate_bench import CATALOGUE, GateBench, faults_of, not_passed
from rehearsal_harness import rehearsal_below
from seeds import drawing
from shared_site import NODES as COUNT
from shared_site import SharedSite
from sites import make_site
from waiting import await_model, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import (
    STORAGE,
    storage_settings,
)

FABRIC, TRAINING = "fabric_validation", "training_acceptance"
# What the scheduler or the kubelet says, and no pod.
OF_THE_CLUSTER = ("launch-unschedulable", "half-placed", "launch-image")


class HardwareBench(GateBench):
    """A gate over what nodes offer to pods."""

    def settle(self, spec: ModelSpec) -> None:
        """Wait until the operators have read the model again and the nodes offer what they should."""
        await_model(self.kept.model)
        changed = [change.at for fault in spec.faults for change in fault.patch]
        adapters = COUNT - sum("rdma_devices" in at for at in changed)
        memory = COUNT - sum("memory_gib" in at for at in changed)
        with self.kept.cluster() as cluster:

            def offered() -> tuple[int, int]:
                found = [node["status"]["allocatable"] for node in cluster.list_objects(NODES)]
                return (
                    [entry.get("rdma/rdma_shared_device_a") for entry in found].count("63"),
                    [entry["memory"] for entry in found].count("2Ti"),
                )

            eventually(lambda: offered() == (adapters, memory), what=offered)


class FabricBench(HardwareBench):
    """Gate fabric_validation."""

    gate, looks = FABRIC, ("dl_unit", "ranks", "nccl")

    def site(self, *, sharp: bool = False, **settings: Any) -> Site:
        stated = {
            FABRIC: {"timeout_s": 30.0, **settings},
            "nccl-all-nodes-bw": {"sharp": sharp},
            "dl_unit": {"timeout_s": 30.0},
            "job-networking": {"timeout_s": 30.0},
            "fabric": {"plan": str(rehearsal_below(self.kept.work) / "cabling.yaml")},
        }
        return make_site(
            self.kept.hosts(), name="rehearsal", capabilities=("kubernetes", "multi_node"), settings=stated
        )


class TrainingBench(HardwareBench):
    """Gate training_acceptance."""

    gate, looks = TRAINING, ("training",)

    def site(self, *, storage: bool = False, **settings: Any) -> Site:
        """Return the site, with `storage` one that has a shared volume."""
        hosts = self.kept.hosts()
        stated = {"timeout_s": 15.0, "schedule_s": 6.0, **settings}
        return make_site(
            hosts,
            name="rehearsal",
            capabilities=("kubernetes", "multi_node", *(("shared_volume",) if storage else ())),
            settings={TRAINING: stated, STORAGE: storage_settings(len(hosts))},
        )


@pytest.fixture(scope="module")
def fabric(site: SharedSite) -> FabricBench:
    return FabricBench(site)


@pytest.fixture(scope="module")
def training(site: SharedSite) -> TrainingBench:
    return TrainingBench(site)


def test_a_healthy_fabric(site: SharedSite) -> None:
    assert "GB/s over all nodes" in site.passed(FABRIC)["key_figure"]
    logs = site.evidence(FABRIC)
    assert len([name for name in logs if name.startswith("node-")]) == COUNT
    assert len([name for name in logs if name.startswith("dl-unit-")]) == COUNT
    assert len([name for name in logs if name.startswith("pair-")]) == COUNT // 2
    assert len([name for name in logs if name.startswith("all-")]) == 1


def test_a_healthy_training(site: SharedSite) -> None:
    gate = site.passed(TRAINING)
    assert "MFU" in gate["key_figure"] and f"over {8 * COUNT} GPUs" in gate["key_figure"]
    fio = [f"fio-{number}-1.log" for number in range(1, COUNT + 1)]
    assert site.evidence(TRAINING) == [*fio, *(f"train-1-1-{index}.log" for index in range(COUNT))]
    print(f"gate took {gate.get('duration_s')} s")


# Of the adapters for GPU traffic of a DGX H100.
NUMBERS = (0, 3, 4, 5, 6, 9, 10, 11)


def _part(fault: str, draw: random.Random) -> str:
    """The part that a fault of the fabric hits."""
    node = f"gpu{draw.randint(1, COUNT):02d}"
    parts = {
        "cluster": "",
        "node": node,
        "hca": f"{node}/mlx5_{draw.choice(NUMBERS)}",
        "gpu": f"{node}/gpu{draw.randrange(8)}",
    }
    return parts.get(CATALOGUE[fault].kind, f"rail{draw.randrange(8)}")


# tests/rehearsal/test_worlds.py judges these without a cluster, drawn as well.
@pytest.mark.drawn(2)
@pytest.mark.parametrize("fault", faults_of(FABRIC))
def test_faults_of_the_fabric(fabric: FabricBench, fault: str) -> None:
    subject = _part(fault, drawing(fault))
    stated = {"sharp": True} if "sharp" in CATALOGUE[fault].needs else {}
    outcomes = fabric.judged(f"{fault}@{subject}" if subject else fault, **stated)
    expected = CATALOGUE[fault].expect
    found = not_passed(outcomes)
    assert [(o.check, o.cause, o.status.value) for o in found] == [(expected.check, expected.cause, expected.status)], (
        subject
    )
    names = [entry.name for entry in found[0].subjects]
    # A fault of the whole cluster is told of what is compared, whatever that is called.
    assert not subject or (subject if CATALOGUE[fault].kind != "gpu" else subject.partition("/")[0]) in names
    assert any(o.status is Status.PASSED for o in outcomes)


def _host_or_gpu(fault: str, draw: random.Random) -> str:
    """The part that a fault of a training hits."""
    node = f"gpu{draw.randint(1, COUNT):02d}"
    return {"node": node, "gpu": f"{node}/gpu{draw.randrange(8)}"}.get(CATALOGUE[fault].kind, "")


OF_TRAINING = faults_of(TRAINING)


@pytest.mark.parametrize("fault", [name for name in OF_TRAINING if CATALOGUE[name].expect.cause in OF_THE_CLUSTER])
def test_what_the_cluster_refuses_to_a_training(training: TrainingBench, fault: str) -> None:
    _assert_found(training, fault)


# tests/unit/plugins/plugin_utils/rehearsal/workloads/test_training_judged.py judges each of these without a cluster.
@pytest.mark.drawn(2)
@pytest.mark.parametrize("fault", [name for name in OF_TRAINING if CATALOGUE[name].expect.cause not in OF_THE_CLUSTER])
def test_faults_of_a_training(training: TrainingBench, fault: str) -> None:
    _assert_found(training, fault)


def _assert_found(training: TrainingBench, fault: str) -> None:
    subject = _host_or_gpu(fault, drawing(fault))
    expected = CATALOGUE[fault].expect
    more = {"looks": ("storage", "training"), "storage": True} if expected.check.startswith("storage-") else {}
    found = not_passed(training.judged(f"{fault}@{subject}" if subject else fault, **more))
    told = {(o.check, o.cause, o.status.value) for o in found}
    assert told == {(expected.check, expected.cause, expected.status)}, [o.summary for o in found]
    if subject and expected.cause != "launch-unschedulable":
        # The scheduler says what is missing, and not where.
        assert len(found) == 1
        assert {subject, subject.partition("/")[0]} <= {entry.name for entry in found[0].subjects}


def test_without_a_gang_scheduler_a_job_is_half_placed(training: TrainingBench) -> None:
    found = not_passed(training.judged("training-memory-short@gpu03", gang="none"))
    assert [(o.cause, o.subjects[0].name) for o in found] == [("half-placed", "gpu03")]
    assert "Insufficient memory" in found[0].summary


@pytest.mark.drawn(1, of="a right that a gate lacks")
@pytest.mark.parametrize("gate", [FABRIC, TRAINING])
def test_a_right_that_is_missing_is_named_and_leaves_nothing(
    fabric: FabricBench, training: TrainingBench, gate: str
) -> None:
    {FABRIC: fabric, TRAINING: training}[gate].assert_missing_rights_are_named()


def test_nothing_is_left_in_the_cluster(site: SharedSite) -> None:
    site.assert_nothing_left()
