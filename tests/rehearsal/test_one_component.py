# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's playbook takes one component of a recipe by its name, on a real control plane."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from recorded import made
from rehearsal_harness import Rehearsed, rehearse
from stack_bench import StackBench, stack_bench

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import NAMESPACE as LEASE_NAMESPACE
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror


def _chart(name: str, version: str, *needs: str) -> dict[str, Any]:
    return {"name": name, "namespace": name, "chart": name, "version": version, "dependencyRefs": list(needs)}


OLDER = [
    _chart("cert-manager", "v1.17.2"),
    _chart("kueue", "0.13.2", "cert-manager"),
    _chart("kuberay-operator", "1.6.2"),
]
NEWER = [OLDER[0], _chart("kueue", "0.14.0", "cert-manager"), OLDER[2]]
ORDER = ["cert-manager", "kueue", "kuberay-operator"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[StackBench]:
    with stack_bench(tmp_path_factory.mktemp("one"), repository, OLDER) as found:
        yield found


def _recipe(charts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"componentRefs": charts, "deploymentOrder": ORDER}


def _stack(bench: StackBench) -> dict[str, str]:
    return {name: digest for name, digest in bench.census().items() if LEASE_NAMESPACE not in name}


class Site:
    """A site with a playbook of its own, and a run for each of its recipes."""

    def __init__(self, bench: StackBench, work: Path) -> None:
        self.bench, self.work, self.runs = bench, work, {"older": OLDER, "newer": NEWER}
        build_mirror(bench.mirror, NEWER)
        for name, charts in self.runs.items():
            made(work, name, _recipe(charts))
        role = {"name": "gpufleet.bringup.gpu_stack", "tasks_from": "component"}
        task = {"name": "One component", "ansible.builtin.import_role": role}
        play = {"name": "Site", "hosts": "localhost", "gather_facts": False, "tasks": [task]}
        (work / "site.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")

    def __call__(self, run: str, component: str, state: str = "present", cmdline: str = "", **more: Any) -> Rehearsed:
        return rehearse(
            self.work, playbook=str(self.work / "site.yml"), cmdline=cmdline, run=str(self.work / "runs" / run),
            store=str(self.work / "history"), kubeconfig=self.bench.kubeconfig, helm=self.bench.helm_program,
            chart_mirror=str(self.bench.mirror), component=component, component_state=state, **more,
        )  # fmt: skip

    def releases(self) -> dict[str, str]:
        return {key: release.chart_version for key, release in self.bench.helm.releases().items()}


def _changed(done: Rehearsed) -> int:
    """How many tasks changed something, as the recap says."""
    return int(re.findall(r"localhost\s.*changed=(\d+)", re.sub(r"\x1b\[[0-9;]*m", "", done.output))[-1])


@pytest.mark.drawn(1, of="components by playbook")
def test_a_component_is_installed_checked_upgraded_and_removed_by_its_name(bench: StackBench, tmp_path: Path) -> None:
    site, empty = Site(bench, tmp_path), _stack(bench)
    refused = site("older", "kueue")
    assert refused.rc != 0 and "kueue needs cert-manager, which is not installed" in refused.output, refused.output
    shown = site("older", "kueue", cmdline="--check --diff")
    assert (shown.rc, _changed(shown), "+kueue 0.13.2" in shown.output) == (0, 1, True), shown.output
    assert _stack(bench) == empty, "check mode changes nothing"

    for component in ("cert-manager", "kueue"):
        done = site("older", component)
        assert (done.rc, _changed(done)) == (0, 1), done.output
    assert site.releases() == {"cert-manager/cert-manager": "v1.17.2", "kueue/kueue": "0.13.2"}
    again = site("older", "kueue")
    assert (again.rc, _changed(again)) == (0, 0), again.output
    assert site("older", "kueue", "checked").rc == 0

    differs = site("newer", "kueue", "checked")
    assert differs.rc != 0, differs.output
    assert "kueue is not as the recipe says: to upgrade 0.13.2 (the recipe wants 0.14.0)" in " ".join(
        differs.output.split()
    )
    shown = site("newer", "kueue", cmdline="--check --diff")
    assert (shown.rc, _changed(shown), "-kueue 0.13.2" in shown.output) == (0, 1, True), shown.output
    assert site("newer", "kueue").rc == 0
    assert site.releases() == {"cert-manager/cert-manager": "v1.17.2", "kueue/kueue": "0.14.0"}

    before = _stack(bench)
    refused = site("newer", "cert-manager", "absent")
    assert refused.rc != 0 and "cert-manager is needed by kueue, which is installed" in refused.output, refused.output
    shown = site("newer", "kueue", "absent", "--check --diff")
    assert (shown.rc, _changed(shown), "kueue: release kueue/kueue 0.14.0" in shown.output) == (0, 1, True), (
        shown.output
    )
    assert _stack(bench) == before
    for component in ("kueue", "cert-manager"):
        gone = site("newer", component, "absent", remove_crds=True, remove_namespaces=True)
        assert (gone.rc, _changed(gone)) == (0, 1), gone.output
    assert _stack(bench) == empty
    assert not list(tmp_path.glob("runs/*/component_stack.json")), "the gate has no result of one component"
