# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each cluster of a fleet is asked: its own inventory and credentials, and nothing of those of the controller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base import fleet_asked
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.fleet_asked import asked_of, members_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.app import FleetPlace
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.cluster_files import UNREAD
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError


class HostVars(dict[str, dict[str, Any]]):
    """As Ansible's: the variables of each host."""

    def raw_get(self, host: str) -> dict[str, Any]:
        """Return them without evaluation."""
        return self[host]


class EncryptedString(str):
    """As the text of a vault in a release of Ansible."""


def cluster(name: str, ring: str = "", **more: Any) -> dict[str, Any]:
    about = {
        "name": name, "ring": ring, "inventory": "", "slurm_conf": "", "hosts": {"gpu01": {"gpufleet_sku": "dgx-h100"}},
        "variables": ["gpufleet_kubeconfig", "gpufleet_run_dir", "proxy"],
    }  # fmt: skip
    own = {"gpufleet_kubeconfig": f"/k/{name}", "gpufleet_run_dir": f"/runs/{name}", "proxy": "p", "ansible_user": "x"}
    return {"gpufleet_cluster": about, **own, **more}


def task_vars(**more: Any) -> dict[str, Any]:
    found = HostVars(
        a=cluster("a", "lab"), b=cluster("b", gpufleet_gates=["facility"], gpufleet_fleet_budget=3), c=cluster("c")
    )
    return {"groups": {"clusters": ["c", "a", "b"], "site_x": ["b", "b.gpu01"]}, "hostvars": found, **more}


def test_a_run_gets_the_variables_of_its_cluster_and_no_others() -> None:
    a, b, _c = members_of(task_vars(), [])
    assert a.variables == {"gpufleet_kubeconfig": "/k/a", "gpufleet_run_dir": "/runs/a", "proxy": "p"}
    assert b.variables["gpufleet_gates"] == ["facility"] and "gpufleet_fleet_budget" not in b.variables


@pytest.mark.parametrize(
    ("only", "names"), [([], "abc"), (["b"], "b"), (["lab"], "a"), (["site_x"], "b"), (["lab", "c"], "ac")]
)
def test_clusters_are_chosen_by_name_ring_or_group(only: list[str], names: str) -> None:
    assert "".join(member.name for member in members_of(task_vars(), only)) == names


