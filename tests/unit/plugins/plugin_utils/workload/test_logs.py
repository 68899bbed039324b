# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a pod that ended: read again while the API server has just come back, and said why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import running
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.follow import Ending
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.launch import JobSpec

POD = {
    "metadata": {"name": "one-0", "labels": {"gpufleet.io/job": "one"}},
    "spec": {"nodeName": "gpu01", "containers": []},
    "status": {"phase": "Succeeded"},
}
# As `ending_of` says it of a job that is well.
ENDED = "exit code 0 of one-0 on gpu01"


@dataclass
class Wire:
    """Answers in turn: a text, or None for an API server that has no log; it settles for so many questions."""

    answers: list[str | None]
    settles: int = 0
    asked: int = 0
    outage: Any = field(init=False)

    def __post_init__(self) -> None:
        self.outage = self

    @property
    def settling(self) -> bool:
        return self.asked < self.settles

    def text(self, _method: str, _path: str, **_how: Any) -> str:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if answer is None:
            raise BringupError("pod one-0", "no log is there.", "look at the kubelet")
        return answer


def ended(monkeypatch: pytest.MonkeyPatch, wire: Wire) -> Any:
    monkeypatch.setattr(running, "_LOG_PAUSE_S", 0.0)
    cluster: Any = SimpleNamespace(transport=wire, delete=lambda *_what, **_how: None)
    namespace: Any = SimpleNamespace(name="t", emit=lambda _text: None)
    spec = JobSpec(name="one", nodes=("gpu01",), gpus_per_node=8, image="nccl", command=("all_reduce_perf",))
    job = running.RunningJob(spec, cluster, namespace)
    job.pods = [POD]
    job.end(Ending("succeeded", ENDED))
    return job.result


@pytest.mark.parametrize("early", [None, "", "\n"])
def test_a_log_that_is_not_there_just_after_an_outage_is_read_again(
    monkeypatch: pytest.MonkeyPatch, early: str | None
) -> None:
    wire = Wire([early, early, "rows"], settles=3)
    result = ended(monkeypatch, wire)
    assert (result.pods[0].log, result.reason, wire.asked) == ("rows", ENDED, 3)


def test_without_an_outage_it_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire([""])
    assert ended(monkeypatch, wire).pods[0].log == ""
    assert wire.asked == 1


def test_a_log_that_stays_away_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire([None], settles=2)
    told = f"{ENDED}; the log of pod one-0 on gpu01 could not be read (no log is there)"
    assert ended(monkeypatch, wire).reason == told
    assert wire.asked == 2
