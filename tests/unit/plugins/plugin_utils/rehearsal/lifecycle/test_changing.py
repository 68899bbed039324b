# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Faults of a rehearsal that is up: which can be set and lifted, what hosts print then, what is refused by name."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    InputError,
    NotFoundError,
    ProblemsError,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.bmc.plan import bmc_directory, plan_bmcs
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle import changing
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import (
    build_model,
    healthy_cluster,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    ModelSpec,
    numbered_nodes,
    read_spec,
    write_spec,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import (
    SPEC_FILE,
    ProcessSpec,
    RehearsalState,
    SupervisorSpec,
    identify,
    state_path,
)

ROOT = Path(__file__).resolve().parents[6]
DATA = ROOT / "rehearsal" / "recipes"
CATALOGUE = load_catalogue()
SPEC = ModelSpec(name="rehearsal", seed=7, nodes=numbered_nodes(3, "h100"))
HEALTHY = healthy_cluster(SPEC, HARDWARE)
NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
FAULTS = ("gpu-missing@gpu03/gpu5", "xid-79@gpu01/gpu2")


def prepare(root: Path, *faults: str) -> None:
    spec = replace(SPEC, faults=choose_faults(faults, HEALTHY, CATALOGUE))
    root.mkdir(exist_ok=True)
    write_spec(spec, root / "model.yaml")
    prepare_hosts(build_model(spec, HARDWARE), root, DATA, now=NOW, kernel_settings=Path("/nonexistent"))


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a rehearsal that says that it is up, whose operators take up every model at once."""
    root = tmp_path / "running"
    prepare(root)
    own = identify(os.getpid())
    assert own is not None
    state = RehearsalState(
        rehearsal_id="a-1", phase="ready", directory=str(root), supervisor_pid=own.pid,
        supervisor_start=own.start_ticks, controller_pid=own.pid, controller_start=own.start_ticks, keep=True,
        started="", updated="",
    )  # fmt: skip
    state_path(root).write_text(dumps(state), encoding="utf-8")
    controllers = ProcessSpec(name="controllers", argv=("python", "--model", "m"), wave=1)
    spec = SupervisorSpec(
        rehearsal_id="a-1", directory=str(root), controller_pid=own.pid, controller_start=own.start_ticks, keep=True,
        processes=(controllers,),
    )  # fmt: skip
    (root / SPEC_FILE).write_text(dumps(spec), encoding="utf-8")
    monkeypatch.setattr(changing, "_write", write_spec)
    return root


def printed(root: Path) -> dict[str, bytes]:
    """What the tools of all hosts print, and the tools."""
    hosts = root / "hosts"
    places = [path for name in ("bin", "out") for path in hosts.glob(f"*/{name}/**/*")]
    files = [path for path in (*places, *hosts.glob("*/host.json")) if path.is_file()]
    return {str(path.relative_to(hosts)): path.read_bytes() for path in files}


def test_hosts_print_what_they_would_if_they_had_started_with_it_and_then_what_they_did(
    running: Path, tmp_path: Path
) -> None:
    before = printed(running)
    inodes = {path: path.stat().st_ino for path in running.glob("hosts/gpu03/out/*")}
    mine = running / "hosts/gpu03/layers/root/upper/etc/own"
    mine.write_text("of a task", encoding="utf-8")
    done = changing.change_faults(running, FAULTS, ())
    assert done.set == done.faults == changing.faults_of(running) == FAULTS
    prepare(tmp_path / "started", *FAULTS)
    assert printed(running) == printed(tmp_path / "started") != before
    assert read_spec(running / "model.yaml") == read_spec(tmp_path / "started" / "model.yaml")
    # What is the same is the same file, so kept answers stay; what a task wrote stays.
    same = [path for path, inode in inodes.items() if path.stat().st_ino == inode]
    assert 0 < len(same) < len(inodes) and mine.read_text(encoding="utf-8") == "of a task"
    one = changing.change_faults(running, (), ("xid-79",))
    assert one.lifted == FAULTS[1:] and one.faults == FAULTS[:1]
    changing.change_faults(running, (), ("all",))
    assert printed(running) == before and changing.faults_of(running) == ()
    assert [path.name for path in running.glob("refresh-*")] == []


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("cable-unplugged@gpu01/mlx5_0", "fabric simulator"),
        ("no-subnet-manager", "fabric simulator"),
        ("record-tampered", "record of the room"),
        ("power-over-budget@rack-a1", "record of the room"),
    ],
)
def test_what_a_start_reads_is_refused_by_name(running: Path, fault: str, why: str) -> None:
    before = printed(running)
    with pytest.raises(ProblemsError) as error:
        changing.change_faults(running, (*FAULTS, fault), ())
    assert fault in str(error.value) and why in str(error.value) and f"make rehearse FAULTS={fault}" in str(error.value)
    assert "gpu-missing" not in str(error.value)
    assert printed(running) == before and changing.faults_of(running) == ()


def test_a_fault_of_a_bmc_or_a_pdu_that_this_rehearsal_does_not_simulate_is_refused(running: Path) -> None:
    bmcs = bmc_directory(running)
    for fault, hosts, racks in (("bmc-coolant-leak@gpu01", ("gpu02",), ()), ("pdu-overload@rack-a1", ("gpu01",), ())):
        bmcs.mkdir(exist_ok=True)
        plan_bmcs(bmcs, hosts, running / "model.yaml", racks=racks)
        with pytest.raises(ProblemsError, match="so nothing would show it"):
            changing.change_faults(running, (fault,), ())
        plan_bmcs(bmcs, ("gpu01",), running / "model.yaml", racks=("rack-a1",))
        assert changing.change_faults(running, (fault,), ()).set == (fault,)


def test_every_fault_is_set_or_refused_with_a_reason() -> None:
    refused = set()
    for name in CATALOGUE:
        if CATALOGUE[name].kind == "rail" and not HEALTHY.rails:
            continue
        try:
            changing._refuse_what_a_start_needs(HEALTHY, choose_faults(name, HEALTHY, CATALOGUE))
        except ProblemsError as error:
            assert all(isinstance(problem, InputError) and problem.reason for problem in error.problems)
            refused.add(name)
    gates = {CATALOGUE[name].expect.gate for name in refused}
    assert {"fabric", "facility", "gpu_stack"} <= gates
    # Of the hosts: ports that the fabric simulator has, and the kernel that the node of Kubernetes says.
    of_hosts = {name for name in refused if CATALOGUE[name].expect.gate == "nodes"}
    assert {name for name in of_hosts if not name.startswith(("hca-", "efa-"))} == {"kernel-differs"}
    assert not {name for name in refused if CATALOGUE[name].kind == "gpu"}
    assert {"pdu-breaker-tripped", "bmc-supply-dead", "adapter-slow"} & refused == set()


def test_mistakes_say_what_there_is(running: Path, tmp_path: Path) -> None:
    changing.change_faults(running, FAULTS[:1], ())
    with pytest.raises(ProblemsError, match=r"gpufleet_rehearsal_lift 'xid-79': is not set.*gpu-missing@gpu03/gpu5"):
        changing.change_faults(running, (), ("xid-79",))
    with pytest.raises(ProblemsError, match="did you mean 'gpu-missing'"):
        changing.change_faults(running, ("gpu-mising",), ())
    with pytest.raises(InputError, match="set already: gpu-missing@gpu03/gpu5"):
        changing.change_faults(running, FAULTS[:1], ())
    with pytest.raises(NotFoundError, match="none is up"):
        changing.change_faults(tmp_path, FAULTS, ())