@pytest.mark.parametrize(
    ("given", "only", "told"),
    [
        (task_vars(), ["bb"], "gpufleet_fleet_clusters bb: is no cluster, ring or group"),
        (task_vars(ansible_limit="a"), [], "does not choose clusters"),
        ({"groups": {}, "hostvars": HostVars()}, [], "has no cluster"),
        (
            {
                "groups": {"clusters": ["a"]},
                "hostvars": HostVars(a=cluster("a", gpufleet_store_url=EncryptedString("x"))),
            },
            [],
            "gpufleet_store_url is kept in a vault of the fleet's inventory",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(given: dict[str, Any], only: list[str], told: str) -> None:
    with pytest.raises(BringupError, match=told):
        members_of(given, only)


@pytest.mark.parametrize("order", [["lab", "canary"], ["canary", "lab"], ["rest", "lab"], ["canary"], []])
def test_an_order_of_rings_may_have_the_usual_ones(order: list[str]) -> None:
    assert len(members_of(task_vars(), [], order)) == 3


def test_a_ring_of_no_cluster_is_refused_with_the_nearest() -> None:
    """Its clusters would be run with the rest, and the canary order be lost."""
    with pytest.raises(BringupError) as caught:
        members_of(task_vars(), [], ["labs"])
    assert str(caught.value).startswith("gpufleet_fleet_rings labs: is the ring of no cluster. Fix: did you mean 'lab'")
    # Chosen clusters may all be of another ring.
    assert [member.name for member in members_of(task_vars(), ["c"], ["lab"])] == ["c"]


def test_a_cluster_whose_ring_is_nearly_one_of_the_order_is_not_run_with_the_rest() -> None:
    given = task_vars()
    given["hostvars"]["c"]["gpufleet_cluster"] |= {"ring": "canarry"}
    with pytest.raises(BringupError, match=r"^ring canarry of c: is not in the order .*did you mean 'canary'"):
        members_of(given, [])
    given["hostvars"]["c"]["gpufleet_cluster"] |= {"ring": "prod"}
    assert len(members_of(given, [])) == 3
    given["hostvars"]["c"]["gpufleet_cluster"] |= {"ring": "canarry"}
    assert len(members_of(given, [], ["lab", "canarry"])) == 3


def test_what_is_wrong_with_files_of_clusters_is_why_there_are_none() -> None:
    """Ansible makes a warning of it, far above the end."""
    problem = {"subject": "prod1.yml:8: skuu", "reason": "unknown key.", "hint": "did you mean 'sku'?"}
    given = {"groups": {}, "hostvars": HostVars(), UNREAD: {"subject": "clusters", "problems": [problem, problem]}}
    with pytest.raises(BringupError) as caught:
        members_of(given, [])
    assert str(caught.value).splitlines()[-1].endswith("prod1.yml:8: skuu: unknown key. Fix: did you mean 'sku'?")


def test_credentials_of_the_controller_stay_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster without its own would be taken for the one that they lead to."""
    for name in ("KUBECONFIG", "K8S_AUTH_HOST", "K8S_AUTH_KUBECONFIG", "SLURM_CONF", "ANSIBLE_INVENTORY"):
        monkeypatch.setenv(name, "of-the-controller")
    monkeypatch.setenv("HTTPS_PROXY", "kept")
    given = task_vars()
    given["hostvars"]["b"]["gpufleet_cluster"] |= {"slurm_conf": "/s/slurm.conf", "inventory": "/own/hosts.yml"}
    asked = asked_of(members_of(given, []), "site", FleetPlace(tmp_path))
    assert "of-the-controller" not in [*asked["a"].env.values(), *asked["b"].env.values()]
    assert asked["a"].env["HTTPS_PROXY"] == "kept" and "SLURM_CONF" not in asked["a"].env
    assert asked["b"].env["SLURM_CONF"] == "/s/slurm.conf" and "/own/hosts.yml" in asked["b"].argv
    written = json.loads((tmp_path / "a.vars.json").read_text("utf-8"))
    assert written["gpufleet_kubeconfig"] == "/k/a" and (tmp_path / "a.vars.json").stat().st_mode & 0o077 == 0
    inventory = json.loads((tmp_path / "a.inventory.json").read_text("utf-8"))
    assert list(inventory["all"]["children"]["gpu_nodes"]["hosts"]) == ["gpu01"]
    assert asked["a"].run_dir == Path("/runs/a") and asked["a"].report is None


def test_what_is_asked_has_a_digest_of_all_that_matters(tmp_path: Path) -> None:
    def digest(play: str = "site", **more: Any) -> str:
        given = task_vars()
        given["hostvars"]["a"] |= more
        return asked_of(members_of(given, ["a"]), play, FleetPlace(tmp_path))["a"].digest

    assert digest() == digest()
    assert len({digest(), digest("validate"), digest(gpufleet_gates=["nodes"]), digest(gpufleet_run_dir="/x")}) == 4


def test_a_drift_leaves_its_report_in_the_cluster_s_directory(tmp_path: Path) -> None:
    members = members_of(task_vars(), ["a"])
    asked = asked_of(members, "drift", FleetPlace(tmp_path))["a"]
    assert asked.report == Path("/runs/a/drift")
    assert json.loads((tmp_path / "a.vars.json").read_text("utf-8"))["gpufleet_drift_report"] == "/runs/a/drift"


def test_options_of_the_command_that_count_for_every_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = {"vault_ids": ["x@f"], "vault_password_files": ["/v"], "remote_user": "u", "forks": 7, "subset": "a"}
    monkeypatch.setattr(fleet_asked.context, "CLIARGS", stated)
    assert list(fleet_asked._options()) == ["--vault-id", "x@f", "--vault-password-file", "/v", "-u", "u", "-f", "7"]
