# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs ask for a queue that their scheduler has: what KAI's chart and Volcano bring, or what the site states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import KAI_QUEUES, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import JobSpec, with_queues
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.queue import KAI, VOLCANO, Queue, choose

# What the charts bring, and a site with teams of its own.
KAI_FIRST = (Queue(name="default-parent-queue"), Queue(name="default-queue", parent="default-parent-queue"))
KAI_TEAMS = (Queue(name="org"), Queue(name="red", parent="org"), Queue(name="blue", parent="org"))
UNLIMITED = {"gpu": {"quota": 0, "limit": -1, "overQuotaWeight": 1}}
VOLCANO_FIRST = (Queue(name="root", state="Open"), Queue(name="default", state="Open"))


@pytest.mark.parametrize(
    ("provider", "stated", "queues", "name", "cause"),
    [
        (KAI, "", KAI_FIRST, "default-queue", ""),
        (KAI, "", (Queue(name="top"), Queue(name="only", parent="top")), "only", ""),
        (KAI, "red", KAI_TEAMS, "red", ""),
        (KAI, "", KAI_TEAMS, "", "queue-unstated"),
        (KAI, "default", KAI_FIRST, "", "queue-unusable"),
        (KAI, "org", KAI_TEAMS, "", "queue-unusable"),
        (KAI, "lost", (Queue(name="lost", parent="gone"),), "", "queue-unusable"),
        (KAI, "", (), "", "queue-unstated"),
        (KAI, "", (KAI_FIRST[0], replace(KAI_FIRST[1], gpu_limit=8)), "default-queue", ""),
        (KAI, "", (KAI_FIRST[0], replace(KAI_FIRST[1], gpu_limit=0)), "", "queue-unstated"),
        (KAI, "red", (replace(KAI_TEAMS[0], gpu_limit=0), *KAI_TEAMS[1:]), "", "queue-unusable"),
        (VOLCANO, "", VOLCANO_FIRST, "default", ""),
        (VOLCANO, "", (Queue(name="default"),), "default", ""),
        (VOLCANO, "gpu", VOLCANO_FIRST, "", "queue-unusable"),
        (VOLCANO, "gpu", (*VOLCANO_FIRST, Queue(name="gpu", state="Closed")), "", "queue-unusable"),
        (VOLCANO, "gpu", (*VOLCANO_FIRST, Queue(name="gpu", state="Open")), "gpu", ""),
    ],
)
def test_the_queue_of_a_gang(provider: str, stated: str, queues: tuple[Queue, ...], name: str, cause: str) -> None:
    chosen = choose(provider, stated, queues)
    assert (chosen.name, chosen.cause) == (name, cause)
    if cause:
        assert all(queue.name in chosen.reason for queue in queues) and "kubectl get queues" in chosen.hint


class _Queues:
    """A cluster that has queues of KAI and nothing else."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)

    def find_all(self, kind: Kind) -> list[dict[str, Any]] | None:
        return self.items if kind == KAI_QUEUES else None


def _job(**more: str) -> JobSpec:
    return JobSpec(name="j", nodes=("n",), gpus_per_node=8, image="i", command=("c",), **more)


def test_every_job_gets_the_queue_of_its_scheduler() -> None:
    cluster: Any = _Queues(
        {"metadata": {"name": "default-parent-queue"}, "spec": {"resources": UNLIMITED}},
        {
            "metadata": {"name": "default-queue"},
            "spec": {"parentQueue": "default-parent-queue", "resources": UNLIMITED},
        },
    )
    specs = with_queues(cluster, [_job(gang="kai-scheduler"), _job(gang="volcano"), _job(gang="native")])
    assert [spec.queue for spec in specs] == ["default-queue", "default", ""]
    with pytest.raises(InputError, match="queue default of kai-scheduler does not exist; it has default-parent-queue"):
        with_queues(cluster, [_job(gang="kai-scheduler", queue="default")])


@pytest.mark.parametrize("resources", [{}, {"gpu": {}}, {"gpu": {"quota": 8}}, {"gpu": {"limit": 0}}])
def test_a_kai_queue_without_a_limit_of_gpus_has_none(resources: dict[str, Any]) -> None:
    above = {"metadata": {"name": "top"}, "spec": {"resources": UNLIMITED}}
    cluster: Any = _Queues(above, {"metadata": {"name": "red"}, "spec": {"parentQueue": "top", "resources": resources}})
    with pytest.raises(InputError, match=r"gpu.limit of queue red is 0 or not stated"):
        with_queues(cluster, [_job(gang="kai-scheduler", queue="red")])
