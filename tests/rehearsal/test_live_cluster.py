# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole playbooks on one cluster that stays: ended at any moment of any gate, two at once, the API server restarted.

Order, moments and ways are drawn from the seed of the tests. The suite takes a little of each kind. Asked for by a
person (docs/development.md), GPUFLEET_LIVE_POINTS ends so many runs, in chains of two a gate, and GPUFLEET_LIVE_GATES
set to `all` takes every gate and every pair of controllers. Set to gates, with commas between them, it names those in
which the API server is restarted; GPUFLEET_LIVE_RESTARTS says how often in each.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from live_site import HOLD, WAYS, LiveSite, Playbook, live_site
from seeds import drawing
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import CONTROLLERS_LATE_S
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import run_command

pytestmark = pytest.mark.long("chains of kills and restarts")

POINTS = int(os.environ.get("GPUFLEET_LIVE_POINTS", "1"))
FROM = int(os.environ.get("GPUFLEET_LIVE_FROM", "0"))
_STATED = os.environ.get("GPUFLEET_LIVE_GATES", "")
ALL = _STATED == "all"
# In each of which gates the API server is restarted, and how often.
_CHOSEN = _STATED.split(",") if _STATED else [drawing("live-restart").choice(GATE_IDS[3:])]
RESTARTED = GATE_IDS if ALL else _CHOSEN
RESTARTS = int(os.environ.get("GPUFLEET_LIVE_RESTARTS", "1"))
STACK = "gpu_stack"
# How many runs are ended one after the other.
LINKS = 2 * len(GATE_IDS)
# The longest that anybody waits for a run that was asked to end.
END_S = 30.0
_CORES_SAY = ("KeyboardInterrupt", "AssertionError: can only test a child process")
# What Python and ansible-core keep for themselves and cannot remove when they are killed.
_CORES_OWN = ("ansible-local-", "pymp-")


@dataclass(frozen=True)
class Point:
    """Where a run is ended: in which gate, how, and after which share of the time that it takes.

    Attributes:
        number: the host is named after it.
        release: which component is taken away before gate gpu_stack, as a share of all.
    """

    number: int
    gate: str
    way: str
    share: float
    release: float


def points_of(chain: int) -> list[Point]:
    """Return two points in every gate, in drawn order; gate gpu_stack last: its components are away from then on."""
    draw = drawing(f"live-chain-{chain}")
    others = [gate for gate in GATE_IDS if gate != STACK] * 2
    gates = [*draw.sample(others, len(others)), STACK, STACK]
    # Every way as often as the others: five chains have sixteen of each.
    ways = [WAYS[(chain * len(gates) + number) % len(WAYS)] for number in range(len(gates))]
    draw.shuffle(ways)
    return [
        Point(chain * len(gates) + place, gate, way, draw.random(), draw.random())
        for place, (gate, way) in enumerate(zip(gates, ways, strict=True))
    ]


