# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An upgrade in whose middle the API server goes away, or that meets a helm of a killed run, is made once more, from
whatever state that left the release in."""

from __future__ import annotations

import importlib.util
import random
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import (
    Helm,
    HelmError,
    Release,
    ReleaseRequest,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    ForbiddenError,
    UnansweredError,
    UnreachableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import SECRETS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack import install
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Installer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    REVISION_LABEL,
    Action,
    Component,
    Step,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError

COMPONENT = Component(name="op", namespace="ns", chart="op", version="1.0.0", source="")


@dataclass
class FakeHelm:
    """A helm whose first upgrades fail, and the release as they leave it."""

    failures: list[bool]
    release: Release | None = None
    asked: list[str] = field(default_factory=list)
    two_at_once: bool = False
    # So often it ends well, and the server does not take the record that it has.
    unrecorded: int = 0

    def crds(self, request: ReleaseRequest, kube_version: str) -> str:
        return ""

    def manifest(self, name: str, namespace: str) -> str:
        return "kind: Deployment\n"

    def releases(self) -> dict[str, Release]:
        return {"ns/op": self.release} if self.release else {}

    def recover(self, name: str, namespace: str) -> tuple[int, str]:
        self.asked.append("recover")
        return 3, "rolled back to revision 1"

    def upgrade(self, request: ReleaseRequest, *, take_ownership: bool) -> None:
        self.asked.append(f"upgrade to {request.labels[REVISION_LABEL]}")
        if self.failures:
            error = HelmError("helm upgrade op", "EOF.")
            error.cut_off, error.two_at_once = self.failures.pop(0), self.two_at_once
            raise error
        if self.unrecorded:
            self.unrecorded -= 1
        elif self.release:
            self.release = replace(self.release, status="deployed")


@dataclass
class OtherHelm(FakeHelm):
    """A helm that finds another one at work, which leaves these states one after another; the last one stays."""

    failures: list[bool] = field(default_factory=lambda: [False])
    states: list[str] = field(default_factory=list)
    two_at_once: bool = True

    def releases(self) -> dict[str, Release]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        self.release = Release("op", "ns", 2, state, "op", "1.0.0") if state else None
        return super().releases()

    def upgrade(self, request: ReleaseRequest, *, take_ownership: bool) -> None:
        super().upgrade(request, take_ownership=take_ownership)
        self.states = ["deployed"]


@dataclass
class FakeCluster:
    """A cluster that knows its version and the labels of one release."""

    labels: dict[str, str] = field(default_factory=dict)

    def version(self) -> str:
        return "v1.36.0"

    def list_metadata(self, kind: Kind, *, labels: str) -> list[dict[str, Any]]:
        assert (kind, labels) == (SECRETS, "owner=helm")
        return [{"namespace": "ns", "labels": {"name": "op", "version": "2", **self.labels}}]


def applied(helm: FakeHelm, tmp_path: Path, cluster: FakeCluster | None = None) -> list[str]:
    (tmp_path / "op-1.0.0.tgz").touch()
    installer = Installer(cast(Helm, helm), cast(Cluster, cluster or FakeCluster()), str(tmp_path))
    step = Step(component="op", action=Action.UPGRADE, namespace="ns", wanted_version="1.0.0", found_revision=1)
    installer._apply(COMPONENT, step)
    return helm.asked


@pytest.mark.parametrize(
    ("left", "asked"),
    [
        (None, ["upgrade to 2", "upgrade to 1"]),
        (Release("op", "ns", 2, "failed", "op", "1.0.0"), ["upgrade to 2", "upgrade to 3"]),
        (Release("op", "ns", 2, "pending-upgrade", "op", "1.0.0"), ["upgrade to 2", "recover", "upgrade to 4"]),
    ],
)
def test_an_upgrade_that_an_outage_cut_off_is_made_once_more(
    left: Release | None, asked: list[str], tmp_path: Path
) -> None:
    assert applied(FakeHelm([True], left), tmp_path) == asked


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade"])
def test_a_helm_that_ends_well_and_is_not_recorded_is_asked_once_more(status: str, tmp_path: Path) -> None:
    """recordRelease of helm/helm, pkg/action/install.go: what it answers is logged, and helm ends with 0."""
    helm = FakeHelm([], Release("op", "ns", 2, status, "op", "1.0.0"), unrecorded=1)
    assert applied(helm, tmp_path) == ["upgrade to 2", "recover", "upgrade to 4"]
    assert helm.releases()["ns/op"].status == "deployed"


def test_another_failure_is_final(tmp_path: Path) -> None:
    helm = FakeHelm([False, False])
    with pytest.raises(HelmError, match="EOF"):
        applied(helm, tmp_path)
    assert helm.asked == ["upgrade to 2"]


def test_a_server_that_refuses_again_and_again_is_asked_as_long_as_our_own_client_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of all answers were 429, 500 or 503: each further request of a chart may meet one."""
    monkeypatch.setattr(install, "sleep", lambda _s: None)
    assert len(applied(FakeHelm([True] * 7), tmp_path)) == 8
    monkeypatch.setattr(install, "PATIENCE_S", 0.0)
    helm = FakeHelm([True, True])
    with pytest.raises(HelmError, match="EOF"):
        applied(helm, tmp_path)
    assert len(helm.asked) == 1


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (UnansweredError("Kubernetes API list /x", "HTTP 503: busy."), "api-not-answered"),
        (UnreachableError("Kubernetes API x", "cannot be reached."), "api-not-answered"),
        (ForbiddenError("Kubernetes API list /x", "forbidden."), "release-not-deployed"),
    ],
)
def test_what_the_server_refused_to_answer_is_told_apart_from_what_it_refused(
    error: UnavailableError, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "op-1.0.0.tgz").touch()
    helm = FakeHelm([])
    monkeypatch.setattr(helm, "upgrade", Mock(side_effect=error))
    installer = Installer(cast(Helm, helm), cast(Cluster, FakeCluster()), str(tmp_path))
    step = Step(component="op", action=Action.UPGRADE, namespace="ns", wanted_version="1.0.0", found_revision=1)
    done = installer._one(COMPONENT, step)
    assert (done.state, done.cause) == ("failed", cause)


