# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helm by its command line: what it is told, what it never sees on the command line, and what its failures mean."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from time import monotonic

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm import helm as helm_module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.chart import chart_source
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, HelmError, ReleaseRequest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    DeadlineError,
    InputError,
    NotFoundError,
    UnavailableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import run_command

SECRET = "hunter2-hunter2"


def _helm(tmp_path: Path, script: str, **more: float) -> Helm:
    """A program in helm's place that keeps what it was given and then does what the test says."""
    program = tmp_path / "helm"
    keep = f'printf "%s\\n" "$@" > {tmp_path}/argv; env > {tmp_path}/env; for a in "$@"; do last=$a; done\n'
    program.write_text(f"#!/bin/sh\n{keep}{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return Helm(Connection(kubeconfig="k.conf", context="c", api_key=SECRET), binary=str(program), **more)


def _request(tmp_path: Path) -> ReleaseRequest:
    (tmp_path / "op-v1.0.0.tgz").touch()
    chart = chart_source("operator", "vendor/op", "v1.0.0", "", str(tmp_path))
    return ReleaseRequest(name="operator", namespace="ns", chart=chart, values={"password": SECRET}, labels={"k": "v"})


def test_secrets_reach_helm_by_its_input_and_environment_only(tmp_path: Path) -> None:
    helm = _helm(tmp_path, f"cat > {tmp_path}/values")
    helm.upgrade(_request(tmp_path))
    argv = (tmp_path / "argv").read_text(encoding="utf-8")
    assert SECRET not in argv
    assert "--install" in argv
    assert json.loads((tmp_path / "values").read_text(encoding="utf-8")) == {"password": SECRET}
    # No file, so none stays behind whoever is killed.
    assert argv.splitlines()[-2:] == ["--values", "-"]
    assert f"HELM_KUBETOKEN={SECRET}" in (tmp_path / "env").read_text(encoding="utf-8")


def test_a_failure_is_quoted_without_secrets(tmp_path: Path) -> None:
    script = f"echo 'Error: UPGRADE FAILED: password: {SECRET} is wrong' >&2; exit 1"
    with pytest.raises(HelmError) as caught:
        _helm(tmp_path, script).upgrade(_request(tmp_path))
    assert "UPGRADE FAILED" in caught.value.reason
    assert SECRET not in str(caught.value.to_dict())


SEVERAL = """level=WARN msg="unable to find exact version"
Error: 2 errors occurred:
\t* DaemonSet "dra" is invalid: spec.template.spec.containers[0].securityContext.privileged: Forbidden: disallowed
\t* pods "x" is forbidden: exceeded quota: gcp-critical-pods

"""
SCHEMA = """Error: UPGRADE FAILED: values don't meet the specifications of the schema(s) in the following chart(s):
op:
- (root): Additional property wrong is not allowed
- replicas: Invalid type. Expected: integer, given: string
"""


@pytest.mark.parametrize(
    ("said", "reason", "hint"),
    [
        (
            SEVERAL,
            'Error: 2 errors occurred: DaemonSet "dra" is invalid: '
            "spec.template.spec.containers[0].securityContext.privileged: Forbidden: disallowed; "
            'pods "x" is forbidden: exceeded quota: gcp-critical-pods',
            "raise the quota",
        ),
        (
            SCHEMA,
            "Error: UPGRADE FAILED: values don't meet the specifications of the schema(s) in the following chart(s): "
            "op: "
            "- (root): Additional property wrong is not allowed; "
            "- replicas: Invalid type. Expected: integer, given: string",
            "correct the component's values",
        ),
        ("Error: YAML parse error on op/a.yaml\n\nUse --debug flag to render out invalid YAML\n",
         "Error: YAML parse error on op/a.yaml", "correct what helm names"),
        ("Error: 1 error occurred\n  * admission webhook \"v.example\" denied the request: no\n",
         'Error: 1 error occurred: admission webhook "v.example" denied the request: no', "an admission webhook"),
        ("panic: oops\ngoroutine 1\n", "goroutine 1", "correct what helm names"),
        ("", "ended with an error and said nothing", "correct what helm names"),
    ],
)  # fmt: skip
def test_every_cause_that_helm_names_is_said(tmp_path: Path, said: str, reason: str, hint: str) -> None:
    (tmp_path / "said").write_text(said, encoding="utf-8")
    with pytest.raises(HelmError) as caught:
        _helm(tmp_path, f"cat {tmp_path}/said >&2; exit 1").upgrade(_request(tmp_path))
    assert caught.value.reason == reason and hint in caught.value.hint


def test_a_helm_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(DeadlineError, match="upgrade operator"):
        _helm(tmp_path, "sleep 60", timeout_s=0.3).upgrade(_request(tmp_path))


def test_releases(tmp_path: Path) -> None:
    row = {"name": "op", "namespace": "ns", "revision": "3", "status": "pending-upgrade", "chart": "gpu-op-v25.3.0"}
    found = _helm(tmp_path, f"echo '{json.dumps([row])}'").releases()["ns/op"]
    assert (found.chart, found.chart_version, found.revision, found.is_pending) == ("gpu-op", "v25.3.0", 3, True)


@pytest.mark.parametrize("said", ["", "oops", "[1]", "{"])
def test_values_that_are_none_are_told(tmp_path: Path, said: str) -> None:
    with pytest.raises(UnavailableError, match="get values op: unexpected output"):
        _helm(tmp_path, f"echo '{said}'").values("op", "ns")


def test_the_manifest_of_a_release(tmp_path: Path) -> None:
    assert _helm(tmp_path, "echo kind: Deployment").manifest("op", "ns") == "kind: Deployment\n"
    assert (tmp_path / "argv").read_text(encoding="utf-8").split() == ["get", "manifest", "op", "--namespace", "ns"]


@pytest.mark.parametrize("output", ["", "WARNING: not JSON", '{"a": 1}', '[{"name": "op"}]'])
def test_a_list_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, output: str) -> None:
    with pytest.raises(UnavailableError):
        _helm(tmp_path, f"echo '{output}'").releases()


