# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of a bundle, run by bash against a helm and a kubectl that keep releases in files and note calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from bundles import ASKED, bundle_files, env, loaded, objects_in, questions, recipe_for
from helm_program import helm_program

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.chart import ChartSource
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, ReleaseRequest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.workloads import workload_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.app import write_bundle
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.helm import SCRIPTS

HELM = r"""#!/bin/bash
state=$(dirname "$0")/state; mkdir -p "$state"
echo "helm $*" >> "$state/calls"
command=$1; shift
name='' namespace='' selector='' labels=''
[ "$command" = get ] && shift
while [ $# -gt 0 ]; do
  case $1 in
    --namespace) namespace=$2; shift ;;
    --filter) name=${2#^}; name=${name%\$}; shift ;;
    --selector) selector=$2; shift ;;
    --labels) labels=$2; shift ;;
    --values | --repo | --version | --history-max | --kube-version | --timeout) shift ;;
    --*) ;;
    *) [ -n "$name" ] || name=$1 ;;
  esac
  shift
done
release=$state/release.$namespace.$name
case $command in
  list)
    [ -f "$release" ] || exit 0
    [ -z "$selector" ] || [ "$selector" = "$(cat "$release")" ] || exit 0
    echo "$name" ;;
  template)
    [ "$name" = cert-manager ] || exit 0
    printf -- '---\n# Source: cert-manager/crds/a.yaml\nkind: CustomResourceDefinition\nmetadata:\n  name: a\n'
    printf -- '---\n# Source: cert-manager/templates/b.yaml\nkind: Deployment\n'
    printf -- '---\n# Source: cert-manager/charts/sub/crds/c.yaml\n'
    printf 'kind: CustomResourceDefinition\nmetadata:\n  name: c\n'
    printf -- '---\n# Source: crds/templates/d.yaml\nkind: CustomResourceDefinition\nmetadata:\n  name: d\n' ;;
  upgrade)
    if [ "$(cat "$state/fails" 2>/dev/null)" = "$name" ]; then echo "Error: admission says no" >&2; exit 1; fi
    if [ "$(cat "$state/webhook" 2>/dev/null)" = "$name" ]; then
      rm "$state/webhook"; echo 'Error: failed calling webhook "x"' >&2; exit 1
    fi
    echo "$labels" > "$release" ;;
  get) echo "kind: Deployment" ;;
  uninstall) rm "$release"; echo uninstalled ;;
esac
"""
KUBECTL = r"""#!/bin/bash
state=$(dirname "$0")/state; mkdir -p "$state"
echo "kubectl $*" >> "$state/calls"
case "$*" in
  "get --raw /version") printf '{\n  "gitVersion": "v1.34.1",\n}\n' ;;
  *definitions.yaml*apply* | apply*definitions.yaml*) cat "${@: -1}" >> "$state/definitions" ;;
  "get --namespace"*)
    cat "$state/workloads" 2>/dev/null || echo "Deployment ns a 1 1 1 1 1 1 <none> <none> <none> <none> <none>" ;;
  "get ClusterPolicy.v1.nvidia.com "*) cat "$state/policies" 2>/dev/null || echo "cluster-policy ready" ;;
  "get NicClusterPolicy"*) echo "error: the server doesn't have a resource type" >&2; exit 1 ;;
esac
"""
QUESTION = ASKED


