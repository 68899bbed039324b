# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draining nodes of Slurm: only by our reason, back only from our reason, jobs are waited for."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm_files import SCONTROL

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.slurm import SlurmLimits, SlurmNodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError

OURS = "gpufleet.bringup:roll-1"


class Site:
    """Slurm with nodes in these states."""

    def __init__(self, path: Path, **states: str) -> None:
        self.path, self.pauses = path, 0
        for name, state in states.items():
            self.put(name, state)
        (path / "scontrol").write_text(SCONTROL.format(state=path))
        (path / "scontrol").chmod(0o755)
        limits = SlurmLimits(scontrol=str(path / "scontrol"), timeout_s=3.0, poll_s=0.1)
        self.nodes = SlurmNodes("roll-1", {name: name for name in states}, limits, sleep=self.pause)

    def pause(self, _seconds: float) -> None:
        self.pauses += 1
        if self.pauses == 2:
            self.put("ending", "IDLE+DRAIN", OURS)

    def put(self, name: str, state: str, reason: str = "") -> None:
        (self.path / f"{name}.state").write_text(state)
        (self.path / f"{name}.reason").write_text(reason)

    def state(self, name: str) -> tuple[str, str]:
        return (self.path / f"{name}.state").read_text().strip(), (self.path / f"{name}.reason").read_text()


def test_a_node_is_drained_by_our_reason_and_resumed(tmp_path: Path) -> None:
    site = Site(tmp_path, gpu01="IDLE")
    assert site.nodes.look(["gpu01"]) == {"gpu01": ""}
    site.put("gpu01", "DOWN", "Not responding")
    assert site.nodes.look(["gpu01"]) == {"gpu01": "is DOWN by root: Not responding"}
    site.put("gpu01", "IDLE")
    assert site.nodes.cordon("gpu01") == site.nodes.cordon("gpu01") == ""
    assert site.state("gpu01") == ("IDLE+DRAIN", OURS)
    assert site.nodes.drain(["gpu01"]) == {"gpu01": ""}
    assert site.nodes.give_back("gpu01") == "" and site.state("gpu01") == ("IDLE", "")
    assert site.nodes.give_back("gpu01") == ""


@pytest.mark.parametrize(
    ("state", "reason"),
    [("IDLE+DRAIN", "bad fan"), ("DOWN", "Node unexpectedly rebooted"), ("IDLE+DRAIN", f"{OURS}0"), ("IDLE+DRAIN", "")],
)
def test_what_others_drained_is_neither_drained_nor_resumed(tmp_path: Path, state: str, reason: str) -> None:
    site = Site(tmp_path, gpu01="IDLE")
    site.put("gpu01", state, reason)
    said = site.nodes.cordon("gpu01")
    assert said.startswith(f"is {state}") and (reason or "no reason stated") in said
    assert site.nodes.give_back("gpu01") == f"{said}, and stays so"
    site.nodes.hold("gpu01", "not verified")
    assert site.state("gpu01") == (state, reason)


@pytest.mark.parametrize("state", ["DOWN", "IDLE+MAINTENANCE", "IDLE+NOT_RESPONDING", "IDLE+POWERED_DOWN", "FUTURE"])
def test_a_node_that_is_away_is_left_as_it_is(tmp_path: Path, state: str) -> None:
    site = Site(tmp_path, gpu01=state)
    assert site.nodes.cordon("gpu01") == f"is {state}" == site.nodes.preview(["gpu01"])["gpu01"]
    assert site.state("gpu01")[0] == state


def test_jobs_are_waited_for_and_named_when_they_do_not_end(tmp_path: Path) -> None:
    site = Site(tmp_path, ending="ALLOCATED", busy="MIXED")
    assert site.nodes.preview(["busy"]) == {"busy": "jobs run on it (MIXED)"}
    assert [site.nodes.cordon(name) for name in ("ending", "busy")] == ["", ""]
    found = site.nodes.drain(["ending", "busy"])
    assert found["ending"] == "" and "jobs still run on it (MIXED+DRAIN)" in found["busy"]


def test_a_node_is_given_back_after_slurm_appended_to_our_reason(tmp_path: Path) -> None:
    site = Site(tmp_path, gpu01="IDLE")
    site.put("gpu01", "DOWN+DRAIN", f"{OURS} : reboot complete")
    assert site.nodes.give_back("gpu01") == "" and site.state("gpu01") == ("IDLE", "")


def test_a_held_node_says_why(tmp_path: Path) -> None:
    site = Site(tmp_path, gpu01="IDLE")
    site.nodes.cordon("gpu01")
    site.nodes.hold("gpu01", "not verified:\n gpu-ecc")
    assert site.state("gpu01") == ("IDLE+DRAIN", f"{OURS} held: not verified: gpu-ecc")


def test_an_unknown_node_is_an_error_that_names_the_command(tmp_path: Path) -> None:
    site = Site(tmp_path, gpu01="IDLE")
    (tmp_path / "gpu01.state").unlink()
    with pytest.raises(BringupError, match="scontrol show node gpu01: exit code 1: Node gpu01 not found"):
        site.nodes.cordon("gpu01")


class Moment:
    """Somebody else changes gpu01 right before, or right after, our first update reaches Slurm."""

    def __init__(self, site: Site, when: str, *words: str) -> None:
        scontrol, real = site.path / "scontrol", site.path / "scontrol.real"
        scontrol.rename(real)
        theirs = f"{real} update nodename=gpu01 {' '.join(words)}"
        did = f'[ "$1" = update ] && [ ! -f {site.path}/{when}.done ] && touch {site.path}/{when}.done && {theirs}'
        before, after = (did, "") if when == "before" else ("", did)
        scontrol.write_text(f'#!/bin/sh\n{before}\n{real} "$@"\nrc=$?\n{after}\nexit $rc\n')
        scontrol.chmod(0o755)


def test_a_drain_of_somebody_else_right_after_ours_is_theirs(tmp_path: Path) -> None:
    site = Site(tmp_path, gpu01="IDLE")
    Moment(site, "after", "state=drain", "reason=cooling")
    assert site.nodes.cordon("gpu01") == "is IDLE+DRAIN by root: cooling"
    assert site.state("gpu01") == ("IDLE+DRAIN", "cooling")


def test_a_node_that_somebody_resumed_at_once_is_not_told_as_ours(tmp_path: Path) -> None:
    site = Site(tmp_path, gpu01="IDLE")
    Moment(site, "after", "state=resume")
    assert site.nodes.cordon("gpu01") == "is IDLE after `state=drain`"


def test_what_was_drained_by_somebody_else_while_we_gave_it_back_is_told(tmp_path: Path) -> None:
    site = Site(tmp_path, gpu01="IDLE")
    site.nodes.cordon("gpu01")
    Moment(site, "after", "state=drain", "reason=cooling")
    assert site.nodes.give_back("gpu01") == "is IDLE+DRAIN by root: cooling, and stays so"
    assert site.state("gpu01") == ("IDLE+DRAIN", "cooling")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_node_that_somebody_gave_back_while_its_reason_was_written_stays_so(tmp_path: Path, when: str) -> None:
    site = Site(tmp_path, gpu01="IDLE")
    site.nodes.cordon("gpu01")
    Moment(site, when, "state=resume")
    site.nodes.hold("gpu01", "not verified: gpu-ecc")
    assert site.state("gpu01") == ("IDLE", "")