@pytest.mark.parametrize(("said", "error"), [("v3.9.4+gdbc6d8e", UnavailableError), ("dunno", UnavailableError)])
def test_a_helm_that_is_too_old(tmp_path: Path, said: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        _helm(tmp_path, f"echo {said}").check_version()
    assert _helm(tmp_path, "echo v3.21.4").check_version() == "v3.21.4"


def test_no_helm() -> None:
    with pytest.raises(NotFoundError, match="install helm"):
        Helm(Connection(), binary="no-such-helm").releases()


def test_where_charts_come_from(tmp_path: Path) -> None:
    assert chart_source("c", "x/op", "1.0", "oci://reg.example/charts", "").reference == "oci://reg.example/charts/op"
    # A repository may be named like its chart, as KAI's is.
    assert chart_source("c", "op", "1.0", "oci://reg.example/op/op", "").reference == "oci://reg.example/op/op/op"
    assert "--repo" in chart_source("c", "op", "1.0", "https://charts.example", "").options
    assert (
        chart_source("c", "op", "1.0", "", "https://mirror.example/x/").reference
        == "https://mirror.example/x/op-1.0.tgz"
    )
    (tmp_path / "op-0.9.tgz").touch()
    with pytest.raises(NotFoundError, match=r"there is op-0\.9\.tgz"):
        chart_source("c", "op", "1.0", "https://charts.example", str(tmp_path))
    for source, version in (("", "1.0"), ("https://charts.example", "")):
        with pytest.raises(InputError):
            chart_source("c", "op", version, source, "")


def test_a_helm_at_its_limit_may_clean_up_before_it_is_killed(tmp_path: Path) -> None:
    script = f"trap 'echo cancelled > {tmp_path}/said; exit 1' TERM; sleep 60 & wait"
    with pytest.raises(DeadlineError, match="upgrade operator"):
        _helm(tmp_path, script, timeout_s=3).upgrade(_request(tmp_path))
    assert (tmp_path / "said").read_text(encoding="utf-8") == "cancelled\n"


def test_a_program_that_ignores_the_end_is_killed(tmp_path: Path) -> None:
    begun = monotonic()
    program = tmp_path / "deaf"
    program.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.1; done\n", encoding="utf-8")
    program.chmod(0o755)
    assert run_command([str(program)], 0.3, grace_s=0.5).timed_out
    assert monotonic() - begun < 10


@pytest.mark.parametrize(
    ("history", "revision", "told", "argv"),
    [
        ([(1, "superseded"), (2, "deployed"), (3, "pending-upgrade")], 4, "rolled back to revision 2", "rollback op 2"),
        ([(1, "deployed"), (2, "failed"), (3, "pending-rollback")], 4, "rolled back to revision 1", "rollback op 1"),
        ([(1, "pending-install")], 0, "uninstalled", "uninstall op"),
        ([(1, "deployed"), (2, "uninstalling")], 0, "uninstalled", "uninstall op"),
    ],
)
def test_a_pending_release_is_freed(
    tmp_path: Path, history: list[tuple[int, str]], revision: int, told: str, argv: str
) -> None:
    rows = json.dumps([{"revision": number, "status": status} for number, status in history])
    script = f"case $1 in history) echo '{rows}';; *) echo uninstalled;; esac"
    found, done = _helm(tmp_path, script).recover("op", "ns")
    assert found == revision and told in done
    assert " ".join((tmp_path / "argv").read_text(encoding="utf-8").split()).startswith(argv)


def test_the_definitions_of_a_chart_are_those_of_its_crds_alone(tmp_path: Path) -> None:
    documents = (
        "crds/a.yaml\n{a: 1}",
        "crds/b.yaml\nb: 2\n---\nc: 3",
        "charts/part/crds/d.yaml\nd: 4",
        "charts/crds/crds/e.yaml\ne: 5",
        "charts/crds/charts/part/crds/f.yaml\nf: 6",
        # A chart called crds in it, as that of prometheus-operator-crds: its definitions are the release's own.
        "charts/crds/templates/g.yaml\ng: 7",
        "templates/crds/h.yaml\nh: 8",
        "charts/part/templates/crds/i.yaml\ni: 9",
        "templates/j.yaml\nj: 10",
    )
    (tmp_path / "said").write_text("".join(f"---\n# Source: op/{text}\n" for text in documents), encoding="utf-8")
    found = _helm(tmp_path, f"cat {tmp_path}/said").crds(_request(tmp_path), "v1.36.3")
    # A chart may ask for a newer Kubernetes than the one that helm was built with.
    argv = (tmp_path / "argv").read_text(encoding="utf-8").splitlines()
    assert argv[argv.index("--kube-version") + 1] == "v1.36.3"
    assert list(yaml.safe_load_all(found)) == [{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}, {"e": 5}, {"f": 6}]


INDEX = "apiVersion: v1\nentries:\n  op:\n    - {{name: op, version: '1.0', digest: {digest}}}\n"


@pytest.mark.parametrize(
    ("name", "text", "refused"),
    [
        ("SHA256SUMS", "{digest}  op-1.0.tgz\n", ""),
        ("SHA256SUMS", "{digest} *./op-1.0.tgz\n", ""),
        ("SHA256SUMS", "{other}  op-1.0.tgz\n", "the mirror states"),
        ("SHA256SUMS", "{digest}  other-1.0.tgz\n", "does not name it"),
        ("index.yaml", INDEX, ""),
        ("index.yaml", INDEX.replace("{digest}", "{other}"), "the mirror states"),
        # An index that does not know the package says nothing about it.
        ("index.yaml", "apiVersion: v1\nentries: {{}}\n", ""),
    ],
)
def test_a_package_of_a_mirror_has_the_digest_that_the_mirror_states(
    tmp_path: Path, name: str, text: str, refused: str
) -> None:
    (tmp_path / "op-1.0.tgz").write_bytes(b"chart")
    digest = hashlib.sha256(b"chart").hexdigest()
    (tmp_path / name).write_text(text.format(digest=digest, other="f" * 64))
    if not refused:
        assert chart_source("c", "x/op", "1.0", "", str(tmp_path)).reference == str(tmp_path / "op-1.0.tgz")
        return
    with pytest.raises(InputError, match=refused):
        chart_source("c", "x/op", "1.0", "", str(tmp_path))


AWAY = 'Error: Kubernetes cluster unreachable: Get "https://10.0.0.1:6443/version": dial tcp: connection refused'
CUT = 'Error: UPGRADE FAILED: Patch "https://10.0.0.1:6443/apis/apps/v1/namespaces/ns/deployments/op": EOF'


def _failing(tmp_path: Path, said: str, times: int) -> Helm:
    """A helm that says something for its first times, and then works."""
    (tmp_path / "said").write_text(said, encoding="utf-8")
    count = f"echo x >> {tmp_path}/runs; [ $(wc -l < {tmp_path}/runs) -gt {times} ]"
    return _helm(tmp_path, f"{count} && echo '[]' && exit; cat {tmp_path}/said >&2; exit 1")


def _runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text(encoding="utf-8").split())


