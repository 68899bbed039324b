# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An API server that spoils three of ten requests, and is away for half a minute in the middle of a gate.

Neither changes a verdict or leaves anything. `GPUFLEET_FAULT_SEEDS` draws other faults, `GPUFLEET_FAULT_GATES` takes
other gates (docs/development.md).
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from fault_proxy import FAULTS, FaultProxy, tls_upstream
from real_toolchain import build_toolchain
from rehearsal_harness import left_behind, rehearsal_below, rehearse

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES, PRIORITY_CLASSES

pytestmark = pytest.mark.long("moments of outages, drawn by the seed")

GATES = os.environ.get("GPUFLEET_FAULT_GATES", "gpu_stack,fabric_validation").split(",")
SEEDS = [int(seed) for seed in os.environ.get("GPUFLEET_FAULT_SEEDS", "1,2,3").split(",")]
_AWAY_S = 30.0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spoiled_and_absent_api_server_changes_no_verdict_and_leaves_nothing(tmp_path: Path, seed: int) -> None:
    build_toolchain()
    proxy = FaultProxy(tls_upstream(rehearsal_below(tmp_path)), seed=seed)
    proxy.write_kubeconfig(tmp_path / "faulty.kubeconfig")
    proxy.start()
    ended = threading.Event()
    outage = threading.Thread(target=_go_away_in_the_last_gate, args=(proxy, tmp_path / ".run/latest/run.json", ended))
    outage.start()
    try:
        run = rehearse(
            tmp_path, rehearsal_nodes=2, rehearsal_keep=True, gates=GATES,
            kubeconfig=str(tmp_path / "faulty.kubeconfig"),
        )  # fmt: skip
        ended.set()
        outage.join()
        left = _test_objects(tmp_path)
    finally:
        ended.set()
        proxy.stop()
        rehearse(tmp_path, playbook="rehearse_stop.yml")
    assert run.rc == 0, run.output[-3000:]
    assert [run.status(gate) for gate in GATES] == ["passed"] * len(GATES)
    assert left == []
    assert proxy.counts["away"], "the API server was never away"
    spoiled = sum(proxy.counts[fault] for fault in FAULTS)
    assert spoiled > 20, proxy.counts
    assert not left_behind(tmp_path)


def _go_away_in_the_last_gate(proxy: FaultProxy, record: Path, ended: threading.Event) -> None:
    """Be away for half a minute, once the last gate makes its first object."""
    begun = 0
    while not ended.wait(0.1):
        opened = len(GATES) == 1 or (record.exists() and _passed(record, GATES[-2]))
        if not opened:
            begun = len(proxy.asked)
        elif any(line.startswith("POST") and "namespaces/" in line for line in proxy.asked[begun:]):
            break
    proxy.away.set()
    proxy.drop_all()
    back_at = time.monotonic() + _AWAY_S
    while time.monotonic() < back_at and not ended.wait(0.1):
        pass
    proxy.away.clear()


def _passed(record: Path, gate: str) -> bool:
    import json

    gates = json.loads(record.read_text(encoding="utf-8"))["gates"]
    return any(entry["gate"] == gate and entry["status"] == "passed" for entry in gates)


def _test_objects(work: Path) -> list[str]:
    """Namespaces and priority classes of tests that are there and do not go away."""
    kubeconfig = next(iter(sorted(rehearsal_below(work).rglob("admin.kubeconfig"))))
    with Cluster(Connection(kubeconfig=str(kubeconfig))) as cluster:
        found = [
            item
            for kind in (NAMESPACES, PRIORITY_CLASSES)
            for item in cluster.list_objects(kind, labels="gpufleet.io/purpose=test")
        ]
    return [item["metadata"]["name"] for item in found if not item["metadata"].get("deletionTimestamp")]
