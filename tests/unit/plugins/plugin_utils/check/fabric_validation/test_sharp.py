# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether all hosts together reduce in the switches (SHARP), where the site states it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from nccl_fleet import Fleet, findings

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.nccl_job import NcclJobs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

MakeFleet = Callable[..., Fleet]
HOSTS = ("gpu01", "gpu02", "gpu03", "gpu04")
# NVIDIA/nccl#1357 has the plugin's name and the devices; other lines are those of the sources that print them.
NETWORK = (
    "NET/IB : Using "
    + " ".join(f"[{n}]mlx5_{n}:1/IB/SHARP" for n in range(8))
    + " [RO]; OOB eth0:10.0.0.1<0>\nUsing network IBext\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/IBext/0/GDRDMA"
)
PLUGIN = f"NET/Plugin: Loaded collnet plugin SHARP (v6)\n{NETWORK}"
READY = f"{PLUGIN}\nSHARP rank 0/4 initialized on mlx5_0:1"
REFUSED = f"{PLUGIN}\nWARN NET/IB : SHARP coll init error: Cannot create SHARP job(-11)"


@pytest.mark.parametrize(
    ("said", "algorithm", "expected"),
    [
        (READY, "COLLNET_DIRECT", None),
        (READY, "COLLNET_CHAIN", None),
        # Between nodes NVLS reduces in the switches as well.
        (READY, "NVLS", None),
        (READY, "RING", ("marginal", "sharp-not-chosen", "chose ring")),
        (READY, "NVLS_TREE", ("marginal", "sharp-not-chosen", "chose nvlstree")),
        (REFUSED, "RING", ("failed", "sharp-not-used", "Cannot create SHARP job")),
        (PLUGIN, "RING", ("failed", "sharp-not-used", "no line says why")),
        (NETWORK, "NVLS_TREE", ("failed", "sharp-not-used", "no CollNet plugin")),
        # Its job was made, and reductions of one adapter go another way.
        (f"{READY}\nWARN SHARP group create: No resources(-9)", "RING", ("failed", "sharp-not-used", "group create")),
        (f"{READY}\nCommunicator has 4 nodes which is less than CollNet node threshold 8, disabling CollNet", "RING",
         ("failed", "sharp-not-used", "threshold 8")),
    ],
)  # fmt: skip
def test_stated_sharp_is_used_by_all_hosts(
    fleet: MakeFleet, said: str, algorithm: str, expected: tuple[str, str, str] | None
) -> None:
    here = fleet(4, algorithm=algorithm, says=dict.fromkeys(HOSTS, said), sharp=True)
    outcomes = [o for o in here.outcomes() if o.status is not Status.PASSED]
    if expected is None:
        assert not outcomes
        return
    status, cause, words = expected
    (found,) = outcomes
    assert (found.check, found.cause) == ("nccl-all-nodes-bw", cause)
    assert found.status is (Status.FAILED if status == "failed" else Status.OTHER)
    assert words in found.summary and found.hint
    # Whoever does not state it is not asked.
    assert not findings(fleet(4, algorithm=algorithm, says=dict.fromkeys(HOSTS, said)).outcomes())


def test_one_host_without_its_job_is_named(fleet: MakeFleet) -> None:
    said = dict.fromkeys(HOSTS, READY) | {"gpu03": REFUSED}
    here = fleet(4, algorithm="RING", says=said, sharp=True)
    assert [(c, cause) for c, cause, _names in findings(here.outcomes())] == [("nccl-all-nodes-bw", "sharp-not-used")]
    (found,) = [o for o in here.outcomes() if o.cause == "sharp-not-used"]
    assert "gpu03" in {subject.name for subject in found.subjects} and "gpu01" not in found.summary
    assert "sharp_hello" in found.hint and "gpu03" in found.hint


def test_what_nccl_does_not_say_is_not_known(fleet: MakeFleet) -> None:
    def silent(_want: Wanted, text: str) -> str:
        return "\n".join(line for line in text.splitlines() if "-> Algo" not in line)

    here = fleet(4, algorithm="COLLNET_DIRECT", says=dict.fromkeys(HOSTS, READY), change=silent, sharp=True)
    found = [o for o in here.outcomes() if o.check == "nccl-all-nodes-bw"]
    assert [(o.status, o.cause) for o in found] == [(Status.OTHER, "sharp-not-seen")]


@pytest.mark.parametrize(
    ("count", "phase", "asked"), [(4, "all", True), (4, "pair", False), (2, "pair", True), (4, "node", False)]
)
def test_only_runs_of_all_hosts_are_told_to_use_it(fleet: MakeFleet, count: int, phase: Any, asked: bool) -> None:
    here = fleet(count)
    plan = here.plan()
    hosts = here.hosts if phase == "all" else here.hosts[: 1 if phase == "node" else 2]
    job = NcclJobs(plan, here.hardware, sharp=True).job("a", Wanted(phase=phase, hosts=hosts))
    assert (job.env.get("NCCL_COLLNET_ENABLE") == "1") is asked
    without = NcclJobs(plan, here.hardware).job("a", Wanted(phase=phase, hosts=hosts))
    assert "NCCL_COLLNET_ENABLE" not in without.env
