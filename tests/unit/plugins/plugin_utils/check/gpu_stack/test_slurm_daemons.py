# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Slurm without Kubernetes: what its daemons say is judged. Texts are of Slurm 22.05.8 (tests/data/slurm)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sites import make_site
from slurm_captures import capture

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import slurm_daemons, slurm_hosts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_slurm import Said
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_slurm_daemons import (
    SlurmDaemons,
    observe,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import context

UP, DOWN = "Slurmctld(primary) at controller is UP\n", "Slurmctld(primary) at controller is DOWN\n*****\n"
GONE = Said(rc=1, stderr="slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)\n")
NAMES = ("gpu01", "gpu02")
CONFIG, DATABASE = capture("config-cgroup.txt"), capture("dbd.txt")
HEALTHY_PROGRAMS = {
    "Epilog                  = (null)": "Epilog                  = /etc/slurm/epilog.sh",
    "HealthCheckInterval     = 0 sec": "HealthCheckInterval     = 300 sec",
}
CHECKS = (*slurm_daemons.CHECKS, *slurm_hosts.CHECKS)


def said(text: str, *changes: tuple[str, str]) -> Said:
    """What a command printed, changed; a change that changes nothing is a mistake of the test."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return Said(rc=0, stdout=text)


def nodes(*changes: tuple[str, str]) -> Said:
    """The nodes of the capture, whose gpu02 is not drained, changed."""
    text = capture("nodes.txt")
    idle = ("State=IDLE+DRAIN", "State=IDLE"), ("   Reason=cooling loop 3 [root@2026-11-29T22:48:57]\n", "")
    return said(text, *idle, *changes)


def healthy(**more: Any) -> SlurmDaemons:
    """A Slurm whose gpu01 and gpu02 are as they have to be."""
    seen = SlurmDaemons(
        ping=Said(rc=0, stdout=UP), config=said(CONFIG, *HEALTHY_PROGRAMS.items()), nodes=nodes(),
        partitions=said(capture("partitions.txt")), database=said(DATABASE),
    )  # fmt: skip
    return replace(seen, **more)


def site(names: tuple[str, ...] = NAMES, **settings: Any) -> JudgeContext:
    """A judgement of a site of Slurm with these hosts."""
    given = context()
    hosts = tuple(host for host in given.site.hosts if host.name in names)
    return replace(given, site=replace(given.site, hosts=hosts, orchestrator="slurm", settings=settings))


def told(seen: SlurmDaemons, where: JudgeContext | None = None) -> dict[str, set[tuple[str, str]]]:
    """What is not passed, by check."""
    found: dict[str, set[tuple[str, str]]] = {}
    for check in CHECKS:
        outcomes: tuple[Outcome, ...] = check.judge(seen, where or site())
        assert outcomes
        for outcome in outcomes:
            if outcome.status is not Status.PASSED:
                found.setdefault(check.spec.id, set()).add((outcome.status.value, outcome.cause))
                assert outcome.hint and (outcome.status is not Status.FAILED or outcome.cause in check.spec.causes)
    return found


def test_a_healthy_slurm_passes_every_check() -> None:
    assert told(healthy()) == {}
    (outcome,) = slurm_daemons.judge_controller(healthy(), site())
    assert "slurmctld 22.05.8, slurmdbd 22.05.8, slurmd 22.05.8 on 2 hosts" in outcome.summary
    # Every host has its own answer.
    assert [o.subjects[0].name for o in slurm_hosts.judge_gres(healthy(), site())] == list(NAMES)


def test_a_site_without_slurmdbd_passes() -> None:
    config = said(CONFIG, *HEALTHY_PROGRAMS.items(), ("accounting_storage/slurmdbd", "accounting_storage/none"))
    assert told(healthy(config=config, database=None)) == {}


CONTROLLER, DEVICES, PROGRAMS = "slurm-controller", "slurm-devices", "slurm-programs"
WAITS = {("other", f"blocked-by-{CONTROLLER}")}
FAULTS: list[tuple[dict[str, Any], str, tuple[str, str]]] = [
    ({"ping": Said(rc=1, stdout=DOWN), "config": GONE, "nodes": GONE}, CONTROLLER, ("failed", "slurm-controller-down")),
    ({"ping": Said(rc=0, stdout=f"{UP}Slurmctld(backup) at b is DOWN\n")}, CONTROLLER,
     ("other", "slurm-controller-degraded")),
    ({"ping": Said(rc=None, timed_out=True)}, CONTROLLER, ("other", "slurm-timeout")),
    ({"ping": Said(rc=0)}, CONTROLLER, ("other", "slurm-unread")),
    ({"ping": Said(rc=None, stderr="scontrol: is not there")}, CONTROLLER, ("other", "slurm-unread")),
    ({"config": Said(rc=0)}, CONTROLLER, ("other", "slurm-unread")),
    ({"config": Said(rc=None, timed_out=True)}, CONTROLLER, ("other", "slurm-timeout")),
    ({"config": said(CONFIG, ("AccountingStorageType ", "AccountingStorage "))}, CONTROLLER, ("other", "slurm-unread")),
    ({"database": None}, CONTROLLER, ("other", "no-data")),
    ({"database": Said(rc=0)}, CONTROLLER, ("other", "slurm-unread")),
    ({"database": Said(rc=None, timed_out=True)}, CONTROLLER, ("other", "slurm-timeout")),
    ({"database": Said(rc=0, stderr="sacctmgr: error: Sending PersistInit msg: Connection refused\n")}, CONTROLLER,
     ("failed", "slurm-database-down")),
    ({"database": said(DATABASE, ("SLURMDBD_VERSION       = 22.05.8", "SLURMDBD_VERSION = 21.08.8"))}, CONTROLLER,
     ("failed", "slurm-release-order")),
    ({"database": said(DATABASE, ("SLURMDBD_VERSION       = 22.05.8", "SLURMDBD_VERSION = 23.02.1"))}, CONTROLLER,
     ("other", "slurm-releases-differ")),
    ({"nodes": nodes(("Port=26822 Version=22.05.8", "Port=26822 Version=23.02.1"))}, CONTROLLER,
     ("failed", "slurm-release-order")),
    ({"nodes": nodes(("Port=26822 Version=22.05.8", "Port=26822 Version=22.05.7"))}, CONTROLLER,
     ("other", "slurm-releases-differ")),
    ({"nodes": nodes(("Port=26822 Version=22.05.8", "Port=26822 Version=mine"))}, CONTROLLER,
     ("other", "slurm-unread")),
    ({"nodes": nodes((" Version=22.05.8\n", "\n"))}, CONTROLLER, ("other", "blocked-by-slurm-nodes")),
    ({"nodes": GONE}, CONTROLLER, ("other", "blocked-by-slurm-nodes")),
    ({"config": said(CONFIG, ("task/cgroup,task/affinity", "task/affinity"))}, DEVICES,
     ("failed", "slurm-devices-open")),
    ({"config": said(capture("config-plain.txt"))}, DEVICES, ("failed", "slurm-devices-open")),
    ({"config": said(CONFIG, ("ConstrainDevices        = yes", "ConstrainDevices = no"))}, DEVICES,
     ("failed", "slurm-devices-open")),
    ({"config": said(CONFIG, ("ConstrainDevices ", "ConstrainDisks "))}, DEVICES, ("other", "slurm-unread")),
    ({"config": said(CONFIG, ("ConstrainDevices        = yes", "ConstrainDevices = (null)"))}, DEVICES,
     ("other", "slurm-unread")),
    ({"config": said(CONFIG, ("Cgroup Support Configuration:", "Control Groups:"))}, DEVICES,
     ("other", "slurm-unread")),
    ({"config": said(CONFIG, ("TaskPlugin ", "TaskPlug "))}, DEVICES, ("other", "slurm-unread")),
    ({"config": said(CONFIG)}, PROGRAMS, ("other", "slurm-program-unset")),
    ({"config": said(CONFIG, ("Epilog                  = (null)", "Epilog = /e"))}, PROGRAMS,
     ("other", "slurm-health-check-off")),
    # A newer Slurm prints no line where there is no program.
    ({"config": said(CONFIG, ("Epilog  ", "Epilogue  "))}, PROGRAMS, ("other", "slurm-program-unset")),
    ({"config": said(CONFIG, ("HealthCheckInterval ", "HealthInterval "))}, PROGRAMS, ("other", "slurm-unread")),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "check", "expected"), FAULTS)
def test_what_is_wrong_is_told(broken: dict[str, Any], check: str, expected: tuple[str, str]) -> None:
    assert expected in told(healthy(**broken))[check]


def test_every_declared_cause_is_shown() -> None:
    shown = {(check, cause) for _seen, check, (status, cause) in FAULTS if status == "failed"}
    assert shown == {(check.spec.id, cause) for check in slurm_daemons.CHECKS for cause in check.spec.causes}


def test_everything_waits_for_a_controller_that_does_not_answer() -> None:
    found = told(healthy(ping=Said(rc=1, stdout=DOWN), config=GONE, nodes=GONE, partitions=GONE, database=None))
    assert found.pop(CONTROLLER) == {("failed", "slurm-controller-down")}
    assert found == {check.spec.id: WAITS for check in CHECKS if check.spec.id != CONTROLLER}


def test_a_degraded_controller_is_never_passed_beside() -> None:
    seen = healthy(ping=Said(rc=0, stdout=f"{UP}Slurmctld(backup) at b is DOWN\n"))
    assert [o.cause for o in slurm_daemons.judge_controller(seen, site())] == ["slurm-controller-degraded"]


def test_programs_that_a_newer_slurm_numbers_are_read() -> None:
    epilogs = {"Epilog                  = (null)": "Epilog[0] = /a\nEpilog[1] = /b"}
    newer = {**HEALTHY_PROGRAMS, **epilogs, "Prolog                  = ": "Prolog[0]               = "}
    assert told(healthy(config=said(CONFIG, *newer.items()))) == {}


def test_a_site_says_which_programs_it_wants() -> None:
    stated = {PROGRAMS: {"wanted": ["Prolog"]}}
    assert told(healthy(config=said(CONFIG)), site(**stated)) == {}
    assert told(healthy(), site(**{PROGRAMS: {"wanted": ["Prologue"]}})) == {PROGRAMS: {("other", "setting-unknown")}}


def test_only_sites_of_slurm_have_these_checks_and_they_have_no_others() -> None:
    ids = {check.spec.id for check in CHECKS}
    slurm = declare("gpu_stack", replace(site().site, capabilities=(), missing={"kubernetes": "Slurm"}))
    other = declare("gpu_stack", replace(make_site(site().site.hosts), capabilities=("kubernetes",)))
    assert {check.id for check in slurm.checks} == {*ids, "slurm-jobs"}
    assert all(entry.reason.startswith("needs kubernetes: Slurm") for entry in slurm.not_declared)
    assert not {*ids, "slurm-jobs"} & {entry.id for entry in (*other.checks, *other.not_declared)} and other.checks


def test_the_commands_are_asked_and_secrets_are_not_kept(tmp_path: Path) -> None:
    for name, script in {
        "scontrol": f'case "$1 $2" in ping*) echo "{UP.strip()}" ;; "show config") cat config ;; *) echo "$@" ;; esac',
        "sacctmgr": 'echo "SlurmDBD configuration:"; echo "StoragePass = geheim"; echo "SLURMDBD_VERSION = 22.05.8"',
    }.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        path.chmod(0o755)
    (tmp_path / "config").write_text(f"{CONFIG}JobCompPass = geheim\n")
    here = ObserveContext(
        site=make_site(), run_dir=tmp_path, today=site().today, connections={"scontrol": str(tmp_path / "scontrol")}
    )
    seen = observe(here)
    assert seen.ping.stdout == UP and seen.nodes.stdout == "show nodes\n"
    assert seen.partitions.stdout == "show partitions -o\n" and seen.database is not None
    assert "ConstrainDevices" in seen.config.stdout and "geheim" not in str(seen)
    os.remove(tmp_path / "sacctmgr")
    gone = observe(here).database
    assert gone is not None and gone.rc is None and str(tmp_path / "sacctmgr") in gone.stderr
