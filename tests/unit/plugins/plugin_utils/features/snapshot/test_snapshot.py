# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole snapshot as a user asks for it: releases with their owners, hosts of a run, and what is told in short."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from returned import described, misfits
from snapshot_api import PagedApi, cluster_of, everything, node

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import snapshot_role
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.detected import criteria_lines, detected
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot import app as room
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.app import (
    not_complete,
    summary,
    take_snapshot,
    unseen,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import Collected, Snapshot

ARCHIVE = Path(__file__).resolve().parents[5] / "data" / "saved_runs" / "0.1.0_healthy.tar.xz"
RELEASES = {
    f"{name}/{name}": Release(name, name, 1, "deployed", name, "v1.0.0") for name in ("ours", "theirs", "nobodys")
}


def deployment(release: str, **labels: str) -> dict[str, Any]:
    notes = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": release}
    return {"metadata": {"name": "d", "namespace": release, "labels": labels, "annotations": notes}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> PagedApi:
    """Return a server with three releases: ours, one of Flux, one of nobody in particular."""
    found = everything([node("gpu01"), node("gpu02")], [])
    ours = {"name": "ours", "version": "1", "owner": "helm", "gpufleet.io/managed-by": "gpufleet.bringup"}
    found.lists["/api/v1/secrets"] = [{"metadata": {"name": "s", "namespace": "ours", "labels": ours}}]
    found.lists["/apis/apps/v1/deployments"] = [
        deployment(
            "theirs", **{"helm.toolkit.fluxcd.io/name": "gpu", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
        ),
        deployment("nobodys"),
    ]
    monkeypatch.setattr(room, "Cluster", lambda *_args, **_more: cluster_of(found))
    monkeypatch.setattr(Helm, "releases", lambda _helm: RELEASES)
    return found


def taken(run_dir: Path | None = None) -> Snapshot:
    return take_snapshot(Connection(host="https://api.example"), helm="helm", run_dir=run_dir)


def test_releases_have_the_owners_that_their_objects_name(api: PagedApi) -> None:
    del api
    owners = {key: release.owner for key, release in taken().releases.items()}
    assert owners["theirs/theirs"] == "Flux HelmRelease flux-system/gpu"
    assert owners["nobodys/nobodys"] == ""
    assert owners["ours/ours"] == "gpufleet.bringup"


def test_a_helm_that_does_not_run_is_a_collector_that_failed(api: PagedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    del api

    def refuse(_helm: Helm) -> dict[str, Release]:
        raise UnavailableError("helm list", "no such program.", "install helm")

    monkeypatch.setattr(Helm, "releases", refuse)
    seen = taken()
    assert unseen(seen) == ["collector releases failed: helm list: no such program. Fix: install helm"]
    refused = str(not_complete(seen))
    assert "no answer for releases (helm list: no such program)" in refused and "install helm; or keep it" in refused
    assert len(seen.nodes) == 2


def test_hosts_are_those_of_the_run_that_is_named(api: PagedApi, tmp_path: Path) -> None:
    del api
    unpack(ARCHIVE, tmp_path)
    seen = taken(tmp_path)
    assert seen.whole("hosts") and tmp_path.name in seen.collectors["hosts"].reason
    host = seen.hosts[min(seen.hosts)]
    assert host.driver and host.cuda and host.kernel and host.os["ID"] and host.gpus and host.adapters
    assert {gpu.mig for gpu in host.gpus.values()} == {"Disabled"}


def test_hosts_of_a_rehearsal_make_a_rehearsal_of_the_snapshot(api: PagedApi, tmp_path: Path) -> None:
    del api
    unpack(ARCHIVE, tmp_path)
    run = Run(tmp_path)
    assert (run.site.rehearsal, taken(tmp_path).rehearsal) == (True, True)
    run.save_site(replace(run.site, rehearsal=False))
    assert taken(tmp_path).rehearsal is False


ASKED = {
    "sysctl": (["grep"], 2, "/proc/sys/vm/swappiness:10\n"),
    "kernel_cmdline": (["cat"], 0, "root=UUID=1 iommu=pt\n"),
    "systemctl_show": (
        ["systemctl"],
        0,
        "Id=kubelet.service\nLoadState=loaded\nActiveState=active\n",
    ),
}
LSMOD = "Module                  Size  Used by\nnvidia              60000000  0\n"


def test_hosts_have_settings_boot_parameters_and_units_as_gate_nodes_read_them(api: PagedApi, tmp_path: Path) -> None:
    del api
    unpack(ARCHIVE, tmp_path)
    first = min((tmp_path / "evidence" / "hosts").glob("*.json"))
    evidence = json.loads(first.read_text())
    for name, (argv, rc, stdout) in ASKED.items():
        evidence["tools"][name] = {**evidence["tools"]["uname"], "argv": argv, "rc": rc, "stdout": stdout}
    first.write_text(json.dumps(evidence))
    seen = taken(tmp_path)
    host = seen.hosts[first.stem]
    assert (host.sysctl, host.boot) == ({"/proc/sys/vm/swappiness": "10"}, {"iommu": "pt"})
    assert host.units["kubelet.service"] == {"LoadState": "loaded", "ActiveState": "active"}
    assert host.read_by == "ssh" and not {"sysctl", "boot", "units"} & set(host.unread)
    # The others are of a run that did not ask: that is said, and nothing of it is taken for empty.
    other = seen.hosts[max(seen.hosts)]
    assert {"sysctl", "boot", "units"} <= set(other.unread) and "not all of them gave boot of" in str(
        seen.collectors["hosts"].reason
    )


def test_a_run_that_did_not_ask_the_hosts_for_all_is_said_with_the_command_that_does(
    api: PagedApi, tmp_path: Path
) -> None:
    """A validation reads less of the hosts than gate nodes: its snapshot lacked six facts, and nothing said so."""
    del api
    unpack(ARCHIVE, tmp_path)
    for path in sorted((tmp_path / "evidence" / "hosts").glob("*.json")):
        evidence = json.loads(path.read_text())
        # The archive is of an earlier release, which asked for fewer.
        for name, (argv, rc, stdout) in {**ASKED, "lsmod": (["lsmod"], 0, LSMOD)}.items():
            evidence["tools"][name] = {**evidence["tools"]["uname"], "argv": argv, "rc": rc, "stdout": stdout}
        path.write_text(json.dumps(evidence))
    assert not [line for line in unseen(taken(tmp_path)) if "did not ask" in line]
    for path in sorted((tmp_path / "evidence" / "hosts").glob("*.json")):
        evidence = json.loads(path.read_text())
        for name in (*ASKED, "ibstat"):
            del evidence["tools"][name]
        path.write_text(json.dumps(evidence))
    (line,) = (line for line in unseen(taken(tmp_path)) if "did not ask" in line)
    assert "boot, hcas, sysctl, units: these are not in the snapshot" in line
    assert "gpufleet.bringup.site -i INVENTORY -e gpufleet_gates=nodes" in line and "gpufleet_run=.run/latest" in line


def test_a_host_that_was_not_read_is_named_and_the_others_are_there(api: PagedApi, tmp_path: Path) -> None:
    del api
    unpack(ARCHIVE, tmp_path)
    gone = min((tmp_path / "evidence" / "hosts").glob("*.json"))
    gone.unlink()
    seen = taken(tmp_path)
    assert seen.hosts[gone.stem].not_read and gone.stem in seen.collectors["hosts"].reason
    assert any(host.driver for host in seen.hosts.values())
    told = summary(seen)
    assert (told["hosts_not_read"], told["hosts"]) == (1, len(seen.hosts) - 1)
    (line,) = (line for line in unseen(seen) if "not read" in line)
    assert gone.stem in line and "Fix: ask these nodes by pods: -e gpufleet_snapshot_pods=gpu" in line


def test_a_run_that_is_none_is_a_collector_that_failed(api: PagedApi, tmp_path: Path) -> None:
    del api
    assert "cannot be read" in taken(tmp_path).failed["hosts"].reason


def test_without_a_run_hosts_are_not_asked_for(api: PagedApi) -> None:
    del api
    seen = taken()
    assert seen.collectors["hosts"].state is Collected.NOT_ASKED
    short = summary(seen)
    assert list(misfits(short, described("snapshot_info", "summary"))) == []
    assert (short["nodes"], short["gpu_nodes"], short["gpus"], short["providers"]) == (2, 2, 16, ["aws"])


def test_each_criterion_is_one_line_with_its_evidence_and_pools_are_named(api: PagedApi) -> None:
    del api
    seen = taken()
    other = replace(seen.nodes["gpu02"], labels={**seen.nodes["gpu02"].labels, "nvidia.com/gpu.product": "NVIDIA-A100"})
    lines = criteria_lines(detected(replace(seen, nodes={**seen.nodes, "gpu02": other}), ()))
    assert any(line.startswith("fabric: efa (node gpu01: ") for line in lines), lines
    assert any(line.startswith("accelerator: mixed (") for line in lines), lines
    assert [line.rpartition(": ")[2] for line in lines if line.startswith("pool ")] == ["gpu02", "gpu01"], lines


def test_the_role_allows_what_was_asked_and_only_reading(api: PagedApi) -> None:
    taken()
    rules = snapshot_role()["rules"]
    allowed = {resource for rule in rules for resource in rule["resources"]}
    assert {path.rpartition("/")[2] for path in api.pages} <= allowed
    assert {verb for rule in rules for verb in rule["verbs"]} <= {"get", "list"}
