# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of clusters: what they say, and every problem of every file in one error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.cluster_files import (
    Cluster,
    ClusterHost,
    OwnInventory,
    expanded,
    group_name,
    read_clusters,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    InputError,
    NotFoundError,
    ProblemsError,
)

LAB = "name: lab1\nkubeconfig: lab1.conf\nsku: dgx-h100\nhosts: ['gpu[01:04]']\n"
OWN = OwnInventory(hosts=(ClusterHost(name="gpu01", variables={}),), variables={})


def read(directory: Path, own: OwnInventory = OWN, **files: str) -> list[Cluster]:
    """Write the files and read them."""
    for name, text in files.items():
        (directory / f"{name}.yml").write_text(text, "utf-8")
    return read_clusters(directory, directory.parent / "runs", lambda _path: own)


def refused(directory: Path, own: OwnInventory = OWN, **files: str) -> list[str]:
    """Return the problems, without the directory."""
    with pytest.raises(ProblemsError) as caught:
        read(directory, own, **files)
    return [line.replace(f"{directory}/", "") for line in caught.value.evidence]


def test_a_cluster_is_what_its_file_states_and_nothing_else(tmp_path: Path) -> None:
    rich = (
        "name: fra1-a\nring: canary\nkubeconfig: ../secrets/a\ncriteria: {service: eks}\nprofile: cloud\n"
        "vars: {gpufleet_minimum_nodes: 3, proxy: x}\nracks:\n  r1: {sku: dgx-h100, hosts: ['gpu[08:10]']}\n"
        "  r2: {hosts: [gpu11]}\nsku: dgx-a100\n"
    )
    lab, fra = sorted(read(tmp_path, lab1=LAB, fra=rich), key=lambda cluster: cluster.name, reverse=True)
    assert lab.variables == {
        "gpufleet_site_name": "lab1", "gpufleet_kubeconfig": str(tmp_path / "lab1.conf"),
        "gpufleet_run_dir": str(tmp_path.parent / "runs" / "lab1"),
    }  # fmt: skip
    assert fra.variables["gpufleet_kubeconfig"] == str(tmp_path.parent / "secrets" / "a")
    assert fra.variables["gpufleet_minimum_nodes"] == 3 and fra.variables["proxy"] == "x"
    assert [(host.name, host.sku, host.rack) for host in fra.hosts] == [
        ("gpu08", "dgx-h100", "r1"), ("gpu09", "dgx-h100", "r1"), ("gpu10", "dgx-h100", "r1"),
        ("gpu11", "dgx-a100", "r2"),
    ]  # fmt: skip


def test_an_inventory_of_its_own_has_hosts_and_kubeconfig_and_the_file_the_name(tmp_path: Path) -> None:
    own = OwnInventory(hosts=OWN.hosts, variables={"gpufleet_site_name": "FRA1", "gpufleet_kubeconfig": "/k"})
    (found,) = read(tmp_path, own, a="name: a\ninventory: a.yml\n")
    assert (found.site_name, found.kubeconfig, found.hosts) == ("a", "/k", own.hosts)
    assert found.variables["gpufleet_site_name"] == "a"
    # Its own inventory says it, and a run reads it there.
    assert "gpufleet_kubeconfig" not in found.variables


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nmae: a\n", "a.yml:1: nmae: unknown key. Fix: did you mean 'name'?"),
        ("name: a\nhosts: 3\n", "a.yml:2: hosts: is 3, expected a list."),
        ("name: [\n", "a.yml:2: not valid YAML"),
        (LAB.replace("lab1\n", "Lab_1\n"), "a.yml: name: is 'Lab_1', expected small letters, digits and hyphens"),
        (LAB.replace("lab1\n", "all\n"), "a.yml: name: is 'all'"),
        (LAB.replace("kubeconfig: lab1.conf\n", ""), "a.yml: kubeconfig: missing: whatever kubeconfig the controller"),
        (LAB + "orchestrator: slurm\n", "a.yml: slurm_conf: missing: whatever Slurm the controller belongs to"),
        (LAB + "slurm_conf: s\n", "a.yml: slurm_conf: is stated, and orchestrator is not slurm."),
        (LAB + "orchestrator: nomad\n", "a.yml:5: orchestrator: is 'nomad', expected one of kubernetes, slurm."),
        (LAB.replace("sku: dgx-h100\n", ""), "a.yml: sku: missing: the hosts of hosts have none."),
        (LAB + "inventory: x\n", "a.yml: inventory: "),
        (LAB.replace("hosts: ['gpu[01:04]']\n", ""), "a.yml: hosts: missing: the cluster has no host."),
        (LAB.replace("[01:04]", "[04:01]"), "a.yml: hosts: 'gpu[04:01]' has a range from 4 to 1"),
        (LAB.replace("[01:04]", "[1"), "a.yml: hosts: 'gpu[1' is no name of a host."),
        (LAB + "racks: {r: {hosts: [gpu02]}}\n", "a.yml: hosts: has gpu02, which racks.r has as well."),
        (LAB + "racks: {r: {hosts: []}}\n", "a.yml: racks.r.hosts: is empty."),
        (LAB + "vars: {gpufleet_criteria: {}}\n", "has a key of its own. Fix: state criteria instead"),
        (LAB + "vars: {gpufleet_gate: x}\n", "is no variable of this collection (vars), so nothing reads it."),
        (LAB + "vars: {gpufleet_run: x}\n", "is no variable of one cluster."),
    ],
)
def test_what_is_wrong_is_said_with_file_key_and_fix(tmp_path: Path, text: str, said: str) -> None:
    problems = refused(tmp_path, a=text)
    assert [line for line in problems if said in line and " Fix: " in line], problems


