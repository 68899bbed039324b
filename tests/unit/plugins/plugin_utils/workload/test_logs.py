# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a pod that ended: read again while it is not there or cut, and said why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import errors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    CONTROLLERS_LATE_S,
    ForbiddenError,
    Outage,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import Capped, left_out_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import jobs, pods
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.follow import Ending
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.pods import has_ended, log_of_pod, whole_log

POD = {
    "metadata": {"name": "one-0", "labels": {"gpufleet.io/job": "one"}},
    "spec": {"nodeName": "gpu01", "containers": []},
    "status": {"phase": "Succeeded"},
}
RUNNING = {**POD, "status": {"phase": "Running"}}
# As `ending_of` says it of a job that is well.
ENDED = "exit code 0 of one-0 on gpu01"
TABLE = "".join(f"# line {number}\n" for number in range(40))
# As a kubelet says it whose container runtime has forgotten a container, with status 200.
FORGOTTEN = "unable to retrieve container logs for containerd://fd73b65a0122"
Answer = str | BringupError | None


@dataclass
class Wire:
    """Answers in turn: a text, or None for an API server that has no log; it recovers for so many questions.

    The last lines of what its last answer says are those that the container wrote last.
    """

    answers: Sequence[Answer]
    settles: int = 0
    asked: int = 0
    outage: Any = field(init=False)

    def __post_init__(self) -> None:
        self.outage = self

    @property
    def recovering(self) -> bool:
        return self.asked < self.settles

    @property
    def settling(self) -> bool:
        return self.recovering

    def awaits(self, what: str) -> bool:
        assert what in ("gpu01", "logs")
        return self.recovering

    def came(self, what: str) -> bool:
        assert what in ("gpu01", "logs")
        return False

    def text(self, _method: str, _path: str, *, query: dict[str, Any], **_how: Any) -> str:
        if "tailLines" in query:
            return "".join(said(self.answers[-1]).splitlines(keepends=True)[-query["tailLines"] :])
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return said(answer)


def said(answer: Answer) -> str:
    if isinstance(answer, BringupError):
        raise answer
    if answer is None:
        raise BringupError("pod one-0", "no log is there.", "look at the kubelet")
    return answer


def ended(monkeypatch: pytest.MonkeyPatch, wire: Wire) -> Any:
    monkeypatch.setattr(pods, "_PAUSE_S", 0.0)
    cluster: Any = SimpleNamespace(transport=wire, delete=lambda *_what, **_how: None)
    namespace: Any = SimpleNamespace(name="t", emit=lambda _text: None)
    spec = JobSpec(name="one", nodes=("gpu01",), gpus_per_node=8, image="nccl", command=("all_reduce_perf",))
    job = jobs.RunningJob(spec, cluster, namespace)
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


@pytest.mark.parametrize("early", [FORGOTTEN, f"{FORGOTTEN}\n", TABLE[:100], TABLE[:-3], TABLE[: TABLE.index("8\n")]])
def test_a_log_that_is_cut_or_none_is_read_again(monkeypatch: pytest.MonkeyPatch, early: str) -> None:
    wire = Wire([early, early, TABLE], settles=3)
    result = ended(monkeypatch, wire)
    assert (result.pods[0].log, result.reason, wire.asked) == (TABLE, ENDED, 3)
    assert left_out_of(result.pods[0].log) == ""


def test_a_log_that_is_whole_at_once_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire([TABLE], settles=9)
    assert ended(monkeypatch, wire).pods[0].log == TABLE
    assert wire.asked == 1


def test_a_log_of_which_the_middle_is_left_out_is_whole_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Capped(120)
    kept.add(TABLE.encode())
    wire = Wire([kept.content().decode(), TABLE], settles=9)
    assert "bytes in the middle" in left_out_of(ended(monkeypatch, wire).pods[0].log)
    assert wire.asked == 1


def test_without_an_outage_it_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire([""])
    assert ended(monkeypatch, wire).pods[0].log == ""
    assert wire.asked == 1


def test_a_log_that_stays_away_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire([None], settles=2)
    told = f"{ENDED}; the log of pod one-0 on gpu01 could not be read (no log is there)"
    assert ended(monkeypatch, wire).reason == told
    assert wire.asked == 2


def test_a_log_that_stays_cut_says_so_in_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing may be what was wrong: no reader may take it for the whole."""
    wire = Wire([TABLE[:100], TABLE[:100], TABLE], settles=1)
    result = ended(monkeypatch, wire)
    assert wire.asked == 1
    assert result.pods[0].log.startswith(TABLE[:90])
    assert left_out_of(result.pods[0].log) == "the end of its log could not be read"
    assert result.reason.endswith("could not be read (it was cut before its end)")


def test_who_may_not_read_logs_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire([ForbiddenError("pod one-0", "forbidden: this user may not get pods/log.", "grant it")], settles=9)
    assert "may not get pods/log" in ended(monkeypatch, wire).reason
    assert wire.asked == 1


def test_whoever_looks_for_the_logs_of_a_node_waits_once_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """No outage was seen from here: the API server may have been away before this process began."""
    now = [1000.0]
    monkeypatch.setattr(errors.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pods.time, "sleep", lambda pause_s: now.__setitem__(0, now[0] + pause_s))
    outage, answers = Outage(0.0), dict[str, Answer]()

    def read(name: str, node: str = "gpu01") -> tuple[str, str]:
        return whole_log(lambda _lines: said(answers.get(name)), outage, {**POD, "spec": {"nodeName": node}})

    assert read("first")[1] == "no log is there."
    assert now[0] == pytest.approx(1000.0 + CONTROLLERS_LATE_S, abs=1.0)
    began = now[0]
    assert read("second")[1] == "no log is there." and now[0] == began
    # Nor does each of a thousand nodes cost it again, where no kubelet can be reached from the API server.
    assert read("of-another", "gpu02")[1] == "no log is there." and now[0] == began
    answers["of-a-third"] = TABLE
    assert read("of-a-third", "gpu03") == (TABLE, "")
    assert read("of-another", "gpu02")[1] == "no log is there." and now[0] == began
    answers["third"] = TABLE
    assert read("third") == (TABLE, "") and now[0] == began
    # It had come back, so that it may be away again.
    assert read("fourth")[1] and now[0] > began


def test_a_pod_that_runs_is_not_waited_for() -> None:
    class Logs:
        transport = Wire([None], settles=9)

        def logs(self, _pod: str, _namespace: str, *, container: str, tail_lines: int) -> str:
            assert (container, tail_lines) == ("main", 0)
            return said(None)

    namespace: Any = SimpleNamespace(name="t", cluster=Logs())
    assert log_of_pod(namespace, RUNNING, "main") == ("", "no log is there.")


def _pod(phase: str, *terminated: dict[str, Any] | None) -> dict[str, Any]:
    return {"status": {"phase": phase, "containerStatuses": [{"state": {"terminated": end}} for end in terminated]}}


@pytest.mark.parametrize(
    ("pod", "so"),
    [
        (_pod("Succeeded"), True),
        (_pod("Failed", {"exitCode": 1, "reason": "Error"}), True),
        (_pod("Running", {"exitCode": 0}, None), False),
        # One that was evicted before it began, and one whose node went away.
        (_pod("Failed"), False),
        (_pod("Failed", {"exitCode": 137, "reason": "ContainerStatusUnknown"}), False),
        (_pod("Pending"), False),
    ],
)
def test_only_what_ran_to_its_end_has_a_log_to_be_waited_for(pod: dict[str, Any], so: bool) -> None:
    assert has_ended(pod) is so
