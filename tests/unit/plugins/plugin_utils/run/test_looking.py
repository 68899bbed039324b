# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observers that disturb nothing look at once, beside those that make pods; what does not end in time is saved so."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import GatePlan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import observation_path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import (
    Disturbance,
    ObserveContext,
    observer_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import AbortedError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run import observing
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.observing import Looking, looking_meanwhile
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import pause
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site, SiteProfile

# Nobody waits so long: it only ends a test whose observers look one after another.
PATIENCE_S = 90.0


def looking(run_dir: Path, key: str, observe: Callable[[ObserveContext], Any], limit_s: float = 0.0) -> Looking:
    site = Site(name="lab", profile=SiteProfile.CLOUD, hosts=())
    context = ObserveContext(site=site, run_dir=run_dir, today=date(2026, 11, 23))
    return Looking(observer=observer_of(key, dict, observe), gate="telemetry", context=context, limit_s=limit_s)


def saved(run_dir: Path, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(observation_path(run_dir, "telemetry", key).read_text())
    return found


def test_observers_look_at_once_and_beside_what_makes_pods(tmp_path: Path) -> None:
    together, pods = Barrier(3), Event()

    def meet(_context: ObserveContext) -> dict[str, str]:
        together.wait(PATIENCE_S)
        assert pods.wait(PATIENCE_S)
        return {"met": "yes"}

    entries = [looking(tmp_path, key, meet) for key in ("a", "b", "c")]
    with looking_meanwhile(entries) as seen:
        pods.set()
    assert [entry.key for entry in seen] == ["a", "b", "c"]
    assert all(saved(tmp_path, key)["data"] == {"met": "yes"} for key in "abc")


@pytest.mark.parametrize("how", ["together", "check mode", "refused"])
def test_in_a_gate_pods_without_gpus_are_beside_the_others_which_follow_each_other(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    plain, last = Event(), Event()

    def sees(key: str, before: Event | None = None, after: Event | None = None) -> Looking:
        def look(_context: ObserveContext) -> dict[str, str]:
            assert before is None or before.wait(PATIENCE_S)
            order.append(key)
            if after is not None:
                after.set()
            return {"seen": key}

        return looking(tmp_path, key, look)

    # The first one ends last, and the others begin only once it does: one after another nobody would get on.
    entries = [sees("alert", last), sees("metrics", plain), sees("autoscaling", None, last)]
    kinds = (Disturbance.PLAIN_PODS, Disturbance.NOTHING, Disturbance.TEST_PODS)
    needed = [(entry.observer, kind) for entry, kind in zip(entries, kinds, strict=True)]
    monkeypatch.setattr(observing, "needed_observers", lambda *_words: needed)
    plain.set()
    found = observing.observe_gate(
        GatePlan(gate="telemetry", checks=()), entries[0].context, check_mode=how == "check mode",
        refused=UnavailableError("the cluster", "is another one.") if how == "refused" else None,
    )  # fmt: skip
    assert order == {"together": ["metrics", "autoscaling", "alert"], "check mode": ["metrics"], "refused": []}[how]
    told = {entry.key: (entry.error or {}).get("reason", "") for entry in found}
    assert told.keys() == {"alert", "metrics", "autoscaling"}
    assert ["check mode" in told[key] for key in ("alert", "metrics", "autoscaling")] == (
        [True, False, True] if how == "check mode" else [False] * 3
    )
    assert all(saved(tmp_path, key)["error"] is None for key in told) is (how == "together")


def test_what_does_not_end_in_time_is_saved_so_and_what_it_sees_later_is_dropped(tmp_path: Path) -> None:
    go, gone = Event(), Event()

    def late(_context: ObserveContext) -> dict[str, str]:
        go.wait(PATIENCE_S)
        gone.set()
        return {"seen": "late"}

    with looking_meanwhile([looking(tmp_path, "late", late, limit_s=0.2)]) as seen:
        pass
    assert "did not end within" in (seen[0].error or {})["reason"]
    go.set()
    assert gone.wait(PATIENCE_S)
    assert saved(tmp_path, "late")["data"] is None


def test_one_that_crashes_is_saved_so_and_the_others_are_seen(tmp_path: Path) -> None:
    def crash(_context: ObserveContext) -> dict[str, str]:
        raise ValueError("no such key")

    entries = [looking(tmp_path, "bad", crash), looking(tmp_path, "good", lambda _context: {"seen": "yes"})]
    with looking_meanwhile(entries) as seen:
        pass
    assert [entry.error is None for entry in seen] == [False, True]


def test_what_ends_the_block_ends_the_looking(tmp_path: Path) -> None:
    entries = [looking(tmp_path, "a", lambda _context: {})]
    with pytest.raises(KeyError), looking_meanwhile(entries):
        raise KeyError("ended")
    assert not observation_path(tmp_path, "telemetry", "a").exists()


def test_one_that_makes_pods_has_removed_them_before_the_looking_ends(tmp_path: Path) -> None:
    """Also when its time is over, or a signal ends what is done beside it."""
    removed: list[str] = []

    def observe(_context: ObserveContext) -> dict[str, str]:
        try:
            for _turn in range(1000):
                pause(PATIENCE_S / 1000)
        finally:
            time.sleep(0.2)
            removed.append("pods")
        return {"seen": "all"}

    late = replace(looking(tmp_path, "late", observe, limit_s=0.1), pods=True)
    with looking_meanwhile([late]) as seen:
        pass
    assert "did not end within" in (seen[0].error or {})["reason"] and removed == ["pods"]
    with pytest.raises(AbortedError, match="ended by SIGTERM"), looking_meanwhile([replace(late, limit_s=0.0)]):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE_S)
    assert removed == ["pods", "pods"]