# What helm 3.21 printed before servers that answered some of its requests so: an empty body, HTML, a Status.
QUERY = "Error: query: failed to query with labels: "
UNCHECKED = "Error: UPGRADE FAILED: unable to build kubernetes objects from new release manifest: error validating "
BUSY = (
    f"{QUERY}the server has received too many requests and has asked us to try again later (get secrets)",
    f'{QUERY}an error on the server ("") has prevented the request from succeeding (get secrets)',
    f"{QUERY}the server is currently unable to handle the request (get secrets)",
    f"{QUERY}the server was unable to return a response in the time allotted, but may still be processing the request",
    f"{QUERY}spoiled: by a test",
    f'{UNCHECKED}"": error validating data: failed to download openapi: the server is currently unable to handle it',
    "Error: Kubernetes cluster unreachable: the server is currently unable to handle the request",
    "Error: failed to install CRD crds/c.yaml: 1 error occurred:\n\t* spoiled: by a test",
    "Error: Unable to continue with install: could not get information about the resource ConfigMap: spoiled: by test",
)
# After a revision was recorded.
LATE = (
    'Error: UPGRADE FAILED: an error on the server ("<html><h1>502 Bad Gateway</h1></html>") has prevented the request '
    "from succeeding (patch deployments.apps op)",
    "Error: create: failed to create: the server has received too many requests and has asked us to try again later",
    "Error: UPGRADE FAILED: could not get information about the resource: spoiled: ServiceUnavailable",
    "Error: INSTALLATION FAILED: Internal error occurred: etcdserver: request timed out",
    "Error: 1 error occurred:\n\t* spoiled: ServiceUnavailable\n",
    'Error: UPGRADE FAILED: cannot patch "op" with kind Deployment: spoiled: ServiceUnavailable',
    "Error: UPGRADE FAILED: failed to create patch: unable to get data for current object /op: "
    "spoiled: ServiceUnavailable",
    "Error: UPGRADE FAILED: failed to create resource: spoiled: ServiceUnavailable",
)
# Answers that stay as they are.
FINAL = (
    f'{QUERY}secrets is forbidden: User "u" cannot list resource "secrets"',
    'Error: UPGRADE FAILED: Internal error occurred: failed calling webhook "v.x": Post "https://w.x": no endpoints',
    'Error: Unable to continue with install: ServiceAccount "a" in namespace "x" exists and cannot be imported into '
    "the current release: invalid ownership metadata",
    'Error: unable to build kubernetes objects from release manifest: resource mapping not found for name: "a" '
    'namespace: "": no matches for kind "X" in version "y/v1"',
    "Error: failed to install CRD crds/c.yaml: the server could not find the requested resource",
    'Error: UPGRADE FAILED: cannot patch "op" with kind Service: Service "op" is invalid: spec.ports: Required value',
    'Error: 1 error occurred:\n\t* Deployment.apps "a" is invalid: spec.replicas: Invalid value: -1\n',
    'Error: 2 errors occurred:\n\t* Apply failed with 1 conflict: conflict with "x": .spec\n\t* spoiled: by a test',
    f'{UNCHECKED}"": error validating data: ValidationError(Deployment.spec): unknown field "a" in io.k8s.api',
    f'{UNCHECKED}"": error validating data: failed to download openapi: openapi is forbidden: User "u" may not',
)


