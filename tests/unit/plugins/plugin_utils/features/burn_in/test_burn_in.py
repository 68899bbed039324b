# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A burn-in says what it left in the cluster, however it ends, and refuses nodes that no pod can load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from dl_unit_node import HOST, dl_unit, ended, simulated
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.action import preflight_inventory
from ansible_collections.gpufleet.bringup.plugins.action.burn_in import ActionModule
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.burn_in.model import ROUNDS, Soak
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.burn_in.app import (
    VERB,
    Soaking,
    keep,
    narrow,
    of_nodes,
    refuse_without_kubernetes,
    told_what_is_left,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import NodeLogs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    new_run,
    run_summary,
    with_site,
    with_verb,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Change, Fault

SOAK = Soak(hours=1.0, tests=("dl_unit",), hosts=("gpu01",))


@contextmanager
def place(*left: str) -> Iterator[Any]:
    """A namespace that finds at its end what cannot be removed."""
    namespace = SimpleNamespace(leftovers=[])
    try:
        yield namespace
    finally:
        namespace.leftovers += left


@pytest.mark.parametrize(("value", "parts"), [("gemm-wrong", ("gpu3",)), ("fine", ())])
def test_a_result_keeps_which_gpu_computed_wrong(tmp_path: Path, value: str, parts: tuple[str, ...]) -> None:
    """A part that no result names cannot be packed (playbook rma)."""
    fault = Fault(id="f", kind="gpu", subject="gpu02/gpu3", patch=(Change(at="gpu.numerics", set=value),))
    log, state = simulated(*((fault,) if parts else ()))
    soaking = cast("Any", Soaking)(*(None,) * 5, NodeLogs(tmp_path), None, silent)
    found = soaking._read(SOAK, dl_unit(), HOST, ended(log, state=state))
    assert found.parts == parts
    assert Path(found.log).is_relative_to(tmp_path) and Path(found.log).is_file() if parts else not found.log


def test_what_is_left_is_written_to_the_rounds(tmp_path: Path) -> None:
    with told_what_is_left(tmp_path, place("namespace gpufleet-burn-in-1: forbidden")):
        keep(tmp_path, SOAK)
    assert load(Soak, tmp_path / ROUNDS).leftovers == ("namespace gpufleet-burn-in-1: forbidden",)


def test_it_is_written_also_where_the_burn_in_is_interrupted(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), told_what_is_left(tmp_path, place("pod dl-unit-1-0")):
        keep(tmp_path, SOAK)
        raise KeyboardInterrupt
    assert load(Soak, tmp_path / ROUNDS).leftovers == ("pod dl-unit-1-0",)


def test_nothing_is_said_where_nothing_is_left(tmp_path: Path) -> None:
    with told_what_is_left(tmp_path, place()):
        keep(tmp_path, SOAK)
    assert load(Soak, tmp_path / ROUNDS) == SOAK


def test_nodes_of_slurm_are_refused_by_that_name() -> None:
    site = replace(make_site(), orchestrator="slurm")
    with pytest.raises(InputError, match="Slurm gives its nodes work") as refused:
        refuse_without_kubernetes(site)
    assert "drain the nodes in Slurm" in refused.value.hint


def test_a_site_without_kubernetes_is_refused_and_one_with_it_is_not() -> None:
    with pytest.raises(InputError, match="has no Kubernetes"):
        refuse_without_kubernetes(replace(make_site(), capabilities=()))
    refuse_without_kubernetes(replace(make_site(), capabilities=("kubernetes",)))


def three_hosts() -> Site:
    return make_site([Host(name=name, sku="dgx-h100", node_name=name) for name in ("gpu01", "gpu02", "gpu03")])


def test_a_repaired_host_is_burnt_in_alone_and_the_others_stay_hosts_of_the_site() -> None:
    found = of_nodes(three_hosts(), ("gpu02",))
    assert [host.name for host in found.in_scope] == ["gpu02"] and len(found.hosts) == 3
    assert of_nodes(three_hosts(), ()) == three_hosts()


def test_a_host_that_cannot_be_burnt_in_is_refused_with_the_reason() -> None:
    aside = Quarantine(node="gpu02", reason="dead", ticket="T1", who="me")
    with pytest.raises(InputError, match="is quarantined") as refused:
        of_nodes(replace(three_hosts(), quarantine=(aside,)), ("gpu02",))
    assert "gpufleet_quarantine" in refused.value.hint
    with pytest.raises(InputError, match="'gpu09': is not in the inventory"):
        of_nodes(three_hosts(), ("gpu01", "gpu09"))


def of_run(path: Path) -> Run:
    run = Run(path)
    run.save_site(three_hosts())
    run.save_record(with_site(new_run("r1", "lab", "2026-11-22T10:00:00Z", ("nodes",), rehearsal=True), run.site))
    return run


def test_the_run_says_that_it_is_about_this_host_alone(tmp_path: Path) -> None:
    run = of_run(tmp_path)
    narrow(run, ("gpu02",), keep=True)
    saved = Run(tmp_path)
    assert [host.name for host in saved.site.in_scope] == ["gpu02"]
    assert saved.record.notes == ("this burn-in is of gpu02 alone (gpufleet_burn_in_nodes)",)
    # Judged again, the record has to be what the inventory says.
    assert (saved.record.nodes, saved.record.quarantined) == (3, 2)
    narrow(saved, ("gpu02",), keep=False)


def test_check_mode_keeps_nothing_of_it(tmp_path: Path) -> None:
    run = of_run(tmp_path)
    narrow(run, ("gpu02",), keep=False)
    assert [host.name for host in run.site.in_scope] == ["gpu02"]
    assert len(Run(tmp_path).site.in_scope) == 3 and not Run(tmp_path).record.notes


def test_a_burn_in_that_goes_on_loses_no_host(tmp_path: Path) -> None:
    """A host that failed would leave it, and the rest would pass."""
    run = of_run(tmp_path)
    keep(tmp_path, replace(SOAK, hosts=("gpu01", "gpu02")))
    with pytest.raises(InputError, match="was begun with gpu01, gpu02"):
        narrow(run, ("gpu01",), keep=True)
    assert len(Run(tmp_path).site.in_scope) == 3


def _refused(tmp_path: Path, started: str, *, check_mode: bool) -> None:
    action: Any = SimpleNamespace(check_mode=check_mode, emit=silent)
    options = {"run_dir": str(tmp_path / "older"), "started": started, "step": "soak", "nodes": ["gpu22"]}
    with pytest.raises(InputError, match="'gpu22': is not in the inventory"):
        ActionModule.execute(action, options, {})


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_burn_in_of_an_unknown_host_is_not_started_and_says_why(tmp_path: Path, check_mode: bool) -> None:
    """Its verdict was that of two gates that nobody had asked for."""
    run = of_run(tmp_path / "older")
    run.save_record(with_verb(run.record, VERB))
    _refused(tmp_path, "", check_mode=check_mode)
    head = "CHECK MODE, not started" if check_mode else "not started"
    run.save_record(replace(Run(tmp_path / "older").record, check_mode=check_mode))
    assert run_summary(run.record).startswith(f"{head}: gpufleet_burn_in_nodes 'gpu22': is not in the inventory")


def test_what_keeps_it_from_going_on_is_told_by_the_newest_run_alone(tmp_path: Path) -> None:
    before, newest = of_run(tmp_path / "older").record, of_run(tmp_path / "newest")
    _refused(tmp_path, str(newest.path), check_mode=False)
    assert Run(tmp_path / "older").record == before
    assert "gpu22" in Run(newest.path).record.problem


def test_over_slurm_the_one_way_on_is_named_at_once(repository: Path) -> None:
    options, burn_in = {"orchestrator": "slurm", "site_name": "jena"}, {"preflight_verb": VERB}
    with pytest.raises(InputError, match="site jena: Slurm gives its nodes work") as refused:
        preflight_inventory.ActionModule.ahead(options, burn_in, {})
    assert "dcgm-diag.level=4" in refused.value.hint
    plays = yaml.safe_load((repository / "playbooks" / "burn_in.yml").read_text("utf-8"))
    assert plays[0]["vars"]["preflight_verb"] == VERB
