# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Playbook validate on a simulated cluster with its GPU stack, by somebody who has the shipped roles alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from accounts import kubeconfig_of_account
from live_site import LiveSite, live_site
from rehearsal_harness import ROOT, Rehearsed, rehearse
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.rbac import (
    Subject,
    bindings,
    put_objects,
    subject_objects,
)

ROLES = yaml.safe_load((ROOT / "docs" / "rbac" / "roles.yaml").read_text(encoding="utf-8"))["items"]
# What docs/rbac.md names for phase readiness, and for deployment.
NAME, OF_STACK = "gpufleet-snapshot-observe", "gpufleet-gpu-stack-test"
WHO = Subject(kind="ServiceAccount", name="validator", namespace="gpufleet-system")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    with live_site(tmp_path_factory.mktemp("validate"), 2) as site:
        done = site.run("gpu_stack")
        assert done.rc == 0, done.output[-3000:]
        yield site


@pytest.fixture(scope="module")
def kubeconfig(site: LiveSite) -> Path:
    """The kubeconfig of a service account that has the shipped roles."""
    roles = [role for role in ROLES if role["metadata"]["name"] == NAME]
    _give(site, roles)
    return kubeconfig_of_account(site.kubeconfig, WHO.name, WHO.namespace, site.directory / "validator.kubeconfig")


def _give(site: LiveSite, roles: list[dict[str, Any]]) -> None:
    with Cluster(Connection(kubeconfig=str(site.kubeconfig))) as admin:
        put_objects(admin, [*subject_objects(WHO), *roles, *bindings(roles, WHO)], dry_run=False)


def validate(site: LiveSite, kubeconfig: Path, *phases: str, **more: Any) -> Rehearsed:
    inventory = site.directory / "inventory.yml"
    return rehearse(
        site.directory, playbook="validate.yml", inventory=inventory, phases=[*phases],
        kubeconfig=str(kubeconfig), **more,
    )  # fmt: skip


def test_readiness_works_with_exactly_the_shipped_rights(site: LiveSite, kubeconfig: Path) -> None:
    done = validate(site, kubeconfig, "readiness")
    record = json.loads((done.run_dir / "run.json").read_text(encoding="utf-8"))
    found = {verdict["gate"]: verdict["status"] for verdict in record["phases"]}
    assert done.rc == 0 and found == {"readiness": "passed"}, done.output[-4000:]
    assert site.tests() == []
    page = (done.run_dir / "report.html").read_text(encoding="utf-8")
    assert "Phases of the validation" in page and "not asked in this run" in page


def test_a_right_that_is_missing_is_named_with_the_command_that_gives_it(site: LiveSite, kubeconfig: Path) -> None:
    (role,) = [r for r in ROLES if r["metadata"]["name"] == NAME]
    smaller = {**role, "rules": [rule for rule in role["rules"] if rule["resources"] != ["resourceslices"]]}
    with Cluster(Connection(kubeconfig=str(site.kubeconfig))) as admin:
        put_objects(admin, [smaller], dry_run=False)
        try:
            done = validate(site, kubeconfig, "readiness")
        finally:
            put_objects(admin, [role], dry_run=False)
    assert done.rc != 0 and "this user may not list resourceslices.resource.k8s.io." in done.output, done.output[-3000:]
    assert f"kubectl create clusterrolebinding {NAME} --clusterrole {NAME}" in done.output
    assert site.tests() == []


def test_deployment_works_with_the_shipped_rights_and_says_what_they_do_not_show(
    site: LiveSite, kubeconfig: Path
) -> None:
    _give(site, [role for role in ROLES if role["metadata"]["name"] == OF_STACK])
    done = validate(site, kubeconfig, "deployment")
    record = json.loads((done.run_dir / "run.json").read_text(encoding="utf-8"))
    found = {verdict["gate"]: verdict["status"] for verdict in record["phases"]}
    assert done.rc == 0 and found == {"readiness": "passed", "deployment": "passed"}, done.output[-4000:]
    assert "whether it was changed by hand is not known" in done.output, done.output[-4000:]
    # The API server takes a moment to empty the last namespace.
    eventually(lambda: not site.tests(), what=site.tests)