@dataclass
class Bench:
    """The site, and how long each gate takes on this machine, from the moment at which the cluster is held."""

    site: LiveSite
    took_s: dict[str, float] = field(default_factory=dict)
    number: int = 0

    def run(self, host: str, gates: tuple[str, ...], **variables: object) -> Playbook:
        self.number += 1
        return self.site.controller(f"{self.number:03d}-{host}", host, gates, **variables)

    def passes(self, run: Playbook, gates: tuple[str, ...], where: str) -> None:
        run.await_text(HOLD)
        began = time.monotonic()
        assert run.ended() == 0, f"{where}\n{run.said()[-6000:]}"
        assert [run.statuses()[gate] for gate in gates] == ["passed"] * len(gates), where
        gate_s = {entry["gate"]: entry["duration_s"] for entry in run.record["gates"]}
        before_s = time.monotonic() - began - sum(gate_s.values())
        self.took_s |= {gate: gate_s[gate] + max(0.0, before_s) for gate in gates}

    def ended_at(self, point: Point, objects: frozenset[str], runs: list[Playbook]) -> str:
        """Start a run and end it at a point; return what was done."""
        words = self.lacking(objects, point.release) if point.gate == STACK else ""
        before = self.site.tests()
        run = self.run(f"ctl{point.number}", (point.gate,), when_held="wait")
        runs.append(run)
        assert run.await_text(HOLD), run.said()[-4000:]
        # The moment of the end is drawn; nothing is waited for.
        pause_s = point.share * self.took_s.get(point.gate, 15.0)
        time.sleep(pause_s)
        late = run.process.poll() is not None
        where = f"{point.number}: gate {point.gate}, {point.way} {pause_s:.1f} s after it held the cluster"
        where += f"{words and f', without {words}'}{', but it had ended' if late else ''}"
        assert not late or run.process.returncode == 0, f"{where}\n{run.said()[-6000:]}"
        took_s = end(self, run, point.way)
        if not point.way.startswith("SIGKILL"):
            self.nothing_left_by(run, before, where)
        return f"{where}; ended within {took_s:.1f} s"

    def lacking(self, objects: frozenset[str], share: float) -> str:
        """Take a release of those objects away, so that gate gpu_stack has something to install; return its name."""
        found = sorted(name for name in objects if "sh.helm.release" in name)
        release = found[int(share * len(found))]
        words = release.removeprefix("secrets ").replace("sh.helm.release.v1.", "")
        if release in self.site.objects():
            self.without(words)
        return words

    def nothing_left_by(self, run: Playbook, before: list[str], where: str) -> None:
        """A run that was asked to end took with it what it had made; what stood before it may stand."""
        eventually(lambda: not set(self.site.tests()) - set(before), END_S, f"{where}: {self.site.tests()}")
        own = str(run.record.get("run_id", "none"))
        eventually(lambda: own not in self.site.holder(), END_S, f"{where}: {self.site.holder()}")
        eventually(lambda: not run.living(), END_S, f"{where}: {run.living()}")

    def nothing_left(self, runs: tuple[Playbook, ...], where: str, limit_s: float = END_S) -> None:
        """Nothing of a test in the cluster, no process, no file of ours; and nobody holds the cluster."""
        for look in (self.site.tests, self.site.holder, *(run.living for run in runs)):
            eventually(lambda look=look: not look(), limit_s, f"{where}: {look()}")
        left = [path for run in runs for path in run.files()]
        assert [path for path in left if not path.endswith("/tmp") and not any(w in path for w in _CORES_OWN)] == [], (
            where
        )

    def without(self, release: str) -> None:
        """Take a release away, as if it had never been installed."""
        namespace, name = release.split("/")
        words = ("uninstall", name, "-n", namespace, "--wait", "--kubeconfig", str(self.site.kubeconfig))
        done = run_command([self.site.helm, *words], 90)
        assert done.rc == 0, done.stderr


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Two hosts with the stack; the first run that was to install it was killed."""
    with live_site(tmp_path_factory.mktemp("live"), 2) as site:
        bench = Bench(site)
        first = bench.run("ctl1", (STACK,))
        assert first.await_text("waiting until it is ready"), first.said()[-4000:]
        pause_s, way = drawing("live-first").uniform(0, 10), drawing("live-first").choice(WAYS)
        time.sleep(pause_s)
        end(bench, first, way)
        second = bench.run("ctl2", (STACK,), when_held="wait")
        where = f"{way} {pause_s:.1f} s after the first component"
        bench.passes(second, (STACK,), where)
        bench.nothing_left((first, second), where)
        yield bench


@pytest.mark.parametrize("chain", range(FROM // LINKS, -(-(FROM + POINTS) // LINKS)))
def test_after_ends_at_any_moment_of_any_gate_a_run_from_another_host_passes(bench: Bench, chain: int) -> None:
    """Each run finds what the one before it left, and is ended itself; the last one is not, and clears all of it."""
    objects, files = bench.site.objects(), bench.site.files()
    points = [point for point in points_of(chain) if FROM <= point.number < FROM + POINTS]
    runs, where = [], []
    for point in points:
        where.append(bench.ended_at(point, objects, runs))
        print(where[-1], flush=True)
    gates = tuple(gate for gate in GATE_IDS if gate in {point.gate for point in points})
    last = bench.run(f"ctl{chain}-last", gates, when_held="wait")
    told = "\n".join(where)
    bench.passes(last, gates, f"{told}\n--\n")
    bench.nothing_left((*runs, last), told)
    now = bench.site.objects()
    assert (sorted(now - objects), sorted(objects - now)) == ([], []), told
    assert sorted(bench.site.files() - files) == [], told


PAIRS = [("ctl1", "ctl1", "wait"), ("ctl1", "ctl2", "wait"), ("ctl1", "ctl1", "refuse"), ("ctl1", "ctl2", "refuse")]


@pytest.mark.parametrize(("one", "other", "policy"), PAIRS if ALL else [drawing("live-pair").choice(PAIRS)])
def test_of_two_runs_at_once_the_second_waits_or_is_refused_and_neither_disturbs_the_other(
    bench: Bench, one: str, other: str, policy: str
) -> None:
    gates = GATE_IDS if ALL else ("nodes",)
    first = bench.run(one, gates)
    assert first.await_text(HOLD), first.said()[-4000:]
    eventually(lambda: bench.site.holder() or first.process.poll() is not None, 60, "the first holds the cluster")
    if policy == "refuse":
        # Who is to be refused has to see that the other one lives, and for that it has to live long enough.
        first.process.send_signal(signal.SIGSTOP)
    second = bench.run(other, gates, when_held=policy)
    where = f"{one} and {other}, {policy}"
    try:
        rc = second.ended()
    finally:
        first.process.send_signal(signal.SIGCONT)
    if policy == "refuse":
        assert rc != 0, where
        assert f"run {first.record['run_id']}" in second.said() and f"on controller {one}" in second.said(), where
        assert {second.statuses()[gate] for gate in gates if gate not in GATE_IDS[:2]} == {"pending"}
    for run in (first, second) if policy == "wait" else (first,):
        bench.passes(run, gates, f"{where}: {run.name}")
    bench.nothing_left((first, second), where)


@pytest.mark.drawn(1, of="outages of the API server")
@pytest.mark.parametrize("number", range(RESTARTS))
@pytest.mark.parametrize("gate", RESTARTED)
def test_a_restart_of_the_api_server_costs_a_gate_its_outage_and_the_way_back_of_controllers(
    bench: Bench, gate: str, number: int
) -> None:
    draw = drawing(f"live-restart-{gate}{f'-{number}' if number else ''}")
    away_s, share = draw.uniform(5, 60 if ALL else 10), draw.uniform(0.1, 0.7)
    if ALL and gate not in bench.took_s:
        bench.passes(bench.run("ctl1", (gate,)), (gate,), "undisturbed")
    usual_s = bench.took_s.get(gate)
    words = bench.lacking(bench.site.objects(), draw.random()) if gate == STACK else ""
    run = bench.run("ctl1", (gate,))
    assert run.await_text(HOLD), run.said()[-4000:]
    began = time.monotonic()
    pause_s = share * (usual_s or 15.0)
    time.sleep(pause_s)
    with bench.site.api_server_away():
        time.sleep(away_s)
    where = f"gate {gate}, away for {away_s:.1f} s after {pause_s:.1f} s{words and f', without {words}'}"
    print(where)
    assert run.ended() == 0, f"{where}\n{run.said()[-6000:]}"
    assert run.statuses()[gate] == "passed", where
    took_s = time.monotonic() - began
    print(f"{took_s:.0f} s, usually {usual_s}")
    eventually(bench.site.answers, 60, "the API server is back")
    # The controller that empties a namespace comes back as late as the others.
    bench.nothing_left((run,), where, END_S + CONTROLLERS_LATE_S)
    assert usual_s is None or took_s < away_s + CONTROLLERS_LATE_S + 3 * usual_s + 30, where


def end(bench: Bench, run: Playbook, way: str) -> float:
    """End a run, and return how long that took.

    One that is asked to end does so soon; the Lease of one whose keeper is gone expires.
    """
    took_s = run.end_by(way)
    if not way.startswith("SIGKILL"):
        assert took_s < END_S, f"{way}: {took_s:.0f} s"
        assert not tracebacks(run.said()), run.said()[-4000:]
        assert "failed" not in run.statuses().values(), run.said()[-4000:]
    if "keeper" in way:
        bench.site.let_lease_expire()
    return took_s


def tracebacks(said: str) -> list[str]:
    """Return the tracebacks, but for those that ansible-core and Python print by themselves.

    A signal between the fork of a worker and its own handlers reaches that of the main process there, in a callback of
    Python (ansible/executor/task_queue_manager.py, `_signal_handler`). It asks for the workers, which are not the
    fork's own, or raises KeyboardInterrupt.
    """
    found = re.findall(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*.*", said, re.MULTILINE)
    return [text for text in found if "_signal_handler" not in text or not text.rstrip(": ").endswith(_CORES_SAY)]
