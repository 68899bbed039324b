# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Cycles over idle nodes of a simulated cluster: users come first, a dead controller leaves nothing behind."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import yaml
from audit_log import disturbances, kubeconfig_of_identity
from continuous_bench import TEST, USER, Bench
from live_site import live_site
from rehearsal_harness import ROOT, left_behind
from seeds import drawing
from waiting import await_model, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES, PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle import UNCONFIRMED
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import NodeLogs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Change,
    Fault,
    read_spec,
    write_spec,
)

pytestmark = pytest.mark.drawn(1, of="nodes in service", whole=True)

BUSY, SLOW, HANGS = "gpu02", "gpu03", "gpu04"
NAMES = ("gpu01", BUSY, SLOW, HANGS)
PAIR = "nccl_pair"
# A loaded machine is no defect.
WAIT_S = 240


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    work = tmp_path_factory.mktemp("continuous")
    with live_site(work, 4, (f"adapter-slow@{SLOW}/mlx5_5",), audit=True) as site:
        owner = drawing("whose driver a cycle asks").choice(("host", "operator"))
        stack = site.run("gpu_stack", driver_owner=owner)
        assert stack.rc == 0, stack.output[-3000:]
        with Cluster(Connection(kubeconfig=str(site.kubeconfig))) as cluster:
            identity = kubeconfig_of_identity(site.kubeconfig, work / "identity.kubeconfig")
            yield Bench(site, cluster, count(1), identity, owner)
    assert not left_behind(work)


def test_idle_nodes_are_tested_and_a_node_with_a_users_pod_is_not_touched(bench: Bench) -> None:
    directory = bench.site.directory
    with bench.user_pod(BUSY), bench.audited() as (kubeconfig, seen):
        done = bench.continuous("first", kubeconfig=kubeconfig)
    assert disturbances(seen) == []
    assert {event["objectRef"]["resource"] for event in seen} >= {"jobs", "namespaces", "leases"}
    passive = bench.passive("first")
    assert {node: (found.status.value, found.cause) for node, found in passive.items()} == dict.fromkeys(
        NAMES, ("passed", "")
    ), passive
    bench.run_dir = done.run_dir.resolve()
    wanted = [("gpu01", "passed", ""), (SLOW, "failed", "slow-adapter"), (HANGS, "passed", "")]
    assert bench.results("first") == wanted, done.output[-3000:]
    assert done.rc != 0 and done.stats["gpufleet_passed"] is False
    assert f"failed {TEST} on {SLOW}: {SLOW}: " in done.output
    assert f"1 not free ({BUSY}: pod default/training holds GPUs)" in done.output
    suite = json.loads((done.run_dir / "ctrf" / "cycle-001.json").read_text(encoding="utf-8"))["results"]
    assert {word: suite["summary"][word] for word in ("passed", "failed", "pending", "other")} == {
        "passed": 6, "failed": 1, "pending": 0, "other": 0
    }  # fmt: skip
    logs = NodeLogs(directory / "logs")
    kept = [str(path.relative_to(logs.directory)) for path in logs.directory.rglob("*.gz")]
    assert len(kept) == 3 and all("# Out of bounds values" in logs.read(path) for path in kept)
    assert any(path.startswith(f"{TEST}/gpu01/{TEST}_gpu01_") for path in kept)
    bench.nothing_left("first")


@pytest.mark.drawn(1, of="cycles over idle nodes")
def test_faults_of_a_busy_node_are_found_while_its_pod_works_and_an_unread_node_is_not_covered(bench: Bench) -> None:
    there = (
        f"ecc-uncorrectable@{BUSY}/gpu1,row-remap-pending@{BUSY}/gpu2,xid-48@{BUSY}/gpu4,nvlink-inactive@{BUSY}/gpu6"
    )
    with (
        bench.fault(f"{there},node-unreachable@{HANGS}"),
        bench.shown_by_hosts(),
        bench.user_pod(BUSY),
        bench.audited() as (kubeconfig, seen),
    ):
        done = bench.continuous("busy", kubeconfig=kubeconfig)
    assert disturbances(seen) == []
    found = {node: (result.status.value, result.cause) for node, result in bench.passive("busy").items()}
    assert found.pop(BUSY)[0] == "failed" and found.pop(HANGS) == ("other", "host-unreachable"), done.output[-3000:]
    assert found == {"gpu01": ("passed", ""), SLOW: ("passed", "")} and done.rc != 0
    entered = {event["objectRef"]["namespace"] for event in seen if event["objectRef"].get("subresource") == "exec"}
    assert entered == ({"gpu-operator"} if bench.owner == "operator" else set())
    logs = NodeLogs(bench.site.directory / "logs")
    told = logs.read(bench.passive("busy")[BUSY].log)
    assert all(cause in told for cause in ("ecc", "remap", "xid", "nvlink")), told