class Cluster:
    """A bundle on disk, and programs of a cluster."""

    def __init__(self, directory: Path, recipe: dict[str, Any]) -> None:
        """Write both."""
        self.bundle, self.programs, self.state = directory / "stack", directory / "bin", directory / "bin" / "state"
        write_bundle(self.bundle, bundle_files(recipe))
        self.state.mkdir(parents=True)
        for name, text in (("helm", HELM), ("kubectl", KUBECTL)):
            (self.programs / name).write_text(text, encoding="utf-8")
            (self.programs / name).chmod(0o755)

    def run(self, script: str, *words: str, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
        """Run a script of the bundle from elsewhere."""
        given = {"PATH": f"{self.programs}:{path}", "GPUFLEET_POLL_S": "0.01", "TMPDIR": str(self.programs.parent)}
        command = [str(self.bundle / script), *words]
        return subprocess.run(command, env=given, cwd="/", capture_output=True, text=True, check=False, timeout=120)

    def say(self, name: str, text: str) -> None:
        """Let the programs answer something."""
        (self.state / name).write_text(text, encoding="utf-8")

    def calls(self, word: str) -> list[str]:
        """Return the calls that begin so, since they were last asked for."""
        path = self.state / "calls"
        found = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line for line in found if line.startswith(word)]

    def forget(self) -> None:
        """Forget the calls."""
        (self.state / "calls").unlink(missing_ok=True)

    @property
    def folders(self) -> list[str]:
        """The folders in order."""
        return sorted(path.name for path in self.bundle.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A recipe of the catalogue with a chart and manifests after it."""
    return recipe_for(QUESTION, tmp_path_factory.mktemp("mirror"))


@pytest.fixture(scope="module")
def standing(recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The same for questions that change nothing."""
    return Cluster(tmp_path_factory.mktemp("standing"), recipe)


@pytest.fixture
def cluster(recipe: dict[str, Any], tmp_path: Path) -> Cluster:
    """A bundle and a cluster without anything."""
    return Cluster(tmp_path, recipe)


def test_everything_is_installed_in_order_and_a_second_run_asks_for_the_same(cluster: Cluster) -> None:
    first = cluster.run("deploy.sh")
    assert (first.returncode, first.stderr) == (0, "")
    names = [folder.split("-", 1)[1] for folder in cluster.folders]
    upgrades = cluster.calls("helm upgrade")
    assert [line.split()[2] for line in upgrades] == names
    assert first.stdout.splitlines()[:-1] == [f"{folder} ..." for folder in cluster.folders]
    assert upgrades[0] == (
        "helm upgrade cert-manager cert-manager --repo https://charts.jetstack.io --version v1.20.2 --install "
        "--namespace cert-manager --values 001-cert-manager/values.yaml --reset-values --history-max 5 --hide-notes "
        "--labels gpufleet.io/managed-by=bundle"
    )
    assert "helm upgrade kube-prometheus-stack-post ./006-kube-prometheus-stack-post --install" in upgrades[5]
    calls = cluster.calls("")
    assert calls.index(next(c for c in calls if "namespaces.yaml" in c)) < calls.index(upgrades[0])
    # Definitions of crds/ alone are applied by the server: helm would never upgrade them.
    applied = loaded((cluster.state / "definitions").read_text(encoding="utf-8"))
    assert [body["metadata"]["name"] for body in applied] == ["a", "c"]
    cluster.forget()
    again = cluster.run("deploy.sh")
    assert (again.returncode, cluster.calls("helm upgrade")) == (0, upgrades)


def test_a_component_that_fails_stops_it_with_its_name_and_the_next_run_goes_on(cluster: Cluster) -> None:
    cluster.say("fails", "gpu-operator")
    done = cluster.run("deploy.sh")
    assert done.returncode == 8
    assert done.stderr.splitlines() == [
        "Error: admission says no",
        "deploy.sh: 007-gpu-operator: component gpu-operator is not installed and ready. "
        "Fix: what is named above, then run deploy.sh again",
    ]
    assert [line.split()[2] for line in cluster.calls("helm upgrade")][-1] == "gpu-operator"
    cluster.say("fails", "")
    assert cluster.run("deploy.sh").returncode == 0


def test_a_webhook_that_is_not_served_yet_is_asked_again(cluster: Cluster) -> None:
    cluster.say("webhook", "gpu-operator")
    assert cluster.run("deploy.sh").returncode == 0
    assert len([line for line in cluster.calls("helm upgrade") if line.split()[2] == "gpu-operator"]) == 2


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        (
            "workloads",
            "Deployment ns a 1 1 1 1 1 0 <none> <none> <none> <none> <none>\n",
            "Deployment ns/a (0 of 1 ready)",
        ),
        ("policies", "cluster-policy notReady\n", "ClusterPolicy.v1.nvidia.com cluster-policy is notReady"),
        ("policies", "cluster-policy ignored\n", "there is no ClusterPolicy.v1.nvidia.com yet"),
        ("policies", "", "there is no ClusterPolicy.v1.nvidia.com yet"),
    ],
)
def test_what_does_not_get_ready_is_named_when_its_time_is_over(
    name: str, text: str, wanted: str, cluster: Cluster
) -> None:
    cluster.say(name, text)
    done = cluster.run("deploy.sh", "--timeout", "0")
    assert done.returncode == 8
    assert f"not ready after 0 s: {wanted}" in done.stderr
    last = cluster.calls("helm upgrade")[-1].split()[2]
    assert last == ("gpu-operator" if name == "policies" else "cert-manager")