def test_all_problems_of_all_files_are_one_error(tmp_path: Path) -> None:
    problems = refused(tmp_path, a="name: 3\nrnig: x\n", b=LAB, c=LAB, d="name: d\ninventory: nowhere.yml\n")
    assert len(problems) == 5, problems
    for said in ("a.yml:1: name: is 3", "a.yml:2: rnig", "b.yml: name: lab1 is that of c.yml as well",
                 "b.yml: kubeconfig", "d.yml: inventory: nowhere.yml does not exist"):  # fmt: skip
        assert [line for line in problems if said in line], (said, problems)


def test_the_file_says_the_name_of_the_site_and_no_two_the_same(tmp_path: Path) -> None:
    """Copies of one inventory would be one site: a history in which passes of one count for the other."""
    own = OwnInventory(hosts=OWN.hosts, variables={"gpufleet_site_name": "FRA1"})
    text = "name: {0}\nkubeconfig: {0}.conf\ninventory: {0}.yml\nvars: {{gpufleet_site_name: {1}}}\n"
    files = {name: text.format(name, site) for name, site in (("a", "x"), ("b", "y"), ("c", "z"))}
    assert [cluster.site_name for cluster in read(tmp_path, own, **files)] == ["x", "y", "z"]
    problems = refused(tmp_path, own, **files, d=text.format("d", "x"))
    assert problems == ["a.yml: vars.gpufleet_site_name: x is that of d.yml as well. Fix: state one of its own"]


def test_two_clusters_share_no_kubeconfig_inventory_or_runs(tmp_path: Path) -> None:
    """The tests of one would be taken for those of the other."""
    (tmp_path / "own").write_text("", "utf-8")
    first, second = LAB, LAB.replace("name: lab1", "name: lab2")
    assert ["kubeconfig: " in line for line in refused(tmp_path, a=first, b=second)] == [True]
    own = "name: {}\ninventory: own\nkubeconfig: {}\n"
    assert ["inventory: " in line for line in refused(tmp_path, a=own.format("x", "x"), b=own.format("y", "y"))] == [
        True
    ]
    runs = "run_dir: r\n"
    other = second.replace("lab1.conf", "lab2.conf")
    assert ["run_dir: " in line for line in refused(tmp_path, a=first + runs, b=other + runs)] == [True]
    assert len(read(tmp_path, a=first, b=other)) == 2


def test_a_directory_without_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("", "utf-8")
    with pytest.raises(NotFoundError, match="has no file of a cluster"):
        read(tmp_path)
    with pytest.raises(NotFoundError, match="is no directory"):
        read_clusters(tmp_path / "x", tmp_path, lambda _path: OWN)
    # The source of the inventory may lie among them.
    (tmp_path / "clusters.yml").write_text("plugin: x\n", "utf-8")
    (tmp_path / "a.yml").write_text(LAB, "utf-8")
    assert len(read_clusters(tmp_path, tmp_path, lambda _path: OWN, besides=[tmp_path / "clusters.yml"])) == 1


def test_an_own_inventory_without_gpu_hosts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("", "utf-8")
    own = OwnInventory(hosts=(), variables={})
    assert "has no host in group gpu_nodes" in refused(tmp_path, own, a="name: a\nkubeconfig: k\ninventory: own\n")[0]


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 4))
def test_a_range_has_as_many_hosts_as_numbers(first: int, more: int, width: int) -> None:
    pattern = f"gpu[{first:0{width}}:{first + more}]-x"
    names = expanded(pattern)
    assert len(names) == len(set(names)) == more + 1
    assert names[0] == f"gpu{first:0{width}}-x" and int(names[-1][3:-2]) == first + more
    if more:
        with pytest.raises(InputError):
            expanded(f"gpu[{first + more}:{first}]")


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_group_has_a_name_that_ansible_takes(one: str, other: str) -> None:
    name = group_name("rack", one, other)
    assert name.isascii() and name.replace("_", "a").isalnum() and name.startswith("rack_")