@pytest.mark.parametrize("said", BUSY)
def test_helm_is_repeated_where_a_server_without_time_met_what_only_reads(tmp_path: Path, said: str) -> None:
    _failing(tmp_path, said, 2).upgrade(_request(tmp_path))
    assert _runs(tmp_path) == 3


@pytest.mark.parametrize("said", LATE)
def test_a_server_without_time_in_the_middle_of_an_upgrade_is_told_as_that(tmp_path: Path, said: str) -> None:
    with pytest.raises(HelmError) as caught:
        _failing(tmp_path, said, 1).upgrade(_request(tmp_path))
    assert caught.value.cut_off and _runs(tmp_path) == 1
    (tmp_path / "runs").unlink()
    assert _failing(tmp_path, said, 2).releases() == {}


@pytest.mark.parametrize("said", FINAL)
def test_what_the_server_means_is_not_asked_again(tmp_path: Path, said: str) -> None:
    with pytest.raises(HelmError) as caught:
        _failing(tmp_path, said, 1).upgrade(_request(tmp_path))
    assert not caught.value.cut_off and _runs(tmp_path) == 1


@pytest.mark.parametrize("said", [AWAY, CUT, "Error: etcdserver: leader changed"])
def test_what_only_reads_is_asked_again_while_the_api_server_is_away(tmp_path: Path, said: str) -> None:
    assert _failing(tmp_path, said, 2).releases() == {}
    assert _runs(tmp_path) == 3