def test_releases_of_somebody_else_are_named_before_anything_is_changed(cluster: Cluster) -> None:
    cluster.say("release.gpu-operator.gpu-operator", "theirs=yes\n")
    done = cluster.run("deploy.sh")
    assert (done.returncode, cluster.calls("helm upgrade"), cluster.calls("kubectl apply")) == (8, [], [])
    assert "releases of somebody else are there: gpu-operator/gpu-operator. Fix: remove them" in done.stderr
    assert cluster.run("deploy.sh", "--take-over").returncode == 0
    assert all(line.endswith("--take-ownership") for line in cluster.calls("helm upgrade"))


def test_undeploy_takes_what_is_of_the_bundle_last_first_and_leaves_the_rest(cluster: Cluster) -> None:
    assert cluster.run("deploy.sh").returncode == 0
    cluster.say("release.cert-manager.cert-manager", "theirs=yes\n")
    done = cluster.run("undeploy.sh")
    assert (done.returncode, done.stderr) == (0, "")
    names = [folder.split("-", 1)[1] for folder in reversed(cluster.folders[1:])]
    assert [line.split()[2] for line in cluster.calls("helm uninstall")] == names
    assert "001-cert-manager: release cert-manager/cert-manager is of somebody else and stays" in done.stdout
    cluster.forget()
    assert cluster.run("undeploy.sh").returncode == 0
    assert cluster.calls("helm uninstall") == cluster.calls("kubectl") == []


def test_secrets_that_are_not_given_are_named_before_anything_is_changed(tmp_path: Path) -> None:
    secret = {"kube-prometheus-stack": {"grafana": {"adminPassword": "hunter2"}}}
    cluster = Cluster(tmp_path, recipe_for(QUESTION, tmp_path / "mirror", secret))
    done = cluster.run("deploy.sh")
    assert (done.returncode, cluster.calls("helm upgrade")) == (2, [])
    assert "missing: kube-prometheus-stack.yaml. Fix: README.md, Secrets; then deploy.sh --secrets DIR" in done.stderr
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "kube-prometheus-stack.yaml").write_text("grafana: {adminPassword: x}\n", encoding="utf-8")
    assert cluster.run("deploy.sh", "--secrets", str(tmp_path / "secrets")).returncode == 0
    line = next(line for line in cluster.calls("helm upgrade") if " kube-prometheus-stack " in line)
    # The later file wins.
    assert f"/values.yaml --values {tmp_path}/secrets/kube-prometheus-stack.yaml" in line
    assert "hunter2" not in "".join(cluster.calls(""))


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        (["--nope"], 2, "--nope is no option. Fix: see deploy.sh --help"),
        (["--timeout"], 2, "--timeout has no value"),
        (["--timeout", "1h"], 2, "--timeout 1h is no number of seconds. Fix: --timeout 900"),
    ],
)
def test_wrong_words_are_one_sentence(words: list[str], code: int, wanted: str, cluster: Cluster) -> None:
    done = cluster.run("deploy.sh", *words)
    assert (done.returncode, len(done.stderr.splitlines()), cluster.calls("")) == (code, 1, [])
    assert wanted in done.stderr
    assert cluster.run("deploy.sh", "--help").stdout.startswith("usage: deploy.sh")


def test_an_edited_bundle_is_refused_unless_that_is_meant(cluster: Cluster) -> None:
    values = cluster.bundle / "001-cert-manager" / "values.yaml"
    values.write_text("a: 1\n", encoding="utf-8")
    done = cluster.run("deploy.sh")
    assert (done.returncode, cluster.calls("")) == (2, [])
    assert "files are not those of the bundle. Fix: make it again (gpufleet bundle), or add --edited" in done.stderr
    assert cluster.run("deploy.sh", "--edited").returncode == 0


def test_a_program_that_lacks_is_named(cluster: Cluster) -> None:
    (cluster.programs / "kubectl").unlink()
    for name in ("dirname", "bash"):
        (cluster.programs / name).symlink_to(shutil.which(name) or "")
    done = cluster.run("deploy.sh", path="/nowhere")
    assert (done.returncode, done.stderr) == (3, "deploy.sh: kubectl is not on PATH. Fix: install it\n")


