# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm's daemons say of themselves, by captures of a real Slurm (tests/data/slurm)."""

from __future__ import annotations

import pytest
from slurm_captures import capture

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import slurm_config, slurm_nodes

REFUSED = "sacctmgr: error: Sending PersistInit msg: Connection refused\n"
CLIENT = "Configuration data as of 2026-11-29T22:49:18\nSLURM_VERSION          = 22.05.8\n"


def test_a_configuration_has_values_and_what_cgroup_conf_says() -> None:
    found = slurm_config.parse(capture("config-cgroup.txt"))
    assert found.said("SLURM_VERSION") == "22.05.8" and found.said("TaskPlugin") == "task/cgroup,task/affinity"
    assert found.cgroup is not None and found.cgroup["ConstrainDevices"] == "yes"
    assert found.said("Epilog") == "" and "ConstrainDevices" not in found.values


def test_programs_are_one_line_or_a_line_each() -> None:
    older = slurm_config.parse(capture("config-cgroup.txt"))
    newer = slurm_config.parse(
        f"{CLIENT}PrologFlags = Alloc\nProlog[0] = /a\nProlog[1] = /b\nPrologSlurmctld[0] = /c\n"
    )
    assert (older.programs("Epilog"), newer.programs("Prolog"), newer.programs("Epilog")) == ("", "/a, /b", "")
    assert older.programs("Prolog") == older.said("Prolog") != ""


def test_without_a_plugin_of_control_groups_nothing_is_said_of_cgroup_conf() -> None:
    found = slurm_config.parse(capture("config-plain.txt"))
    assert found.cgroup is None and found.said("TaskPlugin") == "task/none"
    with pytest.raises(InputError, match="no line Nonsense"):
        found.said("Nonsense")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slurm_load_ctl_conf error: Unable to contact slurm controller\n",
        "Configuration data as of 2026-11-29T22:49:18\nTaskPlugin = task/cgroup\n",
        "Configuration data as of 2026-11-29T22:49:18\nSLURM_VERSION = soon\n",
        f"hello\n{CLIENT}",
        f"{CLIENT}SLURM_VERSION = 23.02.1\n",
        "Configuration data as of x\nSlurmDBD configuration:\nSLURM_VERSION = 22.05.8\n",
    ],
)
def test_what_is_no_whole_configuration_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        slurm_config.parse(text)


def test_the_version_of_slurmdbd_is_its_own_and_not_that_of_sacctmgr() -> None:
    assert slurm_config.database_version(capture("dbd.txt"), "") == "22.05.8"
    # sacctmgr ends with 0 and prints what it has itself.
    assert slurm_config.database_version(CLIENT, REFUSED) is None
    assert slurm_config.database_version("", REFUSED) is None
    for text in ("", CLIENT, f"{CLIENT}\nSlurmDBD configuration:\nSLURMDBD_VERSION =\n"):
        with pytest.raises(InputError):
            slurm_config.database_version(text, "")


def test_a_release_is_its_year_and_month() -> None:
    assert slurm_config.release("22.05.8") == (22, 5) < slurm_config.release("23.11.0-rc1") == (23, 11)
    for text in ("", "22.05", "22.05.8 ", "v22.05.8"):
        with pytest.raises(InputError):
            slurm_config.release(text)


def test_partitions_have_a_state() -> None:
    text = capture("partitions.txt")
    assert slurm_config.partitions(text) == {"main": "UP", "night": "DOWN"}
    broken = ("", text + text, "No partitions\n", text.replace(" State=UP", ""), text.replace("State=UP", "State=SOON"))
    for given in broken:
        with pytest.raises(InputError):
            slurm_config.partitions(given)


def test_nodes_name_their_partitions() -> None:
    nodes = {node.name: node for node in slurm_nodes.parse(capture("nodes.txt"))}
    assert {name: sorted(node.partitions) for name, node in nodes.items()} == {
        "gpu01": ["main", "night"], "gpu02": ["main", "night"], "gpu03": ["main"], "gpu04": [],
    }  # fmt: skip
    assert (nodes["gpu02"].reason, nodes["gpu02"].reason_by) == ("cooling loop 3", "root")
    assert nodes["gpu04"].version == "" and nodes["gpu03"].gpus == 7
    (told,) = slurm_nodes.parse_json('{"nodes": [{"name": "a", "state": ["IDLE"], "partitions": ["main"]}]}')
    assert told.partitions == {"main"}