def test_an_upgrade_is_asked_again_only_where_nothing_was_begun(tmp_path: Path) -> None:
    _failing(tmp_path, AWAY, 2).upgrade(_request(tmp_path))
    assert _runs(tmp_path) == 3
    (tmp_path / "runs").unlink()
    with pytest.raises(HelmError) as caught:
        _failing(tmp_path, CUT, 1).upgrade(_request(tmp_path))
    assert caught.value.cut_off and _runs(tmp_path) == 1


@pytest.mark.parametrize(
    "said",
    [
        "Error: release: already exists",
        "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress",
        "Error: cannot re-use a name that is still in use",
        "Error: INSTALLATION FAILED: cannot reuse a name that is still in use",
    ],
)
def test_a_helm_that_met_another_one_says_so(tmp_path: Path, said: str) -> None:
    with pytest.raises(HelmError) as caught:
        _failing(tmp_path, said, 1).upgrade(_request(tmp_path))
    assert caught.value.two_at_once and not caught.value.cut_off and _runs(tmp_path) == 1


@pytest.mark.parametrize(
    "said",
    [
        "Error: UPGRADE FAILED: cannot patch",
        'Error: UPGRADE FAILED: namespaces "op" already exists',
        'Error: Get "https://charts.example/index.yaml": dial tcp: connect: connection refused',
        'Error: Get "https://charts.example/api-tools/index.yaml": EOF',
    ],
)
def test_other_failures_are_final(tmp_path: Path, said: str) -> None:
    with pytest.raises(HelmError) as caught:
        _failing(tmp_path, said, 1).releases()
    assert not caught.value.cut_off and not caught.value.two_at_once and _runs(tmp_path) == 1


def test_a_server_that_stays_away_is_waited_for_and_then_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helm_module, "PATIENCE_S", 1.0)
    with pytest.raises(HelmError, match="Kubernetes cluster unreachable"):
        _failing(tmp_path, AWAY, 100).upgrade(_request(tmp_path))
    assert _runs(tmp_path) > 2