def _row(kind: str, generation: int, status: dict[str, int], spec: dict[str, int]) -> str:
    """Return what kubectl prints of a workload with the columns of the script."""
    names = ("observedGeneration", "", "replicas", "updatedReplicas", "readyReplicas", "desiredNumberScheduled")
    cells = [str(spec.get("replicas", "<none>")) if not name else str(status.get(name, "<none>")) for name in names]
    cells += [str(status.get(name, "<none>")) for name in ("numberReady", "updatedNumberScheduled")]
    cells += [str(spec.get("completions", "<none>")), str(status.get("succeeded", "<none>"))]
    return " ".join([kind, "ns", "x", str(generation), *cells])


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        ("Deployment", {"replicas": 2}, {"replicas": 3, "updatedReplicas": 2, "readyReplicas": 2}),
        ("Deployment", {"replicas": 2}, {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}),
        ("Deployment", {"replicas": 0}, {}),
        ("Deployment", {}, {}),
        ("StatefulSet", {"replicas": 3}, {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 2}),
        ("StatefulSet", {"replicas": 3}, {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3}),
        ("DaemonSet", {}, {}),
        ("DaemonSet", {}, {"desiredNumberScheduled": 0}),
        ("DaemonSet", {}, {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 1}),
        ("DaemonSet", {}, {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2}),
        ("Job", {"completions": 2}, {"succeeded": 1}),
        ("Job", {}, {"succeeded": 1}),
        ("Job", {}, {}),
    ],
)
@pytest.mark.parametrize("observed", [None, 1, 2])
def test_the_script_calls_ready_what_gate_4_calls_ready(
    kind: str, spec: dict[str, int], status: dict[str, int], observed: int | None, standing: Cluster
) -> None:
    status = status | ({} if observed is None else {"observedGeneration": observed})
    obj = {"metadata": {"name": "x", "namespace": "ns", "generation": 2}, "spec": spec, "status": status}
    ready = workload_of(kind, obj, [], datetime.now(UTC), 60.0).state == "ready"
    # Of the script the part that says it, so that each case takes no whole run.
    text = (standing.bundle / "deploy.sh").read_text(encoding="utf-8")
    part = text[text.index("unready_workloads() {") : text.index("columns='KIND")]
    standing.say("workloads", _row(kind, 2, status, spec) + "\n")
    head = f"set -eu; PATH={standing.programs}:$PATH; work={standing.state}; name=x namespace=ns columns=x\n"
    done = subprocess.run(
        ["bash", "-c", f"{head}{part}\nunready_workloads"], capture_output=True, text=True, check=True
    )
    assert (done.stdout == "") is ready, (done.stdout, done.stderr)


def test_a_chart_of_the_bundle_renders_to_the_objects_of_its_manifests(tmp_path: Path) -> None:
    """Expressions of others stay as they are, and what has no namespace gets that of the release, as in gate 4."""
    question = next(text for text in questions() if "platform=dynamo" in text and "service=ocp" in text)
    recipe = recipe_for(question, tmp_path / "mirror")
    directory = tmp_path / "stack"
    files = bundle_files(recipe)
    write_bundle(directory, files)
    helm = Helm(Connection(), binary=str(helm_program()))
    local = [path.parent.name for path in sorted(directory.glob("*/Chart.yaml"))]
    assert len(local) > 3
    for folder in local:
        named = env(files[f"{folder}/release.env"])
        chart = ChartSource(f"{directory}/{folder}", (), folder)
        request = ReleaseRequest(name=named["RELEASE"], namespace=named["NAMESPACE"], chart=chart)
        found = [body for body in yaml.safe_load_all(helm.template(request, "1.34.0")) if body]
        wanted = objects_in(files, folder)
        assert sorted(found, key=str) == sorted(wanted, key=str)


def test_the_scripts_are_as_shellcheck_wants_them(repository: Path) -> None:
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("shellcheck is not installed")
    paths = [str(repository / "recipes" / "bundle" / name) for name in SCRIPTS]
    done = subprocess.run([program, *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_scripts_are_ascii_and_can_be_started(repository: Path) -> None:
    for name in SCRIPTS:
        path = repository / "recipes" / "bundle" / name
        assert path.read_text(encoding="ascii").startswith("#!/usr/bin/env bash\n")
        assert os.access(path, os.X_OK)
