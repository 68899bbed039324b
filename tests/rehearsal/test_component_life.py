# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Components over time on a real control plane: killed again and again while they are installed, upgraded, put back."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from fault_proxy import HELM, HELM_FAULTS, TIMED_FAULTS, FaultProxy, tls_upstream
from installing import begin, kill
from recorded import made
from rehearsal_harness import ROOT, Rehearsed, rehearse
from seeds import drawing
from sites import make_site
from stack_bench import DEFINITION, MAP, StackBench, file, stack_bench
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import component_health, observe_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import CRDS, PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.tell import save_results
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.rollback import last_good_run, rollback_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import NAMESPACE as LEASE_NAMESPACE
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror

# A person asks for more (docs/development.md).
KILLS = int(os.environ.get("GPUFLEET_KILLS") or 3)


def _chart(name: str, version: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": name, "chart": name, "version": version, "dependencyRefs": list(needs), **more}


CHARTS = [
    _chart("cert-manager", "v1.17.2"),
    _chart(
        "kuberay-operator", "1.6.2", "cert-manager",
        manifests=[
            file("before", "before.yaml", MAP.format(name="first", say="hello")),
            file("after", "after.yaml", MAP.format(name="last", say="hello")),
        ],
    ),
    _chart("kueue", "0.13.2", "cert-manager"),
    _chart("node-feature-discovery", "0.18.1"),
]  # fmt: skip
TUNING = {"name": "tuning", "namespace": "tuning", "source": "", "dependencyRefs": ["node-feature-discovery"]}
RECIPE: dict[str, Any] = {
    "componentRefs": [*CHARTS, {**TUNING, "manifests": [file("after", "tuning.yaml", DEFINITION)]}],
    "deploymentOrder": ["cert-manager", "kuberay-operator", "kueue", "node-feature-discovery", "tuning"],
}
NAMESPACES = ("cert-manager", "kuberay-operator", "kueue", "node-feature-discovery", "tuning", "tuning-pods")


# What a site keeps beside the catalogue, a version later.
PRIVATE = """
apiVersion: gpufleet.bringup/v1
kind: RecipeMetadata
metadata: {name: next}
spec:
  criteria: {service: kind}
  regardlessOf: [accelerator, os]
  componentRefs:
    - {name: nfd, version: 0.20.0}
    - {name: cert-manager, version: v1.21.0, overrides: {replicaCount: 2}}
    - {name: kueue, valuesFile: components/kueue/values.yaml, dependencyRefs: [cert-manager]}
"""
UNCHANGED = "nodewright-operator"
KEPT = ("cert-manager", "nfd", UNCHANGED, "kueue")


def _of_catalogue(*private: Path) -> dict[str, Any]:
    """The small part of a recipe of the catalogue that the test installs."""
    catalogue = load_catalogue([ROOT / "recipes", *private])
    whole = hydrated(resolve(parse_criteria({"service": "kind"}, catalogue.vocabulary), catalogue), catalogue)
    refs = [entry for entry in whole["componentRefs"] if entry["name"] in KEPT]
    order = [name for name in whole["deploymentOrder"] if name in KEPT]
    for entry in refs:
        entry["dependencyRefs"] = [name for name in entry.get("dependencyRefs") or () if name in KEPT]
    return {**whole, "componentRefs": refs, "deploymentOrder": order}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[StackBench]:
    with stack_bench(tmp_path_factory.mktemp("killed"), repository, CHARTS) as made:
        yield made


def _begin(bench: StackBench) -> subprocess.Popen[str]:
    return begin(bench.kubeconfig, bench.helm_program, bench.mirror, RECIPE)


def _finish(bench: StackBench) -> None:
    process = _begin(bench)
    said, _none = process.communicate(timeout=240)
    assert process.returncode == 0, said


def _remove(bench: StackBench) -> None:
    gone = bench.remove(RECIPE, *NAMESPACES, crds=True)
    assert {entry.state for entry in gone.values()} <= {"removed", "absent"}, gone


def _play(bench: StackBench, playbook: str, work: Path, run: Path, cmdline: str = "", **more: Any) -> Rehearsed:
    """Run a playbook as a person does, on a run of the history."""
    done = rehearse(
        work, playbook=playbook, cmdline=cmdline, run=str(run), store=str(work / "history"),
        kubeconfig=bench.kubeconfig, helm=bench.helm_program, chart_mirror=str(bench.mirror), **more,
    )  # fmt: skip
    assert done.rc == 0, done.output
    return done


def _stack(bench: StackBench) -> dict[str, str]:
    """Everything that is there, but for the place of the Lease."""
    return {name: digest for name, digest in bench.census().items() if LEASE_NAMESPACE not in name}


@pytest.mark.drawn(1, of="components by playbook")
def test_the_playbooks_put_back_what_an_upgrade_changed_and_remove_all_of_ours(
    bench: StackBench, tmp_path: Path
) -> None:
    (tmp_path / "private" / "overlays").mkdir(parents=True)
    (tmp_path / "private" / "overlays" / "next.yaml").write_text(PRIVATE)
    older, newer = _of_catalogue(), _of_catalogue(tmp_path / "private")
    build_mirror(bench.mirror, [*older["componentRefs"], *newer["componentRefs"]])
    empty = _stack(bench)
    try:
        assert set(bench.install(older).values()) == {"ready"}
        before = _stack(bench)
        made(tmp_path, "a", older, gpu_stack=Status.PASSED)
        assert set(bench.install(newer).values()) == {"ready"}
        after = _stack(bench)
        run = made(tmp_path, "b", newer, gpu_stack=Status.FAILED)
        assert after["release cert-manager/cert-manager"] == "cert-manager-v1.21.0 deployed"
        assert after["release node-feature-discovery/nfd"] == "node-feature-discovery-0.20.0 deployed"
        changed = {name for name in before if before[name] != after.get(name)}
        assert changed >= {"deployments.apps cert-manager/cert-manager", "release node-feature-discovery/nfd"}

        source = last_good_run(run, str(tmp_path / "history"), None)
        assert rollback_facts(source, run) == {"run_id": "a", "stays": ["kueue"]}
        recipe = source.recipe
        assert recipe is not None
        assert bench.actions(recipe) == ["downgrade" if n != UNCHANGED else "unchanged"
                                         for n in recipe["deploymentOrder"]]  # fmt: skip
        shown = _play(bench, "rollback.yml", tmp_path, run.path, "--check --diff").output
        assert "v1.21.0" in shown and "back to the recipe of run a" in shown, shown
        assert _stack(bench) == after, "check mode changes nothing"
        _play(bench, "rollback.yml", tmp_path, run.path)
        back = _stack(bench)
        assert {name for name in before if back.get(name) != before[name]} == set()
        added = {name for name in after if name not in before}
        assert {name for name in back if name not in before} == added, "what the older recipe does not have stays"
        assert {name for name in added if back[name] != after[name]} == set()
        assert set(bench.actions(recipe)) == {"unchanged"}

        _play(bench, "remove.yml", tmp_path, run.path, remove_crds=True, remove_namespaces=True)
        assert _stack(bench) == empty
    finally:
        namespaces = {str(entry["namespace"]) for entry in newer["componentRefs"]}
        bench.remove(newer, *sorted(namespaces), crds=True)


@pytest.mark.drawn(1, of="components by playbook")
def test_a_component_that_flaps_is_found(bench: StackBench, tmp_path: Path) -> None:
    """Its pod is ready at most looks, and its Deployment whenever it is."""
    recipe = {"componentRefs": CHARTS[:1], "deploymentOrder": ["cert-manager"]}
    assert bench.install(recipe) == {"cert-manager": "ready"}
    hosts = tuple(Host(name=name, sku="dgx-h100", node_name=name) for name in ("gpu01", "gpu02"))
    site = make_site(hosts, settings={"gpu_stack": {"settle_s": 5, "stays_ready_s": 5.0}})
    given = {"site": site, "today": date.today(), "recipe": recipe}
    # The gate looks with the helm of the installation.
    save_results(tmp_path, bench.plan(recipe), (), bench.helm_program)
    looking = ObserveContext(run_dir=tmp_path, connections={"kubeconfig": bench.kubeconfig}, **given)

    def judged() -> tuple[str, str]:
        (found,) = component_health.judge(observe_cluster.observe(looking), JudgeContext(gate="gpu_stack", **given))
        return found.status.value, found.cause

    assert judged() == ("passed", "")
    pod = next(p for p in bench.cluster.list_objects(PODS, "cert-manager") if "webhook" in p["metadata"]["name"])
    over = threading.Event()

    def flap() -> None:
        while not over.is_set():
            for ready, pause_s in (("False", 0.4), ("True", 1.2)):
                _set_ready(bench, pod["metadata"]["name"], ready)
                over.wait(pause_s)
        _set_ready(bench, pod["metadata"]["name"], "True")

    flapping = threading.Thread(target=flap)
    flapping.start()
    try:
        assert judged() == ("failed", "workload-flapping")
    finally:
        over.set()
        flapping.join()
    assert judged() == ("passed", "")
    bench.remove(recipe, "cert-manager", crds=True)


def _set_ready(bench: StackBench, pod: str, ready: str) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    body = {"status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]}}
    bench.cluster.transport.json(
        "PATCH", f"{PODS.path(pod, 'cert-manager')}/status", body=body,
        content_type="application/strategic-merge-patch+json",
    )  # fmt: skip


def _settled(bench: StackBench) -> dict[str, str]:
    """Everything that is there, once what makes objects of its own after an installation has done so."""
    seen = [bench.census()]

    def unchanged() -> bool:
        seen.append(bench.census())
        return seen[-1] == seen[-2]

    eventually(unchanged, what="nothing to change any more")
    return seen[-1]


@pytest.mark.long("kills at any moment; a helm that died is recovered in test_gpu_stack.py")
def test_kills_at_any_moment_end_in_the_objects_of_an_undisturbed_installation(bench: StackBench) -> None:
    draw = drawing("kills")
    started = time.monotonic()
    _finish(bench)
    whole_s = time.monotonic() - started
    undisturbed = _settled(bench)
    _remove(bench)
    kills, rounds = 0, 0
    while kills < KILLS:
        rounds, before = rounds + 1, kills
        while kills < KILLS:
            began, process = time.monotonic(), _begin(bench)
            try:
                process.communicate(timeout=draw.uniform(0.2, 0.8) * whole_s)
                if kills == before:
                    # From nothing to its end before the moment: the machine is faster than when the time was taken.
                    whole_s = time.monotonic() - began
                break
            except subprocess.TimeoutExpired:
                kill(process, helm_too=draw.random() < 0.5)
                kills += 1
        _finish(bench)
        found = _settled(bench)
        wrong = {name for name in found.keys() | undisturbed.keys() if found.get(name) != undisturbed.get(name)}
        assert wrong == set(), f"round {rounds}, {kills} kills"
        print(f"round {rounds}: {kills} kills")
        if kills < KILLS:
            _remove(bench)
    print(f"{kills} kills in {rounds} rounds, {time.monotonic() - started:.0f} s; undisturbed {whole_s:.1f} s")


_LONG = pytest.mark.long("three of ten at three seeds; one of twenty-five is a case of make test")
_MIXES = (HELM_FAULTS, TIMED_FAULTS)


@pytest.mark.drawn(1, of="components by playbook")
@pytest.mark.parametrize(
    ("share", "faults", "seed"),
    [
        (0.04, HELM_FAULTS, 5),
        *(pytest.param(0.3, faults, seed, marks=_LONG) for faults in _MIXES for seed in (5, 6, 7)),
    ],
)
def test_a_server_without_time_for_helm_changes_nothing_of_what_is_installed(
    bench: StackBench, tmp_path: Path, share: float, faults: tuple[str, ...], seed: int
) -> None:
    """Of helm's requests one of twenty-five, or three of ten, are answered with 429, 500, 502, 503 or 504, with and
    without Retry-After. A helm alone would end at the first without: ours are repeated before helm sees them."""
    # Whatever the tests before it left: what is there already takes few requests.
    _remove(bench)
    whole = bench.helm
    proxy = FaultProxy(tls_upstream(Path(bench.kubeconfig)), seed=seed, share=share, asker=HELM, faults=faults)
    proxy.write_kubeconfig(tmp_path / "faulty.kubeconfig")
    proxy.start()
    bench.helm = Helm(Connection(kubeconfig=str(tmp_path / "faulty.kubeconfig")), binary=bench.helm_program)
    try:
        done = bench.install(RECIPE)
    finally:
        bench.helm = whole
        proxy.stop()
    try:
        assert set(done.values()) == {"ready"}, done
        assert sum(proxy.counts[fault] for fault in faults) > 5, proxy.counts
        assert {release.status for release in whole.releases().values()} == {"deployed"}
    finally:
        _remove(bench)


def test_definitions_that_are_templates_and_what_others_made_of_them_outlive_a_removal(bench: StackBench) -> None:
    chart = _chart("prometheus-operator-crds", "28.0.1")
    build_mirror(bench.mirror, [*CHARTS, chart])
    recipe = {"componentRefs": [chart], "deploymentOrder": [chart["name"]]}
    assert set(bench.install(recipe).values()) == {"ready"}
    definition = "scrapeconfigs.monitoring.coreos.com"
    kind = Kind("monitoring.coreos.com/v1alpha1", "ScrapeConfig", "scrapeconfigs")
    theirs = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "theirs"}}
    bench.cluster.create(kind, theirs, "default")
    found = bench.cluster.get(kind, "theirs", "default")
    for _again in range(2):
        assert bench.remove(recipe)[chart["name"]].state == "removed"
        assert bench.cluster.get(kind, "theirs", "default")["metadata"]["uid"] == found["metadata"]["uid"]
        assert chart["name"] not in " ".join(bench.helm.releases())
        # What stayed is taken over by the next installation.
        assert set(bench.install(recipe).values()) == {"ready"}
    bench.remove(recipe, chart["namespace"], crds=True)
    assert bench.cluster.find(CRDS, definition) is None
