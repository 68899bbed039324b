# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate fabric on a real subnet manager: ibsim, opensm and infiniband-diags run; every fault is found, as one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from known_hardware import HARDWARE
from seeds import run_seed
from sites import make_site
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.module_utils.fabric_tools import run_fabric_tools
from ansible_collections.gpufleet.bringup.plugins.module_utils.node_tools import run_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric import observe_fabric
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    FABRIC,
    HostEvidence,
    ToolRun,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import (
    fabric_requests,
    node_requests,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, from_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import ibstat
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric import plan as programs_module
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.net import adapter_ident, write_cabling
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.plan import (
    FabricPrograms,
    SimulatedFabric,
    ensure_programs,
    plan_fabric,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.simulator import CONSOLE, HERE
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.host_record import tools_path
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import (
    new_id,
    read_state,
    stop,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import start as start_spec
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Fault,
    ModelSpec,
    numbered_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import SupervisorSpec, identify

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "rehearsal" / "recipes"
CATALOGUE = load_catalogue()
EXPECTED = {
    name: expect
    for name, fault in CATALOGUE.items()
    for expect in (fault.expect, fault.earlier)
    if expect is not None and expect.gate == "fabric"
}
INTERVAL_S = 1.5
find = programs_module.find_programs
SEED = run_seed()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> FabricPrograms:
    """The simulator's programs; without them nothing here can be shown."""
    try:
        return ensure_programs(tmp_path_factory.mktemp("cache"), Progress(print))
    except UnavailableError as error:
        pytest.skip(str(error))


@dataclass
class Running:
    """A fabric that runs, and its site."""

    directory: Path
    model: ClusterModel
    faults: tuple[Fault, ...]
    fabric: SimulatedFabric

    def site(self, **settings: Any) -> Site:
        """The site as its operator describes it."""
        hosts = tuple(Host(name=n.name, sku="h100", node_name=n.name, rack=n.rack) for n in self.model.nodes)
        words = ("infiniband", "multi_node", "subnet_manager", "host_access")
        options = {"plan": str(self.directory / "cabling.yaml"), "interval_s": INTERVAL_S} | settings
        return make_site(hosts, name="test", capabilities=words, settings={"fabric": options})

    def look(self, monkeypatch: pytest.MonkeyPatch, host: str = "gpu01", **options: Any) -> list[Outcome]:
        """Run the tools on one host, outside of its enclosure, and judge gate fabric."""
        with monkeypatch.context() as patch:
            patch.setenv("PATH", f"{tools_path(self.directory, host)}{os.pathsep}{os.environ['PATH']}")
            ports = options.get("ports", [])
            requests = fabric_requests(ports=ports, ibdiagnet=False, timeout_s=60)
            runs = run_fabric_tools(requests, ports, interval_s=INTERVAL_S, max_output_bytes=1 << 26)
        tools = {name: from_plain(ToolRun, run, name) for name, run in runs.items()}
        run_dir = self.directory / "run"
        write_evidence(run_dir, HostEvidence(host=host, reached=True, tools=tools), FABRIC)
        return judge(run_dir, self.site())


def said(fabric: Running, *, itself: bool = False) -> str:
    """Return what ibstat prints on gpu02, from what is kept or by running the real programs there."""
    tool = tools_path(fabric.directory, "gpu02") / "ibstat"
    environment = {**os.environ, HERE: "1" if itself else ""}
    return subprocess.run([tool], env=environment, capture_output=True, text=True, timeout=120, check=True).stdout


def judge(run_dir: Path, site: Site) -> list[Outcome]:
    """Judge what lies in a run directory."""
    today = date(2026, 11, 21)
    seen = observe_fabric.observe(ObserveContext(site=site, run_dir=run_dir, today=today, hardware=dict(HARDWARE)))
    facts = observe_fabric.restore(json.loads(dumps(seen)), run_dir, site)
    context = JudgeContext(gate="fabric", site=site, today=today, hardware=dict(HARDWARE))
    checks = [check for check in checks_of("fabric", site) if not check.spec.missing_capabilities(site)]
    assert len(checks) == 5
    return [outcome for check in checks for outcome in check.judge(facts, context)]


@contextmanager
def running(directory: Path, programs: FabricPrograms, nodes: int, faults: str = "") -> Iterator[Running]:
    """Start the fabric of a model under a supervisor, and end it."""
    planned = ModelSpec(name="test", seed=7, nodes=numbered_nodes(nodes, "h100"))
    healthy = build_model(planned, HARDWARE)
    chosen = choose_faults(faults, healthy, CATALOGUE, SEED)
    model = build_model(ModelSpec(name="test", seed=7, nodes=planned.nodes, faults=chosen), HARDWARE)
    fabric = plan_fabric(model, directory / "fabric", programs)
    assert fabric is not None
    prepare_hosts(model, directory, DATA, fabric=fabric)
    write_cabling(healthy.nodes, directory / "cabling.yaml")
    own = identify(os.getpid())
    assert own is not None
    spec = SupervisorSpec(
        rehearsal_id=new_id(directory), directory=str(directory), controller_pid=own.pid,
        controller_start=own.start_ticks, keep=False, processes=fabric.processes,
    )  # fmt: skip
    try:
        start_spec(spec, Progress(print), lambda: None)
        yield Running(directory, model, chosen, fabric)
    finally:
        stop(directory)


def held(outcomes: list[Outcome]) -> list[Outcome]:
    """What is not passed, without what only waits for another check."""
    return [o for o in outcomes if o.status is not Status.PASSED and not o.blocked_by]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, programs: FabricPrograms) -> Iterator[Running]:
    """64 hosts with 8 rails, healthy."""
    with running(tmp_path_factory.mktemp("large"), programs, 64) as fabric:
        yield fabric


def test_a_healthy_fabric_of_512_adapters_gives_no_alarm_in_three_looks(
    large: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        outcomes = large.look(monkeypatch, f"gpu{1 + 30 * number:02d}")
        (large.directory / "run" / "evidence" / FABRIC / f"gpu{1 + 30 * number:02d}.json").rename(
            large.directory / "run" / "last.json"
        )
        assert {o.status for o in outcomes} == {Status.PASSED}, held(outcomes)


def test_512_adapters_are_judged_within_five_seconds_of_the_sweep(
    large: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    large.look(monkeypatch)
    began = monotonic()
    outcomes = judge(large.directory / "run", large.site())
    taken = monotonic() - began
    assert {o.status for o in outcomes} == {Status.PASSED}
    assert taken < 5.0, f"{taken:.1f} s"
    # The same evidence against a plan that nobody wrote: rated NDR by the SKU, which the simulator cannot reach.
    generated = judge(large.directory / "run", large.site(plan=""))
    assert {(o.check, o.cause) for o in held(generated)} == {("link-rate", "degraded-speed")}
    assert len(held(generated)) == 512


def test_every_host_has_the_tools_for_its_own_adapters(large: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    node = large.model.node("gpu07")
    monkeypatch.setenv("PATH", f"{tools_path(large.directory, 'gpu07')}{os.pathsep}{os.environ['PATH']}")
    run = run_tools(node_requests(tools=["ibstat"], diag_level=0), max_output_bytes=1 << 20)["ibstat"]
    hcas = ibstat.parse(run["stdout"])
    assert [(hca.name, hca.node_guid) for hca in hcas] == [(hca.name, hca.guid) for hca in node.hcas]
    assert {(p.state, p.physical_state, p.rate_gbps, p.link_layer) for hca in hcas for p in hca.ports} == {
        ("Active", "LinkUp", 200, "InfiniBand")
    }
    tool = tools_path(large.directory, "gpu07") / "smpquery"
    info = dict(re.findall(r"^(\w+):\.*(.*)$", os.popen(f"{tool} -C mlx5_5 -D portinfo 0 1").read(), re.M))
    assert (info["LinkState"], info["LinkWidthActive"], info["LinkSpeedExtActive"]) == ("Active", "4X", "53.125 Gbps")
    assert int(info["Lid"]) == hcas[3].ports[0].base_lid
    assert "can't open UMAD port" in os.popen(f"{tool} -C mlx5_99 -D portinfo 0 1 2>&1").read()


# On spine1 is the master subnet manager: the fabric has another way, and the fault stays one.
@pytest.mark.drawn(5)
@pytest.mark.parametrize("name", [*sorted(EXPECTED), "switch-dead@spine1"])
def test_a_fault_is_found_as_what_it_is_and_nothing_else_fails(
    name: str, tmp_path: Path, programs: FabricPrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect = EXPECTED[name.partition("@")[0]]
    with running(tmp_path, programs, 10, name) as fabric:
        outcomes = fabric.look(monkeypatch)
        (fault,) = fabric.faults
    told = f"seed {SEED}: {fault.id} on {fault.subject}: {held(outcomes)}"
    if expect.status == "passed":
        assert not held(outcomes), told
        return
    assert {(o.check, o.cause, o.status.value) for o in held(outcomes)} == {
        (expect.check, expect.cause, expect.status)
    }, told
    assert len(held(outcomes)) == 1, told
    (found,) = held(outcomes)
    names = {subject.name for subject in found.subjects}
    if fault.kind != "cluster":
        assert any(fault.subject in name for name in names), told
    if name == "no-subnet-manager":
        assert all(o.cause == "blocked-by-subnet-manager" for o in outcomes if o is not found)


@pytest.mark.drawn(1, of="ways of a fabric")
def test_the_standby_takes_over_when_the_master_dies(
    tmp_path: Path, programs: FabricPrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, programs, 4) as fabric:
        state = read_state(tmp_path)
        assert state is not None
        (master,) = [child for child in state.children if child.name == "opensm-master"]
        before = said(fabric)
        assert said(fabric) == said(fabric, itself=True) == before
        os.kill(master.pid, signal.SIGKILL)
        deadline = monotonic() + 40
        outcomes = fabric.look(monkeypatch)
        while monotonic() < deadline and {o.cause for o in held(outcomes)} != {"no-standby-subnet-manager"}:
            sleep(0.5)
            outcomes = fabric.look(monkeypatch)
        # What is kept of ibstat follows what others do to the fabric.
        eventually(lambda: said(fabric) == said(fabric, itself=True) != before, what=lambda: (before, said(fabric)))
        Path(tmp_path, "fabric", CONSOLE).write_text(f'Unlink "{adapter_ident(fabric.model.nodes[1].hcas[0])}"[1]\n')
        assert "Physical state: Polling" in said(fabric)
        eventually(lambda: said(fabric) == said(fabric, itself=True), what=lambda: said(fabric))
    # Master again, every link Active; what is missing now is the one behind it.
    assert [(o.check, o.cause) for o in held(outcomes)] == [("subnet-manager", "no-standby-subnet-manager")]


@pytest.mark.drawn(1, of="ways of a fabric")
def test_programs_that_are_unpacked_and_not_installed_serve_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        # As on a machine that has none of them.
        patch.setattr(programs_module, "find_programs", lambda root: None if root == Path("/") else find(root))
        try:
            unpacked = ensure_programs(tmp_path / "cache", Progress(print))
        except UnavailableError as error:
            pytest.skip(str(error))
    assert all(path.startswith(str(tmp_path)) for path in (*unpacked.paths.values(), unpacked.simulation))
    with running(tmp_path / "fabric", unpacked, 2) as fabric:
        assert not held(fabric.look(monkeypatch))


@pytest.mark.drawn(1, of="ways of a fabric")
def test_two_faults_are_two_findings(tmp_path: Path, programs: FabricPrograms, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, programs, 6, "cable-unplugged@gpu02/mlx5_3,cables-swapped@gpu04/mlx5_10") as fabric:
        outcomes = fabric.look(monkeypatch, ports=["mlx5_4:1"])
    assert {(o.check, o.cause) for o in held(outcomes)} == {("link-present", "link-missing"), ("cabling", "miswired")}
    (miswired,) = [o for o in held(outcomes) if o.cause == "miswired"]
    assert {"gpu04/mlx5_10", "gpu04/mlx5_11"} <= {subject.name for subject in miswired.subjects}
    assert "gpu04 mlx5_10:1 is on leaf-g1-rail7:4, planned leaf-g1-rail6:4" in miswired.summary
