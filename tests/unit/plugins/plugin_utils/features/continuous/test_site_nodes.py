# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a site as the queue sees them: names of hosts, racks, rails, what is on them and in them."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from simulated_training import hardware
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.settings import (
    CONTINUOUS,
    ContinuousSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES, PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.plan import (
    busy_hosts,
    limits_of,
    queue_nodes,
    uses_in_kubernetes,
    uses_in_slurm,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.node_use import NodeUse, Use

HOSTS = tuple(Host(name=f"gpu0{n}", sku="dgx-h100", node_name=f"node-{n}", rack=f"r{n % 2}") for n in range(1, 5))
BAD_FAN = Quarantine(node="gpu04", reason="bad fan", ticket="OPS-7", who="jo")


def context_of(tmp_path: Path, **settings: Any) -> ObserveContext:
    recipe = {"componentRefs": [{"name": "calico", "namespace": "calico-system"}]}
    site = make_site(HOSTS, quarantine=(BAD_FAN,), settings={CONTINUOUS: settings})
    return ObserveContext(site=site, run_dir=tmp_path, today=date(2026, 11, 23), recipe=recipe)


def live_node(name: str) -> dict[str, Any]:
    status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name}, "spec": {}, "status": status}


def live_pod(name: str, node: str, namespace: str) -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [{"resources": {}}]}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": {"phase": "Running"}}


class Api:
    """Four nodes; a component, a monitor and a user have a pod each on one of them."""

    def served_versions(self, _group: str) -> tuple[str, ...]:
        return ()

    def list_objects(self, kind: Kind, *_args: Any, **_more: Any) -> list[dict[str, Any]]:
        if kind is PODS:
            return [
                live_pod("typha", "node-1", "calico-system"), live_pod("grafana", "node-2", "monitoring"),
                live_pod("notebook", "node-3", "team"),
            ]  # fmt: skip
        return [live_node(f"node-{n}") for n in range(1, 5)] if kind is NODES else []


def test_hosts_are_looked_at_by_their_nodes_and_named_as_the_site_does(tmp_path: Path) -> None:
    uses = uses_in_kubernetes(cast(Cluster, Api()), context_of(tmp_path))
    assert uses == {
        "gpu01": NodeUse(name="gpu01", use=Use.FREE),
        "gpu02": NodeUse(name="gpu02", use=Use.BUSY, why="pod monitoring/grafana is there"),
        "gpu03": NodeUse(name="gpu03", use=Use.BUSY, why="pod team/notebook is there"),
    }
    assert busy_hosts(uses.values()) == ("gpu02", "gpu03")


def test_a_site_states_which_pods_are_no_reason(tmp_path: Path) -> None:
    named = context_of(tmp_path, system_namespaces=["monitoring"])
    assert [name for name, use in uses_in_kubernetes(cast(Cluster, Api()), named).items() if use.free] == [
        "gpu01", "gpu02",
    ]  # fmt: skip
    all_of_them = context_of(tmp_path, beside_pods=True)
    assert all(use.free for use in uses_in_kubernetes(cast(Cluster, Api()), all_of_them).values())


def test_the_queue_gets_every_host_also_those_set_aside_or_not_asked_about(tmp_path: Path) -> None:
    uses = {"gpu01": NodeUse(name="gpu01", use=Use.FREE), "gpu02": NodeUse(name="gpu02", use=Use.OURS, why="drained")}
    nodes = queue_nodes(context_of(tmp_path), uses, {"gpu01": {"gpu0": "GPU-a"}})
    assert [(node.name, node.rack, node.not_free, dict(node.parts)) for node in nodes] == [
        ("gpu01", "r1", "", {"gpu0": "GPU-a"}),
        ("gpu02", "r0", "drained", {}),
        ("gpu03", "r1", "nobody was asked what is on it", {}),
        ("gpu04", "r0", "quarantined: bad fan (OPS-7)", {}),
    ]


def scontrol(tmp_path: Path, text: str, rc: int = 0) -> str:
    script = tmp_path / "scontrol"
    script.write_text(f"#!/bin/sh\n[ \"$1 $2\" = 'show nodes' ] || exit 9\ncat <<'END'\n{text}\nEND\nexit {rc}\n")
    script.chmod(0o755)
    return os.fspath(script)


def test_slurm_is_asked_by_text(tmp_path: Path) -> None:
    said = "NodeName=node-1 Gres=gpu:8\n   State=IDLE\nNodeName=node-2 Gres=gpu:8\n   State=IDLE+BLOCKED"
    uses = uses_in_slurm(scontrol(tmp_path, said), context_of(tmp_path).site, {})
    assert {name: use.why for name, use in uses.items()} == {
        "gpu01": "", "gpu02": "is IDLE+BLOCKED", "gpu03": "it is not in Slurm",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gres", "why"),
    [
        ("gpu:h100:8(S:0-1)", ""),
        ("(null)", ""),
        ("gpu:h100:7", "Slurm gives out 7 GPUs there (gpu:h100:7), and dgx-h100 has 8"),
        ("gpu:8K", "found 'Gres=gpu:8K', expected a number of GPUs as in `gpu:h100:8(S:0-1)`."),
    ],
)
def test_a_node_of_which_slurm_gives_out_other_gpus_is_not_free(tmp_path: Path, gres: str, why: str) -> None:
    uses = uses_in_slurm(
        scontrol(tmp_path, f"NodeName=node-1 Gres={gres}\n   State=IDLE"), context_of(tmp_path).site, hardware()
    )
    assert (uses["gpu01"].why, uses["gpu01"].free) == (why, not why)


@pytest.mark.parametrize(("text", "rc"), [("", 0), ("slurm_load_node error", 1), ("sinfo: nothing", 0)])
def test_what_slurm_does_not_say_is_an_error_and_no_free_node(tmp_path: Path, text: str, rc: int) -> None:
    with pytest.raises(BringupError):
        uses_in_slurm(scontrol(tmp_path, text, rc), context_of(tmp_path).site, {})


def test_the_limits_of_a_batch_are_those_that_the_site_states(tmp_path: Path) -> None:
    stated = context_of(tmp_path, batch=3, per_rack=1, per_rail=2, window="22:00-06:00", window_zone="Europe/Berlin")
    limits = limits_of(stated.settings_of(CONTINUOUS, ContinuousSettings))
    assert (limits.size, limits.per_rack, limits.per_rail, str(limits.window)) == (
        3, 1, 2, "22:00-06:00 Europe/Berlin",
    )  # fmt: skip
    shipped = limits_of(context_of(tmp_path).settings_of(CONTINUOUS, ContinuousSettings))
    assert shipped.window is None and shipped.failed_again_h == 6
    with pytest.raises(InputError, match="window zone"):
        wrong = context_of(tmp_path, window="22:00-06:00", window_zone="Mars")
        limits_of(wrong.settings_of(CONTINUOUS, ContinuousSettings))