def test_a_disturbance_would_be_seen_in_the_audit_log(bench: Bench) -> None:
    with bench.user_pod(BUSY), bench.audited() as opened, Cluster(Connection(kubeconfig=opened[0])) as ours:
        seen = opened[1]
        ours.patch(PODS, "training", {"metadata": {"annotations": {"seen": "1"}}}, "default")
        ours.create(PODS, USER | {"metadata": {"name": "more", "namespace": "default"}}, "default")
        ours.delete(PODS, "more", "default")
        ours.patch(NODES, "gpu01", {"metadata": {"annotations": {"seen": "1"}}})
    told = [text.partition(":")[0] for text in disturbances(seen)]
    pod = "pods/default/more"
    assert told == ["patch pods/default/training", f"create {pod}", f"delete {pod}", "patch nodes/gpu01"]
    assert not any("nodes" in text for text in disturbances(seen, nodes=True))


def test_a_users_pod_takes_the_place_of_a_test_at_once(bench: Bench) -> None:
    with bench.fault(f"benchmark-hangs@{HANGS}"):
        run = bench.controller("second")
        eventually(lambda: HANGS in bench.tested_now(), 60)
        with bench.user_pod(HANGS):
            assert run.wait(100) == 0
    pending = (HANGS, "pending", "launch-preempted")
    assert bench.results("second") == [*((name, "passed", "") for name in NAMES if name != HANGS), pending]
    bench.nothing_left("second")
    # Given back is still to do, and comes back by itself.
    assert bench.controller("second").wait(100) == 0
    assert (HANGS, "passed", "") in bench.results("second") and len(bench.results("second")) == 5


@pytest.mark.drawn(1)
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
def test_a_cycle_that_is_ended_leaves_nothing_and_the_next_one_goes_on(bench: Bench, way: signal.Signals) -> None:
    store = way.name.lower()
    with bench.fault(f"benchmark-hangs@{HANGS}"):
        run = bench.controller(store)
        eventually(lambda: HANGS in bench.tested_now() and len(bench.results(store)) == 3, 60)
        assert "is held by" in bench.said(bench.controller(store))
        run.send_signal(way)
        assert run.wait(100) != 0
    history = bench.history(store)
    early = history.cycles("rehearsal", rehearsal=True)[0]
    if way is signal.SIGTERM:
        bench.nothing_left(store)
        assert early.note.startswith("ended before its time")
        assert (HANGS, "pending", "cycle-ended") in bench.results(store)
    else:
        assert not early.ended
        assert [lease.node for lease in history.leases("rehearsal", rehearsal=True)] == [HANGS]
    assert bench.controller(store, when_held="wait").wait(100) == 0
    # Nothing that had a result was done again.
    answers = [(node, status) for node, status, _cause in bench.results(store) if status != "pending"]
    assert answers == [(name, "passed") for name in NAMES]
    assert history.cycles("rehearsal", rehearsal=True)[0].ended
    bench.nothing_left(store)


@pytest.mark.drawn(1, of="cycles over idle nodes")
def test_two_controllers_at_once_test_each_node_once(bench: Bench) -> None:
    # All are well: what fails once is repeated by the next cycle, on purpose.
    with bench.fault(""):
        runs = [bench.controller("both", when_held="wait") for _number in range(2)]
        assert [run.wait(100) for run in runs] == [0, 0]
    assert bench.results("both") == [(name, "passed", "") for name in NAMES]
    bench.nothing_left("both")