OURS = {MANAGED_BY_LABEL: MANAGED_BY, REVISION_LABEL: "2"}


@pytest.mark.parametrize(
    ("states", "asked"),
    [
        # It was told to end, and had ended by the second look; helm says `failed` of what was cancelled.
        (["pending-install", "failed"], ["upgrade to 2", "upgrade to 3"]),
        (["deployed"], ["upgrade to 2", "upgrade to 3"]),
        # Taken away again.
        ([""], ["upgrade to 2", "upgrade to 1"]),
        # Killed as well: nobody works on it after the time that one has to end.
        (["pending-install"], ["upgrade to 2", "recover", "upgrade to 4"]),
    ],
)
def test_a_helm_of_a_killed_run_is_let_end_first(
    states: list[str], asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "GRACE_S", 0.4)
    assert applied(OtherHelm(states=states), tmp_path, FakeCluster(OURS)) == asked


@pytest.mark.parametrize("labels", [{}, {**OURS, REVISION_LABEL: "1"}])
def test_a_helm_of_somebody_else_is_not_disturbed(labels: dict[str, str], tmp_path: Path) -> None:
    helm = OtherHelm(states=["pending-upgrade"])
    with pytest.raises(HelmError, match="EOF"):
        applied(helm, tmp_path, FakeCluster(labels))
    assert helm.asked == ["upgrade to 2"]


def test_the_bench_of_the_installer_measures_an_installation(repository: Path) -> None:
    found = importlib.util.spec_from_file_location("bench_install", repository / "bench/install.py")
    assert found is not None and found.loader is not None
    bench = importlib.util.module_from_spec(found)
    sys.modules["bench_install"] = bench
    try:
        found.loader.exec_module(bench)
        components, _times = bench.graph(random.Random(1))
        assert bench.installed_in_s(components[:3], {c.name: bench.Times(0.01, 0.01) for c in components}) > 0
    finally:
        del sys.modules["bench_install"]
