# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An upgrade in whose middle the API server goes away is made once more, from whatever state it left the release in."""

from __future__ import annotations

import importlib.util
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import (
    Helm,
    HelmError,
    Release,
    ReleaseRequest,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Installer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    REVISION_LABEL,
    Action,
    Component,
    Step,
)

COMPONENT = Component(name="op", namespace="ns", chart="op", version="1.0.0", source="")


@dataclass
class FakeHelm:
    """A helm whose first upgrades fail, and the release as they leave it."""

    failures: list[bool]
    release: Release | None = None
    asked: list[str] = field(default_factory=list)

    def crds(self, request: ReleaseRequest, kube_version: str) -> str:
        return ""

    def releases(self) -> dict[str, Release]:
        return {"ns/op": self.release} if self.release else {}

    def recover(self, name: str, namespace: str) -> tuple[int, str]:
        self.asked.append("recover")
        return 3, "rolled back to revision 1"

    def upgrade(self, request: ReleaseRequest, *, take_ownership: bool) -> None:
        self.asked.append(f"upgrade to {request.labels[REVISION_LABEL]}")
        if self.failures:
            error = HelmError("helm upgrade op", "EOF.")
            error.cut_off = self.failures.pop(0)
            raise error


class FakeCluster:
    """A cluster that is asked for its version alone."""

    def version(self) -> str:
        return "v1.36.0"


def applied(helm: FakeHelm, tmp_path: Path) -> list[str]:
    (tmp_path / "op-1.0.0.tgz").touch()
    installer = Installer(cast(Helm, helm), cast(Cluster, FakeCluster()), str(tmp_path))
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


@pytest.mark.parametrize("failures", [[False], [True, True]])
def test_another_failure_and_a_second_outage_are_told(failures: list[bool], tmp_path: Path) -> None:
    with pytest.raises(HelmError, match="EOF"):
        applied(FakeHelm(failures), tmp_path)


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