@pytest.mark.drawn(1, of="cycles over idle nodes")
def test_the_arithmetic_of_idle_nodes_is_tested_and_a_gpu_that_flips_a_bit_is_named(bench: Bench) -> None:
    model = bench.site.rehearsal / "model.yaml"
    before = read_spec(model)
    flips = Fault(id="flips", kind="gpu", subject="gpu01/gpu3", patch=(Change(at="gpu.numerics", set="bit-flips"),))
    write_spec(replace(before, faults=(flips,)), model)
    await_model(model)
    try:
        assert bench.controller("arithmetic", tests=["dl_unit"]).wait(180) == 8
    finally:
        write_spec(before, model)
        await_model(model)
    wanted = [("gpu01", "failed", "digest-changes"), *((name, "passed", "") for name in NAMES[1:])]
    assert bench.results("arithmetic") == wanted
    results = bench.history("arithmetic").results("rehearsal", rehearsal=True, since_s=0.0)
    found = {result.node: result for result in results}
    assert "gpu3 gave other bits of attention" in found["gpu01"].summary
    assert len({digest for result in results for digest in result.digests.values()}) == 1
    bench.nothing_left("arithmetic")


@pytest.mark.drawn(1, of="cycles over idle nodes")
def test_idle_nodes_in_pairs_name_the_slow_one_pass_where_all_are_well_and_give_way(bench: Bench) -> None:
    settings = {PAIR: {"enabled": True}, "continuous": {"passive": False}}
    with bench.audited() as (kubeconfig, seen):
        done = bench.continuous("pairs", kubeconfig=kubeconfig, continuous_tests=[PAIR], settings=settings)
    assert disturbances(seen) == [] and done.rc != 0
    doubted = {node for node, status, cause in bench.results("pairs") if (status, cause) == ("pending", UNCONFIRMED)}
    assert len(doubted) == 2 and SLOW in doubted
    wanted = [(name, "failed", "slow-between-nodes") if name == SLOW else (name, "passed", "") for name in NAMES]
    assert [entry for entry in bench.results("pairs") if entry[1] != "pending"] == wanted, done.output[-3000:]
    assert "is well with others" in bench.history("pairs").latest("rehearsal", rehearsal=True)[SLOW, PAIR].summary
    bench.nothing_left("pairs")
    with bench.fault(""):
        assert bench.controller("well", done.run_dir.resolve(), tests=[PAIR]).wait(WAIT_S) == 0
    assert bench.results("well") == [(name, "passed", "") for name in NAMES]
    bench.nothing_left("well")
    _a_user_takes_the_place_of_a_pair(bench, done.run_dir.resolve())


def _a_user_takes_the_place_of_a_pair(bench: Bench, run_dir: Path) -> None:
    """Both nodes of the pair are given back, and the partner is tested with another one."""
    with bench.fault(f"benchmark-hangs@{HANGS}"), bench.audited() as (kubeconfig, seen):
        run = bench.controller("taken", run_dir, tests=[PAIR], kubeconfig=kubeconfig)
        # Of the two pairs the one that is well is done, and both nodes of the other one are under test.
        eventually(lambda: len(bench.results("taken")) == 2 and HANGS in bench.tested_now(), WAIT_S)
        (partner,) = bench.tested_now() - {HANGS}
        with bench.user_pod(HANGS):
            assert run.wait(WAIT_S) == 0, bench.said(run)
    assert disturbances(seen) == []
    given_back = [(name, "pending", "launch-preempted") for name in (HANGS, partner)]
    passed = [(name, "passed", "") for name in NAMES if name != HANGS]
    assert bench.results("taken") == sorted([*passed, *given_back])
    bench.nothing_left("taken")
    assert bench.controller("taken", run_dir, tests=[PAIR]).wait(WAIT_S) == 0
    assert (HANGS, "passed", "") in bench.results("taken")
    bench.nothing_left("taken")


def test_the_cronjob_of_the_docs_is_one(bench: Bench) -> None:
    body = yaml.safe_load((ROOT / "docs" / "continuous" / "cronjob.yaml").read_text(encoding="utf-8"))
    kind = Kind("batch/v1", "CronJob", "cronjobs")
    assert bench.cluster.create(kind, body, body["metadata"]["namespace"], dry_run=True)["spec"]["schedule"]
    with pytest.raises(BringupError, match="restartPolici"):
        spoiled = json.loads(json.dumps(body).replace("restartPolicy", "restartPolici"))
        bench.cluster.create(kind, spoiled, body["metadata"]["namespace"], dry_run=True)
